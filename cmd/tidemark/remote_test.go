//go:build !windows

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark/transfer/remote"
	"github.com/tidemark-sessions/tidemark/workshop/placetest"
)

// TestTwoMachinesShareByAThird has two homes sync by a folder on a third machine that
// ssh reaches.
func TestTwoMachinesShareByAThird(t *testing.T) {
	t.Parallel()
	s := placetest.SSH(t)
	dir := t.TempDir()
	url := s.URL(dir, filepath.Join(commandDir(t), "tidemark"))
	var env []string
	for _, v := range s.Options.Environ {
		if strings.HasPrefix(v, remote.SSHVariable+"=") {
			env = append(env, v)
		}
	}
	laptop, desktop := newTeamHome(t), newTeamHome(t)
	cmd := laptop.command(nil, "append", "new", "--session-meta", `{"title":"trip"}`)
	cmd.Stdin = strings.NewReader(`{"role":"user","content":"plan the trip"}`)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	laptop.run(env, "remote", "add", "box", url)
	laptop.run(env, "sync")
	code := filepath.Join(desktop.dir, "code")
	if err := os.WriteFile(code, []byte(laptop.run(env, "remote", "pair")), 0o600); err != nil {
		t.Fatal(err)
	}
	desktop.run(env, "remote", "add", "box", url, "--code-file", code)
	if out := desktop.run(env, "sync"); !strings.Contains(out, "pulled 1 sessions, 1 entries") {
		t.Errorf("sync: %s", out)
	}
	if out := desktop.run(nil, "show", "trip"); !strings.Contains(out, "plan the trip") {
		t.Errorf("show: %s", out)
	}
	if out := desktop.run(env, "remote", "check"); !strings.Contains(out, "2 machines, 1 sessions") {
		t.Errorf("check: %s", out)
	}
	out, err := desktop.command(env, "remote", "add", "other", strings.Replace(url, dir, dir+"/nowhere", 1)).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "there is no folder") || !strings.Contains(string(out), "hint: there: ") {
		t.Errorf("a folder that is not there: %v\n%s", err, out)
	}
}
