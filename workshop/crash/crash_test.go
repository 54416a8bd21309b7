package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// bin is the program under trial, built once.
var bin string

// TestMain lets the test binary be its own helper, and builds the program.
func TestMain(m *testing.M) {
	if os.Getenv(helperMark) != "" {
		main()
	}
	dir, err := os.MkdirTemp("", "tidemark-crash-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	bin = filepath.Join(dir, "tidemark")
	build := exec.Command("go", "build", "-o", bin, "github.com/tidemark-sessions/tidemark/cmd/tidemark")
	out, err := build.CombinedOutput()
	code := 1
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n%s", build, err, out)
	} else {
		code = m.Run()
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// trial runs a command as a person would and fails when a promise was broken.
func trial(t *testing.T, args ...string) {
	t.Helper()
	var out, log bytes.Buffer
	code := run(t.Context(), append(args, "-bin", bin), &out, &log)
	if reason, ok := strings.CutPrefix(out.String(), "skipped: "); ok {
		t.Skip(reason)
	}
	if code != 0 {
		t.Errorf("crash %s: exit %d\n%s%s", strings.Join(args, " "), code, log.String(), out.String())
	}
}

var backends = []string{"sqlite", "files"}

func TestNothingAcknowledgedIsLostBySIGKILL(t *testing.T) {
	for _, b := range backends {
		t.Run(b, func(t *testing.T) { trial(t, "kill", "-backend", b, "-n", "40") })
	}
}

func TestNothingAcknowledgedIsLostByAPowerCut(t *testing.T) {
	for _, b := range backends {
		t.Run(b, func(t *testing.T) { trial(t, "power", "-backend", b, "-n", "12") })
	}
}

func TestAFullDiskLosesNothingAndCanBeRead(t *testing.T) {
	for _, b := range backends {
		t.Run(b, func(t *testing.T) { trial(t, "full", "-backend", b, "-n", "1") })
	}
}

func TestNeverTwoWriters(t *testing.T) {
	for _, b := range backends {
		t.Run(b, func(t *testing.T) { trial(t, "lease", "-backend", b, "-n", "600", "-procs", "8", "-sessions", "2") })
	}
}

func TestARowForProgramsHasWhatTheTableHas(t *testing.T) {
	r := row{what: "SIGKILL", backend: "files", where: "real process", count: 1, acknowledged: 2, lost: 3, doubled: 4, unreadable: 5, aid: 6, seconds: 7, note: "8"}
	want := `{"what":"SIGKILL","store":"files","where":"real process","count":1,"acknowledged":2,"lost":3,"doubled":4,"unreadable":5,"hand":6,"seconds":7,"note":"8"}`
	if got := r.object(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestUsageErrorsAreNamed(t *testing.T) {
	for _, args := range [][]string{nil, {"burn"}, {"kill", "-backend", "paper"}, {"power", "-fs", "fat"}, {"kill", "-n", "0"}, {"kill", "more"}} {
		var out, log bytes.Buffer
		if code := run(t.Context(), args, &out, &log); code != 2 || out.Len() > 0 || log.Len() == 0 {
			t.Errorf("crash %q: exit %d, stdout %q, stderr %q", args, code, out.String(), log.String())
		}
	}
}
