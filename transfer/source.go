package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// openSource opens a file or folder of another tool. No link in it leads out.
func openSource(name string, getenv func(string) string) (p convert.Source, done func(), err error) {
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
	p.FS, p.Getenv = root.ReadOnly(), getenv
	var databases []convert.Database
	left := int64(maxCopied) // of all databases, for a change in one of them
	p.SQL = func(ctx context.Context, file string) (convert.Database, error) {
		d, err := openDatabase(ctx, dir, p.FS, file, &left)
		if err != nil {
			return nil, err
		}
		databases = append(databases, d)
		return d, nil
	}
	return p, func() {
		for _, d := range databases {
			d.Close()
		}
		root.Close()
	}, nil
}

// copied is a copy of a foreign database, which is removed when it is closed.
type copied struct {
	*sqlite.Foreign
	dir     *durable.Dir
	scratch *durable.Scratch
}

// copyDatabase copies a database with its log: SQLite itself would change the
// original, or miss what is only in the log.
func copyDatabase(ctx context.Context, fsys fs.FS, file string, left *int64) (*copied, error) {
	scratch, err := durable.NewScratch("tidemark")
	if err != nil {
		return nil, tidemark.Storagef("%w", err)
	}
	c := &copied{scratch: scratch}
	if c.dir, err = durable.OpenDir(scratch.Dir()); err != nil {
		return nil, errors.Join(tidemark.Storagef("%w", err), scratch.Close())
	}
	if err := c.copy(ctx, fsys, file, left); err != nil {
		return nil, errors.Join(&convert.Skip{What: file, Why: err}, c.remove())
	}
	if c.Foreign, err = sqlite.OpenForeign(filepath.Join(scratch.Dir(), "copy.db"), true); err != nil {
		return nil, errors.Join(&convert.Skip{What: file, Why: err}, c.remove())
	}
	return c, nil
}

// copyTries is how often a database that changes meanwhile is copied again.
const copyTries = 10

// copy copies the database with the files beside it: its log, or the journal of
// a change in progress. Parts from two moments make no database, so none may
// have changed when the last one is copied. All tries take from what is left to
// copy.
func (c *copied) copy(ctx context.Context, fsys fs.FS, file string, left *int64) error {
	ends := []string{"", "-wal", "-journal"}
	for range copyTries {
		before := stamps(fsys, file, ends)
		for _, end := range ends {
			n, err := copyInto(ctx, c.dir, "copy.db"+end, fsys, file+end, *left)
			*left -= n
			switch {
			case errors.Is(err, fs.ErrNotExist) && end != "":
				c.dir.Remove("copy.db" + end) // from an earlier try
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

// stamps shows whether files changed.
func stamps(fsys fs.FS, file string, ends []string) string {
	var all strings.Builder
	for _, end := range ends {
		if i, err := fs.Stat(fsys, file+end); err == nil {
			fmt.Fprintln(&all, end, i.Size(), i.ModTime().UnixNano())
		}
	}
	return all.String()
}

// copyInto copies a file of at most so many bytes, and returns how many it copied.
func copyInto(ctx context.Context, dir durable.FS, to string, fsys fs.FS, from string, most int64) (n int64, err error) {
	in, err := fsys.Open(from)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	err = durable.Stream(dir, to+".tmp", to, func(w io.Writer) error {
		n, err = io.Copy(w, io.LimitReader(in, most))
		if err == nil && n == most {
			if more, _ := in.Read(make([]byte, 1)); more > 0 {
				err = tidemark.Conflictf("it changes all the time, and %d MB of it were copied; close what writes to it", maxCopied>>20)
			}
		}
		return errors.Join(err, ctx.Err())
	})
	return n, err
}

// Close closes the copy and removes it.
func (c *copied) Close() error { return errors.Join(c.Foreign.Close(), c.remove()) }

func (c *copied) remove() error {
	if c.dir == nil {
		return nil
	}
	err := c.dir.Close()
	c.dir = nil
	return errors.Join(err, c.scratch.Close())
}
