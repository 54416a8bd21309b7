package sqlite

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// Recover repairs a store that cannot be opened for writing because its first
// bytes or its schema are damaged, and reports what it did. Before it changes
// anything, it copies the files as they are beside the store, as
// path.damaged-TIME, and verifies that copy.
//
// First bytes are rewritten in place; views are left to Mend. With a schema that
// leaves a table in doubt, the rows are read by their pages into a new file,
// which replaces the old one when it is complete and on disk; its search index
// is empty. Rows that are themselves damaged are copied as they are: Check
// reports them. Killed at any moment, the store is the damaged one or the
// repaired one.
//
// It does nothing to an intact store. ErrNoStore, ErrInvalid, ErrUnsupported: as
// for Open. ErrCorrupt: there is more damage than that.
func Recover(ctx context.Context, path string) (did []string, err error) {
	path, there, err := find(path)
	if err != nil {
		return nil, err
	}
	if !there {
		return nil, &noStore{path}
	}
	if err := refuseNetwork(path, here); err != nil {
		return nil, err
	}
	lock, err := durable.OpenLock(path + ".lock")
	if err != nil {
		return nil, tidemark.Storagef("store %s: %w", path, err)
	}
	defer lock.Close()
	if err := lock.Acquire(ctx); err != nil {
		return nil, err
	}
	defer lock.Release()
	dir, err := durable.OpenDir(filepath.Dir(path))
	if err != nil {
		return nil, tidemark.Storagef("store %s: %w", path, err)
	}
	defer dir.Close()
	r := &recovery{ctx: ctx, path: path, dir: dir}
	err = r.header()
	if err == nil {
		err = r.schema()
	}
	return r.did, named(path, err)
}

// recovery is a repair in progress; the lock is held.
type recovery struct {
	ctx  context.Context
	path string
	dir  *durable.Dir
	kept bool
	did  []string
}

func (r *recovery) report(format string, args ...any) {
	r.did = append(r.did, fmt.Sprintf(format, args...))
}

// header rewrites the first bytes of the file.
func (r *recovery) header() error {
	fault := identify(r.path, Format)
	if _, ok := fault.(*unreadable); !ok {
		return fault
	}
	h, err := rawHeader(r.path)
	if err != nil {
		return tidemark.Storagef("store %s: %w", r.path, err)
	}
	if err := r.keep(); err != nil {
		return err
	}
	f, err := r.dir.OpenFile(filepath.Base(r.path), os.O_RDWR)
	if err == nil {
		_, err = f.WriteAt(h.mended(), 0)
		if err == nil {
			err = durable.SyncFile(f, r.path)
		}
		f.Close()
	}
	if err != nil {
		return tidemark.Storagef("store %s: %w", r.path, err)
	}
	r.report("%s: written again", strings.Join(h.faults(false), ", "))
	return nil
}

// schema rebuilds the file if a table is in doubt.
func (r *recovery) schema() error {
	state, err := r.examine()
	if err != nil || state == nil {
		return err
	}
	if state.roots != nil && len(state.roots.record) == 0 {
		return &unreadable{r.path, "no page of the table of records is found in it"}
	}
	if err := r.keep(); err != nil || state.roots == nil {
		return err // Mend repairs views
	}
	if err := r.writeBack(); err != nil {
		return err
	}
	rows, err := r.rebuild(state.roots)
	if err != nil {
		return err
	}
	r.report("%s: %d rows of the tables were read by their pages into a new file; the search index is made anew", state.describe(), rows)
	return nil
}

// examine examines the schema of the file and, if that is intact, the pages it
// is stored in and the free ones. A schema that claims to be of an older format
// and has other tables is in doubt, too: it is not upgraded.
func (r *recovery) examine() (*condition, error) {
	c, err := openLenient(r.path, forWriting, writing...)
	if err != nil {
		return nil, err
	}
	defer c.close()
	if err := ours(c, r.path); err != nil {
		return nil, err
	}
	have, err := schemaVersion(c)
	if err != nil {
		return nil, err
	}
	if err := tooNew(r.path, have, Format); err != nil {
		return nil, err
	}
	state := new(condition)
	if wholeSchema(c, have) {
		found, err := diagnose(c)
		if err != nil || !found.unsafe() {
			return nil, err
		}
		state.add("the database file", strings.Join(found.rest, "; "))
	} else {
		state, err = examine(c, have, here)
		if err != nil || state == nil || have == Format {
			return state, err
		}
	}
	state.roots, err = findRoots(c)
	return state, err
}

// writeBack moves what waits in -wal into the file: beside another file, it
// would be taken as belonging to that one.
func (r *recovery) writeBack() error {
	c, err := openLenient(r.path, forWriting, writing...)
	if err != nil {
		return err
	}
	defer c.close()
	if err := c.run("PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		return err
	}
	if info, err := os.Stat(r.path + "-wal"); err == nil && info.Size() > 0 {
		return tidemark.Storagef("store %s: another program has it open; close it and try again", r.path)
	}
	return nil
}

