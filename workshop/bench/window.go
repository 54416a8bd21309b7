package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// window is a terminal with a process in it.
type window struct {
	cmd    *exec.Cmd
	screen *os.File
	seen   []byte // the end of what was shown
	ended  bool
}

// openWindow starts a process in a terminal of its own: ErrUnsupported where
// there is no way to make one.
func openWindow(cmd *exec.Cmd) (*window, error) {
	screen, err := startInTerminal(cmd)
	if err != nil {
		return nil, err
	}
	return &window{cmd: cmd, screen: screen}, nil
}

// tailBytes is how much of the screen is kept to search in, and to show when
// the mark does not appear; shownWithin is how long it may take to appear.
const (
	tailBytes   = 4 << 10
	shownWithin = time.Minute
)

// until reads what the process shows until it has shown a mark.
func (w *window) until(mark string) error {
	if err := w.screen.SetReadDeadline(time.Now().Add(shownWithin)); err != nil {
		return err
	}
	buf := make([]byte, 64<<10)
	for {
		if i := bytes.Index(w.seen, []byte(mark)); i >= 0 {
			w.seen = w.seen[i+len(mark):]
			return nil
		}
		n, err := w.screen.Read(buf)
		// The mark may have come in part before.
		w.seen = append(w.seen[max(0, len(w.seen)-tailBytes):], buf[:n]...)
		if err != nil {
			return fmt.Errorf("%q was not shown: %w: %q", mark, err, w.seen[max(0, len(w.seen)-tailBytes):])
		}
	}
}

// say types a line.
func (w *window) say(line string) error {
	_, err := io.WriteString(w.screen, line+"\r")
	return err
}

// leave types the command to leave and waits for the end of the process.
func (w *window) leave() error {
	if _, err := io.WriteString(w.screen, "\x04"); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, w.screen) // a closed terminal is an error, not an end
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	w.ended = true
	return w.cmd.Wait()
}

// close ends a process that has not left.
func (w *window) close() {
	if !w.ended {
		w.cmd.Process.Kill()
		w.cmd.Wait()
	}
	w.screen.Close()
}
