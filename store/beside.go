package store

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/search/index"
)

// What an import appends is handed to the index as it is committed, so that nobody
// reads, opens and decodes it again, and both cores of a small machine have work. Each
// batch of an import has a note that says what is not indexed, and the note goes in the
// commit that indexes the lines: whatever is lost on the way is found by CatchUp.

const (
	// besideFrom is how many lines an import has before it is worth to index beside
	// it: fewer are indexed in a moment, when it is done.
	besideFrom = 2000
	// besideWhole is up to how many bytes the lines of a session wait until the import
	// has told of it, and besideWaiting the same of all sessions: until then its title
	// and its project may change, by which it is found.
	besideWhole   = 512 << 10
	besideWaiting = 4 << 20
	// besideAhead is how often an import hands lines over before it waits: some
	// megabytes, so that it goes on while a segment is written.
	besideAhead = 2
	// besideFor is how long others are kept from indexing, and besidePause how long
	// they may then: long enough for one that tries every second.
	besideFor   = 10 * time.Second
	besidePause = 1500 * time.Millisecond
)

// IndexBeside indexes what is appended by ChangedAt while that goes on. tell names a
// session to which the import has appended all that it has. end waits until what was
// told is indexed. room is about how many bytes of memory words may take before they
// become a segment, while those of the segment before take as many: more make fewer
// segments.
//
// It promises nothing: what it cannot do, or ctx ends, is left to the CatchUp that comes
// after each import. Of several at once, the first indexes what all of them append.
func (s *Store) IndexBeside(ctx context.Context, room int) (tell func(tidemark.SessionID), end func()) {
	tell = func(id tidemark.SessionID) { s.beside.Load().tell(id) }
	if s.index == nil || s.mayIndex(ctx) != nil {
		return tell, func() {}
	}
	x := &besideIndex{s: s, room: room, out: make(chan []handed, besideAhead), expected: make(map[tidemark.Key]int), waiting: make(map[tidemark.SessionID][]handed)}
	var err error
	if x.index, err = s.index.Handed(ctx, room); err != nil || !s.beside.CompareAndSwap(nil, x) {
		return tell, func() {}
	}
	x.working.Go(func() { x.work(ctx) })
	return tell, func() {
		s.beside.Store(nil)
		x.end()
	}
}

// handed is what one commit of an import appended.
type handed struct {
	appends []tidemark.Append
	notes   []tidemark.Precondition
	bytes   int
	round   int
	early   bool // the import has not told of the session yet
}

func (c handed) session() tidemark.SessionID {
	id, _ := sessionOf(c.appends[0].Log)
	return id
}

// besideIndex indexes beside an import. A nil one does nothing.
type besideIndex struct {
	s       *Store
	room    int
	out     chan []handed
	working sync.WaitGroup

	mu       sync.Mutex
	sending  sync.WaitGroup       // to out; begun only while it is not over
	over     bool                 // nothing is taken any more
	round    int                  // how often indexing began anew
	expected map[tidemark.Key]int // the notes of commits under way, and in which round they began
	waiting  map[tidemark.SessionID][]handed
	ready    []handed
	bytes    int // of what waits and is ready
	lines    int // that were handed over so far

	// The rest is for work alone.
	index *index.Handed
	about map[tidemark.SessionID]tidemark.Session // what was said of those that were indexed early
}

// expect is called with the note of a commit before that begins. What is taken out of
// the index later than that is noticed.
func (x *besideIndex) expect(note tidemark.Key) {
	if x == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.expected[note] = x.round
}

// hand is called with each batch that was committed, and takes the lines of those that
// were expected. It waits while the import is too far ahead.
func (x *besideIndex) hand(b tidemark.Batch) {
	if x == nil {
		return
	}
	c := handed{round: -1}
	for _, a := range b.Appends {
		if slices.Contains(searched, a.Log.Kind) {
			c.appends = append(c.appends, a)
			for _, l := range a.Lines {
				c.bytes += len(l.Body)
			}
		}
	}
	if len(c.appends) == 0 {
		return
	}
	x.mu.Lock()
	for _, r := range b.Puts {
		round, ok := x.expected[r.Key]
		if !ok {
			continue
		}
		delete(x.expected, r.Key)
		c.round = round
		c.notes = append(c.notes, tidemark.Precondition{Key: r.Key, Version: r.Version})
	}
	if c.round < 0 {
		x.mu.Unlock()
		return
	}
	for _, a := range c.appends {
		x.lines += len(a.Lines)
	}
	id := c.session()
	x.waiting[id], x.bytes = append(x.waiting[id], c), x.bytes+c.bytes
	total := 0
	for _, c := range x.waiting[id] {
		total += c.bytes
	}
	if total >= besideWhole {
		x.release(id, true)
	}
	x.send()
}

