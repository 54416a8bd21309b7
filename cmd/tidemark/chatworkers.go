package main

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/internal/terminal"
	"github.com/tidemark-sessions/tidemark/render"
)

func (r *repl) listWorkers(ctx context.Context, _ string) error {
	all, err := r.c.Workers(ctx)
	if err != nil {
		return err
	}
	for _, w := range all {
		state := "idle"
		switch {
		case w.Running:
			state = "running"
		case w.Failed != nil:
			state = "failed: " + w.Failed.Error()
		}
		r.print("  %-20s %-8s %s", render.CleanLine(w.Name), render.CleanLine(state), firstLine(w.Said))
	}
	if len(all) == 0 {
		r.print("There are no workers. Start one with /spawn NAME PROMPT.")
	}
	return nil
}

func (r *repl) spawn(_ context.Context, arg string) error {
	name, prompt, ok := strings.Cut(arg, " ")
	if !ok {
		return tidemark.Invalidf("/spawn NAME PROMPT")
	}
	if err := r.c.Spawn(name, strings.TrimSpace(prompt)); err != nil {
		return err
	}
	r.screen.note("[%s] started; look at it with /view %s", name, name)
	return nil
}

func (r *repl) send(ctx context.Context, arg string) error {
	name, text, ok := strings.Cut(arg, " ")
	if !ok {
		return tidemark.Invalidf("/send WORKER TEXT")
	}
	return withHint(r.c.Tell(ctx, name, strings.TrimSpace(text)), "see them with /workers")
}

func (r *repl) viewOf(ctx context.Context, name string) error {
	if name != "" {
		all, err := r.c.Workers(ctx)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(all, func(w chat.WorkerState) bool { return w.Name == name }) {
			return withHint(tidemark.NotFoundf("worker %q: not found", name), "see them with /workers")
		}
	}
	r.look(ctx, name)
	return nil
}

// look changes what is looked at, and shows its end.
func (r *repl) look(ctx context.Context, name string) {
	r.screen.look(name)
	r.oldest = 0
	prompt := "you> "
	if name != "" {
		r.screen.note("── worker %s ── (Esc or /view goes back)", name)
		prompt = "you → " + name + "> "
	} else {
		r.screen.note("── the conversation ──")
	}
	r.console.SetPrompt(prompt)
	r.paint(ctx, 0)
}

// switchView goes to the next or previous worker, or back.
func (r *repl) switchView(ctx context.Context, kind terminal.Kind) {
	if kind == terminal.LeaveView {
		if r.screen.view != "" {
			r.look(ctx, "")
		}
		return
	}
	all, err := r.c.Workers(ctx)
	if err != nil || len(all) == 0 {
		r.fail(err)
		return
	}
	views := []string{""}
	for _, w := range all {
		views = append(views, w.Name)
	}
	i := slices.Index(views, r.screen.view)
	step := 1
	if kind == terminal.PreviousView {
		step = len(views) - 1
	}
	r.look(ctx, views[(max(i, 0)+step)%len(views)])
}

func (r *repl) task(ctx context.Context, arg string) error {
	action, rest, _ := strings.Cut(arg, " ")
	switch action {
	case "add":
		task, err := r.c.AddTask(ctx, rest)
		if err == nil {
			r.screen.note("Task %d added.", task.ID)
		}
		return err
	case "done":
		id, err := strconv.Atoi(strings.TrimSpace(rest))
		if err != nil {
			return tidemark.Invalidf("/task done %q: want its number", rest)
		}
		return r.c.EndTask(ctx, id)
	case "ls", "":
		tasks := r.c.State().Tasks
		for _, t := range tasks {
			box := "[ ]"
			if t.Done {
				box = "[x]"
			}
			r.print("%s %d %s", box, t.ID, render.CleanLine(t.Text))
		}
		if len(tasks) == 0 {
			r.print("There are no tasks. Add one with /task add TEXT.")
		}
		return nil
	}
	return tidemark.Invalidf("/task %s: want add, done or ls", action)
}

// startEvery is how often /start looks at the task list.
const startEvery = 5 * time.Minute

func (r *repl) start(ctx context.Context, _ string) error { return r.arm(ctx, "", startEvery) }

// addLoop reads a goal in quotes and an interval, in either order.
func (r *repl) addLoop(ctx context.Context, arg string) error {
	goal, every, err := parseLoop(arg)
	if err != nil {
		return err
	}
	return r.arm(ctx, goal, every)
}

// parseLoop reads `"GOAL" 5m`, `5m "GOAL"` or `5m`.
func parseLoop(arg string) (goal string, every time.Duration, err error) {
	arg = strings.TrimSpace(arg)
	if from := strings.IndexByte(arg, '"'); from >= 0 {
		to := strings.LastIndexByte(arg, '"')
		if to == from {
			return "", 0, tidemark.Invalidf("the goal has no closing quote")
		}
		goal = strings.TrimSpace(arg[from+1 : to])
		arg = strings.TrimSpace(arg[:from] + arg[to+1:])
	}
	every, err = time.ParseDuration(arg)
	if err != nil {
		return "", 0, withHint(tidemark.Invalidf("interval %q: want something like 30s, 5m or 1h", arg), `/loop "GOAL" 5m, or /loop-target 5m`)
	}
	return goal, every, nil
}

func (r *repl) arm(ctx context.Context, goal string, every time.Duration) error {
	l, err := r.c.AddLoop(ctx, goal, every)
	if err != nil {
		return err
	}
	r.screen.note("[%s] %s; it is kept with the session. End it with /cancel %s", l.ID, loopText(l), l.ID)
	if r.f.noLoops {
		r.screen.note("Loops are off, because --no-loops asked for it: it begins when you resume without it.")
	}
	return nil
}

func (r *repl) listLoops(context.Context, string) error {
	loops := r.c.State().Loops
	for _, l := range loops {
		r.print("  %-8s %s, next at %s, %d round(s)", l.ID, loopText(l), l.NextAt.Local().Format("15:04:05"), l.TimesFinished)
	}
	if len(loops) == 0 {
		r.print("Nothing is repeated.")
	}
	return nil
}

func (r *repl) wake(ctx context.Context, arg string) error {
	d, err := time.ParseDuration(arg)
	if err != nil || d <= 0 {
		return tidemark.Invalidf("/wake %q: want a time such as 30m", arg)
	}
	at := time.Now().Add(d).Truncate(time.Second)
	if err := r.c.WakeAt(ctx, at); err != nil {
		return err
	}
	r.screen.note("To be woken at %s when it sleeps.", at.Format(time.RFC3339))
	return nil
}

// status is the line below the prompt: the workers, and where we are.
func (r *repl) status(ctx context.Context) {
	if !r.interactive {
		return
	}
	var parts []string
	if r.fence.sandbox == nil {
		parts = append(parts, "sandbox off")
	}
	all, err := r.c.Workers(ctx)
	if err != nil || len(all) == 0 {
		r.console.Status(strings.Join(parts, ""))
		return
	}
	for _, w := range all {
		mark := "○"
		if w.Running {
			mark = "●"
		}
		parts = append(parts, mark+" "+w.Name)
	}
	r.console.Status("workers: " + strings.Join(parts, "  "))
}
