package transfer

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// The sessions of a source are read one after the other by its converter, and
// several are written at once: a commit waits for the disk, a Backend lets
// commits that come together share that wait, and meanwhile the next session is
// read. People are told in the order of the source, whatever is done first.

const (
	// writtenAtOnce is how many sessions are being written; more gain little,
	// and each holds entries in memory.
	writtenAtOnce = 8
	// handedEntries and handedBytes bound how much the converter hands over at a
	// time, and handedAhead how often before it waits.
	handedEntries = 64
	handedBytes   = 1 << 20
	handedAhead   = 2
	// indexRoom is how much memory the index of what is imported may take before it
	// becomes a segment: few segments, which have to be merged seldom.
	indexRoom = 12 << 20
)

// writing is a session on its way into the store, or an item that could not be
// read.
type writing struct {
	id    string         // the tool's id of the session
	units []convert.Unit // that it is made of
	done  chan struct{}  // closed when the rest is final

	whole     func() (*convert.Session, error) // reads it from the beginning; nil: it is
	bookmarks map[string]convert.Bookmark      // of its units

	result  *Result            // nil: nothing is kept
	guest   bool               // the session is not the tool's own
	passed  string             // why it was passed over, "": it was not
	session tidemark.SessionID // that was passed over
	skipped []error
	err     error
}

// pipeline is the sessions that are being written, the oldest first.
type pipeline struct {
	*toolImport
	from   string
	cancel context.CancelCauseFunc
	queue  []*writing

	told func(tidemark.SessionID) // has a session that was written indexed
}

// all imports every session of a source. A converter that panics ends the import of
// that source with ErrInvalid, and no other: a file that nobody thought of must not keep
// out what all other tools have.
func (b *toolImport) all(ctx context.Context, p convert.Source, from string) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	q := &pipeline{toolImport: b, from: from, cancel: cancel, told: func(tidemark.SessionID) {}}
	if b.s != nil && !b.DryRun {
		var indexed func()
		q.told, indexed = b.s.IndexBeside(ctx, indexRoom)
		defer indexed()
	}
	defer func() {
		if r := recover(); r != nil {
			if err = q.report(ctx, 0); err != nil { // what was read before is whole
				err = q.stop(ctx, err)
			}
			err = errors.Join(err, broken(b.tool.Name, r))
		}
	}()
	for f, err := range b.tool.Import(ctx, p) {
		if err == nil && f.Unchanged {
			if b.same(1); b.ledger != nil && len(f.Units) > 0 {
				b.ledger.there(f.ForeignID, f.Units[0].Stamp)
			}
		} else if err == nil && b.Ignore != nil && b.Ignore(f) {
			b.Ignored++
		} else if err == nil {
			err = q.write(ctx, f)
		} else if isItem(err) || errors.Is(err, tidemark.ErrHeld) {
			q.add(&writing{err: err, done: closed()})
			err = q.report(ctx, writtenAtOnce)
		}
		if err != nil {
			return q.stop(ctx, err)
		}
	}
	if err := q.report(ctx, 0); err != nil {
		return q.stop(ctx, err)
	}
	return nil
}

// broken is that a converter panicked.
func broken(what string, why any) error {
	return tidemark.Invalidf("%s: it cannot be read, which is a fault of this program: %v", what, why)
}

func closed() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func (q *pipeline) add(w *writing) { q.queue = append(q.queue, w) }

// write starts to write a session, and reads it to its end. One that is written into
// another waits until all before it are there, and one whose title depends on another,
// until that one is.
func (q *pipeline) write(ctx context.Context, f *convert.Session) error {
	before := writtenAtOnce - 1
	for n, w := range q.queue {
		if w.id == f.ForeignID || w.id == f.Copied {
			before = min(before, len(q.queue)-1-n)
		}
	}
	if f.Fork != nil {
		before = 0
	}
	if err := q.report(ctx, before); err != nil {
		return err
	}
	if err := q.keepUnits(ctx); err != nil {
		return err
	}
	q.add(q.begin(ctx, f))
	return nil
}

// begin begins to write a session, and reads it to its end.
func (q *pipeline) begin(ctx context.Context, f *convert.Session) *writing {
	w := &writing{id: f.ForeignID, units: f.Units, whole: f.Whole, done: make(chan struct{})}
	handed, hand := handedOver(f, w.done, q.heard)
	go func() {
		defer close(w.done)
		own := q.alone(w)
		w.err = own.one(ctx, handed, q.from)
	}()
	hand()
	return w
}

// again writes a session whose bookmark does not fit, from the beginning.
func (q *pipeline) again(ctx context.Context, w *writing) *writing {
	f, err := w.whole()
	if err != nil {
		return &writing{id: w.id, err: err}
	}
	again := q.begin(ctx, f)
	<-again.done
	return again
}

