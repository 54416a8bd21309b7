package records

import (
	"context"
	"errors"

	"github.com/tidemark-sessions/tidemark"
)

// counter is a Backend that knows how much its principal keeps without reading it.
type counter interface {
	Kept(context.Context) (sessions, bytes int64, err error)
}

// Kept counts the sessions of a Backend, those in the trash included, and the bytes of
// everything that its principal keeps: bodies as they are stored, without what is
// derived, and without what others share. What is damaged counts as nothing.
func Kept(ctx context.Context, b tidemark.Backend) (sessions, bytes int64, err error) {
	if c, ok := b.(counter); ok {
		return c.Kept(ctx)
	}
	for key, err := range b.Walk(ctx, tidemark.Key{}) {
		if err != nil {
			return 0, 0, err
		}
		if key.Derived() {
			continue
		}
		r, err := b.Get(ctx, key)
		if errors.Is(err, tidemark.ErrNotFound) || errors.Is(err, tidemark.ErrCorrupt) || r.Owner != "" {
			continue
		}
		if err != nil {
			return 0, 0, err
		}
		if bytes += int64(len(r.Body)); key.Kind == "session" && r.Version > 0 {
			sessions++
		}
		if r.Head.Length == 0 {
			continue
		}
		for l, err := range b.Lines(ctx, key) {
			if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
				return 0, 0, err
			}
			bytes += int64(len(l.Body))
		}
	}
	return sessions, bytes, nil
}
