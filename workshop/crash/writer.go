package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// writer is one process that appends as fast as it gets answers.
type writer struct {
	place  place
	book   *book
	s      *session
	keyed  bool
	again  int // number of entries to send again
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr bytes.Buffer
	began  time.Time

	mu    sync.Mutex
	sent  []*promise    // by this process, in order
	acks  int           // read so far
	first time.Duration // until the first
	tick  chan int      // the number of acknowledgements, as they are read
	done  chan struct{} // closed when the process has ended and its output is read

	killed bool          // by us
	enough chan struct{} // closed when nothing more is to be sent
}

// startWriter starts a process on a session, on a new one when s is
// unknown. Entries that an earlier writer sent with a key and got no answer
// for are sent again first.
func startWriter(p place, b *book, s *session, r *rand.Rand) (*writer, error) {
	return startWriterWith(p, b, s, r, false)
}

// startWriterWith starts a process that, with againOnly, sends only
// entries to be sent again, if there are any.
func startWriterWith(p place, b *book, s *session, r *rand.Rand, againOnly bool) (*writer, error) {
	w := &writer{place: p, book: b, s: s, keyed: r.IntN(2) == 0, tick: make(chan int, 1), done: make(chan struct{}), enough: make(chan struct{})}
	args := []string{"append", s.id}
	if s.id == "" {
		args = []string{"append", "new", "--session-meta", fmt.Sprintf(`{"title":%q}`, s.title.now)}
		s.state.try(live)
	}
	again := s.unanswered()
	w.again = len(again)
	againOnly = againOnly && w.again > 0
	s.busy, s.touched = true, true
	w.cmd = p.command(args...)
	w.cmd.Stderr = &w.stderr
	var err error
	if w.stdin, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w.began = time.Now()
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	credit := make(chan struct{}, 1+r.IntN(8)) // how far it may run ahead of its answers
	seed := r.Uint64()
	go w.feed(again, againOnly, credit, rand.New(rand.NewPCG(seed, 1)))
	go w.listen(out, credit)
	return w, nil
}

// feed sends entries until the process is gone or there is enough of them.
func (w *writer) feed(again []*promise, only bool, credit chan struct{}, r *rand.Rand) {
	defer w.stdin.Close()
	for {
		select {
		case <-w.enough:
			return
		case <-w.done:
			return
		case credit <- struct{}{}:
		}
		var p *promise
		w.book.mu.Lock()
		switch {
		case len(again) > 0:
			p, again = again[0], again[1:]
		case only:
			w.book.mu.Unlock()
			select { // its input stays open, as that of a chat would
			case <-w.enough:
			case <-w.done:
			}
			return
		default:
			p = &promise{text: w.book.name("entry") + " " + filling(r)}
			if w.keyed {
				p.key = w.book.name("key")
			}
			w.s.sent = append(w.s.sent, p)
		}
		w.book.mu.Unlock()
		w.mu.Lock()
		w.sent = append(w.sent, p)
		w.mu.Unlock()
		if _, err := w.stdin.Write(p.line()); err != nil {
			return
		}
	}
}

// line is the entry as the program reads it.
func (p *promise) line() []byte {
	fields := map[string]string{"role": "user", "content": p.text}
	if p.key != "" {
		fields["key"] = p.key
	}
	b, err := json.Marshal(fields)
	if err != nil {
		panic(err) // a map of strings
	}
	return append(b, '\n')
}

// filling makes entries of many sizes: most short, some over a page, a few
// over what one write to a pipe takes.
func filling(r *rand.Rand) string {
	n := r.IntN(200)
	switch r.IntN(50) {
	case 0:
		n = 60_000 + r.IntN(20_000)
	case 1, 2, 3:
		n = 3_000 + r.IntN(3_000)
	}
	return strings.Repeat("~", n)
}

// listen reads acknowledgements. Only complete lines count: a killed
// process may have begun one.
func (w *writer) listen(out io.Reader, credit chan struct{}) {
	defer close(w.done)
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			break
		}
		id, number, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		seq, err := strconv.ParseInt(number, 10, 64)
		w.mu.Lock()
		i := w.acks
		w.acks++
		if i == 0 {
			w.first = time.Since(w.began)
		}
		var p *promise
		if i < len(w.sent) {
			p = w.sent[i]
		}
		w.mu.Unlock()
		w.book.heard(func() {
			if !ok || err != nil || p == nil {
				w.book.fault(&w.book.aid, "session %s: the writer printed %q", w.s.id, line)
				return
			}
			w.book.kept(w.s, id, p, seq)
		})
		select { // the newest count is enough
		case <-w.tick:
		default:
		}
		w.tick <- i + 1
		select {
		case <-credit:
		default:
		}
	}
	err := w.cmd.Wait()
	w.book.heard(func() {
		if err != nil && !w.killed {
			w.book.fault(&w.book.aid, "session %s: the writer ended with %v: %s", w.s.id, err, w.stderr.String())
		}
	})
}

// after waits until n acknowledgements were read, or the process has ended,
// or too much time has passed: a writer that hangs is a fault.
func (w *writer) after(n int) {
	if n == 0 {
		return
	}
	patience := time.After(time.Minute)
	for {
		select {
		case have := <-w.tick:
			if have >= n {
				return
			}
		case <-w.done:
			return
		case <-patience:
			w.book.heard(func() {
				w.book.fault(&w.book.aid, "session %s: no answer from the writer for a minute: %s", w.s.id, w.stderr.String())
			})
			return
		}
	}
}

// kill kills the process by SIGKILL and waits until its output is read. It
// reports whether the process was still running.
func (w *writer) kill() bool {
	w.book.mu.Lock()
	w.killed = true
	w.book.mu.Unlock()
	w.cmd.Process.Kill()
	<-w.done
	w.book.mu.Lock()
	defer w.book.mu.Unlock()
	w.s.busy = false
	return w.cmd.ProcessState != nil && !w.cmd.ProcessState.Exited()
}

// finish lets the process end normally.
func (w *writer) finish() {
	close(w.enough)
	<-w.done
	w.book.mu.Lock()
	defer w.book.mu.Unlock()
	w.s.busy = false
}
