//go:build !windows

package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
)

// TestShowOffersSessionsToPickFrom runs the program on a real terminal: the
// newest sessions are there, typing finds by content, Enter shows.
func TestShowOffersSessionsToPickFrom(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	program := func(args ...string) *exec.Cmd {
		cmd := exec.Command(exe, args...)
		cmd.Args[0] = "tidemark" // testscript.Main chooses the command by it
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir+"/config", "XDG_DATA_HOME="+dir+"/data", "TIDEMARK_STORE=", "TERM=xterm-256color")
		return cmd
	}
	for title, text := range map[string]string{"red session": "about the whale", "blue session": "about the bird"} {
		cmd := program("append", "new", "--session-meta", `{"title":"`+title+`"}`)
		cmd.Stdin = strings.NewReader(`{"role":"user","content":"` + text + `"}` + "\n")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	cmd := program("show")
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 100})
	if err != nil {
		t.Skipf("no terminal: %v", err)
	}
	defer tty.Close()
	screen := &screen{t: t, term: vt10x.New(vt10x.WithSize(100, 24), vt10x.WithWriter(tty)), read: make(chan []byte)}
	go screen.listen(tty)
	screen.shows("red session", "blue session")
	if _, err := tty.WriteString("whale"); err != nil {
		t.Fatal(err)
	}
	screen.shows("by content", "red session")
	if _, err := tty.WriteString("\r"); err != nil {
		t.Fatal(err)
	}
	screen.shows("about the whale", "updated")
	if err := cmd.Wait(); err != nil {
		t.Errorf("show ended with %v", err)
	}
}

// screen is what a terminal shows.
type screen struct {
	t    *testing.T
	term vt10x.Terminal
	read chan []byte
	raw  []byte // all that was written
}

func (s *screen) take(data []byte) {
	s.raw = append(s.raw, data...)
	s.term.Write(data)
}

func (s *screen) listen(tty *os.File) {
	defer close(s.read)
	for {
		buf := make([]byte, 4096)
		n, err := tty.Read(buf)
		if n > 0 {
			s.read <- buf[:n]
		}
		if err != nil {
			return // the program has ended
		}
	}
}

// shows waits until all of the texts are on the screen at once.
func (s *screen) shows(texts ...string) {
	s.t.Helper()
	late := time.After(2 * time.Minute)
	for {
		now := s.term.String()
		missing := false
		for _, text := range texts {
			missing = missing || !strings.Contains(now, text)
		}
		if !missing {
			return
		}
		select {
		case data, more := <-s.read:
			if !more {
				s.t.Fatalf("it ended without %q on the screen:\n%s", texts, now)
			}
			s.take(data)
		case <-late:
			s.t.Fatalf("%q is not on the screen:\n%s", texts, now)
		}
	}
}
