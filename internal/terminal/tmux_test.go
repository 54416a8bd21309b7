//go:build !windows

package terminal

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// tmux is a terminal that wraps its lines anew when it is resized, unlike the
// emulator of the other tests.
type tmux struct {
	t      *testing.T
	socket string
}

func (m tmux) do(args ...string) string {
	m.t.Helper()
	cmd := exec.Command("tmux", append([]string{"-S", m.socket, "-f", os.DevNull}, args...)...)
	cmd.Env = append(os.Environ(), "TMUX=", "LC_ALL=C.UTF-8")
	out, err := cmd.CombinedOutput()
	if err != nil {
		m.t.Fatalf("tmux %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// lines returns the screen and all that scrolled away.
func (m tmux) lines() []string {
	lines := strings.Split(strings.TrimRight(m.do("capture-pane", "-p", "-S", "-"), "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return lines
}

func (m tmux) shows(want ...string) {
	m.t.Helper()
	var got []string
	for late := time.Now().Add(patience); time.Now().Before(late); {
		if got = m.lines(); slices.Equal(got, want) {
			return
		}
	}
	m.t.Fatalf("tmux shows\n%s\n\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
}

func TestTmuxWrapsAStreamAsOneLine(t *testing.T) {
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("no tmux")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "tmux") // the path of a socket has to be short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	m := tmux{t, filepath.Join(dir, "s")}
	m.do("new-session", "-d", "-x", "60", "-y", "12", "env", demoVariable+"=1", self)
	defer m.do("kill-server")
	m.shows(">", "demo, 0 workers")
	m.do("send-keys", "words", "Enter")
	typed := "typed while it speaks, and long enough to wrap over rows"
	m.do("send-keys", "-l", typed)

	var said strings.Builder
	for i := range 100 {
		fmt.Fprintf(&said, "word%d ", i)
	}
	speech := strings.TrimSpace(said.String()) + " "
	for _, columns := range []int{60, 40, 33, 90, 60} {
		m.do("resize-window", "-x", fmt.Sprint(columns), "-y", "12")
		want := append([]string{"> words"}, chunks(speech, columns)...)
		for i, l := range chunks(typed, columns-3) {
			want = append(want, strings.TrimRight([]string{"> ", "  "}[min(i, 1)]+l, " "))
		}
		m.shows(append(want, "idle")...)
	}
}

// chunks cuts a text as a terminal wraps it.
func chunks(s string, columns int) (rows []string) {
	for c := range slices.Chunk([]byte(s), columns) {
		rows = append(rows, strings.TrimRight(string(c), " "))
	}
	return rows
}
