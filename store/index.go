package store

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/search/index"
)

// The index is made here, behind the writers: a line is indexed within a second of
// its commit by the process that wrote it, and what a process left that ended before
// is found and indexed by the next one that stays. Reading never indexes; a search
// reads what the index does not have yet.

// indexAfter is how long lines are gathered before they are indexed: long
// enough for a burst to be one transaction, short enough for the promise of a
// second.
const indexAfter = 300 * time.Millisecond

// searched are the kinds of logs that can be searched.
var searched = []string{kindSession, kindWorker, kindPast, kindNotes}

// grew notes what was appended.
func (s *Store) grew(b tidemark.Batch) {
	if s.index != nil {
		for _, a := range b.Appends {
			if slices.Contains(searched, a.Log.Kind) {
				s.written.add(a.Log)
			}
		}
		s.beside.Load().hand(b)
		s.o.Scopes.grew(s.backend)
	}
	s.signal()
}

// signal says that something was appended.
func (s *Store) signal() {
	select {
	case s.grown <- struct{}{}:
	default:
	}
}

// stays is how long a program runs before it counts as one that stays, and looks for
// what others left.
const stays = 5 * time.Second

// KeepIndexed indexes what this Store appends, until ctx ends, and now and then what
// others left. Without an index it returns at once. What is shared with others is
// up to Scopes.Keep.
func (s *Store) KeepIndexed(ctx context.Context) error {
	if s.index == nil {
		return nil
	}
	merge, stop := s.mergeBeside(ctx)
	defer stop()
	left := time.NewTimer(stays)
	defer left.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-left.C:
			left.Reset(untilSometimes)
		case <-s.grown:
			select {
			case <-ctx.Done():
				s.signal() // for IndexWritten
				return nil
			case <-time.After(indexAfter):
			}
		}
		err := s.follow(ctx)
		switch {
		case err == nil && s.beside.Load() == nil: // else whoever imports merges in the end
			merge()
		case err == nil:
		case errors.Is(err, tidemark.ErrUnsupported):
			return nil
		case index.IsBusy(err):
			s.signal() // somebody indexes much: later
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(time.Second):
			}
		case err != nil && ctx.Err() == nil:
			return err
		}
	}
}

// follow indexes what was appended.
func (s *Store) follow(ctx context.Context) error {
	if err := s.mayIndex(ctx); err != nil {
		return err
	}
	return s.indexWritten(ctx, untilSometimes)
}

// worthASegment is how many lines have to be behind before a program that ends
// indexes them. A segment is a durable commit, which would double the time of a
// command that appends one line; reading so many takes a search some milliseconds.
const worthASegment = 256

// IndexWritten indexes, at the end of a program, what this Store appended and
// KeepIndexed has not come to. The index is left as it is while few lines are behind,
// whoever wrote them, and caught up otherwise.
// ErrUnsupported: there is no index. ErrHeld: somebody else makes it at the moment.
func (s *Store) IndexWritten(ctx context.Context) error {
	n, err := s.Unindexed(ctx, worthASegment)
	if err != nil || n < worthASegment {
		return err
	}
	if err := s.Standing(ctx); err != nil {
		return err
	}
	return s.indexWritten(ctx, 0)
}

// indexSwitch is a Backend whose owner may forbid a search index.
type indexSwitch interface {
	MayIndex(ctx context.Context) (bool, error)
}

// mayIndex returns ErrUnsupported where the owner of the store forbade the index, and
// ErrSealed as Standing does.
func (s *Store) mayIndex(ctx context.Context) error {
	if err := s.Standing(ctx); err != nil {
		return err
	}
	owner, ok := s.backend.(indexSwitch)
	if !ok {
		return nil
	}
	may, err := owner.MayIndex(ctx)
	if err == nil && !may {
		err = tidemark.Unsupportedf("this store may have no search index")
	}
	return err
}

// Pending reports whether something was appended that KeepIndexed has not
// indexed.
func (s *Store) Pending() bool { return len(s.grown) > 0 }

