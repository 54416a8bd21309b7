package archive

import (
	"bytes"
	"context"
	"errors"
	"iter"

	"github.com/tidemark-sessions/tidemark"
)

// CopyOptions say what is copied.
type CopyOptions struct {
	// Skip leaves out the keys for which it returns true, such as the keyring
	// when the target is sealed with its own.
	Skip func(tidemark.Key) bool
	// Change returns a record as the target is to store it, nil: unchanged. It
	// may give it another key, of the same kind; a zero one leaves it out.
	Change func(tidemark.Record) (tidemark.Record, error)
	// Damaged is called with each record and line that cannot be read. Records
	// are left out, a gap replaces a line, and the rest is copied. When it is
	// nil, damage ends the copying.
	Damaged func(error)
	// Progress is called now and then, from the goroutine that called Copy.
	Progress func(Progress)
}

// Stats counts what Copy read, whether the target had it already or not.
type Stats struct {
	Count
	Kinds map[string]Count `json:"kinds"`
}

// Copy copies everything but what is derived from one Backend into another,
// without an archive in between. It treats what is already there, errors and a
// repeated run after a kill as Read does. When it returns nil, everything was read back from the
// target and is identical. A store that was written to meanwhile is ErrConflict
// then: run it again.
func Copy(ctx context.Context, from, into tidemark.Backend, o *CopyOptions) (Stats, error) {
	if o == nil {
		o = &CopyOptions{}
	}
	s := newSource(ctx, from)
	s.skip, s.damaged = o.Skip, o.Damaged
	m := Manifest{Kinds: make(map[string]Count)}
	a := newAdopter(ctx, into, false)
	a.change = o.Change
	s.emit = func(it *item) error {
		if err := m.count(it); err != nil {
			return err
		}
		if o.Progress != nil {
			o.Progress(progressOf(&m, it, 0))
		}
		return a.take(it)
	}
	if err := s.all(); err != nil {
		return Stats{}, err
	}
	if err := a.flush(); err != nil {
		return Stats{}, err
	}
	return Stats{m.Count, m.Kinds}, compare(ctx, from, into, o, false)
}

// Same compares everything in two Backends, except what is derived and the keys for
// which skip is true, and returns ErrConflict with the first difference.
func Same(ctx context.Context, a, b tidemark.Backend, skip func(tidemark.Key) bool) error {
	return compare(ctx, a, b, &CopyOptions{Skip: skip}, true)
}

// compare requires that everything of a is in b and, if bothWays, nothing else.
func compare(ctx context.Context, a, b tidemark.Backend, o *CopyOptions, bothWays bool) error {
	skip, err := o.skipOf(ctx, a)
	if err != nil {
		return err
	}
	for k, err := range a.Walk(ctx, tidemark.Key{}) {
		if err != nil {
			return err
		}
		if !skip(k) {
			if err := compareKey(ctx, a, b, k, o); err != nil {
				return err
			}
		}
	}
	if !bothWays {
		return nil
	}
	if skip, err = o.skipOf(ctx, b); err != nil {
		return err
	}
	for k, err := range b.Walk(ctx, tidemark.Key{}) {
		if err != nil {
			return err
		}
		if skip(k) {
			continue
		}
		_, err := a.Get(ctx, k)
		if errors.Is(err, tidemark.ErrNotFound) {
			return tidemark.Conflictf("%s: is there on one side only", k)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// skipOf returns which keys of a Backend are not compared.
func (o *CopyOptions) skipOf(ctx context.Context, of tidemark.Backend) (func(tidemark.Key) bool, error) {
	derived, err := derivedOf(ctx, of)
	return func(k tidemark.Key) bool { return derived(k) || o.Skip != nil && o.Skip(k) }, err
}

func compareKey(ctx context.Context, a, b tidemark.Backend, k tidemark.Key, o *CopyOptions) error {
	x, err := a.Get(ctx, k)
	if errors.Is(err, tidemark.ErrNotFound) || o.Damaged != nil && errors.Is(err, tidemark.ErrCorrupt) {
		return nil // it was deleted meanwhile, is an empty log, or cannot be read
	}
	if err != nil {
		return err
	}
	if o.Change != nil && x.Version > 0 {
		if x, err = o.Change(x); err != nil || x.Kind == "" {
			return err
		}
	}
	y, err := b.Get(ctx, x.Key)
	if errors.Is(err, tidemark.ErrNotFound) {
		return tidemark.Conflictf("%s: is there on one side only", k)
	}
	if err != nil {
		return err
	}
	if (x.Version > 0 || y.Version > 0) && (markOf(&x) != markOf(&y) || !bytes.Equal(x.Body, y.Body)) {
		return tidemark.Conflictf("%s: the two sides differ: version %d and version %d", k, x.Version, y.Version)
	}
	g, h := x.Head, y.Head
	if g.Length != h.Length || !g.UpdatedAt.Equal(h.UpdatedAt) || g.Position != h.Position || !bytes.Equal(g.Chain, h.Chain) {
		return tidemark.Conflictf("%s: the two sides differ: %d lines and %d lines", k, g.Length, h.Length)
	}
	if g.Length == 0 {
		return nil
	}
	return compareLines(k, o.Damaged != nil, a.Lines(ctx, k, tidemark.Span{To: g.Length}), b.Lines(ctx, k, tidemark.Span{To: g.Length}))
}

func compareLines(k tidemark.Key, gaps bool, a, b iter.Seq2[tidemark.Line, error]) error {
	next, stop := iter.Pull2(b)
	defer stop()
	for x, err := range a {
		damaged := gaps && errors.Is(err, tidemark.ErrCorrupt)
		if err != nil && !damaged {
			return err
		}
		y, err, ok := next()
		if err != nil {
			return err
		}
		if !ok || damaged && y.Seq != x.Seq || !damaged && !sameLine(&x, &y) {
			return tidemark.Conflictf("%s: the two sides differ at line %d", k, x.Seq)
		}
	}
	return nil
}
