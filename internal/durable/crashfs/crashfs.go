// Package crashfs is a file system in memory for tests, which knows what would
// survive a crash. It can lose power before any call, keep none, all or a torn
// part of what was not synced, and make any call fail. It never touches a disk.
//
//	disk := crashfs.New()
//	disk.StopAt(7) // the seventh change from now and all later calls find the power off
//	after := disk.Cut(crashfs.Loss{Data: crashfs.Torn}, seed)
package crashfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// ErrPower is what every call returns after the power was cut.
var ErrPower = errors.New("crashfs: the power is off")

// Fault makes calls to the file system fail.
type Fault struct {
	At     int   // the first call that fails, counted from 1
	Err    error // nil: a write is cut short without an error
	Always bool  // all later calls fail too
}

// FS is a durable.FS. The zero value is not usable.
type FS struct {
	mu    sync.Mutex
	root  *node
	calls int
	turns int // calls that change something
	stop  int
	off   bool
	fault Fault
	room  int64 // bytes that files may still grow by
	full  bool  // room counts
	clock int64
	boots int
	ids   uint64
}

// node is a file or a directory, as the system sees it and as the disk has it.
type node struct {
	id      uint64
	changed int64
	holder  *file // who has the lock

	names   map[string]*node // a directory's, now
	kept    map[string]*node // on disk
	pending []entry          // not synced, oldest first

	data   []byte // a file's, now
	synced []byte // on disk
	writes []write
	failed bool // a sync failed: later ones say yes and do nothing
}

type entry struct {
	name string
	node *node // nil: removed
}

type write struct {
	at   int64
	data []byte // nil: the file was cut or grown to at
}

// New returns an empty file system.
func New() *FS {
	f := &FS{}
	f.root = f.newNode(true)
	return f
}

func (f *FS) newNode(dir bool) *node {
	f.ids++
	n := &node{id: f.ids}
	if dir {
		n.names, n.kept = map[string]*node{}, map[string]*node{}
	}
	return n
}

// StopAt lets the power fail at the n-th call from now that changes something;
// 0: not at all. A stop before a call that only reads leaves what a stop before
// the next change leaves.
func (f *FS) StopAt(n int) { f.turns, f.stop = 0, n }

// Changes is how many calls since the last StopAt changed something, or would
// have.
func (f *FS) Changes() int { return f.turns }

// Inject lets calls fail, counted from now.
func (f *FS) Inject(fault Fault) { f.calls, f.fault = 0, fault }

// SetRoom leaves n bytes free on the disk. What is cut off or removed frees as
// much again.
func (f *FS) SetRoom(n int64) { f.room, f.full = n, true }

// Calls is how many calls of any kind there were since the last Inject.
func (f *FS) Calls() int { return f.calls }

// enter counts a call. It returns with f locked when err is nil.
func (f *FS) enter(changes bool) error {
	f.mu.Lock()
	f.calls++
	f.clock++
	if changes {
		f.turns++
	}
	if f.stop != 0 && f.turns >= f.stop {
		f.off = true
	}
	err := f.failing()
	if f.off {
		err = ErrPower
	}
	if err != nil {
		f.mu.Unlock()
	}
	return err
}

func (f *FS) failing() error {
	if f.fault.At != 0 && (f.calls == f.fault.At || f.fault.Always && f.calls > f.fault.At) {
		return f.fault.Err
	}
	return nil
}

func (f *FS) find(name string) (*node, error) {
	n := f.root
	if name == "." {
		return n, nil
	}
	for _, part := range strings.Split(name, "/") {
		if n.names == nil {
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		}
		if n = n.names[part]; n == nil {
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		}
	}
	return n, nil
}

func (f *FS) set(dir *node, name string, n *node) {
	if old := dir.names[name]; old != nil && old != n {
		f.room += int64(len(old.data))
	}
	if n == nil {
		delete(dir.names, name)
	} else {
		dir.names[name] = n
	}
	dir.pending = append(dir.pending, entry{name, n})
	dir.changed = f.clock
}

func (f *FS) OpenFile(name string, flag int) (durable.File, error) {
	if err := f.enter(flag&os.O_CREATE != 0); err != nil {
		return nil, err
	}
	defer f.mu.Unlock()
	n, err := f.find(name)
	switch {
	case err == nil && flag&os.O_EXCL != 0:
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrExist}
	case err != nil && flag&os.O_CREATE != 0:
		dir, derr := f.find(path.Dir(name))
		if derr != nil {
			return nil, derr
		}
		n = f.newNode(false)
		n.changed = f.clock
		f.set(dir, path.Base(name), n)
	case err != nil:
		return nil, err
	}
	return &file{f, n}, nil
}

func (f *FS) Mkdir(name string) error {
	if err := f.enter(true); err != nil {
		return err
	}
	defer f.mu.Unlock()
	if _, err := f.find(name); err == nil {
		return &fs.PathError{Op: "mkdir", Path: name, Err: fs.ErrExist}
	}
	dir, err := f.find(path.Dir(name))
	if err != nil {
		return err
	}
	f.set(dir, path.Base(name), f.newNode(true))
	return nil
}

func (f *FS) Rename(from, to string) error {
	if err := f.enter(true); err != nil {
		return err
	}
	defer f.mu.Unlock()
	n, err := f.find(from)
	if err != nil {
		return err
	}
	dir, err := f.find(path.Dir(to))
	if err != nil {
		return err
	}
	old, _ := f.find(path.Dir(from))
	f.set(dir, path.Base(to), n)
	f.room -= int64(len(n.data)) // set takes it for removed
	f.set(old, path.Base(from), nil)
	return nil
}

