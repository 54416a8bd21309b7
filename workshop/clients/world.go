package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// world is a person's machine: a home, a project and a store.
type world struct {
	*workshop
	home, project string
	environ       []string
}

// newWorld returns a machine on which nothing was done yet. Agents ask the model at a
// URL; "": that of the workshop.
func (w *workshop) newWorld(url string) (*world, error) {
	w.worlds++
	root := filepath.Join(w.scratch, fmt.Sprint("world-", w.worlds))
	m := &world{workshop: w, home: filepath.Join(root, "home"), project: filepath.Join(root, "project")}
	if url == "" {
		url = w.url
	}
	if err := os.MkdirAll(m.project, 0o700); err != nil {
		return nil, err
	}
	list := string(os.PathListSeparator)
	m.environ = []string{"HOME=" + m.home, "PATH=" + w.path() + list + filepath.Dir(w.program) + list + os.Getenv("PATH"), "TERM=dumb",
		"TIDEMARK_STORE=sqlite:" + filepath.Join(root, "store.db"), "TIDEMARK_PROVIDER=anthropic", "TIDEMARK_BASE_URL=" + url, "TIDEMARK_MODEL=scripted"}
	for _, c := range clients {
		more, err := c.setUp(m.home, url)
		if err != nil {
			return nil, err
		}
		m.environ = append(m.environ, more...)
	}
	return m, nil
}

// leave removes what a trial left.
func (m *world) leave() {
	if m.keep {
		fmt.Fprintln(m.log, "kept:", filepath.Dir(m.home))
		return
	}
	_ = os.RemoveAll(filepath.Dir(m.home)) // so is all of the scratch folder in the end
}

// runTimeout bounds one run of a program, on a machine that does other work as well.
const runTimeout = 5 * time.Minute

// command is a program in the project.
func (m *world) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	if !filepath.IsAbs(program) {
		program = filepath.Join(m.path(), program)
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = m.project, m.environ, 5*time.Second // helpers of an agent may hold its output
	return cmd
}

// do runs a program to a good end, and returns what it printed.
func (m *world) do(ctx context.Context, program string, args ...string) (string, error) {
	out, _, err := m.both(ctx, program, args...)
	return out, err
}

// both is do, and returns also what the program printed as errors.
func (m *world) both(ctx context.Context, program string, args ...string) (string, string, error) {
	ctx, stop := context.WithTimeout(ctx, runTimeout)
	defer stop()
	cmd := m.command(ctx, program, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		all := errs.String() + out.String()
		fmt.Fprintf(m.log, "%s %s: %v\n%s\n", filepath.Base(program), strings.Join(args, " "), err, all)
		return "", all, fmt.Errorf("%s: %w", filepath.Base(program), err)
	}
	return out.String(), errs.String(), nil
}

// moveTo works in another folder from now on.
func (m *world) moveTo(name string) error {
	m.project = filepath.Join(filepath.Dir(m.home), name)
	return os.MkdirAll(m.project, 0o700)
}

// tidemark runs tidemark.
func (m *world) tidemark(ctx context.Context, args ...string) (string, error) {
	return m.do(ctx, m.program, append([]string{"--no-encrypt"}, args...)...)
}

// entries are what a session holds: the branch that it is on, or all of it.
func (m *world) entries(ctx context.Context, session string, more ...string) (all []tidemark.Entry, err error) {
	out, err := m.tidemark(ctx, append([]string{"cat", session}, more...)...)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(out) {
		var e tidemark.Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

// sessions are the ids of all sessions.
func (m *world) sessions(ctx context.Context) ([]string, error) {
	out, err := m.tidemark(ctx, "ls", "-A", "-n", "0", "--jq", ".[].id")
	return strings.Fields(out), err
}

// append appends entries to a session, or a new one.
func (m *world) append(ctx context.Context, session string, entries ...tidemark.Entry) error {
	var in bytes.Buffer
	enc := json.NewEncoder(&in)
	for _, e := range entries {
		if err := enc.Encode(map[string]any{"role": e.Role, "blocks": e.Blocks}); err != nil {
			return err
		}
	}
	cmd := m.command(ctx, m.program, "--no-encrypt", "append", session)
	cmd.Stdin = &in
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("append: %w\n%s", err, out)
	}
	return nil
}
