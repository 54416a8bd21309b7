package files

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// Format is the version of the layout that this program writes.
const Format = 2

// An upgrade changes a store of one format into the next, while all locks are
// held and nothing is in progress. It may be interrupted anywhere and is then
// run again, so it has to reach the same result from any state it left.
type upgrade func(durable.FS) error

// setting is what Open depends on, so that a test can open a store as a later
// program would.
type setting struct {
	upgrades []upgrade // from format 1 to the newest, in order
	readable int       // the oldest format that can be read as it is
	now      func() time.Time

	journalFrom  int64         // batches without the journal
	journalStep  int64         // by which a journal grows
	journalBytes int64         // in the journal, before they are synced
	syncAfter    time.Duration // 0: when there is no more room
}

var here = setting{upgrades: []upgrade{indexFollows}, readable: 1, now: time.Now,
	journalFrom: journalFrom, journalStep: journalStep, journalBytes: maxJournal, syncAfter: syncAfter}

// indexFollows changes nothing. From format 2 on, the search index is kept in the
// store, and a program that does not know it would remove entries and leave their
// words.
func indexFollows(durable.FS) error { return nil }

// format is the one that the program writes.
func (s setting) format() int { return len(s.upgrades) + 1 }

// about is the content of tidemark.json. It is written last when a store is
// made: a directory without it is not a store yet.
type about struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	Store   string `json:"store"`                    // random, set once; tells a copy of a store from another store
	From    int    `json:"upgrading_from,omitempty"` // an upgrade from this version is under way

	// Boot is there while the journal is used, and says on which boot of the system: after
	// another one, what the journal has may be nowhere else. The version has journaled
	// added then.
	Boot string `json:"journal,omitempty"`
}

// unmark takes from the version what says that the journal is used.
func (a *about) unmark() {
	if a.Boot != "" && a.Version > journaled {
		a.Version -= journaled
	}
}

// mark returns the boot, nil where the journal is not used.
func (a *about) mark() *string {
	if a.Boot == "" {
		return nil
	}
	return &a.Boot
}

func (b *Backend) tell(a about) error {
	if a.Boot != "" {
		a.Version += journaled
	}
	data, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return durable.Replace(b.fs, b.tmpName(), storeFile, append(data, '\n'))
}

// upgradeStore brings a store to the newest format after making a copy. It first
// records that an upgrade is in progress: from then on older programs refuse the
// store, and if this process dies the next one continues.
func (b *Backend) upgradeStore(ctx context.Context, o *Options) error {
	if err := b.openFlags(); err != nil {
		return b.writeError(err)
	}
	release, err := b.takeAll(ctx)
	if err != nil {
		return err
	}
	defer release()
	a, err := b.readStore() // another process may have done it meanwhile
	if err != nil || !a.behind(b.set) {
		return err
	}
	if a.From == 0 {
		if err := b.backup(ctx, a, o); err != nil {
			return fmt.Errorf("not upgraded from format %d to %d, because the copy to go back to could not be made: %w", a.Version, b.set.format(), err)
		}
		a.From = a.Version
	}
	from := a.From
	a.Version, a.Boot = b.set.format(), "" // what the journal had is in the copy, and in the files
	err = b.tell(a)
	for _, step := range b.set.upgrades[from-1:] {
		if err != nil {
			break
		}
		err = step(b.fs)
	}
	if err == nil {
		a.From = 0
		err = b.tell(a)
	}
	if err != nil {
		return b.writeError(fmt.Errorf("upgrade from format %d to %d: %w", from, a.Version, err))
	}
	return nil
}

func (a about) behind(set setting) bool { return a.Version < set.format() || a.From != 0 }

// backup writes a whole, durable copy of the store beside it, which is renamed
// to its final name last. The caller holds all locks. Hard links would not do:
// logs grow in place.
func (b *Backend) backup(ctx context.Context, a about, o *Options) error {
	if err := b.recovered(); err != nil {
		return b.writeError(err)
	}
	abs, err := filepath.Abs(b.dir)
	if err != nil {
		return storeError(b.dir, err)
	}
	beside, err := durable.OpenDir(filepath.Dir(abs))
	if err != nil {
		return storeError(b.dir, err)
	}
	defer beside.Close()
	name := durable.BackupName(beside, filepath.Base(abs), int64(a.Version), b.set.now())
	if o.Upgrading != nil {
		o.Upgrading(int64(a.Version), int64(b.set.format()), filepath.Join(filepath.Dir(abs), name))
	}
	half := filepath.Base(abs) + ".bak.new"
	err = removeTree(beside, half) // left by a program that died over it
	if err == nil {
		err = copyTree(ctx, b.fs, ".", beside, half)
	}
	if err == nil {
		err = b.opensAsOlder(ctx, abs+".bak.new", a.Version)
	}
	if err == nil {
		err = beside.Rename(half, name)
	}
	if err == nil {
		err = durable.SyncDir(beside, ".")
	}
	if err != nil {
		removeTree(beside, half)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return storeError(b.dir, err)
	}
	return nil
}

