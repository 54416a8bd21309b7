package files

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"sync/atomic"
	"time"

	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/internal/process"
)

// bootOf returns what tells this boot of the system from others. A file system in memory
// has boots of its own.
func bootOf(fsys durable.FS) string {
	if f, ok := fsys.(interface{ Boot() string }); ok {
		return f.Boot()
	}
	if boot := process.Self("").BootID; boot != "" {
		return boot
	}
	return "unknown, begun " + time.Now().UTC().Format(time.RFC3339Nano)
}

// seeThrough lets a store that is open for reading only show what its journal has, where
// the system was started anew since it was written: files may be as they were before
// that. Otherwise they are newer than the journal, or just as new.
func (b *Backend) seeThrough() error {
	b.overlay.Store(nil)
	boot := b.marked.Load()
	if boot == nil || *boot == b.boot() {
		return nil
	}
	all, err := b.entries()
	if err != nil {
		return storeError(b.dir, err)
	}
	o := overlay{now: time.Now(), records: make(map[string][]byte), logs: make(map[string][]entryAppend), dirs: make(map[string][]string)}
	outcome := outcomeOf(all)
	for key, file := range outcome.records {
		if there, err := b.isThere(key, file); err != nil {
			return storeError(b.dir, err)
		} else if !there {
			o.add(recordPath(key))
			o.records[recordPath(key)] = file
		}
	}
	for key, spans := range outcome.logs {
		o.add(logPath(key))
		o.logs[logPath(key)] = spans
	}
	b.overlay.Store(&o)
	return nil
}

// overlay is what a journal says of files, as if it was in them.
type overlay struct {
	now     time.Time
	records map[string][]byte // by name; nil: there is none
	logs    map[string][]entryAppend
	dirs    map[string][]string // the names of both, by directory
}

func (o *overlay) add(name string) {
	dir := path.Dir(name)
	o.dirs[dir] = append(o.dirs[dir], path.Base(name))
}

// overlaidFS shows a store through the overlay of its Backend.
type overlaidFS struct {
	durable.FS
	over *atomic.Pointer[overlay]
}

func (f overlaidFS) OpenFile(name string, flag int) (durable.File, error) {
	o := f.over.Load()
	if o == nil || flag != os.O_RDONLY {
		return f.FS.OpenFile(name, flag)
	}
	if file, ok := o.records[name]; ok {
		if file == nil {
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		}
		return &overlaidFile{spans: []entryAppend{{lines: file}}, now: o.now}, nil
	}
	h, err := f.FS.OpenFile(name, flag)
	spans := o.logs[name]
	if len(spans) == 0 || err != nil && !(errors.Is(err, fs.ErrNotExist) && spans[0].At == 0) {
		return h, err
	}
	v := &overlaidFile{spans: spans, now: o.now}
	if err == nil {
		v.File = h
		info, err := h.Stat()
		if err != nil {
			h.Close()
			return nil, err
		}
		v.below = info.Size
	}
	return v, nil
}

func (f overlaidFS) Stat(name string) (durable.Info, error) {
	if o := f.over.Load(); o == nil || o.logs[name] == nil && !o.hasRecord(name) {
		return f.FS.Stat(name)
	}
	h, err := f.OpenFile(name, os.O_RDONLY)
	if err != nil {
		return durable.Info{}, err
	}
	defer h.Close()
	return h.Stat()
}

func (o *overlay) hasRecord(name string) bool {
	_, ok := o.records[name]
	return ok
}

func (f overlaidFS) Names(dir string) ([]string, error) {
	names, err := f.FS.Names(dir)
	o := f.over.Load()
	if o == nil || len(o.dirs[dir]) == 0 {
		return names, err
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	others := make(map[string]bool)
	for _, n := range o.dirs[dir] {
		others[n] = true
	}
	all := make([]string, 0, len(names))
	for _, n := range names {
		if !others[n] {
			all = append(all, n)
		}
	}
	for n := range others {
		if _, err := f.Stat(dir + "/" + n); err == nil {
			all = append(all, n)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return all, nil
}

// overlaidFile is a file that is read, with parts that are not in it, or not as they
// should be.
type overlaidFile struct {
	durable.File // nil: there is none
	below        int64
	spans        []entryAppend
	now          time.Time
}

// size is how long the file is with those parts that begin where it ends, or before.
func (f *overlaidFile) size() int64 {
	end := f.below
	for _, s := range f.spans {
		if s.At <= end {
			end = max(end, s.At+int64(len(s.lines)))
		}
	}
	return end
}

func (f *overlaidFile) ReadAt(b []byte, off int64) (n int, err error) {
	end := f.size()
	if off >= end {
		return 0, io.EOF
	}
	whole := int64(len(b)) <= end-off
	b = b[:min(int64(len(b)), end-off)]
	if f.File != nil && off < f.below {
		if _, err := f.File.ReadAt(b, off); err != nil && err != io.EOF {
			return 0, err
		}
	}
	for _, s := range f.spans {
		if from, to := max(s.At, off), min(s.At+int64(len(s.lines)), off+int64(len(b))); from < to {
			copy(b[from-off:to-off], s.lines[from-s.At:])
		}
	}
	if !whole {
		err = io.EOF
	}
	return len(b), err
}

func (f *overlaidFile) Stat() (durable.Info, error) {
	info := durable.Info{Mode: 0o600}
	if f.File != nil {
		var err error
		if info, err = f.File.Stat(); err != nil {
			return info, err
		}
	}
	info.Size, info.ModTime = f.size(), f.now
	return info, nil
}

func (f *overlaidFile) Close() error {
	if f.File == nil {
		return nil
	}
	return f.File.Close()
}

var _ durable.FS = overlaidFS{}
