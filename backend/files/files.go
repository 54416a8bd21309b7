// Package files is a Backend that keeps each record as a JSON file and each log
// as an NDJSON file in one directory, so that cat, jq, git and rsync work on it.
// It has no domain rules, keeps no index that anybody has to believe, and leaves
// syncing, renaming and locking to package durable. Reading never locks, and writes
// nothing but a list of what it found, where the store is open for writing.
// docs/formats/files.md describes every file.
//
//	b, err := files.Open(ctx, dir, &files.Options{Create: true})
package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

var errClosed = errors.New("files: closed")

// Options say how a store is opened.
type Options struct {
	ReadOnly bool       // nothing is ever written, not even a lock
	Create   bool       // make the store when there is none
	FS       durable.FS // in place of the directory, for tests

	// Listed are the kinds whose newest records are asked for by processes that have
	// just begun. Of these the store keeps lists, which save reading every record.
	Listed []string

	// Grouped are the kinds whose ids end with a dot and the group of their records. Who
	// asks for one group of these reads the names of the files, and no others of them.
	Grouped []string

	// Upgrading is called before a store of an older format is upgraded, with
	// both formats and the path of the copy that is made first. It may be nil.
	Upgrading func(from, to int64, backup string)
}

// Backend is one handle on a store. All methods may be called concurrently.
type Backend struct {
	fs       durable.FS
	disk     durable.FS // the same, as it was passed in
	dir      string
	set      setting
	readOnly bool
	seen     atomic.Pointer[durable.Info] // tidemark.json when it was last read

	closed  atomic.Bool
	ending  chan struct{}  // closed by Close
	commits sync.WaitGroup // in progress
	closing sync.Mutex     // orders the start of a commit and Close
	broken  atomic.Pointer[brokenError]

	about   sync.Mutex              // held to read or write tidemark.json, with what is known of it
	boot    func() string           // of the system that this process runs on
	marked  atomic.Pointer[string]  // nil: the journal is empty, and the store says that it is not used
	overlay atomic.Pointer[overlay] // of a store that is open for reading only
	marks   atomic.Bool             // this process marked the store
	steps   atomic.Int64            // batches of several steps that it carried out without
	journal journal

	removals removals

	locks   [stripes]stripe
	flags   durable.File
	handles handles
	keys    keyCache
	list    listCache
	recall  recall
	due     dueCache
	grown   grown
	lists   []string // kinds
	grouped []string // kinds

	changes sync.Mutex
	changed map[tidemark.Key]struct{} // of these kinds
	dropped []string                  // of these kinds: a log was
}

// brokenError says why nothing is acknowledged any more.
type brokenError struct{ err error }

// Open opens the store in dir.
//
// ErrNoStore: there is none and o does not say to create it. ErrInvalid: dir is
// a file, or a directory that holds other things. ErrUnsupported: a newer
// program wrote it, a *tidemark.NewerError; nothing was changed.
//
// Opening for writing completes what a crashed writer left half done. A store of
// an older format is upgraded, after a durable copy of it was made beside it as
// dir.bak-vN-TIME.
func Open(ctx context.Context, dir string, o *Options) (*Backend, error) {
	return open(ctx, dir, o, here)
}

func open(ctx context.Context, dir string, o *Options, set setting) (*Backend, error) {
	if o == nil {
		o = &Options{}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	fsys := o.FS
	if fsys == nil {
		d, err := openDir(dir, o)
		if err != nil {
			return nil, err
		}
		fsys = d
	}
	b := &Backend{fs: durable.Retrying(fsys), disk: fsys, dir: dir, set: set, readOnly: o.ReadOnly, lists: o.Listed, grouped: o.Grouped, ending: make(chan struct{})}
	b.boot, b.journal.b = sync.OnceValue(func() string { return bootOf(fsys) }), b
	b.initLocks()
	b.recall.init(fsys)
	b.grown.waiting = make(map[tidemark.Key]chan struct{})
	if err := b.start(ctx, o); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

func openDir(dir string, o *Options) (*durable.Dir, error) {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) && o.Create && !o.ReadOnly:
		if err := durable.MakeDir(dir); err != nil {
			return nil, storeError(dir, err)
		}
	case errors.Is(err, fs.ErrNotExist):
		return nil, noStore(dir)
	case err != nil:
		return nil, storeError(dir, err)
	case !info.IsDir():
		return nil, tidemark.Invalidf("%s: is a file, and a store of files is a directory", dir)
	case o.Create && !o.ReadOnly:
		if err := narrow(dir); err != nil {
			return nil, err
		}
	}
	d, err := durable.OpenDir(dir)
	if err != nil {
		return nil, storeError(dir, err)
	}
	return d, nil
}

// narrow makes an empty directory that becomes a store private. One that is not
// empty is left alone: it may not be ours.
func narrow(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return storeError(dir, err)
	}
	if len(entries) > 0 {
		return nil
	}
	if err := durable.MakeDir(dir); err != nil {
		return storeError(filepath.Clean(dir), err)
	}
	return nil
}

func (b *Backend) start(ctx context.Context, o *Options) error {
	a, err := b.readStore()
	if errors.Is(err, tidemark.ErrNoStore) && o.Create && !o.ReadOnly {
		if err := b.create(ctx); err != nil {
			return err
		}
		a, err = b.readStore()
	}
	switch {
	case err != nil:
		return err
	case o.ReadOnly && (a.Version < b.set.readable || a.From != 0):
		return tidemark.Errorf(tidemark.ErrUnsupported, "store %s: has format %d, this program reads format %d; opening it once for writing upgrades it, after a copy was made", b.dir, a.Version, b.set.format())
	case o.ReadOnly:
		if boot := b.marked.Load(); boot != nil && *boot != b.boot() {
			b.fs = overlaidFS{b.fs, &b.overlay}
			return b.seeThrough()
		}
		return nil
	case a.behind(b.set):
		if err := b.upgradeStore(ctx, o); err != nil {
			return err
		}
	}
	return b.tidy(ctx)
}

// Close waits for commits in progress and releases locks and open files.
func (b *Backend) Close() error {
	b.closing.Lock()
	first := !b.closed.Swap(true)
	b.closing.Unlock()
	b.commits.Wait()
	if !first {
		return nil
	}
	close(b.ending)
	b.leaveJournal()
	b.leaveLists()
	b.journal.close()
	b.removals.close()
	b.handles.close()
	b.closeLocks()
	return b.fs.Close()
}

// use returns an error when the Backend is closed, ctx is done, or the store was upgraded.
func (b *Backend) use(ctx context.Context) error {
	if err := b.open(ctx); err != nil {
		return err
	}
	return b.current()
}

// open returns an error when the Backend is closed or ctx is done.
func (b *Backend) open(ctx context.Context) error {
	if b.closed.Load() {
		return errClosed
	}
	return ctx.Err()
}

// begin registers a commit, so that Close waits for it. Whether the store was upgraded is
// looked at under the locks, see takeSome.
func (b *Backend) begin(ctx context.Context) error {
	b.closing.Lock()
	defer b.closing.Unlock()
	if err := b.open(ctx); err != nil {
		return err
	}
	b.commits.Add(1)
	return nil
}

func storeError(dir string, err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return denied(fmt.Errorf("store %s: %w", dir, err))
	}
	return tidemark.Storagef("store %s: %w", dir, err)
}

func noStore(dir string) error { return tidemark.Errorf(tidemark.ErrNoStore, "%s: no such store", dir) }

func denied(err error) error { return tidemark.Errorf(tidemark.ErrDenied, "%w", err) }
