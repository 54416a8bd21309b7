package store

import (
	"context"
	"errors"
	"iter"
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

// What is read before it is indexed is bounded. Large steps are quicker in all;
// behind a writer they are small, because an append waits for the step under
// way.
const (
	indexLines       = 2000
	indexLinesBehind = 200
	indexBytes       = 4 << 20
)

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

// searcher returns the index, nil where there is none.
func (s *Store) searcher() tidemark.Searcher {
	if i, err := tidemark.Ability[tidemark.Searcher](s.backend); err == nil && s.o.Words != nil {
		return i
	}
	return nil
}

// stays is how long a program runs before it counts as one that stays, and looks for
// what others left.
const stays = 5 * time.Second

// KeepIndexed indexes what this Store appends, until ctx ends, and, if it keeps the
// index itself, now and then what others left. Without an index it returns at once.
func (s *Store) KeepIndexed(ctx context.Context) error {
	merge, stop := s.mergeBeside(ctx)
	defer stop()
	left := time.NewTimer(stays)
	defer left.Stop()
	if s.index == nil {
		left.Stop()
	}
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
		case err == nil:
			merge()
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
	if s.index != nil {
		if err := s.mayIndex(ctx); err != nil {
			return err
		}
		return s.indexWritten(ctx, untilSometimes)
	}
	_, err := s.catchUp(ctx, indexLinesBehind, nil)
	return err
}

// worthASegment is how many lines have to be behind before a program that ends
// indexes them. A segment is a durable commit, which would double the time of a
// command that appends one line; reading so many takes a search some milliseconds.
const worthASegment = 256

// IndexWritten indexes, at the end of a program, what this Store appended and
// KeepIndexed has not come to. An index that the store keeps itself is left as it is
// while few lines are behind, whoever wrote them, and caught up otherwise.
// ErrUnsupported: there is no index. ErrHeld: somebody else makes it at the moment.
func (s *Store) IndexWritten(ctx context.Context) error {
	if s.index == nil {
		return s.follow(ctx)
	}
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

// CatchUp indexes everything that is not indexed yet and returns how many
// lines that were: ErrUnsupported where there is no index. It calls progress,
// when it is not nil, as it goes.
func (s *Store) CatchUp(ctx context.Context, progress func(lines int64)) (int64, error) {
	if s.index != nil {
		if err := s.mayIndex(ctx); err != nil {
			return 0, err
		}
		n, err := s.index.CatchUp(ctx, source{s}, index.Pace{Alone: true, Progress: progress})
		if err != nil {
			return n, err
		}
		return n, s.tend(ctx, 0)
	}
	return s.catchUp(ctx, indexLines, progress)
}

func (s *Store) catchUp(ctx context.Context, step int, progress func(lines int64)) (int64, error) {
	index := s.searcher()
	if index == nil {
		return 0, tidemark.Unsupportedf("this store has no search index")
	}
	// What somebody sealed has no words for who reads it as plain, and would
	// count as indexed without any.
	if err := s.Standing(ctx); err != nil {
		return 0, err
	}
	select {
	case <-s.grown:
	default:
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	// The lags are read before anything is indexed: they change with it.
	var lags []tidemark.Lag
	for lag, err := range index.Unindexed(ctx, searched...) {
		if err != nil {
			return 0, err
		}
		lags = append(lags, lag)
	}
	// Words are made while those before are indexed.
	chunks := make(chan *indexChunk, 1)
	go s.chunks(ctx, lags, step, chunks)
	var total int64
	for c := range chunks {
		if c.err != nil {
			return total, c.err
		}
		if err := c.index(ctx, index); err != nil {
			return total, err
		}
		if total += int64(len(c.lines)); progress != nil {
			progress(total)
		}
	}
	return total, ctx.Err()
}

// chunks reads the lines of lags, step by step.
func (s *Store) chunks(ctx context.Context, lags []tidemark.Lag, step int, to chan<- *indexChunk) {
	defer close(to)
	c := &indexChunk{}
	send := func() bool {
		select {
		case to <- c:
			c = &indexChunk{}
			return true
		case <-ctx.Done():
			return false
		}
	}
	for _, lag := range lags {
		for line, err := range s.wordsOf(ctx, lag) {
			if err != nil {
				c.err = err
				send()
				return
			}
			if c.add(line); (len(c.lines) >= step || c.bytes >= indexBytes) && !send() {
				return
			}
		}
	}
	if len(c.lines) > 0 {
		send()
	}
}

// Reindex empties the index and makes it anew.
func (s *Store) Reindex(ctx context.Context, progress func(lines int64)) (int64, error) {
	if s.index != nil {
		if err := s.ResetIndex(ctx); err != nil {
			return 0, err
		}
		return s.CatchUp(ctx, progress)
	}
	index := s.searcher()
	if index == nil {
		return 0, tidemark.Unsupportedf("this store has no search index")
	}
	if err := index.Unindex(ctx); err != nil {
		return 0, err
	}
	return s.CatchUp(ctx, progress)
}

// indexChunk is lines that are indexed together.
type indexChunk struct {
	lines []tidemark.Indexed
	bytes int
	err   error // why there are no more
}

func (c *indexChunk) add(line tidemark.Indexed) {
	c.lines = append(c.lines, line)
	for _, w := range line.Words {
		c.bytes += len(w)
	}
}

// index adds the lines to the index. Where somebody else was quicker, the
// others of the chunk are indexed log by log.
func (c *indexChunk) index(ctx context.Context, to tidemark.Searcher) error {
	err := to.Index(ctx, c.lines...)
	if !errors.Is(err, tidemark.ErrConflict) {
		return err
	}
	for lines := c.lines; len(lines) > 0; {
		n := 1
		for n < len(lines) && lines[n].Log == lines[0].Log {
			n++
		}
		if err := to.Index(ctx, lines[:n]...); err != nil && !errors.Is(err, tidemark.ErrConflict) {
			return err
		}
		lines = lines[n:]
	}
	return nil
}

// wordsOf yields the lines of a lag with the words to find them by. A damaged
// line has none.
func (s *Store) wordsOf(ctx context.Context, lag tidemark.Lag) iter.Seq2[tidemark.Indexed, error] {
	return func(yield func(tidemark.Indexed, error) bool) {
		about, err := s.about(ctx, lag.Log)
		if err != nil {
			yield(tidemark.Indexed{}, err)
			return
		}
		next := lag.From
		for l, err := range s.backend.Lines(ctx, lag.Log, tidemark.Span{From: lag.From, To: lag.To}) {
			if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
				yield(tidemark.Indexed{}, err)
				return
			}
			if l.Seq != next {
				return // the log changed meanwhile, or lines are missing
			}
			next++
			line := tidemark.Indexed{Log: lag.Log, Seq: l.Seq, At: l.At}
			if err == nil {
				line.Words = s.wordsOfLine(about.Session, lag.Log, l)
			}
			if !yield(line, nil) {
				return
			}
		}
	}
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

func (s *Store) wordsOfLine(about tidemark.Session, log tidemark.Key, l tidemark.Line) []string {
	e, err := searchable(log, l)
	if err != nil || structural(e) && l.Seq != 1 {
		return nil
	}
	words := append(s.o.Words(e), filterWord(filterRole, l.Kind))
	if log.Kind == kindSession && l.Seq == 1 && about.Title != "" {
		words = append(words, s.o.Words(titleEntry(about.Title))...)
		words = append(words, filterWord(filterRole, noteTitle))
	}
	if about.Agent != "" {
		words = append(words, filterWord(filterAgent, about.Agent))
	}
	if about.Project != "" {
		words = append(words, filterWord(filterProject, about.Project))
	}
	return words
}

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

// Unindexed counts the lines that are not indexed yet, and stops when there are at
// least so many; 0: it counts them all. ErrUnsupported: there is no index.
func (s *Store) Unindexed(ctx context.Context, enough int64) (int64, error) {
	find, err := s.finder(ctx)
	if err != nil {
		return 0, err
	}
	if find == nil {
		return 0, tidemark.Unsupportedf("this store has no search index")
	}
	var n int64
	for lag, err := range find.behind(ctx) {
		if isOfSession(err) {
			continue // nothing will make it readable
		}
		if err != nil {
			return n, err
		}
		if n += lag.To - lag.From + 1; enough > 0 && n >= enough {
			break
		}
	}
	return n, nil
}
