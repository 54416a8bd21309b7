package index

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/search/segment"
)

// View is the index as it is at one time. It may be used concurrently, and goes on
// with a newer family where segments that it needs were merged meanwhile. When lines
// were taken out of these, it is of no use any more (ErrConflict): what Behind left
// out because the View had it, the newer family may not have.
type View struct {
	mu sync.Mutex
	at *snapshot
}

// Look reads which segments count now. ErrCorrupt: the family cannot be read, and
// the index has to be made anew (Reset). ErrUnsupported: a newer program made it.
func (ix *Index) Look(ctx context.Context) (*View, error) {
	at, err := ix.look(ctx)
	if err != nil {
		return nil, err
	}
	return &View{at: at}, nil
}

// Nothing returns a View of no segments, for an index that cannot be read: everything
// is Behind.
func (ix *Index) Nothing() *View { return &View{at: &snapshot{ix: ix}} }

func (v *View) now() *snapshot {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.at
}

// newer goes on with a newer family after an error, if there is one and that is why.
// All that is asked afterwards is asked of it: what Behind left out because the
// newer family has it, Search finds.
func (v *View) newer(ctx context.Context, at *snapshot, err error) (*snapshot, error) {
	next, err := at.newer(ctx, err)
	if err != nil {
		return nil, err
	}
	if next.family.Epoch != at.family.Epoch {
		return nil, fmt.Errorf("%w: lines were taken out of the search index while it was read", tidemark.ErrConflict)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.at.version < next.version {
		v.at = next
	}
	return v.at, nil
}

// Made reports whether the index was ever made.
func (v *View) Made() bool { return v.now().version > 0 }

// Segments is how many segments there are, and how many lines they have together.
func (v *View) Segments() (segments int, lines int64) {
	f := v.now().family
	for _, s := range f.Segments {
		lines += int64(s.Lines)
	}
	return len(f.Segments), lines
}

// Search yields the lines of the index that match, newest first, each once. To go
// on later, ask for what is before the last hit. ErrCorrupt: the index is damaged;
// CatchUp makes it whole. ErrConflict: look anew, and begin again.
func (v *View) Search(ctx context.Context, q Query) iter.Seq2[Hit, error] {
	return func(yield func(Hit, error) bool) {
		for at := v.now(); ; {
			on, err := at.search(ctx, &q, yield)
			if err == nil || !on {
				return
			}
			if at, err = v.newer(ctx, at, err); err != nil {
				yield(Hit{}, err)
				return
			}
		}
	}
}

// search yields what there is, and moves q behind it.
func (s *snapshot) search(ctx context.Context, q *Query, yield func(Hit, error) bool) (on bool, err error) {
	readers, err := s.all(ctx)
	if err != nil {
		return true, err
	}
	for hit, err := range segment.SearchTogether(ctx, readers, *q, s.ix.together(ctx)) {
		if err != nil {
			return true, err
		}
		line := hit.Line
		q.Before = &line
		if !yield(hit, nil) {
			return false, nil
		}
	}
	return true, nil
}

// Behind yields the lines that none of some indexes has. Who reads these first, and
// asks the same Views then, misses nothing that was committed before Look, and may
// see a line twice that was indexed meanwhile. A log is looked for in the Views of
// its sort alone: those of Options.Owned have the logs that are named with their
// owners. ErrCorrupt: a log of the source, or an index itself, is damaged; it goes on
// behind that. ErrConflict: look anew, and begin again.
func Behind(ctx context.Context, src Source, views ...*View) iter.Seq2[Lines, error] {
	return func(yield func(Lines, error) bool) {
		var now []*snapshot
		for _, v := range views {
			now = append(now, v.now())
		}
		for log, err := range touched(ctx, src, now...) {
			var left []segment.Span
			if err == nil {
				left, err = behind(ctx, log, views)
			}
			if err != nil {
				if !yield(Lines{}, err) || !errors.Is(err, tidemark.ErrCorrupt) {
					return
				}
				continue
			}
			for _, s := range left {
				if !yield(Lines{log.Key, s.From, s.To}, nil) {
					return
				}
			}
		}
	}
}

// behind returns which lines of a log no View has.
func behind(ctx context.Context, log Log, views []*View) ([]segment.Span, error) {
	if log.Length < 1 {
		return nil, nil
	}
	owner, _ := CutOwner(log.Key)
	left := []segment.Span{{From: 1, To: log.Length}}
	for _, v := range views {
		if v.now().ix.o.Owned != (owner != "") || len(left) == 0 {
			continue
		}
		missing, err := v.missing(ctx, log)
		if err != nil {
			return nil, err
		}
		left = segment.Less(left, segment.Less(left, missing)) // what both lack
	}
	return left, nil
}

func (v *View) missing(ctx context.Context, log Log) ([]segment.Span, error) {
	for at := v.now(); ; {
		spans, err := at.missing(ctx, log)
		if err == nil {
			return spans, nil
		}
		if at, err = v.newer(ctx, at, err); err != nil {
			return nil, err
		}
	}
}
