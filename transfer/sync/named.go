package sync

import (
	"context"
	"errors"
	"iter"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/transfer/remote"
)

// namedBlobs adds to what is wrong with a place which remote that is: people know it
// by that name, and may have several at the same address. What a place only does not
// have, or has already, is no fault.
type namedBlobs struct {
	remote.Blobs
	c *settings
}

// naming returns blobs whose errors name their remote. What has a clock keeps it.
func (c *settings) naming(b remote.Blobs) remote.Blobs {
	named := namedBlobs{b, c}
	if clock, ok := b.(remote.Clock); ok {
		return struct {
			namedBlobs
			remote.Clock
		}{named, clock}
	}
	return named
}

func (n namedBlobs) fault(err error) error {
	if errors.Is(err, tidemark.ErrStorage) || errors.Is(err, tidemark.ErrDenied) {
		return n.c.named(err)
	}
	return err
}

func (n namedBlobs) Get(ctx context.Context, name string) ([]byte, error) {
	data, err := n.Blobs.Get(ctx, name)
	return data, n.fault(err)
}

func (n namedBlobs) PutNew(ctx context.Context, name string, data []byte) error {
	return n.fault(n.Blobs.PutNew(ctx, name, data))
}

func (n namedBlobs) Replace(ctx context.Context, name string, data []byte) error {
	return n.fault(n.Blobs.Replace(ctx, name, data))
}

func (n namedBlobs) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for name, err := range n.Blobs.List(ctx, prefix) {
			if !yield(name, n.fault(err)) {
				return
			}
		}
	}
}

func (n namedBlobs) Delete(ctx context.Context, name string) error {
	return n.fault(n.Blobs.Delete(ctx, name))
}
