package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	lib "modernc.org/sqlite/lib"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// setting is what Open depends on, so that a test can open a store as a later
// program would, or as if it were on another file system.
type setting struct {
	upgrades   []upgrade
	readable   int64 // the oldest schema that can be read as it is
	fileSystem func(dir string) (name string, network bool, err error)
	now        func() time.Time
	leastLogs  int           // that a group has when its lines arrive first
	moveAfter  time.Duration // how long a little that has arrived waits
}

var here = setting{upgrades: upgrades, readable: 1, fileSystem: durable.FileSystem, now: time.Now, leastLogs: leastLogs, moveAfter: moveAfter}

// version is the schema that the program writes.
func (s setting) version() int64 { return int64(len(s.upgrades)) + 1 }

// busyMillis is how long a statement waits for another program, such as an
// sqlite3 shell, that has the store locked. Our own programs queue on the lock
// file first.
const busyMillis = 10_000

// pragmas of every connection. The busy timeout comes first: any other may have
// to wait for a process that recovers the -wal file. Sorting in memory keeps
// content out of temporary files; cell_size_check finds a damaged page before it
// is used.
var pragmas = []string{"busy_timeout=10000", "temp_store=MEMORY", "cell_size_check=ON", "trusted_schema=OFF"}

// writing pragmas. FULL is what makes a commit durable. secure_delete overwrites
// what a purge removes. A size limit lets the last process to close empty the
// -wal file.
var writing = append(slices.Clip(pragmas), "synchronous=FULL", "secure_delete=ON", "journal_size_limit=16777216", fmt.Sprintf("wal_autocheckpoint=%d", backFrames))

var reading = append(slices.Clip(pragmas), "query_only=ON")

func open(ctx context.Context, path string, o *Options, set setting) (*Backend, error) {
	if o == nil {
		o = &Options{}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	path, there, err := find(path)
	if err != nil {
		return nil, err
	}
	if !there && (o.ReadOnly || !o.Create) {
		return nil, &noStore{path}
	}
	if err := refuseNetwork(path, set); err != nil {
		return nil, err
	}
	if there {
		if err := identify(path, set.version()); err != nil {
			return nil, err
		}
	}
	b := &Backend{path: path, known: set.version()}
	b.rest.b, b.mover.b, b.mover.after = b, b, set.moveAfter
	b.grown.init()
	if o.ReadOnly {
		err = b.openReading(ctx, set)
	} else {
		err = b.openWriting(ctx, there, o, set)
	}
	if err != nil {
		return nil, named(path, err)
	}
	if b.state != nil && o.Damaged != nil {
		o.Damaged(b.state.describe())
	}
	return b, nil
}

// noStore is ErrNoStore with a hint.
type noStore struct{ path string }

func (e *noStore) Error() string        { return "store " + e.path + ": no such store" }
func (e *noStore) Is(target error) bool { return target == tidemark.ErrNoStore }

// find resolves path, and reports whether there is a file.
func find(path string) (string, bool, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", false, invalid(path, err.Error())
	}
	// The lock file and the -wal file are beside the file itself, not beside a
	// link to it.
	real, err := filepath.EvalSymlinks(abs)
	if errors.Is(err, fs.ErrNotExist) {
		return abs, false, nil
	}
	if err != nil {
		return "", false, tidemark.Storagef("store %s: %w", abs, err)
	}
	info, err := os.Stat(real)
	switch {
	case err != nil:
		return "", false, tidemark.Storagef("store %s: %w", abs, err)
	case info.IsDir():
		return "", false, invalid(abs, "is a directory, not a store file (a directory of files is opened as files:)")
	case !info.Mode().IsRegular():
		return "", false, invalid(abs, "is not a regular file")
	case info.Size() == 0:
		return "", false, invalid(abs, "is an empty file, not a Tidemark store")
	}
	return real, true, nil
}

// identify looks at the file alone, without a lock and without making the -wal
// and -shm files that opening another program's database might create, so that a
// refused file stays untouched. The mark it looks for was in the file before it
// got its name; a new version of the schema is written back as soon as it is
// committed. On its own, the file may look damaged while somebody writes it
// back, or after they died doing so; the check is repeated when it is opened
// together with its -wal file.
func identify(path string, known int64) error {
	before := fileStateOf(path)
	c, err := openConn(path, unchanging)
	if err == nil {
		err = identifyBy(c, path, before, known)
		c.close()
	}
	if isCorrupt(err) || primary(err) == lib.SQLITE_ERROR || errors.Is(err, tidemark.ErrInvalid) {
		if fault := rawFault(path); fault != nil {
			return fault
		}
	}
	switch primary(err) {
	case lib.SQLITE_NOTADB:
		return invalid(path, "is not a Tidemark store, nor any SQLite database")
	case lib.SQLITE_CORRUPT:
		return nil
	}
	return named(path, err)
}

