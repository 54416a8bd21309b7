package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/tidemark-sessions/tidemark"
)

// bench runs tasks with one program and one model.
type bench struct {
	bin     string // the program
	work    string // a folder of this run
	turns   int    // most answers of the model in a task
	timeout time.Duration
	sandbox string // on, or off where there is none
	// answers are the flags that choose the model that answers; prompt is what
	// it is told.
	answers func(task) []string
	prompt  func(task) string
}

// checkTimeout is how long a check may take; it compiles a few lines at most.
const checkTimeout = 3 * time.Minute

// result is how a task went.
type result struct {
	Task     string         `json:"task"`
	Language string         `json:"language"`
	Solved   bool           `json:"solved"`
	Turns    int            `json:"turns"`
	Usage    tidemark.Usage `json:"usage"`
	Seconds  float64        `json:"seconds"`
	Stop     string         `json:"stop_reason,omitempty"`
	Error    string         `json:"error,omitempty"` // of the agent, not of the check
	Check    string         `json:"check,omitempty"` // what an unsolved task's check put out
}

// run has the agent work on a task in a fresh repository, and has the check
// decide. An error means that neither is known.
func (b bench) run(ctx context.Context, t task) (result, error) {
	dir, err := os.MkdirTemp(b.work, t.name+"-")
	if err != nil {
		return result{}, err
	}
	repo := filepath.Join(dir, "repo")
	if err := lay(repo, t.repo); err != nil {
		return result{}, err
	}
	if out, err := exec.CommandContext(ctx, "git", "init", "-q", repo).CombinedOutput(); err != nil {
		return result{}, fmt.Errorf("git init: %w: %s", err, out)
	}
	r := result{Task: t.name, Language: t.language()}
	began := time.Now()
	if err := b.agent(ctx, dir, t, &r); err != nil {
		return r, err
	}
	r.Seconds = time.Since(began).Seconds()
	r.Solved, r.Check, err = b.check(ctx, dir, t)
	return r, err
}

// agent runs one turn of the chat in the repository.
func (b bench) agent(ctx context.Context, dir string, t task, r *result) error {
	ctx, stop := context.WithTimeout(ctx, b.timeout)
	defer stop()
	args := append([]string{"chat", "-q", "--yes", "--output-format", "json", "--max-turns", strconv.Itoa(b.turns), "--sandbox", b.sandbox, "-p", b.prompt(t)}, b.answers(t)...)
	cmd := b.command(ctx, dir, args...)
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	err := cmd.Run()
	var told struct {
		Turns int            `json:"num_turns"`
		Usage tidemark.Usage `json:"usage"`
		Stop  string         `json:"stop_reason"`
		Error string         `json:"error"`
	}
	if json.Unmarshal(out.Bytes(), &told) != nil {
		return fmt.Errorf("%s: the program ended with %v and no result: %s", t.name, err, bytes.TrimSpace(log.Bytes()))
	}
	r.Turns, r.Usage, r.Stop, r.Error = told.Turns, told.Usage, told.Stop, told.Error
	return nil
}

// check puts the files of the check over the repository and runs it there, in
// the sandbox: what it runs was written by a model.
func (b bench) check(ctx context.Context, dir string, t task) (solved bool, said string, err error) {
	if err := lay(filepath.Join(dir, "repo"), t.check); err != nil {
		return false, "", fmt.Errorf("%s: the check cannot be put in place: %w", t.name, err)
	}
	ctx, stop := context.WithTimeout(ctx, checkTimeout)
	defer stop()
	cmd := b.command(ctx, dir, "sandbox", "--", "bash", checkFile)
	if b.sandbox == "off" {
		inside := exec.CommandContext(ctx, "bash", checkFile)
		inside.Dir, inside.Env = cmd.Dir, cmd.Env
		cmd = inside
	}
	out, err := cmd.CombinedOutput()
	var failed *exec.ExitError
	switch {
	case err == nil:
		return true, "", nil
	case errors.As(err, &failed) && ctx.Err() == nil:
		return false, string(out[max(0, len(out)-maxCheckOutput):]), nil
	case ctx.Err() == context.DeadlineExceeded:
		return false, "it did not end within " + checkTimeout.String(), nil
	}
	return false, "", fmt.Errorf("%s: check: %w", t.name, err)
}

// maxCheckOutput is how much is kept of what a check put out.
const maxCheckOutput = 4 << 10

// command returns the program in the repository, with a store and a
// configuration of this task. The home folder stays the person's: toolchains
// and their caches are there.
func (b bench) command(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, b.bin, args...)
	cmd.Dir = filepath.Join(dir, "repo")
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "TIDEMARK_") || strings.HasPrefix(v, "XDG_") && !strings.HasPrefix(v, "XDG_CACHE_HOME=")
	})
	for name, folder := range map[string]string{"XDG_CONFIG_HOME": "config", "XDG_DATA_HOME": "data", "XDG_STATE_HOME": "state"} {
		cmd.Env = append(cmd.Env, name+"="+filepath.Join(dir, folder))
	}
	cmd.Env = append(cmd.Env, "TIDEMARK_STORE=sqlite:"+filepath.Join(dir, "store.db"))
	// It ends what it started when it is asked to.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// lay writes files into a folder. What was there under their names is replaced
// and never followed: an agent may have put a link there.
func lay(dir string, files []txtar.File) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, f := range files {
		name := filepath.FromSlash(f.Name)
		if err := root.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return err
		}
		if err := root.RemoveAll(name); err != nil {
			return err
		}
		if err := root.WriteFile(name, f.Data, 0o600); err != nil {
			return err
		}
	}
	return nil
}
