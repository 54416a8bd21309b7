package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// program is the real command-line program, and an empty home for it to run in.
type program struct {
	path string
	home string // also its working directory, so that it finds no project
}

// prepare makes a working directory with the program in it. The directory is
// removed by the returned function.
func prepare(ctx context.Context, o options) (program, string, func(), error) {
	work, err := os.MkdirTemp("", "tidemark-crash-")
	if err != nil {
		return program{}, "", nil, err
	}
	done := func() { os.RemoveAll(work) }
	p := program{path: o.bin, home: filepath.Join(work, "home")}
	if err := os.Mkdir(p.home, 0o700); err != nil {
		done()
		return p, "", nil, err
	}
	if p.path == "" {
		p.path = filepath.Join(work, "tidemark")
		build := exec.CommandContext(ctx, "go", "build", "-o", p.path, "github.com/tidemark-sessions/tidemark/cmd/tidemark")
		if out, err := build.CombinedOutput(); err != nil {
			done()
			return p, "", nil, fmt.Errorf("%s: %w\n%s", build, err, out)
		}
	}
	if p.path, err = filepath.Abs(p.path); err != nil {
		done()
		return p, "", nil, err
	}
	return p, work, done, nil
}

// place is a store and the program that works on it.
type place struct {
	program
	backend string
	plain   bool   // without encryption
	dir     string // holds nothing but the store
}

func (p place) url() string {
	if p.backend == "files" {
		return "files:" + filepath.Join(p.dir, "store")
	}
	return "sqlite:" + filepath.Join(p.dir, "store.db")
}

func (p place) command(args ...string) *exec.Cmd {
	if p.plain && len(args) > 1 && args[0] == "append" && args[1] == "new" {
		args = append(slices.Clone(args), "--no-encrypt")
	}
	cmd := exec.Command(p.path, args...)
	cmd.Dir = p.home
	cmd.Env = append(os.Environ(), "TIDEMARK_STORE="+p.url(), "HOME="+p.home, "XDG_CONFIG_HOME="+p.home, "XDG_DATA_HOME="+p.home)
	cmd.SysProcAttr = dieWithMe()
	return cmd
}

// answer is the outcome of a command.
type answer struct {
	out, err string
	code     int
}

// ask runs a command to its end.
func (p place) ask(stdin string, args ...string) (answer, error) {
	cmd := p.command(args...)
	var out, log bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewBufferString(stdin), &out, &log
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = nil
	}
	a := answer{out: out.String(), err: log.String()}
	if cmd.ProcessState != nil {
		a.code = cmd.ProcessState.ExitCode()
	}
	return a, err
}
