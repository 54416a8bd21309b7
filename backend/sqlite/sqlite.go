// Package sqlite is the default Backend: one SQLite file, readable with any
// sqlite3 shell, no cgo. A commit is durable when it returns (WAL,
// synchronous=FULL); concurrent commits of a process share one transaction, and
// processes queue on a lock file beside the store.
//
// It never takes a lock to read, never reads or writes while a caller's loop
// body runs, never opens a store on a network file system, and never changes a
// file that it did not make.
//
//	b, err := sqlite.Open(ctx, path, &sqlite.Options{Create: true})
package sqlite

import (
	"context"
	"sync"

	"github.com/tidemark-sessions/tidemark"
)

// Options say how a store is opened. Nil means an existing store, for reading
// and writing.
type Options struct {
	// ReadOnly opens the store for reading; Commit fails. Nothing is made or
	// changed on disk, so it also works on a read-only disk.
	ReadOnly bool
	// Create makes the store, and its directory, when there is none.
	Create bool
	// Upgrading is called before a store of an older format is upgraded, with
	// both formats and the path of the copy that is made first. It may be nil.
	Upgrading func(from, to int64, backup string)
	// Damaged is called when the schema of the store is damaged and the store
	// is opened all the same, with what is wrong. It may be nil.
	Damaged func(what string)
}

// Backend is an open store.
type Backend struct {
	path    string
	known   int64      // the newest schema that can be read
	state   *condition // of the schema when it was opened
	readers *readers
	writer  *writer // nil when opened for reading only
	grown   broadcast
	watch   watch
	rest    rest
	mover   mover

	mu     sync.RWMutex // held for reading by every call that uses a connection
	closed bool
}

var (
	_ tidemark.Backend   = (*Backend)(nil)
	_ tidemark.Checker   = (*Backend)(nil)
	_ tidemark.Mender    = (*Backend)(nil)
	_ tidemark.Compactor = (*Backend)(nil)
)

// Open opens the store at path.
//
// ErrNoStore: there is nothing at path. ErrInvalid: what is there is not a store
// of ours; it has not been touched. ErrUnsupported: the store was made or
// upgraded by a newer program, a *tidemark.NewerError, and has not been touched
// either; or it is on a network file system. ErrCorrupt: SQLite cannot read the
// file. ErrStorage: an error of the disk.
//
// A store of an older schema is upgraded in one transaction, after a durable
// copy of it was made beside it as path.bak-vN-TIME, and verified. Without the
// copy there is no upgrade. Killed at any moment, the store is the old one or
// the new one, complete, and so is any file with the name of a copy.
func Open(ctx context.Context, path string, o *Options) (*Backend, error) {
	return open(ctx, path, o, here)
}

// Close waits for commits under way and closes the store. The last handle on a
// store also writes the -wal file back and empties it; if that fails, the next
// process to open the store does it.
func (b *Backend) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	b.closed = true
	b.watch.close()
	b.readers.close()
	if b.writer != nil {
		b.writer.moveBeforeClosing()
		b.writer.close() // last, because a read-only connection cannot write back
	}
	b.grown.wake()
	return nil
}

// enter keeps the store open until leave is called.
func (b *Backend) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b.mu.RLock()
	if b.closed {
		b.mu.RUnlock()
		return errClosed
	}
	return nil
}

func (b *Backend) leave() { b.mu.RUnlock() }
