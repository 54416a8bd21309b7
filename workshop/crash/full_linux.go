package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// smallBytes is the size of the disk that is filled: the smallest on which
// both stores have some room beside their entries.
const smallBytes = 16 << 20

// noRoom is the exit code of a command that could not write.
const noRoom = 14

// full fills a small disk to its last byte, and mounts one for reading only.
func full(ctx context.Context, o options) ([]row, error) {
	if err := canMount("ext4"); err != nil {
		return nil, err
	}
	p, work, done, err := prepare(ctx, o)
	if err != nil {
		return nil, err
	}
	defer done()
	var rows []row
	for _, kind := range []string{"ext4", "tmpfs"} {
		t := newFilling(o, p, work, "full disk", kind+", 0 bytes free")
		for range o.n {
			if err := t.onDisk(ctx, kind, t.fill); err != nil {
				return rows, err
			}
		}
		rows = append(rows, t.row())
	}
	t := newFilling(o, p, work, "read-only", "ext4 mounted ro")
	for range o.n {
		if err := t.onDisk(ctx, "ext4", t.readOnly); err != nil {
			return rows, err
		}
	}
	return append(rows, t.row()), nil
}

// fillings is one row of full.
type fillings struct {
	killing
	work  string
	began time.Time
	codes map[string][]int // by command: the exit codes that it had
	order []string
}

func newFilling(o options, p program, work, what, where string) *fillings {
	t := &fillings{killing: killing{o: o, r: o.random(), place: place{program: p, backend: o.backend, plain: o.plain}}, work: work,
		began: time.Now(), codes: make(map[string][]int)}
	t.total.what, t.total.where = what, where
	return t
}

// row says which commands worked.
func (t *fillings) row() row {
	var notes []string
	for _, name := range t.order {
		codes := slices.Sorted(slices.Values(t.codes[name]))
		if first, last := codes[0], codes[len(codes)-1]; first == last {
			notes = append(notes, fmt.Sprintf("%s %d", name, first))
			continue
		}
		times := make(map[int]int)
		for _, c := range codes {
			times[c]++
		}
		note := name
		for _, c := range slices.Compact(codes) {
			note += fmt.Sprintf(" %d (%d times)", c, times[c])
		}
		notes = append(notes, note)
	}
	t.total.note = "exit codes: " + strings.Join(notes, ", ")
	t.total.seconds = time.Since(t.began).Seconds()
	return t.total
}

// onDisk runs a trial on a new small disk.
func (t *fillings) onDisk(ctx context.Context, kind string, trial func(*book, *volume) error) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	v, err := newSmall(ctx, kind, filepath.Join(t.work, "disk"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.close()) }()
	t.place.dir = filepath.Join(v.dir, "kept")
	if err := os.Mkdir(t.place.dir, 0o700); err != nil {
		return err
	}
	b := &book{say: t.o.say}
	defer func() { t.total.add(b.row()) }()
	t.total.count++
	return trial(b, v)
}

// newSmall makes and mounts a small disk.
func newSmall(ctx context.Context, kind, dir string) (*volume, error) {
	if kind == "tmpfs" {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
		v := &volume{kind: kind, dir: dir}
		return v, v.mount(fmt.Sprintf("size=%d", smallBytes/2), 0)
	}
	v, err := newVolume(ctx, kind, smallBytes, dir)
	if err != nil {
		return nil, err
	}
	if err := v.mount("", 0); err != nil {
		return nil, errors.Join(err, v.close())
	}
	return v, nil
}

// some lets a new writer add a few entries, to a new session when s is nil,
// and end normally.
func (t *fillings) some(b *book, s *session, n int) (*session, error) {
	b.mu.Lock()
	if s == nil {
		s = b.begin()
	}
	w, err := startWriter(t.place, b, s, t.r)
	b.mu.Unlock()
	if err != nil {
		return nil, err
	}
	w.after(n)
	w.finish()
	return s, nil
}

// fill is one full disk: before, while it fills, at its last byte, and after.
func (t *fillings) fill(b *book, v *volume) error {
	main, err := t.some(b, nil, 30)
	if err != nil {
		return err
	}
	other, err := t.some(b, nil, 3)
	if err != nil {
		return err
	}
	ballast := filepath.Join(v.dir, "ballast")
	if err := fillUp(ballast, int64(t.r.IntN(400<<10))); err != nil {
		return err
	}
	if err := t.untilFull(b, main); err != nil {
		return err
	}
	if err := fillUp(ballast, 0); err != nil {
		return err
	}
	if err := t.tryAll(b, main, other); err != nil {
		return err
	}
	if err := b.peekAll(t.place); err != nil {
		return err
	}
	if err := os.Remove(ballast); err != nil {
		return err
	}
	// There is room again: everything works, without any repair.
	if _, err := t.some(b, main, 10); err != nil {
		return err
	}
	return b.look(t.place, nil, true)
}

// fillUp writes ballast until nothing more fits, and then frees some
// room.
func fillUp(name string, room int64) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	for chunk := 256 << 10; chunk > 0; chunk /= 4 {
		for err = nil; err == nil; {
			if _, err = f.Write(make([]byte, chunk)); err == nil {
				err = f.Sync() // before the sync, room is only promised
			}
		}
		if !errors.Is(err, unix.ENOSPC) {
			return err
		}
	}
	if room == 0 {
		return nil
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := f.Truncate(max(0, info.Size()-room)); err != nil {
		return err
	}
	return f.Sync()
}

