package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark/internal/process"
)

// invocation is a command as a person would type it.
type invocation struct {
	env  string // NAME=VALUE, or ""
	args []string
	// more are arguments that only make the output readable for this
	// program.
	more []string
}

func (c invocation) String() string {
	words := make([]string, 0, len(c.args)+1)
	if c.env != "" {
		words = append(words, c.env)
	}
	for _, a := range c.args {
		if strings.ContainsAny(a, "|^$*() ") {
			a = "'" + a + "'"
		}
		words = append(words, a)
	}
	return strings.Join(words, " ")
}

// tools are the programs that parts run, built once.
type tools struct{ dir string }

// workshops are the programs of the workshop that parts run.
var workshops = []string{"crash", "clients", "load"}

func workshopFolder(name string) string { return "./workshop/" + name }

func build(ctx context.Context) (*tools, error) {
	dir, err := os.MkdirTemp("", "tidemark-evidence-")
	if err != nil {
		return nil, err
	}
	t := &tools{dir}
	args := []string{"build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", dir + string(filepath.Separator), "./cmd/tidemark"}
	for _, name := range workshops {
		args = append(args, workshopFolder(name))
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.remove()
		return nil, errors.Join(ctx.Err(), fmt.Errorf("%s: %w\n%s", cmd, err, out))
	}
	return t, nil
}

func (t *tools) remove() { os.RemoveAll(t.dir) }

func (t *tools) program(name string) string {
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	return filepath.Join(t.dir, name)
}

// argv is what is executed for an invocation: the programs that are built
// already, instead of `go run` or a script that builds.
func (t *tools) argv(c invocation) []string {
	args := append(append([]string{}, c.args...), c.more...)
	switch {
	case args[0] == "go" && args[1] == "run":
		name := filepath.Base(args[2])
		return append([]string{t.program(name)}, append(args[3:], "-bin", t.program("tidemark"))...)
	case strings.HasSuffix(args[0], ".sh"):
		return append([]string{"bash"}, args...)
	}
	return args
}

// grace is how long a part may take to clean up after it was told to end.
const grace = 20 * time.Second

// run runs a part and fills in what it found. The error is one of the machine
// or an interruption, never that of a part.
func (t *tools) run(ctx context.Context, p part, r *result) error {
	c := p.command(r.Count)
	r.Command = c.String()
	argv := t.argv(c)
	var out, log bytes.Buffer
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = &out, &log
	if c.env != "" {
		cmd.Env = append(os.Environ(), c.env)
	}
	began := time.Now()
	family, err := process.Start(cmd, "")
	if err != nil {
		return err
	}
	defer family.Release()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err = <-ended:
	case <-ctx.Done():
		family.Stop(grace)
		<-ended
		return ctx.Err()
	}
	r.Seconds = time.Since(began).Seconds()
	rows, notRun, readErr := p.rows(r.Count, out.Bytes())
	switch r.Rows = rows; {
	case err != nil || readErr != nil:
		said := log.Bytes()
		if len(bytes.TrimSpace(said)) == 0 {
			said = plain(out.Bytes())
		}
		r.Failed = append(lastLines(said, 12), errors.Join(err, readErr).Error())
	case notRun != "":
		r.NotRun = notRun
	}
	return nil
}
