// Command clients runs the agents of others, as npm has them, against a scripted
// model, and tries on them what Tidemark says about them: that they list and go on
// with what is written for them, that a session of each goes on in each and comes
// back as the same session, that sessions which they refuse are taken once they are
// repaired, that a watcher which is killed loses and doubles nothing while they work,
// and that the documented hooks work. It asks no real model, and uses no home but its
// own.
//
// What a trial found is kept in found.json as soon as it ends, so that runs add up and
// an interrupted one goes on where it was. The page is made of all that is kept.
//
//	go run ./workshop/clients -write docs/agents.md
//	go run ./workshop/clients -tool 'pi|codex' -only '^writer .*image'
//	go run ./workshop/clients -tool none -write docs/agents.md # only the page
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"

	"github.com/tidemark-sessions/tidemark/model/standin"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "clients:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, log io.Writer) (err error) {
	f := flag.NewFlagSet("clients", flag.ContinueOnError)
	f.SetOutput(log)
	w := &workshop{log: log, versions: make(map[string]string)}
	f.StringVar(&w.agents, "dir", "", "a `folder` for the agents, which are installed where they are missing; without it, one that is removed again")
	f.StringVar(&w.program, "bin", "", "an existing `program` tidemark; without it, one is built")
	f.StringVar(&w.state, "state", "workshop/clients/found.json", "keep what was found in `FILE`, which has what was found before")
	beside := f.String("beside", "", "also what a run beside this one keeps in `FILES`, with commas between them")
	f.BoolVar(&w.again, "again", false, "also what was tried before")
	f.BoolVar(&w.keep, "keep", false, "keep the homes, and say where they are")
	tool := f.String("tool", "", "only agents that match a regular `expression`")
	only := f.String("only", "", "only trials that match a regular `expression`, such as '^writer|^in'")
	kills := f.Int("kills", 50, "how often the watcher is killed while each agent works")
	rows := f.Bool("json", false, "print what came of each watcher that was killed as a JSON object a line")
	write := f.String("write", "", "the `file` to write the page to")
	if err := f.Parse(args); err != nil {
		return err
	}
	if w.tool, err = regexp.Compile(*tool); err == nil {
		w.only, err = regexp.Compile(*only)
	}
	if err == nil {
		err = w.load(strings.FieldsFunc(*beside, func(r rune) bool { return r == ',' })...)
	}
	if err != nil {
		return err
	}
	if *rows {
		w.rows = json.NewEncoder(out)
	}
	scratch, err := os.MkdirTemp("", "clients")
	if err != nil {
		return err
	}
	if !w.keep {
		defer os.RemoveAll(scratch)
	}
	if w.scratch, err = filepath.EvalSymlinks(scratch); err != nil {
		return err
	}
	if w.agents == "" {
		w.agents = filepath.Join(w.scratch, "agents")
	}
	if w.agents, err = filepath.Abs(w.agents); err != nil {
		return err
	}
	if err := errors.Join(w.install(ctx), w.build(ctx)); err != nil {
		return err
	}
	serve := func(model http.Handler) (*recorder, string, func()) {
		r := &recorder{next: model}
		server := httptest.NewServer(r)
		return r, server.URL, func() { server.CloseClientConnections(); server.Close() }
	}
	var stop func()
	w.model, w.url, stop = serve(standin.Handler())
	defer stop()
	w.strict, w.strictURL, stop = serve(standin.Strict())
	defer stop()
	for _, trial := range []func(context.Context) error{w.writers, w.matrix, w.through, w.repairs, w.hooks, func(ctx context.Context) error { return w.kills(ctx, *kills) }} {
		if err = trial(ctx); err != nil {
			break
		}
	}
	if *write != "" {
		err = errors.Join(err, os.WriteFile(*write, []byte(w.page()), 0o600))
	}
	return errors.Join(err, w.failed())
}

// workshop is what all trials share.
type workshop struct {
	log     io.Writer
	agents  string // where they are installed
	program string // tidemark
	scratch string
	// The model, and one that refuses what providers refuse.
	model, strict  *recorder
	url, strictURL string
	versions       map[string]string // of the agents that are installed, by tool
	tool, only     *regexp.Regexp
	again, keep    bool
	state          string
	found          map[string]found
	rows           *json.Encoder // of what was killed, nil for none
	worlds         int
}

// installed are the agents that are there and wanted.
func (w *workshop) installed() (all []client) {
	for _, c := range clients {
		if _, there := w.versions[c.tool]; there {
			all = append(all, c)
		}
	}
	return all
}

// build builds tidemark.
func (w *workshop) build(ctx context.Context) (err error) {
	if w.program != "" || len(w.versions) == 0 {
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
