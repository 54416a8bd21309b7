package archive

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// Sizes at which a batch is committed: enough that the syncs of a disk do not
// matter, little enough to hold in memory. A backend with one file per log opens
// all logs of a batch at once.
const (
	maxBatchBytes = 4 << 20
	maxBatchPuts  = 2000
	maxBatchLogs  = 100
)

// adopter copies items into a Backend. What is already there and identical is
// skipped, so that an interrupted run can be repeated; what is there and differs
// is ErrConflict, and nothing is ever overwritten.
type adopter struct {
	ctx  context.Context
	into tidemark.Backend
	dry  bool // commits nothing

	change func(tidemark.Record) (tidemark.Record, error) // nil: records stay as they are
	taking func(tidemark.Key) error                       // nil: nobody wants to know

	batch   tidemark.Batch
	size    int
	appends map[tidemark.Key]int // where a log is in batch.Appends
	puts    map[tidemark.Key]bool
	old     []tidemark.Precondition // records that batch.Puts replace

	log    tidemark.Key           // the log that was appended to last
	length int64                  // and its length
	grown  map[tidemark.Key]int64 // in a dry run, the length that logs would have
}

func newAdopter(ctx context.Context, into tidemark.Backend, dry bool) *adopter {
	a := &adopter{ctx: ctx, into: into, dry: dry}
	if dry {
		a.grown = make(map[tidemark.Key]int64)
	}
	a.begin()
	return a
}

func (a *adopter) begin() {
	a.batch = tidemark.Batch{Adopt: true}
	a.appends, a.puts = make(map[tidemark.Key]int), make(map[tidemark.Key]bool)
	a.old, a.size = nil, 0
}

// take adopts an item. No program puts what is derived into an archive, and nobody
// else's search index is believed.
func (a *adopter) take(it *item) error {
	switch {
	case it.kind == recordItem && !it.record.Derived():
		return a.record(it.record, it.was)
	case it.kind == linesItem && !it.lines.Log.Derived():
		return a.lines(it.lines)
	case it.kind == goneItem && !it.kept.Derived():
		return a.gone(it.kept, it.gone)
	}
	return nil
}

// get returns what the target has under a key; version 0 and a head of length 0
// when there is nothing.
func (a *adopter) get(k tidemark.Key) (tidemark.Record, error) {
	r, err := a.into.Get(a.ctx, k)
	if errors.Is(err, tidemark.ErrNotFound) || r.Owner != "" { // what another owner shares is not the target's
		return tidemark.Record{Key: k}, nil
	}
	return r, err
}

func (a *adopter) record(r tidemark.Record, was Mark) error {
	if a.change != nil {
		var err error
		if r, err = a.change(r); err != nil || r.Kind == "" {
			return err
		}
	}
	if a.puts[r.Key] {
		if err := a.flush(); err != nil {
			return err
		}
	}
	have, err := a.get(r.Key)
	if err != nil {
		return err
	}
	if have.Version > 0 {
		switch mark := markOf(&have); {
		case mark == markOf(&r) && bytes.Equal(have.Body, r.Body):
			return nil
		case mark != was && r.Kind == keyringKind:
			return tidemark.Conflictf("%s: the target is sealed with other keys than what comes into it", r.Key)
		case mark != was:
			return tidemark.Conflictf("%s: the target has another one at version %d, and what comes is at version %d", r.Key, have.Version, r.Version)
		}
		a.old = append(a.old, tidemark.Precondition{Key: r.Key, Version: have.Version})
	}
	r.Head = tidemark.Head{}
	a.batch.Puts = append(a.batch.Puts, r)
	if r.Kind == keyringKind {
		a.batch.Require = append(a.batch.Require, tidemark.Precondition{Key: tidemark.PlainMark()})
	}
	a.puts[r.Key] = true
	a.size += len(r.Body) + 256
	if a.full() || r.Kind == keyringKind {
		return a.flush()
	}
	return nil
}

func (a *adopter) full() bool {
	return a.size >= maxBatchBytes || len(a.batch.Puts) >= maxBatchPuts || len(a.batch.Appends) >= maxBatchLogs
}

// lengthOf returns the length of a log, including lines that wait to be
// committed.
func (a *adopter) lengthOf(log tidemark.Key) (int64, error) {
	if i, ok := a.appends[log]; ok {
		lines := a.batch.Appends[i].Lines
		return lines[len(lines)-1].Seq, nil
	}
	if n, ok := a.grown[log]; ok {
		return n, nil
	}
	if log == a.log {
		return a.length, nil
	}
	r, err := a.get(log)
	return r.Head.Length, err
}