// untilFull lets a writer run against the end of the disk.
func (t *fillings) untilFull(b *book, s *session) error {
	b.mu.Lock()
	w, err := startWriter(t.place, b, s, t.r)
	if err != nil {
		b.mu.Unlock()
		return err
	}
	w.killed = true // its end is judged here
	b.mu.Unlock()
	select {
	case <-w.done:
	case <-time.After(time.Minute): // it then ends with a signal, not with noRoom
	}
	w.kill()
	b.mu.Lock()
	defer b.mu.Unlock()
	t.note("append", w.cmd.ProcessState.ExitCode())
	if code, said := w.cmd.ProcessState.ExitCode(), w.stderr.String(); code != noRoom || !saysFull(said) {
		b.fault(&b.aid, "append on a full disk ends with %d: %s", code, said)
	}
	return nil
}

// saysFull reports whether a person who reads it knows what to do.
func saysFull(said string) bool {
	return strings.HasPrefix(said, "tidemark: store ") && strings.Contains(said, "\nhint: ") && strings.Contains(said, "room")
}

// reads are the commands that have to work on a full disk, and writes
// those whose behaviour is reported.
var (
	reads  = [][]string{{"ls", "-A"}, {"show"}, {"tail"}, {"cat"}, {"tree"}, {"verify", ""}, {"lock"}}
	writes = [][]string{{"append"}, {"label", "full"}, {"fork"}, {"rm"}, {"restore"}}
)

func (t *fillings) note(command string, code int) {
	if t.codes[command] == nil {
		t.order = append(t.order, command)
	}
	t.codes[command] = append(t.codes[command], code)
}

// tryAll tries every command on a store that cannot be written to.
func (t *fillings) tryAll(b *book, main, other *session) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range reads {
		args := []string{c[0], main.id}
		if len(c) > 1 { // of the whole store
			args = strings.Fields(strings.Join(c, " "))
		}
		a, err := t.place.ask("", args...)
		if err != nil {
			return err
		}
		t.note(c[0], a.code)
		if a.code != 0 {
			b.fault(&b.unreadable, "%q ends with %d: %s%s", args, a.code, a.out, a.err)
		}
	}
	for _, c := range writes {
		args := append([]string{c[0], other.id}, c[1:]...)
		a, err := t.place.ask(`{"role":"user","content":"one more"}`+"\n", args...)
		if err != nil {
			return err
		}
		t.note(c[0], a.code)
		t.happened(b, c[0], other, a)
		if a.code != 0 && (a.code != noRoom || !strings.Contains(a.err, "hint: ")) {
			b.fault(&b.aid, "%q ends with %d: %s%s", args, a.code, a.out, a.err)
		}
	}
	return nil
}

// happened records a change in the book: done or, when it failed, possible,
// as nothing was promised either way.
func (t *fillings) happened(b *book, command string, s *session, a answer) {
	change := func(f *fact, to string) {
		if f.try(to); a.code == 0 {
			f.take(to)
		}
	}
	s.touched = true
	switch command {
	case "rm":
		change(&s.state, trash)
	case "restore":
		change(&s.state, live)
	case "append":
		p := &promise{text: "one more"}
		s.sent = append(s.sent, p)
		var id string
		var seq int64
		if _, err := fmt.Sscan(a.out, &id, &seq); err == nil {
			b.kept(s, id, p, seq)
		}
	case "label":
		s.labels = append(s.labels, label{text: "full", seq: s.newest() + int64(s.branches), acked: a.code == 0})
	case "fork":
		f := b.begin()
		f.title.now, f.base, f.branches = s.title.now, s.newest(), 1
		change(&f.state, live)
		if a.code == 0 {
			f.id = strings.TrimSpace(a.out)
		}
	}
}

// readOnly is a store on a disk that is mounted for reading only, closed well
// or left by a writer that was killed.
func (t *fillings) readOnly(b *book, v *volume) error {
	if _, err := t.some(b, nil, 20); err != nil {
		return err
	}
	if _, writers, err := t.round(b); err != nil {
		return err
	} else if err := b.look(t.place, writers, true); err != nil {
		return err
	}
	b.mu.Lock()
	s := b.idle()[0]
	w, err := startWriter(t.place, b, s, t.r)
	b.mu.Unlock()
	if err != nil {
		return err
	}
	w.after(1 + t.r.IntN(10))
	w.kill()
	if err := v.unmount(); err != nil {
		return err
	}
	if err := v.mount("", unix.MS_RDONLY); err != nil {
		return err
	}
	if err := t.tryAll(b, s, s); err != nil {
		return err
	}
	if err := b.peekAll(t.place); err != nil {
		return err
	}
	if err := v.unmount(); err != nil {
		return err
	}
	if err := v.mount("", 0); err != nil {
		return err
	}
	if _, err := t.some(b, s, 5); err != nil {
		return err
	}
	return b.look(t.place, nil, true)
}

// peekAll is peek at every session, for a caller that has not locked the book.
func (b *book) peekAll(p place) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.sessions {
		s.touched = true
	}
	return b.peek(p)
}