func identifyBy(c *conn, path string, before *fileState, known int64) error {
	if err := ours(c, path); err != nil {
		return err
	}
	h, err := headerOf(c, path, before)
	if err != nil {
		return err
	}
	if fault := h.fault(path, true); fault != nil {
		return fault
	}
	have, err := schemaVersion(c)
	if err == nil {
		err = tooNew(path, have, known)
	}
	return err
}

func ours(c *conn, path string) error {
	id, err := c.number("PRAGMA application_id")
	if err == nil && id != applicationID {
		return invalid(path, "is a database of another program")
	}
	return err
}

func (b *Backend) openReading(ctx context.Context, set setting) error {
	b.readers = newReaders(b.path)
	var have int64
	var whole bool
	err := b.readers.read(ctx, func(c *conn) (err error) {
		// The version and the schema must be read at the same moment.
		if err := c.do("BEGIN", nil, nil); err != nil {
			return err
		}
		defer c.do("COMMIT", nil, nil)
		if err := ours(c, b.path); err != nil {
			return err
		}
		if have, err = schemaVersion(c); err != nil {
			return err
		}
		if have < set.readable {
			return unsupported(b.path, "has format %d, this program reads format %d; opening it once for writing upgrades it, after a copy was made", have, set.version())
		}
		whole = wholeSchema(c, have)
		return tooNew(b.path, have, set.version())
	})
	if err == nil && !whole {
		err = b.examineForReading(ctx, set)
	}
	if err != nil {
		b.readers.close()
	}
	if primary(err) == lib.SQLITE_CANTOPEN || primary(err) == lib.SQLITE_READONLY {
		return unsupported(b.path, "changes wait in its -wal file, which cannot be read where nothing can be written; copy the store with its -wal file to another place (%v)", err)
	}
	return err
}

// examineForReading examines a schema more closely, and lets the readers work around
// what is damaged.
func (b *Backend) examineForReading(ctx context.Context, set setting) error {
	b.readers.setCondition(new(condition))
	err := b.readers.read(ctx, func(c *conn) (err error) {
		if err := c.do("BEGIN", nil, nil); err != nil {
			return err
		}
		defer c.do("COMMIT", nil, nil)
		have, err := schemaVersion(c)
		if err == nil {
			b.state, err = examine(c, have, set)
		}
		return err
	})
	b.readers.setCondition(b.state)
	return err
}

// examineForWriting examines a schema more closely, and returns the connection to
// write with.
func (b *Backend) examineForWriting(c *conn, have int64, set setting) (*conn, error) {
	c.close()
	c, err := openLenient(b.path, forWriting, writing...)
	if err != nil {
		return nil, err
	}
	if b.state, err = examine(c, have, set); err != nil {
		return c, err
	}
	if b.state != nil && (b.state.roots != nil || have < set.version()) {
		return c, &unreadable{b.path, "its sessions can be read, and nothing can be written, because of " + b.state.describe()}
	}
	if b.state == nil {
		c.close()
		return openConn(b.path, forWriting, writing...)
	}
	return c, nil
}

func (b *Backend) openWriting(ctx context.Context, there bool, o *Options, set setting) error {
	dir := filepath.Dir(b.path)
	if !there {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			if err := durable.MakeDir(dir); err != nil {
				return tidemark.Storagef("store %s: %w", b.path, err)
			}
		}
	}
	lock, err := durable.OpenFairLock(b.path + ".lock")
	if err != nil {
		return tidemark.Storagef("store %s: %w", b.path, err)
	}
	w := &writer{b: b, lock: lock, version: set.version(), leastLogs: set.leastLogs}
	if err := lock.Acquire(ctx); err != nil {
		lock.Close()
		return err
	}
	defer lock.Release()
	if err = b.prepare(ctx, w, o, set); err != nil {
		w.close()
		return err
	}
	b.writer, b.readers = w, newReaders(b.path)
	b.readers.state = b.state
	return nil
}

