package slash

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/store"
)

func (c *Conversation) workers(ctx context.Context, _ string) error {
	all, err := c.Chat.Workers(ctx)
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
		c.print("  %-20s %-8s %s", render.CleanLine(w.Name), render.CleanLine(state), render.Phrase(w.Said))
	}
	if len(all) == 0 {
		c.print("There are no workers. Start one with /spawn NAME PROMPT.")
	}
	return nil
}

func (c *Conversation) spawn(_ context.Context, arg string) error {
	name, prompt, ok := strings.Cut(arg, " ")
	if !ok {
		return tidemark.Invalidf("/spawn NAME PROMPT")
	}
	if err := c.Chat.Spawn(name, strings.TrimSpace(prompt)); err != nil {
		return err
	}
	c.note("[%s] started; look at it with /view %s", name, name)
	return nil
}

func (c *Conversation) send(ctx context.Context, arg string) error {
	name, text, ok := strings.Cut(arg, " ")
	if !ok {
		return tidemark.Invalidf("/send WORKER TEXT")
	}
	return hint.With(c.Chat.Tell(ctx, name, strings.TrimSpace(text)), "see them with /workers")
}

func (c *Conversation) view(ctx context.Context, name string) error {
	if name != "" {
		all, err := c.Chat.Workers(ctx)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(all, func(w chat.WorkerState) bool { return w.Name == name }) {
			return hint.With(tidemark.NotFoundf("worker %q: not found", name), "see them with /workers")
		}
	}
	c.Front.View(ctx, name)
	return nil
}

func (c *Conversation) task(ctx context.Context, arg string) error {
	action, rest, _ := strings.Cut(arg, " ")
	switch action {
	case "add":
		task, err := c.Chat.AddTask(ctx, rest)
		if err == nil {
			c.note("Task %d added.", task.ID)
		}
		return err
	case "done":
		id, err := strconv.Atoi(strings.TrimSpace(rest))
		if err != nil {
			return tidemark.Invalidf("/task done %q: want its number", rest)
		}
		return c.Chat.EndTask(ctx, id)
	case "ls", "":
		tasks := c.Chat.State().Tasks
		for _, row := range TaskRows(tasks) {
			c.print("%s", row)
		}
		if len(tasks) == 0 {
			c.print("There are no tasks. Add one with /task add TEXT.")
		}
		return nil
	}
	return tidemark.Invalidf("/task %s: want add, done or ls", action)
}

// startEvery is how often /start looks at the task list.
const startEvery = 5 * time.Minute

func (c *Conversation) start(ctx context.Context, _ string) error { return c.arm(ctx, "", startEvery) }

// loop reads a goal in quotes and an interval, in either order.
func (c *Conversation) loop(ctx context.Context, arg string) error {
	goal, every, err := parseLoop(arg)
	if err != nil {
		return err
	}
	return c.arm(ctx, goal, every)
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
		return "", 0, hint.With(tidemark.Invalidf("interval %q: want something like 30s, 5m or 1h", arg), `/loop "GOAL" 5m, or /loop-target 5m`)
	}
	return goal, every, nil
}

func (c *Conversation) arm(ctx context.Context, goal string, every time.Duration) error {
	l, err := c.Chat.AddLoop(ctx, goal, every)
	if err != nil {
		return err
	}
	c.note("[%s] %s; it is kept with the session. End it with /cancel %s", l.ID, LoopText(l), l.ID)
	if c.NoLoops {
		c.note("Loops are off, because --no-loops asked for it: it begins when you resume without it.")
	}
	return nil
}

func (c *Conversation) loops(context.Context, string) error {
	loops := c.Chat.State().Loops
	for _, l := range loops {
		c.print("  %-8s %s, next at %s, %d round(s)", l.ID, LoopText(l), l.NextAt.Local().Format("15:04:05"), l.TimesFinished)
	}
	if len(loops) == 0 {
		c.print("Nothing is repeated.")
	}
	return nil
}

func (c *Conversation) wake(ctx context.Context, arg string) error {
	d, err := time.ParseDuration(arg)
	if err != nil || d <= 0 {
		return tidemark.Invalidf("/wake %q: want a time such as 30m", arg)
	}
	at := time.Now().Add(d).Truncate(time.Second)
	if err := c.Chat.WakeAt(ctx, at); err != nil {
		return err
	}
	c.note("To be woken at %s when it sleeps.", at.Format(time.RFC3339))
	return nil
}

// LoopText is a loop in one line.
func LoopText(l store.Loop) string {
	goal := l.Goal
	if goal == "" {
		goal = "the task list"
	}
	return fmt.Sprintf("%s, every %s", render.Phrase(goal), time.Duration(l.EverySeconds)*time.Second)
}

// TaskRows draws a task list.
func TaskRows(tasks []store.Task) (rows []string) {
	for _, t := range tasks {
		box := "☐"
		if t.Done {
			box = "☑"
		}
		rows = append(rows, fmt.Sprintf("%s %d %s", box, t.ID, render.CleanLine(t.Text)))
	}
	return rows
}
