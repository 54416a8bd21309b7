package files

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// tidy completes what crashed writers left, if there is anything: an intent, or
// a temporary file. Those of an active writer are gone by the time its lock is
// free.
func (b *Backend) tidy(ctx context.Context) error {
	if err := b.openFlags(); err != nil {
		return b.writeError(err)
	}
	left, err := b.leftOver()
	if err == nil && left {
		err = b.recover(ctx)
	}
	if err != nil {
		return b.writeError(err)
	}
	if info, err := b.fs.Stat(reserveFile); err != nil || info.Size < reserveBytes {
		b.fillReserve() // if there is space for it again
	}
	return nil
}

// leftOver reports whether there may be something of a crashed writer.
func (b *Backend) leftOver() (bool, error) {
	for _, dir := range []string{intentsDir, tmpDir} {
		if names, err := b.fs.Names(dir); err != nil || len(names) > 0 {
			return true, err
		}
	}
	boot := b.marked.Load()
	if boot == nil {
		return false, nil
	}
	if *boot != b.boot() || !b.journal.isOpen() {
		return true, nil
	}
	return b.flagged(everyStripe)
}

// recover completes what is in the journal and every intent, drops incomplete ones,
// removes temporary files, and syncs names that a writer may have been changing when it
// died. It holds all locks, so nobody else is writing, and may itself be interrupted at
// any step and run again.
func (b *Backend) recover(ctx context.Context) error {
	release, err := b.takeAll(ctx)
	if err != nil {
		return err
	}
	defer release()
	return b.recovered()
}

// recovered does the work of recover; the caller holds all locks.
func (b *Backend) recovered() error {
	if err := b.complete(); err != nil {
		return err
	}
	if _, err := b.finishJournal(); err != nil {
		return err
	}
	if err := b.sweep(); err != nil {
		return err
	}
	if err := b.syncNames(); err != nil {
		return err
	}
	return b.clearFlags()
}

func (b *Backend) complete() error {
	names, err := b.fs.Names(intentsDir)
	if err != nil {
		return err
	}
	// The names that a dead writer changed are made durable first: steps that
	// are found done are not done again.
	if len(names) > 0 {
		if err := b.syncNames(); err != nil {
			return err
		}
	}
	for _, n := range names {
		if _, err := b.completeOne(intentsDir + "/" + n); err != nil {
			return err
		}
	}
	return nil
}

// completeOne reports whether the intent was complete, and so carried out.
func (b *Backend) completeOne(name string) (completed bool, err error) {
	data, err := durable.ReadFile(b.fs, name)
	if err != nil {
		return false, err
	}
	in, err := parseIntent(data)
	if err != nil {
		return false, b.forgetIntent(name)
	}
	// It may be complete in memory only. It must not vanish half carried out.
	if err := b.resync(name); err != nil {
		return false, err
	}
	a := applying{b: b, in: in}
	defer func() {
		for _, t := range a.targets {
			t.close()
		}
	}()
	// A damaged log does not keep the rest of the batch, or the rest of the
	// store, from being completed; reading the log reports the damage.
	kept := in.Appends[:0:0]
	for _, ap := range in.Appends {
		t, err := b.target(ap.Key)
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue
		}
		if err != nil {
			return false, err
		}
		a.targets, kept = append(a.targets, t), append(kept, ap)
	}
	in.Appends = kept
	if err := a.run(); err != nil {
		return false, err
	}
	for _, t := range a.targets {
		b.keys.forget(t.log)
		b.grown.wake(t.log)
	}
	return true, b.forgetIntent(name)
}

func (b *Backend) resync(name string) error {
	f, err := b.fs.OpenFile(name, os.O_RDWR)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := durable.SyncFile(f, name); err != nil {
		return err
	}
	return durable.SyncDir(b.fs, intentsDir)
}

// sweep removes temporary files. The caller holds all locks.
func (b *Backend) sweep() error {
	names, err := b.fs.Names(tmpDir)
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := b.fs.Remove(tmpDir + "/" + n); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// syncNames makes every name in the store durable, its own included: the creator
// of the store may have died before its last sync, and then nobody has cleared
// the flags yet.
func (b *Backend) syncNames() error {
	if err := durable.SyncDir(b.fs, "."); err != nil {
		return err
	}
	for _, folder := range []string{recordsDir, logsDir, headsDir} {
		kinds, err := b.fs.Names(folder)
		if err != nil {
			return err
		}
		for _, k := range kinds {
			info, err := b.fs.Stat(folder + "/" + k)
			if err != nil || !info.Mode.IsDir() {
				continue
			}
			if err := durable.SyncDir(b.fs, folder+"/"+k); err != nil {
				return err
			}
		}
		if err := durable.SyncDir(b.fs, folder); err != nil {
			return err
		}
	}
	return nil
}
