package files

import (
	"context"
	"encoding/hex"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// Commit carries out a batch under the locks of its keys. A batch of one part
// is one change of one file; one of several parts is first written whole into
// an intent, which recovery completes.
func (b *Backend) Commit(ctx context.Context, batch tidemark.Batch) (tidemark.Receipt, error) {
	if err := b.begin(ctx); err != nil {
		return tidemark.Receipt{}, err
	}
	defer b.commits.Done()
	if err := batch.Check(); err != nil {
		return tidemark.Receipt{}, err
	}
	if err := checkNames(&batch); err != nil {
		return tidemark.Receipt{}, err
	}
	if err := b.writable(); err != nil {
		return tidemark.Receipt{}, err
	}
	for {
		receipt, err := b.commit(ctx, &batch)
		if err == nil {
			b.countChanges(&batch)
		}
		if err = b.writeError(err); errors.Is(err, errJournalFull) {
			if err = b.writeError(b.syncBehind(ctx)); err == nil {
				continue
			}
		}
		return receipt, err
	}
}

func (b *Backend) commit(ctx context.Context, batch *tidemark.Batch) (tidemark.Receipt, error) {
	which, err := b.lock(ctx, batch)
	if err != nil {
		return tidemark.Receipt{}, err
	}
	defer b.release(which)
	c := commit{b: b, batch: batch, which: which}
	defer c.close()
	return c.run()
}

// writable returns why nothing may be written, or nil.
func (b *Backend) writable() error {
	if b.readOnly {
		return tidemark.Errorf(tidemark.ErrDenied, "store %s: is open for reading only", b.dir)
	}
	if broken := b.broken.Load(); broken != nil {
		return tidemark.Storagef("store %s: keeps nothing more until it is opened again: %w", b.dir, broken.err)
	}
	return nil
}

func checkNames(batch *tidemark.Batch) error {
	var err error
	check := func(k tidemark.Key) { err = errors.Join(err, checkName(k)) }
	for i := range batch.Require {
		check(batch.Require[i].Key)
	}
	for i := range batch.Puts {
		check(batch.Puts[i].Key)
	}
	for i := range batch.Deletes {
		check(batch.Deletes[i].Key)
	}
	for i := range batch.Appends {
		check(batch.Appends[i].Log)
	}
	for _, k := range batch.Drops {
		check(k)
	}
	for i := range batch.Trims {
		check(batch.Trims[i].Log)
	}
	for i := range batch.Fills {
		check(batch.Fills[i].Log)
	}
	return err
}

// writeError gives the error of a commit its text and its sentinel. After a
// failed sync, or a step that could not be undone, nothing is acknowledged any
// more: what the disk holds is unknown until the store is opened again.
func (b *Backend) writeError(err error) error {
	var (
		sync  *durable.SyncError
		stuck *stuckError
	)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &sync), errors.As(err, &stuck):
		b.broken.CompareAndSwap(nil, &brokenError{err})
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, tidemark.ErrExists), errors.Is(err, tidemark.ErrConflict), errors.Is(err, tidemark.ErrInvalid),
		errors.Is(err, errJournalFull), errors.Is(err, tidemark.ErrCorrupt), errors.Is(err, tidemark.ErrStorage), errors.Is(err, tidemark.ErrUnsupported):
		return err
	case errors.Is(err, fs.ErrPermission):
		return denied(err)
	}
	return tidemark.Storagef("store %s: %w", b.dir, err)
}

// commit is one batch in progress.
type commit struct {
	b       *Backend
	batch   *tidemark.Batch
	which   []int
	targets []*target // of batch.Appends
	floors  []int64   // of the logs of batch.Puts
	done    bool
}

func (c *commit) close() {
	for _, t := range c.targets {
		if c.done {
			c.b.handles.keepLog(t)
		} else {
			t.close()
		}
	}
}

