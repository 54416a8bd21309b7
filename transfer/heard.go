package transfer

import (
	"io/fs"
	"os"

	"github.com/tidemark-sessions/tidemark/convert"
)

// openSource opens a source whose reads are heard.
func (i *Importer) openSource(path string) (p convert.Source, done func(), err error) {
	p, done, err = openSource(path, i.getenv)
	if err == nil && i.Heard != nil {
		p.FS = heardFS{p.FS, i.Heard}
	}
	return p, done, err
}

// heard tells that something of a source was read.
func (i *Importer) heard() {
	if i.Heard != nil {
		i.Heard()
	}
}

// heardFS is a file system that calls heard whenever it answered.
type heardFS struct {
	fs.FS
	heard func()
}

func (h heardFS) Open(name string) (fs.File, error) {
	defer h.heard()
	f, err := h.FS.Open(name)
	if file, ok := f.(*os.File); ok && err == nil {
		return heardFile{file, h.heard}, nil
	}
	return f, err
}

func (h heardFS) Stat(name string) (fs.FileInfo, error) {
	defer h.heard()
	return fs.Stat(h.FS, name)
}

func (h heardFS) ReadDir(name string) ([]fs.DirEntry, error) {
	defer h.heard()
	return fs.ReadDir(h.FS, name)
}

func (h heardFS) ReadFile(name string) ([]byte, error) {
	defer h.heard()
	return fs.ReadFile(h.FS, name)
}

// heardFile is a file of a heardFS.
type heardFile struct {
	*os.File
	heard func()
}

func (f heardFile) Read(p []byte) (int, error) {
	defer f.heard()
	return f.File.Read(p)
}

func (f heardFile) ReadAt(p []byte, at int64) (int, error) {
	defer f.heard()
	return f.File.ReadAt(p, at)
}