// prepare makes or upgrades the store and opens the connection for writing,
// while the lock is held.
func (b *Backend) prepare(ctx context.Context, w *writer, o *Options, set setting) error {
	if _, err := os.Stat(b.path); errors.Is(err, fs.ErrNotExist) {
		if err := makeStore(b.path, set); err != nil {
			return err
		}
	}
	low := w.makeRoom()
	c, err := openConn(b.path, forWriting, writing...)
	if isCorrupt(err) {
		c, err = openLenient(b.path, forWriting, writing...)
	}
	if err != nil {
		return err
	}
	w.c = c
	if w.file, err = os.Stat(b.path); err != nil {
		return tidemark.Storagef("store %s: %w", b.path, err)
	}
	if err := ours(c, b.path); err != nil {
		return err
	}
	have, err := schemaVersion(c)
	if err != nil {
		return err
	}
	if err := tooNew(b.path, have, set.version()); err != nil {
		// The program that upgraded it died before writing it back. It stays so.
		return errors.Join(err, c.leaveWAL())
	}
	if !wholeSchema(c, have) {
		w.c, err = b.examineForWriting(c, have, set)
		if c = w.c; err != nil {
			return err
		}
	}
	narrow(b.path)
	if err := ensureWAL(c); err != nil {
		return err
	}
	if err := c.keepWAL(); err != nil {
		return err
	}
	if low {
		w.occupy()
	}
	w.fillReserve()
	if have < set.version() {
		if err := upgradeStore(ctx, c, b.path, have, o, set); err != nil {
			return err
		}
		// Written back at once, the new version is visible to programs that look
		// at the file alone.
		w.clearWAL()
	}
	w.resumeDrops()
	return nil
}

// ensureWAL sets the journal mode only if somebody changed it with a shell: it
// was set when the store was made, and setting it again would lock out others.
func ensureWAL(c *conn) error {
	mode := ""
	err := c.do("PRAGMA journal_mode", nil, func(s *stmt) { mode = s.text(0) })
	if err == nil && mode != "wal" {
		err = c.run("PRAGMA journal_mode=WAL")
	}
	return err
}

// narrow makes files private that somebody opened to others, or copied here
// carelessly.
func narrow(path string) {
	if runtime.GOOS == "windows" {
		return // the directory's access list decides
	}
	for _, p := range []string{path, path + "-wal", path + "-shm", path + ".lock", path + reserveEnd} {
		if info, err := os.Stat(p); err == nil && info.Mode().Perm()&0o077 != 0 {
			os.Chmod(p, info.Mode().Perm()&0o700)
		}
	}
}

// makeStore makes a complete empty store under another name, so that nobody ever
// sees half of one: after a crash there is a store or none.
func makeStore(path string, set setting) error {
	dir, err := durable.OpenDir(filepath.Dir(path))
	if err != nil {
		return tidemark.Storagef("store %s: %w", path, err)
	}
	defer dir.Close()
	fresh := filepath.Base(path) + ".new"
	err = removeDatabase(dir, fresh)
	if err == nil {
		err = durable.Create(dir, fresh, nil)
	}
	if err == nil {
		err = fill(path+".new", set)
	}
	if err == nil {
		err = syncNamed(dir, fresh)
	}
	if err == nil {
		err = dir.Rename(fresh, filepath.Base(path))
	}
	if err == nil {
		err = durable.SyncDir(dir, ".")
	}
	if err != nil {
		removeDatabase(dir, fresh)
		if primary(err) == 0 {
			return tidemark.Storagef("store %s: %w", path, err)
		}
	}
	return err
}

// removeDatabase removes what an interrupted makeStore left.
func removeDatabase(dir *durable.Dir, name string) error {
	for _, left := range []string{name, name + "-wal", name + "-shm", name + "-journal"} {
		if err := dir.Remove(left); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// fill writes the newest schema into an empty file.
func fill(path string, set setting) error {
	c, err := openConn(path, forMaking, writing...)
	if err != nil {
		return err
	}
	defer c.close()
	if err := c.run(fmt.Sprintf("PRAGMA page_size=%d; PRAGMA journal_mode=WAL", wideBytes)); err != nil {
		return err
	}
	if err := c.run("BEGIN; " + tables + views()); err != nil {
		return err
	}
	for _, step := range set.stepsTo(set.version()) {
		if err := step(c); err != nil {
			return err
		}
	}
	return c.run(fmt.Sprintf("PRAGMA application_id=%d; PRAGMA user_version=%d; COMMIT", applicationID, set.version()))
}

// syncNamed syncs a file.
func syncNamed(dir *durable.Dir, name string) error {
	f, err := dir.OpenFile(name, os.O_RDWR)
	if err != nil {
		return err
	}
	defer f.Close()
	return durable.SyncFile(f, name)
}
