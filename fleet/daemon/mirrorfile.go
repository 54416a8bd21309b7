package daemon

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// mirrorOut writes an export into a mirror: files that are unchanged are not written,
// and logs are appended to.
type mirrorOut struct{ m *mirrored }

// Create creates a file of the mirror. The mirror replaces herdctl's own folder, so
// the first part of the name is dropped.
func (o mirrorOut) Create(name string) (convert.File, error) {
	_, name, _ = strings.Cut(name, "/")
	if err := durable.MkdirAll(o.m.fs, path.Dir(name)); err != nil {
		return nil, tidemark.Storagef("%w", err)
	}
	o.m.wrote[name] = true
	if length, grows := o.m.length[name]; grows {
		delete(o.m.length, name)
		return o.m.growing(name, length)
	}
	return &mirrorFile{m: o.m, name: name}, nil
}

func (mirrorOut) There() fs.FS { return nil }
func (mirrorOut) SQL(context.Context, string) (convert.Database, error) {
	return nil, tidemark.Unsupportedf("a mirror has no databases")
}

func (mirrorOut) Getenv(string) string { return "" }

// mirrorFile is a small file, which is replaced if it differs.
type mirrorFile struct {
	bytes.Buffer
	m    *mirrored
	name string
}

func (f *mirrorFile) CloseWithError(err error) error { return err }

func (f *mirrorFile) Close() error {
	sum := sha256.Sum256(f.Bytes())
	if have, known := f.m.files[f.name]; known && have == sum {
		return nil
	}
	have, err := durable.ReadFile(f.m.fs, f.name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return tidemark.Storagef("%w", err)
	}
	if err != nil || !bytes.Equal(have, f.Bytes()) {
		tmp := f.name + ".tmp"
		if err := f.m.remove(tmp); err != nil { // a process that died may have left it
			return tidemark.Storagef("%w", err)
		}
		if err := durable.Replace(f.m.fs, tmp, f.name, f.Bytes()); err != nil {
			return tidemark.Storagef("%w", err)
		}
	}
	if path.Dir(f.name) != "jobs" { // compare skips unchanged jobs, so these need no sum
		f.m.files[f.name] = sum
	}
	return nil
}

// growingFile is a log. Lines are appended to the file, or all of them are written to
// a new file that replaces it.
type growingFile struct {
	m     *mirrored
	f     durable.File
	name  string
	tmp   string // the name of the new file; "": lines are appended
	size  int64
	lines int64
	rest  []byte // an incomplete line
}

func (m *mirrored) growing(name string, lines int64) (convert.File, error) {
	g := &growingFile{m: m, name: name, lines: lines}
	t, there := m.tails[name]
	delete(m.tails, name) // Close sets it: until then the state of the file is not known
	var err error
	if there {
		g.size = t.bytes
		g.f, err = m.fs.OpenFile(name, os.O_WRONLY)
	} else {
		g.tmp = name + ".tmp"
		if err = m.remove(g.tmp); err == nil {
			g.f, err = m.fs.OpenFile(g.tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
		}
	}
	if err != nil {
		return nil, tidemark.Storagef("%w", err)
	}
	return g, nil
}

// Write writes only complete lines, so that nobody reads half of one.
func (g *growingFile) Write(b []byte) (int, error) {
	g.rest = append(g.rest, b...)
	end := bytes.LastIndexByte(g.rest, '\n') + 1
	if end == 0 {
		return len(b), nil
	}
	n, err := g.f.WriteAt(g.rest[:end], g.size)
	g.size += int64(n)
	g.rest = append(g.rest[:0], g.rest[end:]...)
	if err != nil {
		return 0, tidemark.Storagef("%w", err)
	}
	return len(b), nil
}

func (g *growingFile) CloseWithError(err error) error {
	g.f.Close()
	if g.tmp != "" {
		err = errors.Join(err, g.m.remove(g.tmp))
	}
	return err
}

func (g *growingFile) Close() error {
	if err := durable.SyncFile(g.f, g.name); err != nil {
		return g.CloseWithError(tidemark.Storagef("%w", err))
	}
	if err := g.f.Close(); err != nil {
		return tidemark.Storagef("%w", err)
	}
	if g.tmp != "" {
		err := g.m.fs.Rename(g.tmp, g.name)
		if err == nil {
			err = durable.SyncDir(g.m.fs, path.Dir(g.name))
		}
		if err != nil {
			return tidemark.Storagef("%w", errors.Join(err, g.m.remove(g.tmp)))
		}
	}
	g.m.tails[g.name] = tail{g.lines, g.size}
	return nil
}
