package seal

import (
	"bytes"
	"context"
	"errors"
	"iter"

	"github.com/tidemark-sessions/tidemark"
)

// The abilities of the Backend underneath that sealing does not change.

// Wait waits until a log grows.
func (b *Backend) Wait(ctx context.Context, log tidemark.Key, after int64) error {
	return b.inner.Wait(ctx, log, after)
}

// Walk yields every key except those of the keyring and the data keys.
func (b *Backend) Walk(ctx context.Context, after tidemark.Key) iter.Seq2[tidemark.Key, error] {
	return func(yield func(tidemark.Key, error) bool) {
		for k, err := range b.inner.Walk(ctx, after) {
			if hidden(k.Kind) && err == nil {
				continue
			}
			if !yield(k, err) {
				return
			}
		}
	}
}

// LinesOf opens lines of several logs, where the Backend underneath reads them together.
func (b *Backend) LinesOf(ctx context.Context, asked []tidemark.LogLines) ([][]tidemark.Line, error) {
	all, err := tidemark.LinesOf(ctx, b.inner, asked, hidden)
	if err != nil {
		return nil, err
	}
	for i, lines := range all {
		if asked[i].Log.Kind == tidemark.ActKind {
			continue
		}
		r := lineReader{b: b, log: asked[i].Log}
		opened := make([]tidemark.Line, 0, len(lines))
		for _, l := range lines {
			switch err := r.open(ctx, &l); {
			case err == nil:
				opened = append(opened, l)
			case !errors.Is(err, tidemark.ErrCorrupt) && !errors.Is(err, tidemark.ErrNotFound):
				return nil, err
			}
		}
		all[i] = opened
	}
	return all, nil
}

// Mend repairs what can be repaired without the keys.
func (b *Backend) Mend(ctx context.Context) iter.Seq2[string, error] {
	return tidemark.Mend(ctx, b.inner)
}

// Compact frees unused space.
func (b *Backend) Compact(ctx context.Context) (int64, error) {
	return tidemark.Compact(ctx, b.inner)
}

// Check finds what reading single keys would miss: everything that the Backend
// underneath checks, the keyring, every data key, and whether the head of each
// log agrees with its newest line, which alone is sealed.
func (b *Backend) Check(ctx context.Context) iter.Seq[error] {
	return func(yield func(error) bool) {
		c := checking{b: b, yield: yield}
		if inner, err := tidemark.Ability[tidemark.Checker](b.inner); err == nil {
			for err := range inner.Check(ctx) {
				if !c.report(err) {
					return
				}
			}
		}
		if _, err := b.reload(ctx); !c.report(err) || !c.dataKeys(ctx) {
			return
		}
		c.heads(ctx)
	}
}

type checking struct {
	b     *Backend
	yield func(error) bool
}

// report yields an error and reports whether to continue.
func (c *checking) report(err error) bool {
	if err == nil || errors.Is(err, tidemark.ErrUnsupported) {
		return true
	}
	return c.yield(err) && errors.Is(err, tidemark.ErrCorrupt)
}

func (c *checking) dataKeys(ctx context.Context) bool {
	for r, err := range c.b.inner.List(ctx, tidemark.Query{Kind: kindDataKey, Order: tidemark.ByID}) {
		if err == nil {
			_, err = c.b.openKey(ctx, r.ID, r)
		}
		if !c.report(err) {
			return false
		}
	}
	return true
}

func (c *checking) heads(ctx context.Context) {
	for k, err := range c.b.Walk(ctx, tidemark.Key{}) {
		if err == nil {
			err = c.head(ctx, k)
		}
		if !c.report(err) {
			return
		}
	}
}

func (c *checking) head(ctx context.Context, key tidemark.Key) error {
	r, err := c.b.inner.Get(ctx, key)
	if err != nil || r.Head.Length == 0 {
		if errors.Is(err, tidemark.ErrNotFound) || errors.Is(err, tidemark.ErrCorrupt) {
			return nil // purged meanwhile, or reported when it is read
		}
		return err
	}
	for l, err := range c.b.inner.Lines(ctx, key, tidemark.Span{From: r.Head.Length, To: r.Head.Length}) {
		if err != nil {
			return nil
		}
		if l.Position == r.Head.Position && bytes.Equal(l.Chain, r.Head.Chain) {
			return nil
		}
	}
	if now, err := c.b.inner.Get(ctx, key); err != nil || now.Head.Length < r.Head.Length {
		return nil // dropped meanwhile
	}
	return damaged(key, "the head of its log does not agree with line %d", r.Head.Length)
}

// Share is refused: the others lack the key of this store, and would see a
// session that they cannot open.
func (b *Backend) Share(context.Context, tidemark.SessionID, tidemark.Scope) error {
	return tidemark.Unsupportedf("the store is encrypted with a key that others do not have; export the session for them, or share from a plain store")
}

// Shared reports that nobody else can read it.
func (b *Backend) Shared(context.Context, tidemark.SessionID) (tidemark.Scope, string, error) {
	return tidemark.Scope{With: tidemark.Private}, "", nil
}

// Hash names things by a key of the store: nobody without the key can guess
// names.
func (b *Backend) Hash(parts ...string) string {
	sum := b.ring.Load().names.mac(parts...)
	return hexOf(sum[:12])
}
