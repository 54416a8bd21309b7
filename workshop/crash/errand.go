package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// errand is one short command that changes something. It prints one line when
// the change is durable, and that line is its acknowledgement.
type errand struct {
	what  string
	book  *book
	s     *session
	args  []string
	stdin string
	acked func(line string) // called with the book locked

	cmd    *exec.Cmd
	stderr bytes.Buffer
	killed bool
	done   chan struct{}
}

// errands are all kinds. Each returns nil when the book has nothing to
// apply it to.
var errands = []func(*book, *rand.Rand) *errand{
	labelErrand, labelErrand, renameErrand, renameErrand, forkErrand, forkErrand, branchErrand, branchErrand,
	checkpointErrand, checkpointErrand, removeErrand, restoreErrand, restoreErrand, purgeErrand,
}

// newErrand chooses one, with the book locked.
func newErrand(b *book, r *rand.Rand) *errand {
	for range 5 {
		if e := errands[r.IntN(len(errands))](b, r); e != nil {
			e.book, e.done = b, make(chan struct{})
			e.s.errand, e.s.touched = true, true
			return e
		}
	}
	return nil
}

func pick[T any](r *rand.Rand, from []T) (one T, ok bool) {
	if len(from) == 0 {
		return one, false
	}
	return from[r.IntN(len(from))], true
}

// keptSeq returns an entry of s that certainly exists.
func keptSeq(s *session, r *rand.Rand) int64 {
	var kept []int64
	for _, p := range s.sent {
		if p.seq != 0 {
			kept = append(kept, p.seq)
		}
	}
	seq, _ := pick(r, kept)
	return seq
}

func labelErrand(b *book, r *rand.Rand) *errand {
	s, ok := pick(r, b.known())
	if !ok {
		return nil
	}
	l := label{text: b.name("label"), seq: keptSeq(s, r)}
	at := len(s.labels)
	s.labels = append(s.labels, l)
	return &errand{what: "label", s: s, args: []string{"label", fmt.Sprintf("%s@%d", s.id, l.seq), l.text},
		acked: func(string) { s.labels[at].acked = true }}
}

func renameErrand(b *book, r *rand.Rand) *errand {
	s, ok := pick(r, b.known())
	if !ok {
		return nil
	}
	title := b.name("title")
	s.title.try(title)
	return &errand{what: "rename", s: s, args: []string{"rename", s.id, title}, acked: func(string) { s.title.take(title) }}
}

func forkErrand(b *book, r *rand.Rand) *errand {
	s, ok := pick(r, b.known())
	if !ok {
		return nil
	}
	f := b.begin()
	f.base = keptSeq(s, r)
	f.past = make(map[int64]string)
	f.state.try(live)
	f.touched, f.branches = true, 1 // a fork begins with an entry that says where
	for seq, text := range s.past {
		f.past[seq] = text
	}
	for _, p := range s.sent {
		if p.seq != 0 && p.seq <= f.base {
			f.past[p.seq] = p.text
		}
	}
	args := []string{"fork", fmt.Sprintf("%s@%d", s.id, f.base), "--name", f.title.now}
	return &errand{what: "fork", s: s, args: args, acked: func(line string) {
		f.id = strings.TrimSpace(line)
		f.state.take(live)
	}}
}

func branchErrand(b *book, r *rand.Rand) *errand {
	s, ok := pick(r, b.known())
	if !ok {
		return nil
	}
	s.maybeBranches++
	s.busy = true
	return &errand{what: "branch", s: s, args: []string{"branch", fmt.Sprintf("%s@%d", s.id, keptSeq(s, r))},
		acked: func(string) { s.branches, s.maybeBranches = s.branches+1, s.maybeBranches-1 }}
}

func checkpointErrand(b *book, r *rand.Rand) *errand {
	s, ok := pick(r, b.known())
	if !ok {
		return nil
	}
	var version int
	fmt.Sscan(s.point.now, &version) // none yet: 0
	word := b.name("reason")
	next := fmt.Sprintf("%d %s", version+1, word)
	s.point.try(next)
	return &errand{what: "checkpoint", s: s, args: []string{"record", "put", "checkpoint", s.id, "--version", fmt.Sprint(version)},
		stdin: fmt.Sprintf(`{"saved_at":"2026-11-15T00:00:00Z","reason":%q,"limits":{},"interpreter_state":{}}`, word),
		acked: func(string) { s.point.take(next) }}
}

func removeErrand(b *book, r *rand.Rand) *errand {
	return turnErrand(b, r, "rm", b.idle(), trash)
}

func restoreErrand(b *book, r *rand.Rand) *errand {
	return turnErrand(b, r, "restore", b.discarded(), live)
}

func purgeErrand(b *book, r *rand.Rand) *errand {
	e := turnErrand(b, r, "purge", b.idle(), gone)
	if e != nil {
		e.args = append(e.args, "--yes")
	}
	return e
}

func turnErrand(b *book, r *rand.Rand, command string, from []*session, to string) *errand {
	s, ok := pick(r, from)
	if !ok {
		return nil
	}
	s.state.try(to)
	s.busy = true
	return &errand{what: command, s: s, args: []string{command, s.id}, acked: func(string) { s.state.take(to) }}
}

// start runs the errand; done is closed when it ended.
func (e *errand) start(p place) error {
	e.cmd = p.command(e.args...)
	e.cmd.Stdin = strings.NewReader(e.stdin)
	e.cmd.Stderr = &e.stderr
	out, err := e.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := e.cmd.Start(); err != nil {
		return err
	}
	go e.listen(out)
	return nil
}

func (e *errand) listen(out io.Reader) {
	defer close(e.done)
	var heard sync.Once
	var said []byte
	buf := make([]byte, 4096)
	for {
		n, err := out.Read(buf)
		said = append(said, buf[:n]...)
		if line, _, whole := bytes.Cut(said, []byte{'\n'}); whole {
			heard.Do(func() { e.book.heard(func() { e.acked(string(line)) }) })
		}
		if err != nil {
			break
		}
	}
	err := e.cmd.Wait()
	var exit *exec.ExitError
	e.book.heard(func() {
		if err != nil && !e.killed && (!errors.As(err, &exit) || exit.ExitCode() != 0) {
			e.book.fault(&e.book.aid, "%q ended with %v: %s", e.args, err, e.stderr.String())
		}
	})
}

// kill kills the errand after a while, unless it has ended.
func (e *errand) kill(after time.Duration) bool {
	select {
	case <-e.done:
	case <-time.After(after):
	}
	e.book.mu.Lock()
	e.killed = true
	e.book.mu.Unlock()
	e.cmd.Process.Kill()
	<-e.done
	e.book.mu.Lock()
	defer e.book.mu.Unlock()
	e.s.errand, e.s.busy = false, false
	return e.cmd.ProcessState != nil && !e.cmd.ProcessState.Exited()
}
