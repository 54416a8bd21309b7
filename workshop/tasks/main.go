// Command tasks has the agent of tidemark chat work on small repositories, each
// with a failing test or a wanted change, and reports how many it solved, in how
// many turns and with how many tokens. Whether a task is solved is decided by a
// check that the agent never sees. It says nothing about other agents, and
// touches no store but its own.
//
//	go run ./workshop/tasks                                         a scripted model; all are solved, or the program is broken
//	go run ./workshop/tasks -wrong                                  one that is mistaken; none is solved, or a check is broken
//	go run ./workshop/tasks -provider anthropic -model NAME -json   a real one, by the key in the environment
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/tidemark-sessions/tidemark/model/standin"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// options are what the flags say.
type options struct {
	bin, provider, model, base, only, sandbox string
	turns                                     int
	timeout                                   time.Duration
	json, wrong                               bool
}

func flags(args []string, log io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("tasks", flag.ContinueOnError)
	f.SetOutput(log)
	f.StringVar(&o.bin, "bin", "", "an existing `program`; without it, one is built")
	f.StringVar(&o.provider, "provider", "", "who answers, as in tidemark chat; without it, a scripted model")
	f.StringVar(&o.model, "model", "", "the `name` of the model")
	f.StringVar(&o.base, "base-url", "", "the `address` of the provider")
	f.StringVar(&o.only, "only", "", "`names` of tasks, or how they begin, with commas between them")
	f.StringVar(&o.sandbox, "sandbox", "on", "off where this system has none; a model then writes programs that run as you")
	f.IntVar(&o.turns, "turns", 40, "the most answers of the model in a task")
	f.DurationVar(&o.timeout, "timeout", 10*time.Minute, "how long a task may take")
	f.BoolVar(&o.json, "json", false, "one object for each task, and one for all")
	f.BoolVar(&o.wrong, "wrong", false, "have the scripted model be mistaken")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("%q: want flags only", f.Arg(0))
	case o.sandbox != "on" && o.sandbox != "off":
		return o, fmt.Errorf("-sandbox %q: want on or off", o.sandbox)
	case o.provider != "" && o.wrong:
		return o, errors.New("-wrong goes with the scripted model, not with -provider")
	case o.provider == "" && (o.model != "" || o.base != ""):
		return o, errors.New("-model and -base-url go with -provider")
	}
	return o, nil
}

// run returns the exit code: 1 when a scripted model was not judged as it should
// be, or when something broke; a real model may fail as often as it does.
func run(ctx context.Context, args []string, out, log io.Writer) int {
	o, err := flags(args, log)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	var all []result
	if err == nil {
		all, err = o.tasks(ctx, log)
	}
	if err == nil {
		err = report(out, all, o.json)
	}
	if err != nil {
		fmt.Fprintf(log, "tasks: %v\n", err)
		return 1
	}
	if o.provider == "" && slices.ContainsFunc(all, func(r result) bool { return r.Solved == o.wrong }) {
		return 1
	}
	return 0
}

// tasks runs the chosen tasks one after the other.
func (o options) tasks(ctx context.Context, log io.Writer) ([]result, error) {
	chosen, err := o.chosen()
	if err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp("", "tidemark-tasks-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	if o.bin == "" {
		o.bin = filepath.Join(work, "tidemark")
		build := exec.CommandContext(ctx, "go", "build", "-o", o.bin, "github.com/tidemark-sessions/tidemark/cmd/tidemark")
		if out, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", build, err, out)
		}
	}
	if o.bin, err = filepath.Abs(o.bin); err != nil {
		return nil, err
	}
	if err := o.ready(ctx, work); err != nil {
		return nil, err
	}
	b := bench{bin: o.bin, work: work, turns: o.turns, timeout: o.timeout, sandbox: o.sandbox, prompt: func(t task) string { return t.prompt }}
	if o.provider == "" {
		server := httptest.NewServer(standin.Handler())
		defer server.Close()
		b.scripted(server.URL, o.wrong)
	} else {
		b.answers = func(task) []string { return o.answers() }
	}
	var all []result
	for i, t := range chosen {
		r, err := b.run(ctx, t)
		if err != nil {
			return all, err
		}
		fmt.Fprintf(log, "%d of %d: %s: %s\n", i+1, len(chosen), t.name, outcome(r))
		all = append(all, r)
	}
	return all, nil
}

