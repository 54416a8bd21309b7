package acp

import (
	"bytes"
	"io"
	"sync"
)

// wire is the two streams of the connection. It holds back input until the
// connection is set up, and knows when a message has been sent.
type wire struct {
	in     io.Reader
	out    io.Writer
	ready  chan struct{} // closed when the connection is set up
	broken chan struct{} // closed when nobody reads the output

	mu    sync.Mutex
	ended bool
	waits map[string]chan struct{}
}

func newWire(in io.Reader, out io.Writer) *wire {
	return &wire{in: in, out: out, ready: make(chan struct{}), broken: make(chan struct{}), waits: make(map[string]chan struct{})}
}

func (w *wire) Read(b []byte) (int, error) {
	<-w.ready
	return w.in.Read(b)
}

// Write sends one message; the SDK sends one at a time.
func (w *wire) Write(b []byte) (int, error) {
	n, err := w.out.Write(b)
	if err != nil {
		w.end()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for text, sent := range w.waits {
		if bytes.Contains(b, []byte(text)) && !bytes.Contains(b, []byte(`"method":`)) {
			delete(w.waits, text)
			close(sent)
		}
	}
	return n, err
}

// end marks the output as closed.
func (w *wire) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.ended = true
		close(w.broken)
	}
}

// isBroken reports whether nobody reads the output any more.
func (w *wire) isBroken() bool {
	select {
	case <-w.broken:
		return true
	default:
		return false
	}
}

// after calls do once an answer that contains this text has been sent. So an
// editor gets news of a session only after it knows its id.
func (w *wire) after(text string, do func()) {
	sent := make(chan struct{})
	w.mu.Lock()
	w.waits[text] = sent
	w.mu.Unlock()
	go func() {
		select {
		case <-sent:
			do()
		case <-w.broken:
		}
	}()
}
