package files

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// outcome is what entries of the journal make of the files, whatever state those were
// left in: the newest entry decides what a record is, and all of them together what
// stands in the logs.
type outcome struct {
	records map[tidemark.Key][]byte // nil: there is none
	logs    map[tidemark.Key][]entryAppend
}

func outcomeOf(all []*entry) *outcome {
	o := &outcome{make(map[tidemark.Key][]byte), make(map[tidemark.Key][]entryAppend)}
	cancelled := make(map[int64]bool)
	for _, e := range all {
		if e.Cancels > 0 {
			cancelled[e.Cancels] = true
		}
	}
	for _, e := range all {
		if cancelled[e.number] {
			continue
		}
		for _, p := range e.Puts {
			o.records[p.Key] = p.file
		}
		for _, k := range e.Deletes {
			o.records[k] = nil
		}
		for _, a := range e.Appends {
			o.logs[a.Key] = append(o.logs[a.Key], a)
		}
	}
	return o
}

// replay puts into the files what is not in them, and returns whose that was. The caller
// holds all locks. It may be cut off anywhere and run again.
func (b *Backend) replay(o *outcome) (redone []tidemark.Key, err error) {
	for _, key := range inOrderOf(o.logs) {
		wrote, err := b.replayLog(key, o.logs[key])
		if err != nil {
			return nil, err
		}
		if wrote {
			redone = append(redone, key)
			b.keys.forget(key)
			b.list.forget(key)
		}
		b.grown.wake(key)
	}
	for _, key := range inOrderOf(o.records) {
		wrote, err := b.replayRecord(key, o.records[key])
		if err != nil {
			return nil, err
		}
		if wrote {
			redone = append(redone, key)
		}
	}
	return redone, nil
}

// inOrderOf returns keys in the order of their kinds and ids.
func inOrderOf[V any](of map[tidemark.Key]V) []tidemark.Key {
	return slices.SortedFunc(maps.Keys(of), func(a, b tidemark.Key) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.ID, b.ID))
	})
}

// replayLog writes lines where they belong. It does not look for the end of the log:
// what is there of them may be torn.
func (b *Backend) replayLog(key tidemark.Key, spans []entryAppend) (wrote bool, err error) {
	name := logPath(key)
	f, err := b.fs.OpenFile(name, os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) {
		if spans[0].At > 0 {
			return false, nil // it was removed by hand; reading reports that
		}
		if err := durable.MkdirAll(b.fs, path.Dir(name)); err != nil {
			return false, err
		}
		f, err = b.fs.OpenFile(name, os.O_RDWR|os.O_CREATE)
		wrote = true
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	for _, s := range spans {
		info, err := f.Stat()
		if err != nil {
			return false, err
		}
		if info.Size < s.At {
			break // cut off by hand; reading reports that
		}
		there := make([]byte, len(s.lines))
		if n, err := f.ReadAt(there, s.At); err != nil && err != io.EOF {
			return false, err
		} else if bytes.Equal(there[:n], s.lines) {
			continue
		}
		if _, err := f.WriteAt(s.lines, s.At); err != nil {
			return false, err
		}
		wrote = true
	}
	return wrote, nil
}

func (b *Backend) replayRecord(key tidemark.Key, file []byte) (wrote bool, err error) {
	if done, err := b.isThere(key, file); err != nil || done {
		return false, err
	}
	b.handles.forgetRecord(key)
	name := recordPath(key)
	if file == nil {
		return true, b.fs.Remove(name)
	}
	if err := durable.MkdirAll(b.fs, path.Dir(name)); err != nil {
		return false, err
	}
	tmp := b.tmpName()
	if err := durable.Write(b.fs, tmp, file); err != nil {
		return false, err
	}
	return true, b.fs.Rename(tmp, name)
}

// isThere reports whether a record is what the journal says, in whatever form.
func (b *Backend) isThere(key tidemark.Key, file []byte) (bool, error) {
	have, sound, err := b.readRecord(key)
	if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
		return false, err
	}
	if file == nil {
		return err == nil && have.Version == 0, nil
	}
	want, _, werr := parseRecord(file, key)
	return sound && err == nil && (werr != nil || have.Version == want.Version && have.Batch == want.Batch && have.Sum == want.Sum), nil
}

// decided returns what the journal says: nil where the store has none.
func (b *Backend) decided() (*outcome, error) {
	if b.marked.Load() == nil {
		return nil, nil
	}
	all, err := b.entries()
	if err != nil {
		return nil, err
	}
	return outcomeOf(all), nil
}

