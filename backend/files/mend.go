package files

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path"
	"slices"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// Mend completes or drops what crashed writers left, accepts logs that lost
// their tail as they are, and makes files private that are open to others. It
// holds all locks meanwhile, so writers wait, and reports after it has released
// them. Damaged lines and records stay as they are: reading reports them, and
// there is nothing better to put in their place.
func (b *Backend) Mend(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		m := mend{ctx: ctx, b: b}
		err := b.exclusively(ctx, m.all)
		for _, what := range m.done {
			if !yield(what, nil) {
				return
			}
		}
		if err != nil {
			yield("", err)
		}
	}
}

// exclusively runs work while nobody else writes, under the conditions of
// Commit: not on a store that is open for reading only or that accepts no more
// writes.
func (b *Backend) exclusively(ctx context.Context, work func() error) error {
	if err := b.begin(ctx); err != nil {
		return err
	}
	defer b.commits.Done()
	if err := b.writable(); err != nil {
		return err
	}
	release, err := b.takeAll(ctx)
	if err != nil {
		return err
	}
	defer release()
	return b.writeError(work())
}

type mend struct {
	ctx  context.Context
	b    *Backend
	done []string
}

func (m *mend) report(format string, args ...any) {
	m.done = append(m.done, fmt.Sprintf(format, args...))
}

// all may be interrupted at any step and run again.
func (m *mend) all() error {
	for _, step := range []func() error{m.intents, m.leftovers, m.tails, m.modes} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (m *mend) intents() error {
	names, err := m.b.fs.Names(intentsDir)
	if err != nil {
		return err
	}
	if len(names) > 0 {
		if err := m.b.syncNames(); err != nil {
			return err
		}
	}
	for _, n := range names {
		completed, err := m.b.completeOne(intentsDir + "/" + n)
		if err != nil {
			return err
		}
		what := "dropped a batch that was never decided"
		if completed {
			what = "completed a batch that was cut off"
		}
		m.report("%s/%s: %s", intentsDir, n, what)
	}
	redone, err := m.b.finishJournal()
	for _, key := range redone {
		m.report("%s: completed %s from a batch that was cut off", journalDir, key)
	}
	return err
}

// leftovers removes what recovery removes. The flags are cleared last: they say
// that a writer may have died while changing a name.
func (m *mend) leftovers() error {
	names, err := m.b.fs.Names(tmpDir)
	if err != nil {
		return err
	}
	flagged, err := m.b.flagged(everyStripe)
	if err != nil || len(names) == 0 && !flagged {
		return err
	}
	if err := m.b.sweep(); err != nil {
		return err
	}
	if err := m.b.syncNames(); err != nil {
		return err
	}
	if err := m.b.clearFlags(); err != nil || len(names) == 0 {
		return err
	}
	m.report("%s: removed %d unfinished files of writers that died", tmpDir, len(names))
	return nil
}

// tails accepts logs that are shorter than their heads or records say.
func (m *mend) tails() error {
	kinds, err := m.b.kinds()
	if err != nil {
		return err
	}
	for _, kind := range kinds {
		ids, err := m.b.ids(kind)
		if err != nil {
			return err
		}
		for _, id := range ids {
			if err := m.tail(tidemark.Key{Kind: kind, ID: id}); err != nil {
				return err
			}
		}
	}
	return nil
}

// tail sets the head of one log aside if the log lost its tail: from then on the
// log ends where its lines end, and accepts appends again. The head is kept,
// because it tells how much was lost.
func (m *mend) tail(log tidemark.Key) error {
	if err := m.ctx.Err(); err != nil {
		return err
	}
	st, err := m.b.lookFor(log, m.b.floor(log))
	if err != nil || st.lost == nil {
		return err
	}
	if foreign, err := m.foreign(log); err != nil || foreign && st.lost.Seq == 1 {
		return err // the owner of the lines can still be found; Check reports them
	}
	aside, err := m.setHeadAside(log)
	if err != nil {
		return err
	}
	if err := m.b.setFloor(log, 0); err != nil {
		return err
	}
	m.b.keys.forget(log)
	m.b.list.forget(log)
	t, err := m.b.target(log)
	if err != nil {
		return err
	}
	defer t.close()
	kept := ""
	if aside != "" {
		kept = "; the head that told of them is kept as " + aside
	}
	m.report("%s: the log ends at line %d and lines %d to %d are lost%s", log, t.st.Length, t.st.Length+1, st.Length, kept)
	return nil
}

// foreign reports whether a log holds the lines of another one.
func (m *mend) foreign(log tidemark.Key) (bool, error) {
	f, err := m.b.fs.OpenFile(logPath(log), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	info, err := f.Stat()
	return err == nil && ofAnother(f, log, info.Size), err
}

// setHeadAside returns where the head is now, "" when there was none.
func (m *mend) setHeadAside(log tidemark.Key) (string, error) {
	aside := asideName(log, ".head")
	if err := durable.MkdirAll(m.b.fs, path.Dir(aside)); err != nil {
		return "", err
	}
	err := m.b.fs.Rename(headPath(log), aside)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	// Make the new name durable before the old one is gone.
	for _, dir := range []string{path.Dir(aside), path.Dir(headPath(log))} {
		if err := durable.SyncDir(m.b.fs, dir); err != nil {
			return "", err
		}
	}
	return aside, nil
}

// asideBytes is how many random bytes are in the name of something set aside.
const asideBytes = 4

// asideName returns a name under torn/ for a part of a log that is set aside;
// what says which part.
func asideName(log tidemark.Key, what string) string {
	var id [asideBytes]byte
	rand.Read(id[:])
	return path.Join(tornDir, log.Kind, fileName(log.ID)+"."+hex.EncodeToString(id[:])+what)
}

// modes makes every file and directory of the store private.
func (m *mend) modes() error {
	if os.PathSeparator != '/' {
		return nil
	}
	if err := m.narrow("."); err != nil {
		return err
	}
	if err := m.narrow(storeFile); err != nil {
		return err
	}
	for _, folder := range folders {
		if err := m.narrowTree(folder); err != nil {
			return err
		}
	}
	return nil
}

// narrowTree narrows a directory first, and then what is in it.
func (m *mend) narrowTree(dir string) error {
	if err := m.narrow(dir); err != nil {
		return err
	}
	names, err := m.b.fs.Names(dir)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, n := range names {
		name := dir + "/" + n
		info, err := m.b.fs.Stat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return err
		case info.Mode.IsDir():
			err = m.narrowTree(name)
		case info.Mode.IsRegular():
			err = m.narrow(name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// narrow goes through an open file, so that no link can redirect it. A file
// system in memory has no modes to change.
func (m *mend) narrow(name string) error {
	if err := m.ctx.Err(); err != nil {
		return err
	}
	f, err := m.b.disk.OpenFile(name, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil // not ours to change; Check reports it
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	c, ok := f.(interface{ Chmod(fs.FileMode) error })
	if !ok || info.Mode.Perm()&^0o700 == 0 {
		return nil
	}
	mode := fs.FileMode(0o600)
	if info.Mode.IsDir() {
		mode = 0o700
	}
	if err := c.Chmod(mode); err != nil {
		return err
	}
	m.report("%s: was open to others with mode %04o and has %04o now", name, info.Mode.Perm(), mode)
	return nil
}
