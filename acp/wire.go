package acp

import (
	"bytes"
	"io"
	"sync"
)

// wire is the two streams of the connection. It holds back what comes until
// the connection is set up, and knows when something has gone out.
type wire struct {
	in     io.Reader
	out    io.Writer
	ready  chan struct{} // closed: the connection is set up
	broken chan struct{} // closed: nobody reads what goes out

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

// end says that nothing goes out any more.
func (w *wire) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.ended = true
		close(w.broken)
	}
}

// isBroken reports whether nobody reads what goes out.
func (w *wire) isBroken() bool {
	select {
	case <-w.broken:
		return true
	default:
		return false
	}
}

// after does something once an answer with this text in it has gone out. So an
// editor is told of a session only after it knows its id.
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