// ready returns why no check could run: a sandbox that does not work would look
// like a task that is not solved.
func (o options) ready(ctx context.Context, work string) error {
	if o.sandbox == "off" {
		return nil
	}
	dir := filepath.Join(work, "ready")
	if err := os.MkdirAll(filepath.Join(dir, "repo"), 0o700); err != nil {
		return err
	}
	if out, err := (bench{bin: o.bin}).command(ctx, dir, "sandbox", "--", "true").CombinedOutput(); err != nil {
		return fmt.Errorf("there is no sandbox here: %w: %s\nhint: -sandbox off runs what the model writes as you", err, out)
	}
	return nil
}

// chosen are the tasks that -only names.
func (o options) chosen() ([]task, error) {
	all, err := allTasks()
	if err != nil || o.only == "" {
		return all, err
	}
	begins := strings.Split(o.only, ",")
	all = slices.DeleteFunc(all, func(t task) bool {
		return !slices.ContainsFunc(begins, func(b string) bool { return b != "" && strings.HasPrefix(t.name, b) })
	})
	if len(all) == 0 {
		return nil, fmt.Errorf("-only %q: there is no such task", o.only)
	}
	return all, nil
}

func (o options) answers() []string {
	args := []string{"--provider", o.provider}
	if o.model != "" {
		args = append(args, "--model", o.model)
	}
	if o.base != "" {
		args = append(args, "--base-url", o.base)
	}
	return args
}

// wires are the providers that the stand-in speaks for. Tasks take turns with
// them, so that tools are called over each.
var wires = []string{"anthropic", "openai", "openai-responses"}

// scripted has the stand-in answer, by the script of each task.
func (b *bench) scripted(url string, wrong bool) {
	asked := 0
	b.answers = func(task) []string {
		asked++
		return []string{"--provider", wires[asked%len(wires)], "--model", "scripted", "--base-url", url}
	}
	b.prompt = func(t task) string {
		if wrong {
			return t.prompt + "\n" + t.wrong.marks()
		}
		return t.prompt + "\n" + t.solve.marks()
	}
}

// sum is the figures of all tasks.
type sum struct {
	Tasks  int   `json:"tasks"`
	Solved int   `json:"solved"`
	Turns  int   `json:"turns"`
	Input  int64 `json:"input_tokens"`
	Cached int64 `json:"cache_read_tokens"`
	Output int64 `json:"output_tokens"`
}

func sumOf(all []result) (s sum) {
	for _, r := range all {
		s.Tasks++
		if r.Solved {
			s.Solved++
		}
		s.Turns += r.Turns
		s.Input += r.Usage.InputTokens + r.Usage.CacheReadTokens + r.Usage.CacheWriteTokens
		s.Cached += r.Usage.CacheReadTokens
		s.Output += r.Usage.OutputTokens
	}
	return s
}

func outcome(r result) string {
	switch {
	case r.Solved:
		return "solved"
	case r.Error != "":
		return "not solved: " + r.Error
	}
	return "not solved"
}

// report prints the results. Tokens in include those from the provider's cache.
func report(out io.Writer, all []result, asJSON bool) error {
	s := sumOf(all)
	if asJSON {
		lines := json.NewEncoder(out)
		for _, r := range all {
			if err := lines.Encode(r); err != nil {
				return err
			}
		}
		return lines.Encode(s)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TASK\tOUTCOME\tTURNS\tIN\tCACHED\tOUT\tSECONDS")
	for _, r := range all {
		one := sumOf([]result{r})
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%.1f\n", r.Task, outcome(r), r.Turns, one.Input, one.Cached, one.Output, r.Seconds)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%d of %d solved, %d turns, %d tokens in (%d of them cached), %d out\n", s.Solved, s.Tasks, s.Turns, s.Input, s.Cached, s.Output)
	return err
}
