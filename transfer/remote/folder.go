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
	"sync"

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

	mu   sync.Mutex      // of this process, which waits better than for the file
	made map[string]bool // directories that are there for good
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
	return &folder{dir: dir, fsys: durable.Retrying(d), lock: filepath.Join(dir, "lock"), made: make(map[string]bool)}, nil
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
// program then keeps one of them. The disk is not waited for under the lock.
func (f *folder) PutNew(ctx context.Context, name string, data []byte) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if there, err := f.same(ctx, name, data); there || err != nil {
		return err
	}
	tmp, err := f.written(ctx, name, data)
	if err != nil {
		return err
	}
	there := false
	err = f.locked(ctx, func() (err error) {
		if there, err = f.same(ctx, name, data); !there && err == nil {
			err = f.fsys.Rename(tmp, name)
		}
		return err
	})
	if there || err != nil {
		f.fsys.Remove(tmp)
	}
	if err == nil && !there {
		err = durable.SyncDir(f.fsys, path.Dir(name))
	}
	if err != nil {
		return f.fail(name, err)
	}
	return nil
}

// same reports whether a blob of this content is there for good: ErrExists when
// another one is.
func (f *folder) same(ctx context.Context, name string, data []byte) (bool, error) {
	old, err := f.Get(ctx, name)
	switch {
	case errors.Is(err, tidemark.ErrNotFound):
		return false, nil
	case err != nil:
		return false, err
	case !bytes.Equal(old, data):
		return false, tidemark.Existsf("file:%s: %s is there already", f.dir, name)
	}
	if err := durable.SyncDir(f.fsys, path.Dir(name)); err != nil { // whoever made it may not be that far
		return false, f.fail(name, err)
	}
	return true, nil
}

// locked calls do while nobody else makes blobs that have to be new.
func (f *folder) locked(ctx context.Context, do func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	lock, err := durable.OpenLock(f.lock)
	if err != nil {
		return f.fail("lock", err)
	}
	defer lock.Close()
	if err := lock.Acquire(ctx); err != nil {
		return err
	}
	defer lock.Release()
	return do()
}

// written returns the name of a new file with these data, which only has to be renamed.
func (f *folder) written(ctx context.Context, name string, data []byte) (tmp string, err error) {
	if err := errors.Join(CheckName(name), ctx.Err()); err != nil {
		return "", err
	}
	var random [8]byte
	rand.Read(random[:])
	tmp = path.Join(scratch, hex.EncodeToString(random[:]))
	if err = f.mkdir(scratch); err == nil {
		err = f.mkdir(path.Dir(name))
	}
	if err == nil {
		err = durable.Create(f.fsys, tmp, data)
	}
	if err != nil {
		return "", f.fail(name, err)
	}
	return tmp, nil
}

// mkdir makes a directory and its parents. They are there for good when it returns,
// also when somebody else has just made them.
func (f *folder) mkdir(dir string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.make(dir)
}

func (f *folder) make(dir string) error {
	if dir == "." {
		return nil
	}
	if f.made[dir] {
		if _, err := f.fsys.Stat(dir); err == nil {
			return nil
		}
	}
	if err := f.make(path.Dir(dir)); err != nil {
		return err
	}
	if err := f.fsys.Mkdir(dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := durable.SyncDir(f.fsys, path.Dir(dir)); err != nil {
		return err
	}
	f.made[dir] = true
	return nil
}

func (f *folder) Replace(ctx context.Context, name string, data []byte) error {
	tmp, err := f.written(ctx, name, data)
	if err != nil {
		return err
	}
	if err = f.fsys.Rename(tmp, name); err != nil {
		f.fsys.Remove(tmp)
	} else {
		err = durable.SyncDir(f.fsys, path.Dir(name))
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
