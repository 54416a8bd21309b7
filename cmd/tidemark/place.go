package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// openPlace opens a file or folder of another tool. No link in it leads out.
func openPlace(name string) (p convert.Source, done func(), err error) {
	info, err := os.Stat(name)
	if err != nil {
		return p, nil, tidemark.NotFoundf("%w", errors.Unwrap(err))
	}
	dir := name
	p.Path = "."
	if !info.IsDir() {
		dir, p.Path = filepath.Dir(name), filepath.Base(name)
	}
	root, err := durable.OpenDir(dir)
	if err != nil {
		return p, nil, tidemark.Invalidf("%w", err)
	}
	p.FS, p.Getenv = root.ReadOnly(), os.Getenv
	var copies []*copied
	p.SQL = func(ctx context.Context, file string) (convert.Database, error) {
		c, err := copyDatabase(ctx, p.FS, file)
		if err != nil {
			return nil, err
		}
		copies = append(copies, c)
		return c, nil
	}
	return p, func() {
		for _, c := range copies {
			c.Close()
		}
		root.Close()
	}, nil
}

// throwAway makes a folder for files that nobody needs for long, and returns
// what removes it with all that is in it.
func throwAway() (dir string, remove func() error, err error) {
	var id [6]byte
	rand.Read(id[:])
	name := "tidemark-" + hex.EncodeToString(id[:])
	dir = filepath.Join(os.TempDir(), name)
	if err := durable.MakeDir(dir); err != nil {
		return "", nil, tidemark.Storagef("%w", err)
	}
	return dir, func() error {
		parent, err := durable.OpenDir(os.TempDir())
		if err != nil {
			return err
		}
		return errors.Join(removeAll(parent, name), parent.Close())
	}, nil
}

// removeAll removes a folder with all that is in it. It follows no link.
func removeAll(in *durable.Dir, dir string) error {
	names, err := in.Names(dir)
	for _, n := range names {
		full := path.Join(dir, n)
		if info, statErr := in.Stat(full); statErr == nil && info.Mode.IsDir() {
			err = errors.Join(err, removeAll(in, full))
		} else {
			err = errors.Join(err, in.Remove(full))
		}
	}
	return errors.Join(err, in.Remove(dir))
}

// copied is the copy of a foreign database, which goes when it is closed.
type copied struct {
	*sqlite.Foreign
	dir       *durable.Dir
	removeAll func() error
}

// copyDatabase copies a database with its log: SQLite itself would change the
// original, or miss what is only in the log.
func copyDatabase(ctx context.Context, fsys fs.FS, file string) (*copied, error) {
	full, remove, err := throwAway()
	if err != nil {
		return nil, err
	}
	c := &copied{removeAll: remove}
	if c.dir, err = durable.OpenDir(full); err != nil {
		return nil, errors.Join(tidemark.Storagef("%w", err), remove())
	}
	if err := c.copy(ctx, fsys, file); err != nil {
		return nil, errors.Join(&convert.Skip{What: file, Why: err}, c.remove())
	}
	if c.Foreign, err = sqlite.OpenForeign(filepath.Join(full, "copy.db"), true); err != nil {
		return nil, errors.Join(&convert.Skip{What: file, Why: err}, c.remove())
	}
	return c, nil
}

// copyTries is how often a database is copied anew that changed meanwhile.
const copyTries = 10

// copy copies the database with what of it lies beside it: its log, or the
// journal of a change that is under way. Parts of two moments make no database,
// so all of them have to be as they were before when the last one is copied.
func (c *copied) copy(ctx context.Context, fsys fs.FS, file string) error {
	ends := []string{"", "-wal", "-journal"}
	for range copyTries {
		before := stamps(fsys, file, ends)
		for _, end := range ends {
			err := copyInto(ctx, c.dir, "copy.db"+end, fsys, file+end)
			switch {
			case errors.Is(err, fs.ErrNotExist) && end != "":
				c.dir.Remove("copy.db" + end) // that of an earlier try
			case err != nil:
				return err
			}
		}
		if stamps(fsys, file, ends) == before {
			return nil
		}
	}
	return tidemark.Conflictf("it changes all the time; close what writes to it")
}

// stamps tells whether files changed.
func stamps(fsys fs.FS, file string, ends []string) string {
	var all strings.Builder
	for _, end := range ends {
		if i, err := fs.Stat(fsys, file+end); err == nil {
			fmt.Fprintln(&all, end, i.Size(), i.ModTime().UnixNano())
		}
	}
	return all.String()
}

func copyInto(ctx context.Context, dir durable.FS, to string, fsys fs.FS, from string) error {
	in, err := fsys.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	return durable.Stream(dir, to+".tmp", to, func(w io.Writer) error {
		_, err := io.Copy(w, in)
		return errors.Join(err, ctx.Err())
	})
}

// Close closes the copy and removes it.
func (c *copied) Close() error { return errors.Join(c.Foreign.Close(), c.remove()) }

func (c *copied) remove() error {
	if c.dir == nil {
		return nil
	}
	err := c.dir.Close()
	c.dir = nil
	return errors.Join(err, c.removeAll())
}

// outFolder is a folder that sessions are exported into.
type outFolder struct {
	path string
	dir  *durable.Dir
	dbs  map[string]*sqlite.Foreign
}

func openOut(name string) (*outFolder, error) {
	if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
		if err := durable.MakeDir(name); err != nil {
			return nil, tidemark.Storagef("%w", err)
		}
	}
	dir, err := durable.OpenDir(name)
	if err != nil {
		return nil, tidemark.Invalidf("%s: want a folder: %w", name, err)
	}
	return &outFolder{path: name, dir: dir, dbs: make(map[string]*sqlite.Foreign)}, nil
}

func (o *outFolder) Getenv(name string) string { return os.Getenv(name) }

// Create makes a file that takes its name when it is closed.
func (o *outFolder) Create(name string) (convert.File, error) {
	if !fs.ValidPath(name) || name == "." {
		return nil, tidemark.Invalidf("%q: not a name in a folder", name)
	}
	if err := durable.MkdirAll(o.dir, path.Dir(name)); err != nil {
		return nil, tidemark.Storagef("%s: %w", name, err)
	}
	r, w := io.Pipe()
	f := &outFile{w: w, done: make(chan error, 1)}
	go func() {
		err := durable.Stream(o.dir, fmt.Sprintf("%s.%d.tmp", name, os.Getpid()), name, func(to io.Writer) error {
			_, err := io.Copy(to, r)
			return err
		})
		r.CloseWithError(err)
		f.done <- err
	}()
	return f, nil
}

type outFile struct {
	w    *io.PipeWriter
	done chan error
}

func (f *outFile) Write(b []byte) (int, error) { return f.w.Write(b) }

func (f *outFile) Close() error {
	f.w.Close()
	return <-f.done
}

func (f *outFile) CloseWithError(err error) error {
	f.w.CloseWithError(err)
	<-f.done
	return err
}

// SQL makes a database, or opens the one of an earlier session.
func (o *outFolder) SQL(_ context.Context, name string) (convert.Database, error) {
	if db := o.dbs[name]; db != nil {
		return db, nil
	}
	if !fs.ValidPath(name) || path.Dir(name) != "." {
		return nil, tidemark.Invalidf("%q: not a name in a folder", name)
	}
	db, err := sqlite.OpenForeign(filepath.Join(o.path, name), false)
	if err == nil {
		o.dbs[name] = db
	}
	return db, err
}

func (o *outFolder) Close() error {
	var errs []error
	for _, db := range o.dbs {
		errs = append(errs, db.Close())
	}
	return errors.Join(append(errs, o.dir.Close())...)
}