// IndexLag is how long the oldest of what this Store appended has waited for the
// index; 0: all is in it.
func (s *Store) IndexLag() time.Duration {
	since := s.written.oldest()
	if since.IsZero() {
		return 0
	}
	return time.Since(since)
}

// CatchUp indexes everything that is not indexed yet, also of what is shared where
// this process may do that, and returns how many lines that were: ErrUnsupported
// where there is no index. It calls progress, when it is not nil, as it goes.
func (s *Store) CatchUp(ctx context.Context, progress func(lines int64)) (int64, error) {
	if s.index == nil {
		return 0, errNoIndex()
	}
	if err := s.mayIndex(ctx); err != nil {
		return 0, err
	}
	n, err := s.index.CatchUp(ctx, source{s: s}, index.Pace{Alone: true, Progress: progress})
	if err == nil {
		err = s.tend(ctx, 0)
	}
	if err == nil {
		err = s.o.Scopes.each(s.backend, func(x *scope) error { return x.step(ctx) })
	}
	return n, err
}

func errNoIndex() error { return tidemark.Unsupportedf("this store has no search index") }

// Reindex empties the index and makes it anew, also that of what is shared where this
// process may do that.
func (s *Store) Reindex(ctx context.Context, progress func(lines int64)) (int64, error) {
	if s.index == nil {
		return 0, errNoIndex()
	}
	err := s.ResetIndex(ctx)
	if err == nil {
		err = s.o.Scopes.each(s.backend, func(x *scope) error { return x.s.index.Reset(ctx) })
	}
	if err != nil {
		return 0, err
	}
	return s.CatchUp(ctx, progress)
}

// about returns what the session says that a log belongs to; nothing when it
// cannot be read, because its lines can be found nevertheless.
func (s *Store) about(ctx context.Context, log tidemark.Key) (Info, error) {
	id, _ := sessionOf(log)
	i, err := s.Session(ctx, id)
	if errors.Is(err, tidemark.ErrNotFound) || errors.Is(err, tidemark.ErrCorrupt) {
		return Info{Session: tidemark.Session{ID: id}}, nil
	}
	return i, err
}

// filterWord is a word that no text contains. It makes the index answer a
// filter.
func filterWord(class, value string) string { return "\x00" + class + ":" + value }

func isFilterWord(word string) bool { return strings.HasPrefix(word, "\x00") }

// The classes of filter words.
const (
	filterRole    = "r"
	filterAgent   = "a"
	filterProject = "p"
)

// titleEntry is a title as something to search.
func titleEntry(title string) tidemark.Entry {
	return tidemark.Entry{Kind: noteTitle, Blocks: []tidemark.Block{tidemark.Text(title)}}
}

// searchable returns what is searched of a line: an entry, or the text of a
// note.
func searchable(log tidemark.Key, l tidemark.Line) (tidemark.Entry, error) {
	if log.Kind != kindNotes {
		return tidemark.EntryOf(l)
	}
	var n Note
	if err := records.Decode(tidemark.Record{Key: log, Body: l.Body}, &n); err != nil {
		return tidemark.Entry{}, err
	}
	e := titleEntry(n.Text)
	e.Seq, e.Kind, e.At = n.Seq, l.Kind, l.At
	if n.Remove {
		e.Blocks = nil
	}
	return e, nil
}

// Unindexed counts the principal's own lines that are not indexed yet, and stops when
// there are at least so many; 0: it counts them all. ErrUnsupported: there is no index.
func (s *Store) Unindexed(ctx context.Context, enough int64) (int64, error) {
	if s.index == nil {
		return 0, errNoIndex()
	}
	if err := s.mayIndex(ctx); err != nil {
		return 0, err
	}
	var n int64
	err := records.Retry(ctx, func() error {
		n = 0
		view, err := s.index.Look(ctx)
		if err != nil {
			return err
		}
		for l, err := range index.Behind(ctx, source{s: s}, view) {
			if isOfSession(err) {
				continue // nothing will make it readable
			}
			if err != nil {
				return err
			}
			if n += l.To - l.From + 1; enough > 0 && n >= enough {
				break
			}
		}
		return nil
	})
	return n, err
}
