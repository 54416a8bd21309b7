package files

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// target is a log that is about to be appended to, under the lock of its
// stripe.
type target struct {
	b     *Backend
	log   tidemark.Key
	name  string       // of the file
	f     durable.File // nil when there is no log yet
	head  durable.File // nil when there is no head yet
	st    state
	id    uint64 // of the file, 0: unknown
	made  bool   // by this commit
	whole bool   // the end is known to be the end of a row

	lines []byte          // room for those of the next append
	sheet [headBytes]byte // room for the head
}

// target opens a log and prepares it for an append: no torn tail, and nothing in
// it that is not durable. A killed writer may have left a whole line that is not
// synced. If the next line were kept and that one lost, the log would have a
// hole; and a caller that repeats its key must not be told that it was kept
// before it is durable.
func (b *Backend) target(log tidemark.Key) (*target, error) {
	if t := b.handles.takeLog(log); t != nil {
		info, err := b.fs.Stat(t.name)
		if err == nil && info.ID == t.id && info.Size == t.st.end {
			return t, nil
		}
		t.close()
	}
	t := &target{b: b, log: log, name: logPath(log)}
	if err := t.open(); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

func (t *target) open() error {
	var h head
	known := false
	hf, err := t.b.fs.OpenFile(headPath(t.log), os.O_RDWR)
	if err == nil {
		t.head = hf
		var buf [headBytes + 1]byte
		n, err := hf.ReadAt(buf[:], 0)
		if err != nil && err != io.EOF {
			return err
		}
		known = parseHead(buf[:n], t.log, &h)
		h.file = true
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := t.b.fs.OpenFile(t.name, os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) {
		if known {
			return lostTail(t.log, 0, h.Length)
		}
		if t.st.atLeast(t.log, t.b.floor(t.log), h.file); t.st.lost != nil {
			return t.st.lost
		}
		return nil
	}
	if err != nil {
		return err
	}
	t.f = f
	if t.st, err = settle(f, t.log, h, known); err != nil {
		return err
	}
	t.st.atLeast(t.log, t.b.floor(t.log), h.file)
	if t.st.lost != nil {
		return t.st.lost
	}
	t.id = t.st.id
	return t.adopt()
}

func (t *target) adopt() error {
	torn := t.st.size > t.st.end
	if torn {
		if err := t.cut(); err != nil {
			return err
		}
	}
	if torn || t.st.synced < t.st.end {
		if err := durable.SyncFile(t.f, t.name); err != nil {
			return err
		}
		if t.st.Length > 0 {
			t.writeHead()
		}
	}
	t.st.synced = t.st.end
	return nil
}

// cut moves a torn tail aside: it is stored under torn/ before it is removed
// from the log.
func (t *target) cut() error {
	tail := make([]byte, min(t.st.size-t.st.end, maxLineBytes))
	n, err := t.f.ReadAt(tail, t.st.end)
	if err != nil && err != io.EOF {
		return err
	}
	aside := asideName(t.log, "")
	if err := durable.MkdirAll(t.b.fs, path.Dir(aside)); err != nil {
		return err
	}
	if err := durable.Create(t.b.fs, aside, tail[:n]); err != nil {
		return err
	}
	if err := durable.SyncDir(t.b.fs, path.Dir(aside)); err != nil {
		return err
	}
	if err := t.f.Truncate(t.st.end); err != nil {
		return err
	}
	t.st.size = t.st.end
	return nil
}

func (t *target) close() {
	if t.f != nil {
		t.f.Close()
	}
	if t.head != nil {
		t.head.Close()
	}
}

// write appends lines at the end and syncs them. When there is no space, the log
// keeps its length. The name of a new log is not durable yet.
func (t *target) write(data []byte) error {
	if t.f == nil {
		if err := t.make(); err != nil {
			return err
		}
	}
	return t.put(t.behindEnd(data), true)
}

// behindEnd returns lines as they are written behind those that are there, of which the
// last may have lost its newline.
func (t *target) behindEnd(data []byte) []byte {
	if t.st.end > 0 && !t.whole && !endsRow(t.f, t.st.end) {
		return append([]byte{'\n'}, data...)
	}
	return data
}

// put writes data at the end of a log that is there. Without a sync, the journal has it.
func (t *target) put(data []byte, sync bool) error {
	_, err := t.f.WriteAt(data, t.st.end)
	if err == nil && sync {
		err = durable.SyncFile(t.f, t.name)
	}
	if err != nil {
		if uerr := t.undo(); uerr != nil {
			return &stuckError{uerr}
		}
		return err
	}
	t.st.end += int64(len(data))
	t.st.size, t.st.synced, t.whole = t.st.end, t.st.end, true
	return nil
}

func (t *target) make() error {
	name := t.name
	if err := durable.MkdirAll(t.b.fs, path.Dir(name)); err != nil {
		return err
	}
	f, err := t.b.fs.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	t.f, t.made = f, true
	return nil
}

// undo removes what write may have left after the end.
func (t *target) undo() error {
	if t.made {
		return t.b.fs.Remove(t.name)
	}
	return t.f.Truncate(t.st.end)
}

// writeHead is called after a sync and does not sync. It may fail: the log
// itself tells the same, at the cost of reading its end.
func (t *target) writeHead() {
	if t.st.life == "" {
		var id [6]byte
		rand.Read(id[:])
		t.st.life = hex.EncodeToString(id[:])
	}
	if t.head == nil {
		name := headPath(t.log)
		f, err := t.b.fs.OpenFile(name, os.O_RDWR|os.O_CREATE)
		if errors.Is(err, fs.ErrNotExist) {
			t.b.fs.Mkdir(path.Dir(name))
			f, err = t.b.fs.OpenFile(name, os.O_RDWR|os.O_CREATE)
		}
		if err != nil {
			return
		}
		t.head = f
	}
	t.head.WriteAt(appendHead(t.sheet[:0], t.log, &t.st.head), 0)
}

// stuckError is a step that could neither be completed nor undone.
type stuckError struct{ err error }

func (e *stuckError) Error() string { return e.err.Error() }
func (e *stuckError) Unwrap() error { return e.err }
