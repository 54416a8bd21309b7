package store

import (
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/search/index"
)

const (
	// besideBytes is how much IndexBeside gathers before it writes a segment: few
	// segments, in a process that also has the import in its memory.
	besideBytes = 6 << 20
	// besideFor is how long IndexBeside keeps others from indexing, and besidePause
	// how long it lets them then: long enough for one that tries every second.
	besideFor   = 10 * time.Second
	besidePause = 1500 * time.Millisecond
	// besideWaiting is of how many sessions an import may be ahead of its index.
	besideWaiting = 1024
)

// IndexBeside indexes what an import appends by ChangedAt while the import goes on, so
// that both cores of a small machine have work. tell names a session to which the import
// has appended all that it has. end waits until what was told is indexed.
//
// It promises nothing: what it cannot do, or ctx ends, is left to the CatchUp that comes
// after each import.
func (s *Store) IndexBeside(ctx context.Context) (tell func(tidemark.SessionID), end func()) {
	if s.index == nil {
		return func(tidemark.SessionID) {}, func() {}
	}
	ids, ending := make(chan tidemark.SessionID, besideWaiting), make(chan struct{})
	var indexing sync.WaitGroup
	indexing.Go(func() {
		for id := range ids {
			round := &told{source: source{s: s}, next: ids, all: []tidemark.SessionID{id}, over: time.After(besideFor)}
			err := s.mayIndex(ctx)
			if err == nil {
				_, err = s.index.CatchUp(ctx, round, index.Pace{Bytes: besideBytes, Alone: true, Part: true})
			}
			if err != nil {
				break
			}
			select {
			case <-ending:
			case <-ctx.Done():
			case <-time.After(besidePause):
			}
		}
		for range ids { // who tells is never kept waiting
		}
	})
	return func(id tidemark.SessionID) { ids <- id }, func() {
		close(ending)
		close(ids)
		indexing.Wait()
	}
}

// told tells an index of the sessions that it is told of itself, as they come, until
// there are no more or a time is over.
type told struct {
	source
	next <-chan tidemark.SessionID
	over <-chan time.Time
	all  []tidemark.SessionID // so far, for when the index begins again
}

// Touched implements index.Source. It yields what the notes of imports say of the
// sessions.
func (x *told) Touched(ctx context.Context, _ time.Time) iter.Seq2[index.Log, error] {
	return func(yield func(index.Log, error) bool) {
		t := &telling{x: x.source, ctx: ctx, yield: yield, seen: make(map[tidemark.Key]bool)}
		for n := 0; n < len(x.all) || x.wait(ctx); n++ {
			if !t.notedOf(x.all[n]) {
				return
			}
		}
	}
}

// wait waits for the next session, and reports whether there is one.
func (x *told) wait(ctx context.Context) bool {
	select {
	case <-ctx.Done():
	case <-x.over:
	case id, more := <-x.next:
		if more {
			x.all = append(x.all, id)
			return true
		}
	}
	return false
}

// notedOf yields the logs of a session if notes name it, and the notes.
func (t *telling) notedOf(id tidemark.SessionID) bool {
	var notes []tidemark.Record // before anything is indexed, which may take long
	for r, err := range t.x.s.backend.List(t.ctx, tidemark.Query{Kind: tidemark.KindUnindexed, Prefix: string(id) + ".", Order: tidemark.ByID}) {
		switch {
		case err != nil:
			if !t.failed(err) {
				return false
			}
		case r.Group == "": // else it is a scope's
			notes = append(notes, r)
		}
	}
	return !slices.ContainsFunc(notes, func(r tidemark.Record) bool {
		return !t.note(r, "") || !t.yieldNote(r)
	})
}

// yieldNote yields a note, which is deleted when the logs that it names are indexed.
func (t *telling) yieldNote(r tidemark.Record) bool {
	return t.yield(index.Log{Key: tidemark.Key{Kind: kindSession, ID: r.ID}, Note: tidemark.Precondition{Key: r.Key, Version: r.Version}}, nil)
}
