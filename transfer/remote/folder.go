package remote

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"path/filepath"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/internal/hint"
)

// folder is a place in a directory: a file for each blob. Files that something else
// left there, such as those of Syncthing, have names that no blob has.
type folder struct {
	dir  string
	fsys durable.FS
	lock string
}

// scratch is the directory of files that are being written.
const scratch = "tmp"

func openFolder(dir string) (*folder, error) {
	if !filepath.IsAbs(dir) {
		return nil, tidemark.Invalidf("file:%s: the path of a remote is absolute", dir)
	}
	d, err := durable.OpenDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, hint.With(tidemark.NotFoundf("there is no folder %s", dir), "plug it in or mount it; for a new one: mkdir -p %s", dir)
	}
	if err != nil {
		return nil, tidemark.Storagef("file:%s: %w", dir, err)
	}
	return &folder{dir: dir, fsys: durable.Retrying(d), lock: filepath.Join(dir, "lock")}, nil
}

func (f *folder) Close() error { return f.fsys.Close() }

// fail says where something went wrong.
func (f *folder) fail(name string, err error) error {
	if errors.Is(err, tidemark.ErrNotFound) || errors.Is(err, tidemark.ErrExists) || errors.Is(err, tidemark.ErrInvalid) {
		return err
	}
	if durable.IsFull(err) {
		return hint.With(tidemark.Storagef("file:%s: no space left", f.dir), "what is kept here is whole; make space there and try again")
	}
	return tidemark.Storagef("file:%s: %s: %w", f.dir, name, err)
}

func (f *folder) Get(ctx context.Context, name string) ([]byte, error) {
	if err := errors.Join(CheckName(name), ctx.Err()); err != nil {
		return nil, err
	}
	i, err := f.fsys.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, tidemark.NotFoundf("file:%s: %s: not found", f.dir, name)
	case err != nil:
		return nil, f.fail(name, err)
	case !i.Mode.IsRegular():
		return nil, f.fail(name, errors.New("is no file"))
	case i.Size > MaxBytes:
		return nil, f.fail(name, fmt.Errorf("%d bytes are too many for a blob", i.Size))
	}
	data, err := durable.ReadFile(f.fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, tidemark.NotFoundf("file:%s: %s: not found", f.dir, name)
	}
	if err != nil {
		return nil, f.fail(name, err)
	}
	return data, nil
}

// PutNew is exclusive among the processes of machines that share locks. Two machines
// that meet only through a program that copies files may both make a blob; that
// program then keeps one of them.
func (f *folder) PutNew(ctx context.Context, name string, data []byte) error {
	if err := CheckName(name); err != nil {
		return err
	}
	lock, err := durable.OpenLock(f.lock)
	if err != nil {
		return f.fail("lock", err)
	}
	defer lock.Close()
	if err := lock.Acquire(ctx); err != nil {
		return err
	}
	defer lock.Release()
	old, err := f.Get(ctx, name)
	switch {
	case err == nil && bytes.Equal(old, data):
		return nil
	case err == nil:
		return tidemark.Existsf("file:%s: %s is there already", f.dir, name)
	case !errors.Is(err, tidemark.ErrNotFound):
		return err
	}
	return f.Replace(ctx, name, data)
}

func (f *folder) Replace(ctx context.Context, name string, data []byte) error {
	if err := errors.Join(CheckName(name), ctx.Err()); err != nil {
		return err
	}
	err := durable.MkdirAll(f.fsys, scratch)
	if err == nil {
		err = durable.MkdirAll(f.fsys, path.Dir(name))
	}
	if err == nil {
		var random [8]byte
		rand.Read(random[:])
		err = durable.Replace(f.fsys, path.Join(scratch, hex.EncodeToString(random[:])), name, data)
	}
	if err != nil {
		return f.fail(name, err)
	}
	return nil
}

func (f *folder) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		dir := path.Clean(prefix + ".")
		f.walk(ctx, dir, yield)
	}
}

// walk yields the names of the blobs in a directory, and reports whether to go on.
func (f *folder) walk(ctx context.Context, dir string, yield func(string, error) bool) bool {
	if err := ctx.Err(); err != nil {
		return yield("", err) && false
	}
	names, err := f.fsys.Names(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	if err != nil {
		return yield("", f.fail(dir, err)) && false
	}
	for _, base := range names {
		name := strings.TrimPrefix(path.Join(dir, base), "./")
		if CheckName(name) != nil || dir == "." && (base == scratch || base == "lock") {
			continue
		}
		i, err := f.fsys.Stat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return yield("", f.fail(name, err)) && false
		case i.Mode.IsDir():
			if !f.walk(ctx, name, yield) {
				return false
			}
		case i.Mode.IsRegular():
			if !yield(name, nil) {
				return false
			}
		}
	}
	return true
}

func (f *folder) Delete(ctx context.Context, name string) error {
	if err := errors.Join(CheckName(name), ctx.Err()); err != nil {
		return err
	}
	err := f.fsys.Remove(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return f.fail(name, err)
	}
	return nil
}