// tell is called when the import has appended all that it has to a session.
func (x *besideIndex) tell(id tidemark.SessionID) {
	if x == nil {
		return
	}
	x.mu.Lock()
	x.release(id, false)
	x.send()
}

// release has the lines of a session indexed.
func (x *besideIndex) release(id tidemark.SessionID, early bool) {
	for _, c := range x.waiting[id] {
		c.early = early
		x.ready = append(x.ready, c)
	}
	delete(x.waiting, id)
}

// send passes on what is ready once that is worth it, and unlocks x.
func (x *besideIndex) send() {
	if x.bytes >= besideWaiting {
		for id := range x.waiting {
			x.release(id, true)
		}
	}
	if x.over || len(x.ready) == 0 || x.lines < besideFrom && x.bytes < besideWaiting {
		x.mu.Unlock()
		return
	}
	ready := x.ready
	x.ready = nil
	for _, c := range ready {
		x.bytes -= c.bytes
	}
	x.sending.Add(1)
	x.mu.Unlock()
	x.out <- ready
	x.sending.Done()
}

// end waits until all that was told is indexed.
func (x *besideIndex) end() {
	x.mu.Lock()
	x.over = true
	x.mu.Unlock()
	x.sending.Wait()
	close(x.out)
	x.working.Wait()
}

// work indexes what comes, until there is no more. Who hands it over is never kept
// waiting for nothing: after an error the rest is thrown away.
func (x *besideIndex) work(ctx context.Context) {
	leave := func() {}
	var err error
	for some := range x.out {
		if x.about == nil {
			x.about = make(map[tidemark.SessionID]tidemark.Session)
			leave = x.keepOthersOut(ctx)
		}
		for _, c := range some {
			if err == nil {
				err = x.add(ctx, c)
			}
			if errors.Is(err, tidemark.ErrConflict) {
				err = x.again(ctx)
			}
		}
	}
	if err == nil {
		err = x.index.Put(ctx)
	}
	// Also after an error nothing is written any more when this ends.
	err = errors.Join(err, x.index.Close())
	leave()
	if err == nil {
		// What fails here is what a session was called while it was imported.
		_ = x.renew(ctx)
	}
}

// add adds what one commit appended.
func (x *besideIndex) add(ctx context.Context, c handed) error {
	x.mu.Lock()
	late := c.round != x.round
	x.mu.Unlock()
	if late {
		return nil
	}
	for _, a := range c.appends {
		about, err := x.s.about(ctx, a.Log)
		if err != nil {
			return err
		}
		if _, known := x.about[about.ID]; c.early && !known {
			x.about[about.ID] = about.Session
		}
		words, err := x.s.wordsOf(ctx, a.Log, about)
		if err == nil {
			err = x.index.Add(ctx, a.Log, words, a.Lines)
		}
		if err != nil {
			return err
		}
	}
	return x.index.Done(ctx, c.notes...)
}

// again begins anew after something was taken out of the index. What was appended
// before that may be what was taken out: CatchUp looks at it.
func (x *besideIndex) again(ctx context.Context) (err error) {
	_ = x.index.Close()
	x.index, err = x.s.index.Handed(ctx, x.room)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.round++
	return err
}

// keepOthersOut keeps others from indexing the same, most of the time. Nothing relies
// on it.
func (x *besideIndex) keepOthersOut(ctx context.Context) (leave func()) {
	left := make(chan struct{})
	wait := func(d time.Duration) bool {
		select {
		case <-left:
			return false
		case <-ctx.Done():
			return false
		case <-time.After(d):
			return true
		}
	}
	var keeping sync.WaitGroup
	keeping.Go(func() {
		for going := true; going; {
			_ = x.s.index.Alone(ctx, func() error { going = wait(besideFor); return nil })
			going = going && wait(besidePause)
		}
	})
	return func() {
		close(left)
		keeping.Wait()
	}
}

// renew has sessions indexed again that are not called any more what they were called
// when they were indexed.
func (x *besideIndex) renew(ctx context.Context) error {
	var lines []index.Lines
	for id, was := range x.about {
		is, err := x.s.Session(ctx, id)
		if errors.Is(err, tidemark.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if is.Title == was.Title && is.Agent == was.Agent && is.Project == was.Project {
			continue
		}
		for log, err := range x.s.logsOf(ctx, id) {
			if err != nil {
				return err
			}
			lines = append(lines, index.Lines{Log: log, From: 1})
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return records.Retry(ctx, func() error {
		r, err := x.s.index.Renew(ctx, lines...)
		if err == nil {
			_, err = x.s.k.Commit(ctx, tidemark.Batch{Puts: []tidemark.Record{r}})
		}
		return err
	})
}
