package store

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/tidemark-sessions/tidemark"
)

// Verify reads the whole session and yields each damage as a *tidemark.Damage:
// lines that cannot be read, entries whose position in the tree does not follow
// from the entries before, record fields that contradict the record's body. Any
// other error is yielded, too, and may end it.
func (s *Store) Verify(ctx context.Context, id tidemark.SessionID) iter.Seq[error] {
	return func(yield func(error) bool) {
		r, err := s.backend.Get(ctx, keyOf(kindSession, id))
		if err != nil {
			yield(err)
			return
		}
		i, err := infoOf(r)
		if err != nil {
			yield(err)
			return
		}
		damage := func(what string, args ...any) bool {
			return yield(&tidemark.Damage{Key: r.Key, What: fmt.Sprintf(what, args...)})
		}
		if string(i.ID) != r.ID && !damage("says that it is session %s", i.ID) ||
			i.State != Live && i.State != Trash && i.State != purging && !damage("its state is %q", i.State) ||
			r.Group != s.projectGroup(i.Project) && !damage("is filed under another project") {
			return
		}
		v := &View{Info: i, s: s}
		if !v.verifyTree(ctx, yield) {
			return
		}
		names, err := v.Workers(ctx)
		if err != nil && !yield(err) {
			return
		}
		for _, n := range names {
			w, err := v.Worker(ctx, n)
			if err != nil {
				if !yield(err) {
					return
				}
			} else if !w.verifyTree(ctx, yield) {
				return
			}
		}
		for _, err := range v.Notes(ctx) {
			if err != nil && !yield(err) {
				return
			}
		}
	}
}

// verifyTree recomputes the position of each entry, as far as that is possible,
// and compares. It reports whether to go on.
func (v *View) verifyTree(ctx context.Context, yield func(error) bool) bool {
	places := make(map[int64]tidemark.Line) // by seq; only Seq, Kind and Position
	newest := tidemark.Line{}
	missed := false // an entry could not be read, so later positions cannot be computed
	for e, err := range v.Log(ctx) {
		if err != nil {
			if !yield(err) || !errors.Is(err, tidemark.ErrCorrupt) {
				return false
			}
			missed = true
			continue
		}
		if e.Kind == tidemark.KindGap {
			missed = true
		}
		kind := e.Kind
		if kind == tidemark.KindMessage {
			kind = string(e.Role)
		}
		line := tidemark.Line{Seq: e.Seq, Kind: kind, Position: e.Position}
		parent, known := places[e.Parent]
		if e.Parent == 0 {
			known = true
		}
		shared := e.Seq <= v.sharedUpTo() || e.Seq == v.sharedUpTo()+1 && v.Base != nil
		switch {
		case e.Parent >= e.Seq || !known && !missed:
			if !yield(&tidemark.Damage{Key: v.log(), Seq: e.Seq, What: fmt.Sprintf("follows entry %d, which is not there", e.Parent)}) {
				return false
			}
		case known && !missed && !shared && placeAfter(&e, &parent, &newest) != e.Position:
			if !yield(&tidemark.Damage{Key: v.log(), Seq: e.Seq, What: "its place in the tree does not fit"}) {
				return false
			}
		}
		places[e.Seq], newest = line, line
	}
	return true
}

// VerifyAll verifies every session and has the Backend check itself. What both
// find is yielded once. It calls progress, unless that is nil, before each session.
func (s *Store) VerifyAll(ctx context.Context, progress func(Info)) iter.Seq[error] {
	return func(each func(error) bool) {
		seen := make(map[string]bool)
		yield := func(err error) bool {
			if seen[err.Error()] {
				return true
			}
			seen[err.Error()] = true
			return each(err)
		}
		if c, err := tidemark.Ability[tidemark.Checker](s.backend); err == nil {
			for err := range c.Check(ctx) {
				if errors.Is(err, tidemark.ErrUnsupported) {
					break
				}
				if !yield(err) {
					return
				}
			}
		}
		for r, err := range s.backend.List(ctx, tidemark.Query{Kind: kindSession, Order: tidemark.ByID}) {
			if err != nil {
				if !yield(err) || !errors.Is(err, tidemark.ErrCorrupt) {
					return
				}
				continue
			}
			if i, err := infoOf(r); err == nil && progress != nil {
				progress(i)
			}
			for err := range s.Verify(ctx, tidemark.SessionID(r.ID)) {
				if !yield(err) {
					return
				}
			}
		}
	}
}