// PendingUpgrade returns from which format to which the next program that writes
// will upgrade the store, and about how many bytes on its disk that takes: the copy.
// Both formats are the same where there is nothing to upgrade.
func (b *Backend) PendingUpgrade(ctx context.Context) (from, to, bytes int64, err error) {
	a, err := b.readStore()
	if err != nil {
		return 0, 0, 0, err
	}
	from, to = int64(a.Version), int64(b.set.format())
	if from < to {
		bytes, err = treeBytes(ctx, b.fs, ".")
	}
	if err != nil {
		err = storeError(b.dir, err)
	}
	return from, to, bytes, err
}

// treeBytes returns how much the files in a directory have, below it included.
func treeBytes(ctx context.Context, fsys durable.FS, dir string) (total int64, err error) {
	names, err := fsys.Names(dir)
	for _, n := range names {
		name := path.Join(dir, n)
		info, statErr := fsys.Stat(name)
		switch {
		case ctx.Err() != nil:
			return total, ctx.Err()
		case errors.Is(statErr, fs.ErrNotExist): // removed meanwhile
		case statErr != nil:
			return total, statErr
		case info.Mode.IsDir():
			below, err := treeBytes(ctx, fsys, name)
			if total += below; err != nil {
				return total, err
			}
		default:
			total += info.Size
		}
	}
	return total, err
}

// opensAsOlder opens a copy the way a program of that format would.
func (b *Backend) opensAsOlder(ctx context.Context, dir string, version int) error {
	set := b.set
	set.upgrades, set.readable = set.upgrades[:version-1], version
	back, err := open(ctx, dir, &Options{ReadOnly: true}, set)
	if err != nil {
		return err
	}
	return back.Close()
}

// copyTree copies a directory and all that is in it, except for files of the
// processes that have the store open.
func copyTree(ctx context.Context, from durable.FS, dir string, to durable.FS, as string) error {
	if err := to.Mkdir(as); err != nil {
		return err
	}
	names, err := from.Names(dir)
	if err != nil || dir == locksDir || dir == tmpDir {
		return err
	}
	for _, n := range names {
		name, copied := n, as+"/"+n
		if dir != "." {
			name = dir + "/" + n
		}
		info, err := from.Stat(name)
		switch {
		case err != nil:
		case info.Mode.IsDir():
			err = copyTree(ctx, from, name, to, copied)
		case info.Mode.IsRegular():
			err = copyFile(ctx, from, name, info.Size, to, copied)
		}
		if err != nil {
			return err
		}
	}
	return durable.SyncDir(to, as)
}

func copyFile(ctx context.Context, from durable.FS, name string, size int64, to durable.FS, as string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r, err := from.OpenFile(name, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := to.OpenFile(as, os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	defer w.Close()
	if _, err := io.CopyN(io.NewOffsetWriter(w, 0), io.NewSectionReader(r, 0, size), size); err != nil {
		return err
	}
	return durable.SyncFile(w, as)
}

func removeTree(fsys durable.FS, name string) error {
	info, err := fsys.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && info.Mode.IsDir() {
		var names []string
		if names, err = fsys.Names(name); err != nil {
			return err
		}
		for _, n := range names {
			if err := removeTree(fsys, name+"/"+n); err != nil {
				return err
			}
		}
	}
	if err != nil {
		return err
	}
	return fsys.Remove(name)
}

// current returns an error when a newer program has upgraded the store since it
// was opened: its file tidemark.json is replaced then.
func (b *Backend) current() error {
	info, err := b.fs.Stat(storeFile)
	seen := b.seen.Load()
	if err != nil || seen == nil || info.ID == seen.ID && info.Size == seen.Size && info.ModTime.Equal(seen.ModTime) {
		return nil
	}
	_, err = b.readStore()
	if errors.Is(err, tidemark.ErrUnsupported) {
		return err
	}
	if err == nil && b.overlay.Load() != nil { // somebody has recovered the store
		return b.seeThrough()
	}
	return nil
}
