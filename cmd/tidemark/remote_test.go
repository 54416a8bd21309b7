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

// TestTwoMachinesShareByAServer has two homes sync by a Tidemark server, in whose own
// pages and store nothing of it shows.
func TestTwoMachinesShareByAServer(t *testing.T) {
	t.Parallel()
	keeper := newTeamHome(t)
	at := keeper.serve(nil)
	token, err := os.ReadFile(keeper.dir + "/data/tidemark/server.token")
	if err != nil {
		t.Fatal(err)
	}
	env := []string{"TIDEMARK_TOKEN=" + strings.TrimSpace(string(token))}
	share(t, at, env)
	if out := keeper.run(nil, "ls", "--json"); strings.TrimSpace(out) != "[]" {
		t.Errorf("the server lists %s", out)
	}
	if out := keeper.run(nil, "verify"); strings.Contains(out, "damaged") {
		t.Errorf("verify: %s", out)
	}
	if out, err := newTeamHome(t).command([]string{"TIDEMARK_TOKEN=wrong"}, "remote", "add", "box", at).CombinedOutput(); err == nil || !strings.Contains(string(out), "hint: set $TIDEMARK_TOKEN") {
		t.Errorf("with a wrong token: %v\n%s", err, out)
	}
}

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
	desktop := share(t, url, env)
	out, err := desktop.command(env, "remote", "add", "other", strings.Replace(url, dir, dir+"/nowhere", 1)).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "there is no folder") || !strings.Contains(string(out), "hint: there: ") {
		t.Errorf("a folder that is not there: %v\n%s", err, out)
	}
}

// share has two homes share a session by a remote, and returns the second one.
func share(t *testing.T, url string, env []string) teamHome {
	t.Helper()
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
	return desktop
}