// undone returns what is not yet, or no longer, as the journal says. A writer may be at
// it just now.
func (b *Backend) undone() (keys []tidemark.Key, err error) {
	o, err := b.decided()
	if err != nil || o == nil {
		return nil, err
	}
	for _, key := range inOrderOf(o.records) {
		if there, err := b.isThere(key, o.records[key]); err != nil {
			return nil, err
		} else if !there {
			keys = append(keys, key)
		}
	}
	for _, key := range inOrderOf(o.logs) {
		last := o.logs[key][len(o.logs[key])-1]
		info, err := b.fs.Stat(logPath(key))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if info.Size < last.At+int64(len(last.lines)) {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// syncAll makes durable what entries changed. Files may have been changed again
// meanwhile, or be gone: later entries say so.
func (b *Backend) syncAll(o *outcome) error {
	var dirs []string
	in := func(name string) {
		if dir := path.Dir(name); !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	one := func(name string) error {
		in(name)
		f, err := b.fs.OpenFile(name, os.O_RDWR)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer f.Close()
		return durable.SyncFile(f, name)
	}
	for _, key := range inOrderOf(o.logs) {
		if err := one(logPath(key)); err != nil {
			return err
		}
	}
	for _, key := range inOrderOf(o.records) {
		if o.records[key] == nil {
			in(recordPath(key))
		} else if err := one(recordPath(key)); err != nil {
			return err
		}
	}
	for _, dir := range dirs {
		if err := durable.SyncDir(b.fs, dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// emptyJournal syncs what the batches in the journal changed, and leaves nothing of them
// in it. The caller holds all locks, and no flag is set: they are carried out.
func (b *Backend) emptyJournal() error {
	all, err := b.entries()
	if err != nil {
		return err
	}
	if err := b.syncAll(outcomeOf(all)); err != nil {
		return err
	}
	return b.journal.wipe()
}

// finishJournal carries out what is in the journal, syncs it, and takes the mark of the
// store away. The caller holds all locks.
func (b *Backend) finishJournal() (redone []tidemark.Key, err error) {
	o, err := b.decided()
	if err != nil || o == nil {
		return nil, err
	}
	if redone, err = b.replay(o); err != nil {
		return nil, err
	}
	if err := b.syncAll(o); err != nil {
		return nil, err
	}
	if err := b.journal.wipe(); err != nil {
		return nil, err
	}
	return redone, b.unmark()
}

// syncBehind syncs the batches that are in one file of the journal, while the other one
// takes new entries. Nobody waits for it but for a moment, while the files are changed.
func (b *Backend) syncBehind(ctx context.Context) error {
	j := &b.journal
	j.turning.Lock()
	defer j.turning.Unlock()
	j.mu.Lock()
	err := j.open()
	j.mu.Unlock()
	if err != nil {
		return err
	}
	if err := waitFor(ctx, j.turn, turnLock); err != nil {
		return err
	}
	defer j.turn.Unlock()
	chain, all, err := b.turnJournal(ctx)
	if err != nil || len(all) == 0 {
		return err
	}
	if err := b.syncAll(outcomeOf(all)); err != nil {
		return err
	}
	return j.letGo(chain)
}

// letGo removes the entries of the file that is not the one of this chain, unless
// somebody emptied the journal meanwhile. That is not synced: who finds the entries
// again finds all of them, and they say nothing that is not so, or that later ones do
// not say better.
func (j *journal) letGo(chain string) error {
	if err := j.lock(); err != nil {
		return err
	}
	defer j.unlock()
	p, err := j.readPlace()
	if err != nil || p.Chain != chain {
		return err
	}
	_, err = j.files[1-p.File].WriteAt(make([]byte, blankBytes), 0)
	return err
}

// turnJournal lets the other file take the next entries, as a chain of their own, and
// returns those of the file that took them so far. When it returns, all of them are
// carried out.
func (b *Backend) turnJournal(ctx context.Context) (chain string, all []*entry, err error) {
	release, err := b.takeAll(ctx)
	if err != nil {
		return "", nil, err
	}
	defer release()
	if b.marked.Load() == nil {
		return "", nil, nil
	}
	dead, err := b.flagged(everyStripe)
	if err == nil && dead {
		return "", nil, b.recovered()
	}
	if err != nil {
		return "", nil, err
	}
	j := &b.journal
	if err := j.lock(); err != nil {
		return "", nil, err
	}
	defer j.unlock()
	p, err := j.readPlace()
	if err != nil {
		return "", nil, err
	}
	of, err := b.entriesByFile()
	if err != nil || p.End == 0 && len(of[1-p.File]) == 0 {
		return "", nil, err
	}
	if len(of[1-p.File]) > 0 { // whoever was to sync these died
		if err := b.syncAll(outcomeOf(of[1-p.File])); err != nil {
			return "", nil, err
		}
	}
	info, err := j.files[1-p.File].Stat()
	if err != nil {
		return "", nil, err
	}
	next := place{File: 1 - p.File, Chain: newChain(), Last: p.Last, Size: info.Size, Fresh: true}
	return next.Chain, of[p.File], j.writePlace(next)
}

// syncAfter is how long batches wait in the journal at most, while nobody needs the room.
const syncAfter = time.Second

// syncSoon lets the batches in the journal be synced in a while, or at once where the
// room for more of them gets scarce. The caller holds the journal.
func (b *Backend) syncSoon(scarce bool) {
	j := &b.journal
	switch {
	case b.set.syncAfter == 0:
		return
	case j.waits && scarce:
		j.timer.Reset(0)
		return
	case j.waits:
		return
	}
	j.waits = true
	j.timer = time.AfterFunc(b.set.syncAfter, func() {
		j.mu.Lock()
		j.waits = false
		j.mu.Unlock()
		if b.begin(context.Background()) != nil {
			return
		}
		defer b.commits.Done()
		if b.writable() == nil {
			b.writeError(b.syncBehind(context.Background()))
		}
	})
}

// journaled is added to the format of a store while there may be entries in its journal
// that are not yet in its files, so that a program that does not know the journal leaves
// the store alone.
const journaled = 128

// journalFrom is how many batches of several steps a process carries out before it
// begins to use the journal: marking the store and taking the mark away costs as much as
// some of them.
const journalFrom = 3

// usesJournal reports whether a batch goes through the journal, and marks the store
// where that is due.
func (c *commit) usesJournal() (bool, error) {
	if needsEmptyJournal(c.batch) {
		return false, nil
	}
	b := c.b
	if b.marked.Load() != nil {
		return true, nil
	}
	if b.steps.Add(1) <= b.set.journalFrom {
		return false, nil
	}
	err := b.mark()
	if durable.IsFull(err) {
		return false, nil
	}
	return err == nil, err
}

// needsEmptyJournal says which batches are carried out by an intent of their own, after
// everything in the journal was synced: those that destroy something, which must not be
// in the journal either, and those that put another file in the place of a log.
func needsEmptyJournal(b *tidemark.Batch) bool { return len(b.Drops)+len(b.Trims)+len(b.Fills) > 0 }

// mark says in tidemark.json that the journal is used, durably. The caller has a lock.
func (b *Backend) mark() error {
	if err := b.journal.lock(); err != nil {
		return err
	}
	defer b.journal.unlock()
	b.about.Lock()
	defer b.about.Unlock()
	a, err := b.readAbout() // another process may have done it
	if err != nil || a.Boot != "" {
		return err
	}
	p := place{Chain: newChain(), Fresh: true}
	for _, f := range b.journal.files {
		info, err := f.Stat()
		if err != nil {
			return err
		}
		if p.Size = info.Size; p.Size < b.set.journalStep {
			if _, err := f.WriteAt(make([]byte, b.set.journalStep), 0); err != nil {
				return err
			}
			p.Size = b.set.journalStep
		}
	}
	if err := b.journal.writePlace(p); err != nil {
		return err
	}
	a.Boot = b.boot()
	if err := b.tell(a); err != nil {
		return err
	}
	b.marked.Store(a.mark())
	b.marks.Store(true)
	return nil
}

// unmark takes the mark away. The journal is empty, and the caller has all locks.
func (b *Backend) unmark() error {
	b.about.Lock()
	defer b.about.Unlock()
	a, err := b.readAbout()
	if err != nil || a.Boot == "" {
		return err
	}
	a.Boot = ""
	if err := b.tell(a); err != nil {
		return err
	}
	b.marked.Store(nil)
	return nil
}

// leaveJournal syncs what is in the journal when a process ends that marked the store. Whatever
// keeps it from that, the next one to open the store can do it.
func (b *Backend) leaveJournal() {
	if !b.marks.Load() || b.writable() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	release, err := b.takeAll(ctx)
	if err != nil {
		return
	}
	defer release()
	if b.marked.Load() == nil {
		return
	}
	if dead, err := b.flagged(everyStripe); err != nil || dead {
		return
	}
	if b.emptyJournal() == nil {
		b.unmark()
	}
}
