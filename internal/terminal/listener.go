package terminal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/muesli/cancelreader"
)

// escapeWait is how long an Esc may be the start of a sequence. Terminals send
// a sequence at once; a slow network delays its parts by less than this.
const escapeWait = 100 * time.Millisecond

// listener reads a keyboard and passes the keys to its owner.
type listener struct {
	in   io.Reader
	mu   *sync.Mutex // the owner's: obey and end are called with it held
	obey func(keys []key)
	end  func(err error) // nothing more comes from the keyboard

	ear   *ear
	keys  keyboard
	fed   int // number of bytes read from the keyboard
	ahead int // bytes that were typed before it listened and are not read yet
}

// ear reads the keyboard until it is stopped. A read from a keyboard that is
// no file cannot be cancelled, so its ear runs forever.
type ear struct {
	io.Reader
	file cancelreader.CancelReader // nil if it is no file
	done chan struct{}
}

// listen starts to read keys.
func (l *listener) listen() {
	if l.ear != nil && l.ear.file == nil {
		return
	}
	e := &ear{Reader: l.in, done: make(chan struct{})}
	if _, ok := l.in.(cancelreader.File); ok {
		r, err := cancelreader.NewReader(l.in)
		if err != nil {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.end(fmt.Errorf("keyboard: %w", err))
			return
		}
		e.Reader, e.file = r, r
	}
	if f, ok := l.in.(interface{ Fd() uintptr }); ok {
		l.ahead = typedAhead(f.Fd())
	}
	l.ear = e
	go l.hear(e)
}

// stop stops reading. Keys that were not read yet stay available to others.
func (l *listener) stop() {
	if e := l.ear; e != nil && e.file != nil && e.file.Cancel() {
		<-e.done
		e.file.Close()
	}
}

func (l *listener) hear(e *ear) {
	defer close(e.done)
	p := make([]byte, 64<<10)
	for {
		n, err := e.Read(p)
		if n > 0 {
			l.typed(p[:n])
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, cancelreader.ErrCanceled) {
			if errors.Is(err, syscall.EIO) {
				err = io.EOF // the terminal went away
			}
			l.mu.Lock()
			l.end(err)
			l.mu.Unlock()
		}
		return
	}
}

// typed handles bytes of the keyboard.
func (l *listener) typed(p []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fed++
	if n := min(l.ahead, len(p)); n > 0 {
		// The terminal was not raw then, and had turned Enter into a newline.
		copy(p, bytes.ReplaceAll(p[:n], []byte("\n"), []byte("\r")))
		l.ahead -= n
	}
	l.obey(l.keys.feed(p))
	if fed := l.fed; l.keys.waits() {
		time.AfterFunc(escapeWait, func() { l.stale(fed) })
	}
}

// stale treats an Esc as the key when nothing followed it.
func (l *listener) stale(fed int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fed == fed {
		l.obey(l.keys.flush())
	}
}