func (f *FS) Remove(name string) error {
	if err := f.enter(true); err != nil {
		return err
	}
	defer f.mu.Unlock()
	if _, err := f.find(name); err != nil {
		return err
	}
	dir, _ := f.find(path.Dir(name))
	f.set(dir, path.Base(name), nil)
	return nil
}

func (f *FS) Names(name string) (names []string, err error) {
	if err := f.enter(false); err != nil {
		return nil, err
	}
	defer f.mu.Unlock()
	dir, err := f.find(name)
	if err != nil {
		return nil, err
	}
	for n := range dir.names {
		names = append(names, n)
	}
	return names, nil
}

func (f *FS) Stat(name string) (durable.Info, error) {
	if err := f.enter(false); err != nil {
		return durable.Info{}, err
	}
	defer f.mu.Unlock()
	n, err := f.find(name)
	if err != nil {
		return durable.Info{}, err
	}
	return n.info(), nil
}

func (n *node) info() durable.Info {
	i := durable.Info{Size: int64(len(n.data)), ID: n.id, Mode: 0o600, ModTime: time.UnixMicro(n.changed)}
	if n.names != nil {
		i.Mode = 0o700 | fs.ModeDir
	}
	return i
}

func (f *FS) SyncDir(name string) error {
	if err := f.enter(true); err != nil {
		return err
	}
	defer f.mu.Unlock()
	dir, err := f.find(name)
	if err != nil {
		return err
	}
	dir.kept, dir.pending = map[string]*node{}, nil
	for name, n := range dir.names {
		dir.kept[name] = n
	}
	return nil
}

// Boot tells whether the power was cut: then it is another one.
func (f *FS) Boot() string { return fmt.Sprintf("boot %d", f.boots) }

// Close does nothing: the state outlives its users.
func (f *FS) Close() error { return nil }

type file struct {
	fs *FS
	n  *node
}

func (h *file) ReadAt(b []byte, off int64) (int, error) {
	if err := h.fs.enter(false); err != nil {
		return 0, err
	}
	defer h.fs.mu.Unlock()
	if off >= int64(len(h.n.data)) {
		return 0, io.EOF
	}
	n := copy(b, h.n.data[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (h *file) WriteAt(b []byte, off int64) (int, error) {
	err := h.fs.enter(true)
	if errors.Is(err, ErrPower) {
		return 0, err
	}
	if err != nil {
		h.fs.mu.Lock()
	}
	defer h.fs.mu.Unlock()
	short := err == nil && h.fs.calls == h.fs.fault.At && len(b) > 1
	if err != nil || short {
		b = b[:len(b)/2] // a failed write may have written a part
	}
	if grow := off + int64(len(b)) - int64(len(h.n.data)); h.fs.full && grow > 0 {
		if grow > h.fs.room {
			b, grow, err = b[:max(int64(len(b))-grow+h.fs.room, 0)], h.fs.room, syscall.ENOSPC
		}
		h.fs.room -= grow
	}
	if len(b) > 0 {
		data := append([]byte(nil), b...)
		h.n.apply(write{off, data})
		h.n.writes = append(h.n.writes, write{off, data})
		h.n.changed = h.fs.clock
	}
	return len(b), err
}

func (n *node) apply(w write) { n.data = w.on(n.data) }

func (w write) on(data []byte) []byte {
	end := w.at + int64(len(w.data))
	if w.data == nil && w.at <= int64(len(data)) {
		return append([]byte(nil), data[:w.at]...)
	}
	if end > int64(len(data)) {
		data = append(data[:len(data):len(data)], make([]byte, end-int64(len(data)))...)
	} else {
		data = append([]byte(nil), data...)
	}
	copy(data[w.at:], w.data)
	return data
}

func (h *file) Truncate(size int64) error {
	if err := h.fs.enter(true); err != nil {
		return err
	}
	defer h.fs.mu.Unlock()
	w := write{at: size}
	h.fs.room += int64(len(h.n.data)) - size
	h.n.apply(w)
	h.n.writes = append(h.n.writes, w)
	h.n.changed = h.fs.clock
	return nil
}

func (h *file) Sync() error {
	if err := h.fs.enter(true); err != nil {
		if !errors.Is(err, ErrPower) && !errors.Is(err, syscall.EINTR) {
			h.n.failed = true // the system drops what it could not write
		}
		return err
	}
	defer h.fs.mu.Unlock()
	if !h.n.failed {
		h.n.synced, h.n.writes = append([]byte(nil), h.n.data...), nil
	}
	return nil
}

func (h *file) Stat() (durable.Info, error) {
	if err := h.fs.enter(false); err != nil {
		return durable.Info{}, err
	}
	defer h.fs.mu.Unlock()
	return h.n.info(), nil
}

func (h *file) TryLock() (bool, error) {
	if err := h.fs.enter(false); err != nil {
		return false, err
	}
	defer h.fs.mu.Unlock()
	if h.n.holder != nil && h.n.holder != h {
		return false, nil
	}
	h.n.holder = h
	return true, nil
}

// Unlock and Close work without power, too: the kernel that held the lock is
// gone.
func (h *file) Unlock() error {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if h.n.holder == h {
		h.n.holder = nil
	}
	return nil
}

func (h *file) Close() error { return h.Unlock() }