func (c *commit) run() (tidemark.Receipt, error) {
	for i := range c.batch.Appends {
		t, err := c.b.target(c.batch.Appends[i].Log)
		if err != nil {
			return tidemark.Receipt{}, err
		}
		c.targets = append(c.targets, t)
	}
	var known []tidemark.Duplicate
	for i, t := range c.targets {
		if t.st.HidesKeys() {
			return tidemark.Receipt{}, t.st.Head.Appends(c.batch.Appends[i])
		}
		k, err := c.b.duplicates(t, c.batch.Appends[i].Lines)
		if err != nil {
			return tidemark.Receipt{}, err
		}
		known = append(known, k...)
	}
	if len(known) > 0 {
		return tidemark.Receipt{Duplicates: known}, tidemark.Errorf(tidemark.ErrExists, "%s: line %d already has the key %q", known[0].Log, known[0].Seq, known[0].Key)
	}
	if err := c.checkStanding(); err != nil {
		return tidemark.Receipt{}, err
	}
	if err := c.carryOut(); err != nil {
		return tidemark.Receipt{}, err
	}
	c.done = true
	for _, t := range c.targets {
		c.b.grown.wake(t.log)
	}
	return tidemark.Receipt{}, nil
}

// checkStanding checks every version and length that the batch names.
func (c *commit) checkStanding() error {
	for _, n := range c.batch.Require {
		have, err := c.b.required(n.Key)
		if err != nil {
			return err
		}
		if have != n.Version {
			return atVersion(n.Key, have, n.Version)
		}
	}
	for i := range c.batch.Puts {
		floor, err := c.checkVersion(c.batch.Puts[i].Key, c.batch.Replaces(c.batch.Puts[i]))
		if err != nil {
			return err
		}
		c.floors = append(c.floors, c.raised(c.batch.Puts[i].Key, floor))
	}
	for _, n := range c.batch.Deletes {
		if _, err := c.checkVersion(n.Key, n.Version); err != nil {
			return err
		}
	}
	for i, t := range c.targets {
		if err := t.st.Head.Appends(c.batch.Appends[i]); err != nil {
			return err
		}
	}
	return c.checkTrims()
}

// checkVersion checks the version of a record, and returns the floor of its log.
func (c *commit) checkVersion(key tidemark.Key, want int64) (floor int64, err error) {
	r, sound, err := c.b.readRecord(key)
	if err != nil && !sound {
		return 0, err
	}
	if r.Version != want {
		return 0, atVersion(key, r.Version, want)
	}
	return r.Head.Length, nil
}

func atVersion(key tidemark.Key, have, want int64) error {
	return tidemark.Conflictf("%s: is at version %d, not %d", key, have, want)
}

// carryOut changes the store.
func (c *commit) carryOut() error {
	b := c.batch
	parts := len(b.Puts) + len(b.Deletes) + len(b.Appends) + len(b.Drops)
	if logs := len(b.Trims) + len(b.Fills); logs > 0 {
		parts += logs + 1 // a log whose file is replaced takes several steps
	}
	switch {
	case parts == 0:
		return nil
	case parts == 1 && len(b.Appends) == 1 && c.targets[0].f != nil:
		return c.appendAlone()
	case parts == 1 && len(b.Appends) == 1:
		return c.flagged(c.appendAlone)
	}
	journal, err := c.usesJournal()
	frees := b.FreesRoom() && len(b.Appends) == 0 // the lease of a writer does not
	switch {
	case err != nil:
		return err
	case journal && frees:
		return c.b.withReserve(c.applyWithJournal)
	case journal:
		return c.applyWithJournal()
	case parts > 1 && frees:
		return c.b.withReserve(c.applyWithIntent)
	case parts > 1:
		return c.applyWithIntent()
	}
	if len(b.Drops) == 1 {
		// A log that is overwritten and removed takes several steps, which the intent
		// says to complete. Where there is no room for that, it goes without.
		if err := c.b.withReserve(c.applyWithIntent); !durable.IsFull(err) {
			return err
		}
	}
	return c.flagged(func() error {
		switch {
		case len(b.Puts) == 1 && b.FreesRoom():
			return c.b.withReserve(c.putAlone)
		case len(b.Puts) == 1:
			return c.putAlone()
		case len(b.Deletes) == 1:
			name := recordPath(b.Deletes[0].Key)
			if err := c.b.fs.Remove(name); err != nil {
				return err
			}
			return durable.SyncDir(c.b.fs, path.Dir(name))
		}
		return c.dropAlone(b.Drops[0])
	})
}

// flagged runs work that takes several steps, with the flags set meanwhile. They
// stay set when it is not known how far it got.
func (c *commit) flagged(work func() error) error {
	if err := c.b.setFlags(c.which, flagSet); err != nil {
		return err
	}
	err := work()
	var (
		sync  *durable.SyncError
		stuck *stuckError
	)
	if !errors.As(err, &sync) && !errors.As(err, &stuck) {
		c.b.setFlags(c.which, flagClear)
	}
	return err
}

