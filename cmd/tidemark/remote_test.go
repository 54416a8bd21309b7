//go:build !windows

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
	_, desktop := share(t, url, env)
	out, err := desktop.command(env, "remote", "add", "other", strings.Replace(url, dir, dir+"/nowhere", 1)).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "there is no folder") || !strings.Contains(string(out), "hint: there: ") {
		t.Errorf("a folder that is not there: %v\n%s", err, out)
	}
}

// share has two homes share a session by a remote, and returns them.
func share(t *testing.T, url string, env []string) (laptop, desktop teamHome) {
	t.Helper()
	laptop, desktop = newTeamHome(t), newTeamHome(t)
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
	if out := desktop.run(env, "sync"); !strings.Contains(out, "pulled 1 session, 1 entry") {
		t.Errorf("sync: %s", out)
	}
	if out := desktop.run(nil, "show", "trip"); !strings.Contains(out, "plan the trip") {
		t.Errorf("show: %s", out)
	}
	if out := desktop.run(env, "remote", "check"); !strings.Contains(out, "2 machines, 1 sessions") {
		t.Errorf("check: %s", out)
	}
	return laptop, desktop
}

// TestTheWordsOfPairAreTyped joins as the guide says: who types no file is asked.
func TestTheWordsOfPairAreTyped(t *testing.T) {
	t.Parallel()
	laptop, desktop, stick := newTeamHome(t), newTeamHome(t), t.TempDir()
	laptop.run(nil, "remote", "add", "home", "file:"+stick)
	pair := laptop.command(nil, "remote", "pair")
	var said strings.Builder
	pair.Stderr = &said
	words, err := pair.Output()
	if err != nil || !strings.Contains(said.String(), "On the other machine, which asks for them: tidemark remote add home file:"+stick) {
		t.Fatalf("%v: %s", err, &said)
	}
	add := onTerminal(t, desktop.command(nil, "remote", "add", "home", "file:"+stick), 120)
	add.shows("The words that tidemark remote pair shows")
	add.types(strings.TrimSpace(string(words)) + "\r")
	add.shows("shares its sessions by home now")
	if code := add.ends(); code != 0 {
		t.Errorf("it ends with %d", code)
	}
	desktop.run(nil, "sync")
	late := onTerminal(t, newTeamHome(t).command(nil, "remote", "add", "home", "file:"+stick), 120)
	late.shows("The words that tidemark remote pair shows")
	late.types(strings.TrimSpace(string(words)) + "\r")
	late.shows("hint: on a machine that is in, get another one")
	if code := late.ends(); code != 12 {
		t.Errorf("words that were used end with %d", code)
	}
}

// TestResumeSaysThatAnotherMachineGoesOn has one home go on with a session in an agent,
// and another one begin to: it is told so, and both go on.
func TestResumeSaysThatAnotherMachineGoesOn(t *testing.T) {
	t.Parallel()
	keeper := newTeamHome(t)
	at := keeper.serve(nil)
	token, err := os.ReadFile(keeper.dir + "/data/tidemark/server.token")
	if err != nil {
		t.Fatal(err)
	}
	env := []string{"TIDEMARK_TOKEN=" + strings.TrimSpace(string(token))}
	laptop, desktop := share(t, at, env)
	// An agent that writes nothing, and ends when it is told to.
	bin := t.TempDir()
	agent := "#!/bin/sh\nif [ \"$1\" = --version ]; then echo codex-cli 9.8.7; exit; fi\n" +
		"if [ \"$4\" = stay ]; then until [ -e enough ]; do sleep 0.05; done; fi\n"
	if err := os.WriteFile(bin+"/codex", []byte(agent), 0o700); err != nil {
		t.Fatal(err)
	}
	env = append(env, "PATH="+bin+":"+os.Getenv("PATH"))
	resume := func(h teamHome, prompt string) *exec.Cmd {
		return h.command(env, "resume", "trip", "--in", "codex", "--", "exec", prompt)
	}
	stays := resume(laptop, "stay")
	var said strings.Builder
	stays.Stderr = &said
	if err := stays.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	end := func() {
		if !ended {
			ended = true
			if err := errors.Join(os.WriteFile(laptop.dir+"/enough", nil, 0o600), stays.Wait()); err != nil {
				t.Errorf("%v: %s", err, &said)
			}
		}
	}
	defer end()
	// A server that does not answer soon is not waited for: on a busy machine the
	// second or third try is told.
	told := func() bool {
		t.Helper()
		out, err := resume(desktop, "look").CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return strings.Contains(string(out), " writes to this session, too. Both may go on: what each adds becomes a branch.")
	}
	until := func(want bool) {
		t.Helper()
		for wait := time.Now().Add(2 * time.Minute); told() != want; {
			if time.Now().After(wait) {
				t.Fatalf("after two minutes told is %v still", !want)
			}
		}
	}
	until(true)
	end()
	until(false)
}
