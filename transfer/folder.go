package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/open"
)

// Folder is a folder that sessions are exported into, in the formats of other
// tools. A file in it gets its name when it is complete.
type Folder struct {
	path    string
	environ []string
	dir     *durable.Dir
	dbs     map[string]*sqlite.Foreign
	created []string // the files, in the order in which they were begun
	onto    *Folder  // where they will be copied; nil: they stay here
}

// OpenFolder opens a folder, and creates it if it does not exist. Environ is the
// environment for the tools.
func OpenFolder(name string, environ []string) (*Folder, error) {
	if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
		if err := durable.MakeDir(name); err != nil {
			return nil, tidemark.Storagef("%w", err)
		}
	}
	dir, err := durable.OpenDir(name)
	if err != nil {
		return nil, tidemark.Invalidf("%s: want a folder: %w", name, err)
	}
	return &Folder{path: name, environ: environ, dir: dir, dbs: make(map[string]*sqlite.Foreign)}, nil
}

// Getenv returns a variable of the environment.
func (o *Folder) Getenv(name string) string { return open.Getenv(o.environ, name) }

// There is the folder, or the one that its files will be copied into.
func (o *Folder) There() fs.FS {
	if o.onto != nil {
		return o.onto.dir.ReadOnly()
	}
	return o.dir.ReadOnly()
}

// Create creates a file that gets its name when it is closed.
func (o *Folder) Create(name string) (convert.File, error) {
	if !fs.ValidPath(name) || name == "." {
		return nil, tidemark.Invalidf("%q: not a name in a folder", name)
	}
	if err := durable.MkdirAll(o.dir, path.Dir(name)); err != nil {
		return nil, tidemark.Storagef("%s: %w", name, err)
	}
	o.created = append(o.created, name)
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

// full is the path of a file in it.
func (o *Folder) full(name string) string { return filepath.Join(o.path, filepath.FromSlash(name)) }

// Created returns the files that were written, in the order in which they were begun.
func (o *Folder) Created() []string { return slices.Clone(o.created) }

// SQL creates a database, or opens the one of an earlier session.
func (o *Folder) SQL(_ context.Context, name string) (convert.Database, error) {
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

// Close closes the folder and its databases.
func (o *Folder) Close() error {
	var errs []error
	for _, db := range o.dbs {
		errs = append(errs, db.Close())
	}
	return errors.Join(append(errs, o.dir.Close())...)
}