// appendAlone is the common path: one write and one sync of the log. Only a new
// log also needs its name synced, and that before a head may mention it.
func (c *commit) appendAlone() error {
	t := c.targets[0]
	before := t.st
	data := encodeLines(t.lines[:0], c.batch, 0)
	if cap(data) <= keptRoom {
		t.lines = data
	}
	if err := t.write(data); err != nil {
		return err
	}
	if t.made {
		if err := durable.SyncDir(c.b.fs, path.Dir(logPath(t.log))); err != nil {
			return err
		}
	}
	c.appended(0, before)
	return nil
}

// keptRoom is how much memory for lines stays with an open log: enough for messages.
const keptRoom = 8 << 10

// encodeLines adds the lines of the i-th append of a batch as they stand in the file.
func encodeLines(data []byte, batch *tidemark.Batch, i int) []byte {
	lines, at := batch.Appends[i].Lines, batch.HeadAt(batch.Appends[i])
	size := 0
	for i := range lines {
		size += len(lines[i].Body) + 384
	}
	data = slices.Grow(data, size)
	var l line
	for j := range lines {
		l.Line, l.batchAt, l.part, l.parts = batch.StampLine(lines[j]), at, int64(j+1), int64(len(lines))
		if batch.Adopt && len(lines) > 1 {
			l.by = batch.ID
		}
		data = appendLine(data, batch.Appends[i].Log, &l)
	}
	return data
}

// appended brings the head and the key cache up to date.
func (c *commit) appended(i int, before state) {
	t, lines := c.targets[i], c.batch.Appends[i].Lines
	last := &lines[len(lines)-1]
	t.st.Head = tidemark.Head{Length: last.Seq, UpdatedAt: c.batch.HeadAt(c.batch.Appends[i]), Position: last.Position, Chain: last.Chain, Trimmed: t.st.Trimmed}
	t.writeHead()
	c.b.appended(t, before, lines)
}

func (c *commit) putAlone() error {
	r := c.batch.Stamp(c.batch.Puts[0])
	r.Head = tidemark.Head{Length: c.floors[0]}
	name := recordPath(r.Key)
	if err := durable.MkdirAll(c.b.fs, path.Dir(name)); err != nil {
		return err
	}
	return durable.Replace(c.b.fs, c.b.tmpName(), name, appendRecord(nil, &r))
}

// dropAlone drops a log whose record stays and must not expect it any more. On a
// full disk the record can be written only in the space that the log had.
func (c *commit) dropAlone(log tidemark.Key) error {
	full := c.b.setFloor(log, 0)
	if full != nil && !durable.IsFull(full) {
		return full
	}
	if err := c.b.drop(log); err != nil || full == nil {
		return err
	}
	return c.b.setFloor(log, 0)
}

// drop removes a log. Its head goes first and durably: a head that came back
// after a power cut would make a new log of that name look too short.
func (b *Backend) drop(log tidemark.Key) error {
	for _, name := range []string{headPath(log), logPath(log)} {
		err := b.wipe(name)
		if err == nil {
			err = b.fs.Remove(name)
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = durable.SyncDir(b.fs, path.Dir(name))
		}
		if err != nil {
			return err
		}
	}
	b.keys.forget(log)
	if t := b.handles.takeLog(log); t != nil {
		t.close() // frees its disk space
	}
	return b.dropAside(log)
}

// dropAside removes what was set aside of a log: dropping it means that its
// content has to go.
func (b *Backend) dropAside(log tidemark.Key) error {
	dir := path.Join(tornDir, log.Kind)
	names, err := b.fs.Names(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	removed := false
	for _, name := range names {
		mark, ok := strings.CutPrefix(name, fileName(log.ID)+".")
		mark = strings.TrimSuffix(mark, ".head")
		if id, err := hex.DecodeString(mark); !ok || err != nil || len(id) != asideBytes {
			continue
		}
		if err := b.wipe(path.Join(dir, name)); err != nil {
			return err
		}
		if err := b.fs.Remove(path.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		removed = true
	}
	if !removed {
		return nil
	}
	return durable.SyncDir(b.fs, dir)
}
