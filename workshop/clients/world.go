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

// newWorld returns a machine on which nothing was done yet.
func (w *workshop) newWorld() (*world, error) {
	w.worlds++
	root := filepath.Join(w.scratch, fmt.Sprint("world-", w.worlds))
	m := &world{workshop: w, home: filepath.Join(root, "home"), project: filepath.Join(root, "project")}
	for _, dir := range []string{m.project, filepath.Join(m.home, ".codex")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	if err := m.configureCodex(""); err != nil {
		return nil, err
	}
	m.environ = []string{"HOME=" + m.home, "PATH=" + w.path() + string(os.PathListSeparator) + filepath.Dir(w.program) + string(os.PathListSeparator) + os.Getenv("PATH"),
		"TIDEMARK_STORE=sqlite:" + filepath.Join(root, "store.db"), "ANTHROPIC_BASE_URL=" + w.url, "ANTHROPIC_API_KEY=fake", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
		"FAKE_KEY=fake", "TERM=dumb", "TIDEMARK_PROVIDER=anthropic", "TIDEMARK_BASE_URL=" + w.url, "TIDEMARK_MODEL=scripted"}
	return m, nil
}

// configureCodex has Codex ask the scripted model, by the name of one for which it
// offers tools that are called by JSON.
func (m *world) configureCodex(first string) error {
	config := first + "model = \"gpt-5\"\nmodel_provider = \"fake\"\n[model_providers.fake]\nname = \"fake\"\nbase_url = \"" + m.url + "/v1\"\nenv_key = \"FAKE_KEY\"\nwire_api = \"responses\"\n"
	return os.WriteFile(filepath.Join(m.home, ".codex", "config.toml"), []byte(config), 0o600)
}

// runTimeout bounds one run of a program.
const runTimeout = 2 * time.Minute

// command is a program in the project.
func (m *world) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	if !filepath.IsAbs(program) {
		program = filepath.Join(m.path(), program)
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = m.project, m.environ
	return cmd
}

// do runs a program to a good end, and returns what it printed.
func (m *world) do(ctx context.Context, program string, args ...string) (string, error) {
	ctx, stop := context.WithTimeout(ctx, runTimeout)
	defer stop()
	cmd := m.command(ctx, program, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s%s", filepath.Base(program), strings.Join(args, " "), err, errs.String(), out.String())
	}
	return out.String(), nil
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
	out, err := m.tidemark(ctx, "ls", "-A", "--jq", ".[].id")
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