// rebuild reads the tables into a new store and renames it over the old one.
func (r *recovery) rebuild(at *roots) (rows int64, err error) {
	fresh := filepath.Base(r.path) + ".new"
	defer func() {
		if err != nil {
			removeDatabase(r.dir, fresh)
		}
	}()
	if err := removeDatabase(r.dir, fresh); err != nil {
		return 0, err
	}
	if err := durable.Create(r.dir, fresh, nil); err != nil {
		return 0, tidemark.Storagef("store %s: %w", r.path, err)
	}
	if err := fill(r.path+".new", here); err != nil {
		return 0, err
	}
	if rows, err = r.copyRows(at); err != nil {
		return 0, err
	}
	if err = syncNamed(r.dir, fresh); err == nil {
		err = r.dir.Rename(fresh, filepath.Base(r.path))
	}
	if err == nil {
		err = durable.SyncDir(r.dir, ".")
	}
	if err != nil {
		return 0, tidemark.Storagef("store %s: %w", r.path, err)
	}
	// They belong to the old file, and are empty.
	r.dir.Remove(filepath.Base(r.path) + "-wal")
	r.dir.Remove(filepath.Base(r.path) + "-shm")
	return rows, nil
}

// tablesToCopy are read in the order of their keys. The indexing progress of a
// log is left out.
var tablesToCopy = []struct{ name, columns, key string }{
	{"record", `kind, id, version, "group", state, due, updated, touched, batch, sum, body`, "kind, id"},
	{"log", `number, kind, id, length, updated, parent, depth, nodes, turn, chain, sum`, "number"},
	{"line", lineColumns, "id"},
}

func (r *recovery) copyRows(at *roots) (rows int64, err error) {
	from, err := (&condition{roots: at}).open(r.path, forReading, reading...)
	if err != nil {
		return 0, err
	}
	defer from.close()
	to, err := openConn(r.path+".new", forWriting, writing...)
	if err != nil {
		return 0, err
	}
	defer to.close()
	if err := to.run("BEGIN"); err != nil {
		return 0, err
	}
	for _, t := range tablesToCopy {
		into := "INSERT OR IGNORE INTO " + t.name + " (" + t.columns + ") VALUES (?" + strings.Repeat(", ?", strings.Count(t.columns, ",")) + ")"
		// An unreadable page ends the scan from one end; what is after it is
		// reached from the other.
		for _, order := range []string{"", " DESC"} {
			err := r.copyTable(from, to, "SELECT "+t.columns+" FROM "+t.name+" ORDER BY "+strings.ReplaceAll(t.key, ",", order+",")+order, into)
			if err == nil {
				break
			}
			if !isCorrupt(err) {
				return 0, err
			}
			if order == "" {
				r.report("left behind: rows of table %s that cannot be read: %v", t.name, err)
			}
		}
		n, err := to.number("SELECT count(*) FROM " + t.name)
		if err != nil {
			return 0, err
		}
		rows += n
	}
	return rows, to.run("COMMIT")
}

func (r *recovery) copyTable(from, to *conn, sql, into string) error {
	read, err := from.prepare(sql)
	if err != nil {
		return err
	}
	defer read.reset()
	columns := strings.Count(into, "?")
	for {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		more, err := read.step()
		if err != nil || !more {
			return err
		}
		err = to.do(into, func(s *stmt) {
			for i := range columns {
				s.set(i+1, read.value(i))
			}
		}, nil)
		if err != nil {
			return err
		}
	}
}

// keep copies the files as they are, once, and verifies the copies.
func (r *recovery) keep() error {
	if r.kept {
		return nil
	}
	base := filepath.Base(r.path)
	name := fmt.Sprintf("%s.damaged-%s", base, here.now().UTC().Format("20060102T150405.000000Z"))
	for _, end := range []string{"-wal", ""} {
		if info, err := os.Stat(r.path + end); err != nil || info.Size() == 0 {
			continue
		}
		if err := r.copyFile(base+end, name+end); err != nil {
			return tidemark.Storagef("store %s: not repaired, because a copy of it could not be made: %w", r.path, err)
		}
	}
	r.kept = true
	r.report("what the store was is kept as %s", filepath.Join(filepath.Dir(r.path), name))
	return nil
}

func (r *recovery) copyFile(from, to string) error {
	in, err := os.Open(filepath.Join(filepath.Dir(r.path), from))
	if err != nil {
		return err
	}
	defer in.Close()
	if err := durable.Stream(r.dir, to+".new", to, func(w io.Writer) error {
		_, err := io.Copy(w, in)
		return err
	}); err != nil {
		return err
	}
	back, err := os.Open(filepath.Join(filepath.Dir(r.path), to))
	if err != nil {
		return err
	}
	defer back.Close()
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return same(in, back)
}

// same returns an error that says how two files differ.
func same(a, b io.Reader) error {
	one, other := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, errA := io.ReadFull(a, one)
		m, errB := io.ReadFull(b, other)
		switch {
		case !bytes.Equal(one[:n], other[:m]):
			return fmt.Errorf("read again, the copy is not what was written")
		case errA == io.EOF || errA == io.ErrUnexpectedEOF:
			return nil
		case errA != nil:
			return errA
		case errB != nil:
			return errB
		}
	}
}
