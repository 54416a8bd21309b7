// Command clients runs the agents of others, as npm has them, against a scripted
// model, and tries on them what Tidemark says about them: that a session goes on in
// each, that what it adds comes back as the same session, that a watcher which is
// killed loses and doubles nothing while they work, and that the documented hooks
// work. It writes what it found to docs/agents.md. It asks no real model, and uses no
// home but its own.
//
//	go run ./workshop/clients -kills 200 -write docs/agents.md
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/tidemark-sessions/tidemark/model/standin"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "clients:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, log io.Writer) (err error) {
	f := flag.NewFlagSet("clients", flag.ContinueOnError)
	f.SetOutput(log)
	dir := f.String("dir", "", "a `folder` for the agents, which are installed where they are missing; without it, one that is removed again")
	bin := f.String("bin", "", "an existing `program` tidemark; without it, one is built")
	kills := f.Int("kills", 200, "how often the watcher is killed while agents work")
	write := f.String("write", "", "the `file` to write the results to")
	if err := f.Parse(args); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "clients")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	w := &workshop{log: log, agents: *dir, program: *bin, scratch: scratch}
	if w.agents == "" {
		w.agents = filepath.Join(scratch, "agents")
	}
	if err := w.install(ctx); err != nil {
		return err
	}
	if err := w.build(ctx); err != nil {
		return err
	}
	w.model = newRecorder(standin.Handler())
	server := httptest.NewServer(w.model)
	defer server.Close()
	defer server.CloseClientConnections()
	w.url = server.URL
	r := report{Versions: w.versions, Day: time.Now().UTC().Format(time.DateOnly)}
	if r.Cells, err = w.matrix(ctx); err != nil {
		return err
	}
	if r.Through, err = w.through(ctx); err != nil {
		r.Through = append(r.Through, firstLine(err))
		fmt.Fprintln(log, err)
	}
	if r.Hooks, err = w.hooks(ctx); err != nil {
		fmt.Fprintln(log, err) // nothing was kept
	}
	if r.Kills, err = w.kill(ctx, *kills); err != nil {
		r.Kills.Wrong = append(r.Kills.Wrong, firstLine(err))
		fmt.Fprintln(log, err)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if *write != "" {
		if err := os.WriteFile(*write, []byte(r.markdown()), 0o600); err != nil {
			return err
		}
	}
	fmt.Fprint(log, r.markdown())
	return r.failed()
}

// workshop is what all trials share.
type workshop struct {
	log      io.Writer
	agents   string // where they are installed
	program  string // tidemark
	scratch  string
	url      string // of the model
	model    *recorder
	versions []string
	worlds   int
}

// client is an agent of others.
type client struct {
	tool, title, npm, program string
	// once are the arguments for one prompt, to begin a session with, and to go on
	// with one behind `tidemark resume --`.
	begin, goOn func(prompt string) []string
}

// clients are the agents that sessions go on in. A further one joins by a row.
var clients = []client{
	{tool: "claude-code", title: "Claude Code", npm: "@anthropic-ai/claude-code", program: "claude",
		begin: func(prompt string) []string { return []string{"-p", prompt, "--allowedTools", "Bash"} },
		goOn:  func(prompt string) []string { return []string{"-p", prompt, "--allowedTools", "Bash"} }},
	{tool: "codex", title: "Codex", npm: "@openai/codex", program: "codex",
		begin: func(prompt string) []string {
			return []string{"exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", prompt}
		},
		goOn: func(prompt string) []string {
			return []string{"exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", prompt}
		}},
}

// path is where the agents are.
func (w *workshop) path() string { return filepath.Join(w.agents, "node_modules", ".bin") }

// install has npm install the newest of each agent.
func (w *workshop) install(ctx context.Context) error {
	if err := os.MkdirAll(w.agents, 0o700); err != nil {
		return err
	}
	args := []string{"install", "--prefix", w.agents, "--no-audit", "--no-fund"}
	for _, c := range clients {
		if _, err := os.Stat(filepath.Join(w.path(), c.program)); err != nil {
			args = append(args, c.npm+"@latest")
		}
	}
	if len(args) > 5 {
		fmt.Fprintln(w.log, "npm", strings.Join(args, " "))
		if out, err := exec.CommandContext(ctx, "npm", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("npm cannot install the agents: %w\n%s", err, out)
		}
	}
	for _, c := range clients {
		out, err := exec.CommandContext(ctx, filepath.Join(w.path(), c.program), "--version").Output()
		if err != nil {
			return fmt.Errorf("%s: %w", c.program, err)
		}
		w.versions = append(w.versions, c.title+": "+strings.TrimSpace(string(out)))
	}
	return nil
}

// build builds tidemark.
func (w *workshop) build(ctx context.Context) (err error) {
	if w.program != "" {
		w.program, err = filepath.Abs(w.program)
		return err
	}
	w.program = filepath.Join(w.scratch, "tidemark")
	if runtime.GOOS == "windows" {
		w.program += ".exe"
	}
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", w.program, "./cmd/tidemark").CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}
