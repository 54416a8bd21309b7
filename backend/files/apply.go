package files

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"path"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

func (b *Backend) tmpName() string { return tmpDir + "/" + randomName() }

func randomName() string {
	var id [8]byte
	rand.Read(id[:])
	return hex.EncodeToString(id[:])
}

// applyWithIntent carries out a batch of several parts. Once the intent and its name are
// synced, the batch will happen, whatever crashes.
func (c *commit) applyWithIntent() error {
	in := intentOf(c.batch, c.floors)
	data, err := in.encode()
	if err != nil {
		return err
	}
	return c.flagged(func() error {
		name := intentsDir + "/" + randomName() + ".json"
		if err := durable.Create(c.b.fs, name, data); err != nil {
			return err
		}
		if err := durable.SyncDir(c.b.fs, intentsDir); err != nil {
			return err
		}
		a := applying{b: c.b, in: in, targets: c.targets}
		if err := a.run(); err != nil {
			return a.undo(name, err)
		}
		for i := range c.targets {
			c.appended(i, a.before[i])
		}
		return c.b.forgetIntent(name)
	})
}

// applyWithJournal carries out a batch without syncing the files that it changes: once its
// entry in the journal is durable, it will happen, whatever crashes. What may fail for
// lack of space and is not seen is done before.
func (c *commit) applyWithJournal() error {
	e := c.entryOf()
	return c.flagged(func() error {
		a := journaling{b: c.b, e: e, targets: c.targets}
		if err := a.stage(); err != nil {
			return errors.Join(err, a.unstage())
		}
		if err := c.b.journal.write(e); err != nil {
			return errors.Join(err, a.unstage())
		}
		if err := a.run(); err != nil {
			return a.undo(err)
		}
		for i := range c.targets {
			c.appended(i, a.before[i])
		}
		return nil
	})
}

// journaling carries out an entry of the journal.
type journaling struct {
	b       *Backend
	e       *entry
	targets []*target
	before  []state // of the targets that got lines
	staged  []staged
	named   bool // names began to change: no undo from here on
}

// stage writes the files of records under other names.
func (a *journaling) stage() error {
	for _, p := range a.e.Puts {
		s := staged{a.b.tmpName(), recordPath(p.Key)}
		if err := durable.MkdirAll(a.b.fs, path.Dir(s.name)); err != nil {
			return err
		}
		if err := durable.Write(a.b.fs, s.tmp, p.file); err != nil {
			return err
		}
		a.staged = append(a.staged, s)
	}
	return nil
}

func (a *journaling) unstage() error {
	for _, s := range a.staged {
		if err := a.b.fs.Remove(s.tmp); err != nil {
			return &stuckError{err}
		}
	}
	return nil
}

func (a *journaling) run() error {
	for i, t := range a.targets {
		a.before = append(a.before, t.st)
		if err := a.append(t, a.e.Appends[i].lines); err != nil {
			return err
		}
	}
	a.named = true
	for _, s := range a.staged {
		if err := a.b.takeName(s); err != nil {
			return err
		}
	}
	for _, k := range a.e.Deletes {
		if err := a.b.remove(recordPath(k)); err != nil {
			return err
		}
	}
	return nil
}

// append writes lines behind a log. The name of a new one is synced: later lines are
// synced alone, and must not be lost with it.
func (a *journaling) append(t *target, lines []byte) error {
	if t.f != nil {
		return t.put(lines, false)
	}
	if err := t.make(); err != nil {
		return err
	}
	if err := t.put(lines, false); err != nil {
		return err
	}
	return durable.SyncDir(a.b.fs, path.Dir(t.name))
}

// undo takes back what run did before it failed with cause, and cancels the entry. Where
// that is not possible, the next process to open the store completes it.
func (a *journaling) undo(cause error) error {
	var sync *durable.SyncError
	if a.named || errors.As(cause, &sync) {
		return &stuckError{cause}
	}
	var err error
	for i := range a.before {
		t := a.targets[i]
		if t.f == nil || err != nil {
			continue
		}
		t.st = a.before[i]
		if err = t.undo(); err == nil && t.made {
			err = durable.SyncDir(a.b.fs, path.Dir(t.name))
		} else if err == nil {
			err = durable.SyncFile(t.f, t.name)
		}
	}
	if err == nil {
		err = a.unstage()
	}
	if err == nil {
		err = a.b.journal.write(&entry{Cancels: a.e.number})
	}
	if err != nil {
		return &stuckError{errors.Join(cause, err)}
	}
	return cause
}

// forgetIntent durably removes an intent that was carried out: one that came
// back after later batches would be carried out again.
func (b *Backend) forgetIntent(name string) error {
	if err := b.fs.Remove(name); err != nil {
		return &stuckError{err}
	}
	return durable.SyncDir(b.fs, intentsDir)
}

