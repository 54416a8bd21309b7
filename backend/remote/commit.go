package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
)

// Commit sends a batch to the server, which answers when all of it is durable.
//
// A batch that never reached the server, or that a busy server turned away, is
// sent again. So is one whose response was lost: under the name of the same
// attempt, so that the server returns the outcome of the first instead of
// carrying it out again. A server that does not remember (it was restarted, or
// is another one of several) finds a conflict with the batch itself; then the id
// of the batch decides, which is stored with every line and record that it
// wrote. Where that cannot decide, and where no response comes at all, the error
// is ErrUnknown.
//
// In addition to the contract: ErrInvalid for a text that is not UTF-8 and for a
// batch that is larger than the server accepts.
func (b *Backend) Commit(ctx context.Context, batch tidemark.Batch) (tidemark.Receipt, error) {
	if err := ctx.Err(); err != nil {
		return tidemark.Receipt{}, err
	}
	if err := batch.RefuseTrims(); err != nil {
		return tidemark.Receipt{}, err
	}
	body, err := api.EncodeBatch(batch)
	if err == nil {
		err = b.mayWrite()
	}
	if err == nil && int64(len(body)) > b.most {
		err = tidemark.Invalidf("batch %s: %d bytes on the wire, the server takes at most %d", batch.ID, len(body), b.most)
	}
	if err != nil {
		return tidemark.Receipt{}, err
	}
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return tidemark.Receipt{}, errClosed
	}
	b.commits.Add(1)
	b.mu.Unlock()
	defer b.commits.Done()
	c := call{name: "commit", media: api.MediaLines, body: body, attempt: tidemark.NewBatchID()}
	return b.commit(ctx, c, batch)
}

// commit sends until the outcome is known, or cannot be.
func (b *Backend) commit(ctx context.Context, c call, batch tidemark.Batch) (tidemark.Receipt, error) {
	maybe := false // an earlier try may have taken effect
	for t := b.tries(); ; {
		repeated, err := b.offer(ctx, c, batch.ID)
		var lost *cut
		switch {
		case err == nil:
			return tidemark.Receipt{}, nil
		case errors.As(err, &lost):
			maybe = maybe || lost.sent
		case maybe && !repeated && (errors.Is(err, tidemark.ErrConflict) || errors.Is(err, tidemark.ErrExists)):
			return b.settle(ctx, batch, err)
		}
		wait := t.again(ctx, err)
		switch {
		case wait == nil:
			continue
		case maybe && !settled(err):
			return tidemark.Receipt{}, fmt.Errorf("batch %s: %w: %w", batch.ID, tidemark.ErrUnknown, withoutSentinel(b.ended(ctx, err)))
		}
		return receiptOf(err), b.ended(ctx, err)
	}
}

// settled reports whether an error of the server says that nothing happened.
func settled(err error) bool {
	return errors.Is(err, tidemark.ErrConflict) || errors.Is(err, tidemark.ErrExists) || errors.Is(err, tidemark.ErrInvalid)
}

// withoutSentinel keeps a connection error from answering to a second sentinel.
func withoutSentinel(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return textOnly{err}
}

func receiptOf(err error) tidemark.Receipt {
	var p *api.Problem
	if errors.As(err, &p) {
		return p.Receipt()
	}
	return tidemark.Receipt{}
}

// offer sends a batch once, and reports whether the response is that of an
// earlier try.
func (b *Backend) offer(ctx context.Context, c call, id string) (repeated bool, err error) {
	a, err := b.do(ctx, c)
	if err != nil {
		var r *repeat
		return errors.As(err, &r), err
	}
	defer a.close()
	reply, err := b.readAll(a, smallAnswer)
	if err != nil {
		return false, err
	}
	var done api.Done
	if json.Unmarshal(reply, &done) != nil || !done.Done || done.Batch != id {
		return false, &cut{fmt.Errorf("%s: answered something else than that batch %s is kept", b.base, id), true}
	}
	return false, nil
}

// settle finds out whether a batch conflicts with nothing but itself.
func (b *Backend) settle(ctx context.Context, batch tidemark.Batch, conflict error) (tidemark.Receipt, error) {
	took, known, err := b.took(ctx, batch)
	switch {
	case err != nil:
		return tidemark.Receipt{}, fmt.Errorf("batch %s: %w: %w", batch.ID, tidemark.ErrUnknown, withoutSentinel(err))
	case took:
		return tidemark.Receipt{}, nil
	case !known:
		return tidemark.Receipt{}, fmt.Errorf("batch %s: %w", batch.ID, tidemark.ErrUnknown)
	}
	return receiptOf(conflict), conflict
}

// took looks for the id of a batch where the batch would have written it. known
// is false when what it wrote may have been replaced or dropped since, and when
// it wrote nothing.
func (b *Backend) took(ctx context.Context, batch tidemark.Batch) (took, known bool, err error) {
	if len(batch.Appends) > 0 {
		a := batch.Appends[0]
		first, id := a.Lines[0].Seq, batch.StampLine(a.Lines[0]).Batch
		there := false
		for l, err := range b.Lines(ctx, a.Log, tidemark.Span{From: first, To: first}) {
			if err != nil {
				return false, false, err
			}
			there, took = true, l.Batch == id
		}
		return took, there || took, nil
	}
	if len(batch.Puts) > 0 {
		r := batch.Puts[0]
		is, err := b.Get(ctx, r.Key)
		if err != nil && !errors.Is(err, tidemark.ErrNotFound) {
			return false, false, err
		}
		took = is.Version == r.Version && is.Batch == batch.Stamp(r).Batch
		// A record that still has the version from before shows that the batch
		// did not take effect.
		return took, took || err == nil && is.Version <= batch.Replaces(r), nil
	}
	return false, false, nil
}