func (a *adopter) lines(run tidemark.Append) error {
	length, err := a.lengthOf(run.Log)
	if err != nil {
		return err
	}
	first, last := run.Lines[0].Seq, run.Lines[len(run.Lines)-1].Seq
	if first > length+1 {
		return tidemark.Conflictf("%s: the target has %d lines, and line %d comes next: it lacks what came before", run.Log, length, first)
	}
	if first <= length {
		if err := a.flush(); err != nil {
			return err
		}
		if err := a.same(run, min(last, length)); err != nil {
			return err
		}
		a.log, a.length = run.Log, length
		if last <= length {
			return nil
		}
		run.Lines = run.Lines[length-first+1:]
	}
	if i, ok := a.appends[run.Log]; ok && len(a.batch.Appends[i].Lines)+len(run.Lines) > tidemark.KeyWindow {
		// A key may be repeated after that many lines, but not within one
		// append.
		if err := a.flush(); err != nil {
			return err
		}
	}
	if i, ok := a.appends[run.Log]; ok {
		a.batch.Appends[i].Lines = append(a.batch.Appends[i].Lines, run.Lines...)
		a.batch.Appends[i].At = run.At
	} else {
		a.appends[run.Log] = len(a.batch.Appends)
		a.batch.Appends = append(a.batch.Appends, run)
	}
	for i := range run.Lines {
		a.size += lineBytes(&run.Lines[i])
	}
	if a.full() {
		return a.flush()
	}
	return nil
}

// same compares incoming lines with those that are there, up to last.
func (a *adopter) same(run tidemark.Append, last int64) error {
	if a.dry {
		if have, err := a.get(run.Log); err != nil || have.Head.Length < last {
			return err // a dry run has not written a part of it
		}
	}
	i := 0
	for have, err := range a.into.Lines(a.ctx, run.Log, tidemark.Span{From: run.Lines[0].Seq, To: last}) {
		if err != nil {
			return err
		}
		if i == len(run.Lines) || !sameLine(&have, &run.Lines[i]) {
			return tidemark.Conflictf("%s: line %d of the target is another one than what comes", run.Log, have.Seq)
		}
		i++
	}
	if want := last - run.Lines[0].Seq + 1; int64(i) < want {
		return tidemark.Conflictf("%s: the target got shorter meanwhile", run.Log)
	}
	return nil
}

// sameLine compares two lines of one log. The sums cover everything but the
// batch; the bodies are at hand anyway.
func sameLine(a, b *tidemark.Line) bool {
	return a.Seq == b.Seq && a.Sum == b.Sum && a.Batch == b.Batch && bytes.Equal(a.Body, b.Body)
}

// gone removes what the followed store no longer has, if the target has the
// same.
func (a *adopter) gone(k Kept, what byte) error {
	if err := a.flush(); err != nil {
		return err
	}
	have, err := a.get(k.Key)
	if err != nil {
		return err
	}
	var b tidemark.Batch
	if what&goneRecord != 0 && have.Version > 0 {
		if markOf(&have) != k.Mark {
			return tidemark.Conflictf("%s: is to be taken away, and the target has another one", k.Key)
		}
		b.Deletes = append(b.Deletes, tidemark.Precondition{Key: k.Key, Version: have.Version})
	}
	if what&goneLog != 0 && have.Head.Length > 0 {
		same, err := a.ends(k, have.Head.Length)
		switch {
		case err != nil:
			return err
		case same:
			b.Drops = append(b.Drops, k.Key)
		case what&goneAnew == 0:
			return tidemark.Conflictf("%s: the log is to be taken away, and the target has another one", k.Key)
		}
		// A log that was begun again may have been begun again here before: the
		// lines tell.
	}
	if a.dry {
		if len(b.Drops) > 0 {
			a.grown[k.Key] = 0
		}
		return nil
	}
	if a.taking != nil && len(b.Deletes)+len(b.Drops) > 0 {
		if err := a.taking(k.Key); err != nil {
			return err
		}
	}
	a.log = tidemark.Key{}
	return a.commit(b)
}

// ends reports whether the log of the target ends as k says.
func (a *adopter) ends(k Kept, length int64) (bool, error) {
	if length != k.Length {
		return false, nil
	}
	for l, err := range a.into.Lines(a.ctx, k.Key, tidemark.Span{From: length, To: length}) {
		return err == nil && l.Sum == k.Tail, err
	}
	return false, nil
}

// flush commits what waits. A record cannot be adopted over an existing one, so
// those that are replaced are deleted right before; a run killed in between is
// repeated.
func (a *adopter) flush() error {
	if len(a.batch.Puts)+len(a.batch.Appends) == 0 {
		return nil
	}
	for _, run := range a.batch.Appends {
		a.log, a.length = run.Log, run.Lines[len(run.Lines)-1].Seq
		if a.dry {
			a.grown[a.log] = a.length
		}
	}
	err := a.commit(tidemark.Batch{Deletes: a.old})
	if err == nil {
		err = a.commit(a.batch)
	}
	a.begin()
	return err
}

func (a *adopter) commit(b tidemark.Batch) error {
	if a.dry || len(b.Puts)+len(b.Appends)+len(b.Deletes)+len(b.Drops) == 0 {
		return nil
	}
	b.ID, b.At = tidemark.NewBatchID(), time.Now().UTC().Truncate(time.Microsecond)
	_, err := a.into.Commit(a.ctx, b)
	return err
}