// applying carries out an intent: first the steps that may fail for lack of
// space and can be undone, then the changes of names. Any step may already have
// been done by a process that then died.
type applying struct {
	b       *Backend
	in      *intent
	targets []*target // one for each append
	before  []state   // of the targets
	wrote   []bool    // which of them got lines
	staged  []staged
	fills   []swap
	trims   []swap
	dirs    map[string]bool // in which names changed
	named   bool            // names began to change: no undo from here on
}

type staged struct{ tmp, name string }

func (a *applying) run() error {
	a.dirs = make(map[string]bool)
	logs := make(map[string]bool) // folders in which logs began
	for i, t := range a.targets {
		a.before = append(a.before, t.st)
		a.wrote = append(a.wrote, false)
		ap := &a.in.Appends[i]
		if t.st.Length != ap.First-1 {
			continue // done already
		}
		if err := t.write([]byte(ap.Lines)); err != nil {
			return err
		}
		a.wrote[i] = true
		if t.made {
			logs[path.Dir(logPath(t.log))] = true
		}
	}
	// A record may hold the length of its log, so the log must be durable before
	// the record is.
	for dir := range logs {
		if err := durable.SyncDir(a.b.fs, dir); err != nil {
			return err
		}
	}
	for _, p := range a.in.Puts {
		if err := a.stage(p); err != nil {
			return err
		}
	}
	if err := a.stageFills(); err != nil {
		return err
	}
	if err := a.stageTrims(); err != nil {
		return err
	}
	a.named = true
	if err := a.rename(); err != nil {
		return &stuckError{err}
	}
	return nil
}

func (a *applying) stage(p intentPut) error {
	r, sound, err := a.b.readRecord(p.Key)
	if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
		return err
	}
	if sound && r.Version != a.in.replaces(p) {
		return nil // done already
	}
	s := staged{a.b.tmpName(), recordPath(p.Key)}
	if err := durable.MkdirAll(a.b.fs, path.Dir(s.name)); err != nil {
		return err
	}
	if err := durable.Create(a.b.fs, s.tmp, []byte(p.File)); err != nil {
		return err
	}
	a.staged = append(a.staged, s)
	return nil
}

func (a *applying) rename() error {
	for _, s := range a.fills {
		if err := a.b.swap(s); err != nil {
			return err
		}
	}
	for _, s := range a.staged {
		if err := a.b.fs.Rename(s.tmp, s.name); err != nil {
			return err
		}
		a.dirs[path.Dir(s.name)] = true
	}
	if len(a.trims) > 0 { // the records that say where the lines are come first
		for dir := range a.dirs {
			if err := durable.SyncDir(a.b.fs, dir); err != nil {
				return err
			}
		}
	}
	for _, s := range a.trims {
		if err := a.b.swap(s); err != nil {
			return err
		}
	}
	for _, d := range a.in.Deletes {
		r, sound, err := a.b.readRecord(d.Key)
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return err
		}
		if r.Version == 0 && sound || r.Version != d.Version && sound {
			continue // done already
		}
		if len(a.in.Drops) > 0 { // what is destroyed
			if err := a.b.wipe(recordPath(d.Key)); err != nil {
				return err
			}
		}
		if err := a.b.fs.Remove(recordPath(d.Key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		a.dirs[path.Dir(recordPath(d.Key))] = true
	}
	for _, k := range a.in.Drops {
		if err := a.b.drop(k); err != nil {
			return err
		}
		if a.in.keeps(k) {
			if err := a.b.setFloor(k, 0); err != nil {
				return err
			}
		}
	}
	for dir := range a.dirs {
		if err := durable.SyncDir(a.b.fs, dir); err != nil {
			return err
		}
	}
	return nil
}

// undo takes back what run did before it failed with cause, and then removes the
// intent. Where that is not possible, the intent stays, and the next process to
// open the store completes it.
func (a *applying) undo(name string, cause error) error {
	var sync *durable.SyncError
	if a.named || errors.As(cause, &sync) {
		return &stuckError{cause}
	}
	for i, t := range a.targets {
		if i >= len(a.wrote) || !a.wrote[i] {
			continue
		}
		t.st = a.before[i]
		err := t.undo()
		if err == nil && t.made {
			err = durable.SyncDir(a.b.fs, path.Dir(logPath(t.log)))
		} else if err == nil {
			err = durable.SyncFile(t.f, logPath(t.log))
		}
		if err != nil {
			return &stuckError{errors.Join(cause, err)}
		}
	}
	for _, s := range append(a.fills, a.trims...) {
		if err := a.b.fs.Remove(s.tmp); err != nil {
			return &stuckError{errors.Join(cause, err)}
		}
	}
	for _, s := range a.staged {
		if err := a.b.fs.Remove(s.tmp); err != nil {
			return &stuckError{errors.Join(cause, err)}
		}
	}
	if err := a.b.forgetIntent(name); err != nil {
		return &stuckError{errors.Join(cause, err)}
	}
	return cause
}