// alone returns the import of one session: its clock is its own, and what it
// reports waits in w.
func (b *toolImport) alone(w *writing) *toolImport {
	own := newToolImport(b.Importer, b.tool)
	own.folder, own.root, own.reports = b.folder, b.root, w
	return own
}

// report waits for the oldest sessions until no more than so many are being
// written, and tells what became of them. The error is one that concerns more
// than the session.
func (q *pipeline) report(ctx context.Context, left int) error {
	for len(q.queue) > left {
		w := q.queue[0]
		<-w.done
		q.queue = q.queue[1:]
		if errors.Is(w.err, convert.ErrWhole) && w.whole != nil {
			w = q.again(ctx, w)
		}
		for _, err := range w.skipped {
			q.skip(err)
		}
		switch {
		case w.err == nil && w.result != nil:
			q.keep(*w.result)
			q.told(w.result.Session)
			if q.ledger != nil && len(w.skipped) == 0 {
				id := w.result.Session
				if w.guest {
					id = "" // it does not end when these files are gone
				}
				q.ledger.imported(w.id, w.units, id, w.bookmarks)
			}
		case w.err == nil:
			q.passOver(w)
		case errors.Is(w.err, tidemark.ErrHeld) && w.result != nil:
			q.Waiting++
			q.keep(*w.result)
		case isItem(w.err) || errors.Is(w.err, tidemark.ErrHeld):
			q.skip(w.err)
		default:
			return w.err
		}
		q.progress(len(q.Results)+q.Unchanged, "sessions")
	}
	return nil
}

// passOver counts a session that is not wanted here. Its files are not read again
// until they change, or it is restored.
func (q *pipeline) passOver(w *writing) {
	switch w.passed {
	case passedTrashed:
		q.Trashed++
	case passedPurged:
		q.Purged++
	default:
		return
	}
	if q.ledger != nil && len(w.skipped) == 0 {
		q.ledger.imported(w.id, w.units, w.session, nil)
	}
}

// keepUnits keeps in the ledger what was imported, once it is much.
func (q *pipeline) keepUnits(ctx context.Context) error {
	if q.ledger == nil || q.DryRun || len(q.ledger.done) < ledgerBatch {
		return nil
	}
	return q.ledger.keep(ctx)
}

// stop ends the import with an error. Sessions that were written before they
// heard of it are there, and are told of.
func (q *pipeline) stop(ctx context.Context, cause error) error {
	q.cancel(cause)
	for len(q.queue) > 0 {
		_ = q.report(ctx, 0) // the first error is the cause of the others
	}
	return cause
}

// handedOver returns a session whose entries are handed over by hand, which
// reads them from the converter and returns when all are read or done is closed.
// The session may be read elsewhere meanwhile. Heard is called as entries come.
func handedOver(f *convert.Session, done <-chan struct{}, heard func()) (handed *convert.Session, hand func()) {
	copied := *f
	copied.Workers = slices.Clone(f.Workers)
	var all []func() bool
	pass := func(entries iter.Seq2[convert.Entry, error]) iter.Seq2[convert.Entry, error] {
		if entries == nil {
			return nil
		}
		c := make(chan []readEntry, handedAhead)
		all = append(all, func() bool { return handOver(f.ForeignID, entries, c, done, heard) })
		return func(yield func(convert.Entry, error) bool) {
			for some := range c {
				for _, e := range some {
					if !yield(e.entry, e.err) {
						return
					}
				}
			}
		}
	}
	copied.Entries = pass(f.Entries)
	for i := range copied.Workers {
		copied.Workers[i].Entries = pass(f.Workers[i].Entries)
	}
	return &copied, func() {
		for _, one := range all {
			if !one() {
				return
			}
		}
	}
}

// readEntry is what a converter yields.
type readEntry struct {
	entry convert.Entry
	err   error
}

// handOver sends the entries of a session, several at a time, until done is closed. A
// converter that panics makes an error of that session.
func handOver(session string, entries iter.Seq2[convert.Entry, error], to chan<- []readEntry, done <-chan struct{}, heard func()) (sent bool) {
	defer close(to)
	var some []readEntry
	handed := 0
	defer func() {
		if r := recover(); r != nil {
			select {
			case to <- append(some, readEntry{err: broken("session "+session, r)}):
			case <-done:
			}
		}
	}()
	send := func() bool {
		if len(some) == 0 {
			return true
		}
		heard()
		select {
		case to <- some:
			some, handed = nil, 0
			return true
		case <-done:
			return false
		}
	}
	for e, err := range entries {
		some = append(some, readEntry{e, err})
		handed += size(e.Entry)
		if (len(some) >= handedEntries || handed >= handedBytes) && !send() {
			return false
		}
	}
	return send()
}
