package chat

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/tool"
)

// available returns the tools of a thread: those of the box, and those that
// work on the session itself. Workers can neither start workers nor change
// the session's state.
func (t *thread) available() []tool.Tool {
	var defined, all []tool.Tool
	names := make(map[string]bool)
	for _, d := range t.box().Defined() {
		names[d.Name] = true
	}
	for _, o := range t.box().Tools() {
		if names[o.Name] {
			defined = append(defined, o)
		} else {
			all = append(all, o)
		}
	}
	if t.worker == "" {
		all = append(all, t.c.ownTools()...)
		all = append(all, t.c.o.Tools...)
	}
	if !names[skillName] { // defined before there were skills
		all = append(all, t.c.skillTool()...)
	}
	all = append(all, defined...)
	all = append(all, t.later()...)
	return slices.DeleteFunc(all, func(o tool.Tool) bool {
		return !t.allows(o.Name) || slices.ContainsFunc(t.c.o.Without, func(name string) bool { return name == "*" || strings.EqualFold(name, o.Name) })
	})
}

// later returns the tools of the thread that became known while it ran.
func (t *thread) later() []tool.Tool {
	if t.worker != "" || t.c.o.More == nil {
		return nil
	}
	return t.c.o.More.Tools()
}

// box returns the tools of the thread: a worker has a shell of its own.
func (t *thread) box() *tool.Box {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	if w := t.c.workers[t.worker]; w != nil && w.box != nil {
		return w.box
	}
	return t.c.box
}

func (t *thread) find(name string) *tool.Tool {
	all := t.available()
	i := slices.IndexFunc(all, func(o tool.Tool) bool { return o.Name == name })
	if i < 0 {
		return nil
	}
	return &all[i]
}

func (t *thread) names() []string {
	var names []string
	for _, o := range t.available() {
		names = append(names, o.Name)
	}
	return names
}

// Tools are the tools of the conversation.
func (c *Chat) Tools() []tool.Tool { return c.main.available() }

func noScope(json.RawMessage) string { return "" }

// wakeScope is the time that the session would sleep.
func wakeScope(in json.RawMessage) string {
	a, _ := rawObject[struct{ After string }](in)
	return a.After
}

// ownTools are the tools that work on the session.
func (c *Chat) ownTools() []tool.Tool {
	return []tool.Tool{
		ownTool("remember", "Writes a part of this session's core memory, which is told to you again when the conversation is compacted. Keys: persona (who you are), human (whom you talk to), scratchpad (what you are at), or one of your own. Empty text removes a key of your own.",
			`{"type":"object","properties":{"key":{"type":"string"},"text":{"type":"string"},"append":{"type":"boolean","description":"add to what is there instead of replacing it"}},"required":["key","text"]}`, c.rememberTool),
		ownTool("task", "The task list of this session. action: add (with text), done (with id), list.",
			`{"type":"object","properties":{"action":{"type":"string","enum":["add","done","list"]},"text":{"type":"string"},"id":{"type":"integer"}},"required":["action"]}`, c.taskTool),
		// A session that wakes itself works while nobody watches, so a person
		// decides about it.
		{Name: "wake", Effect: tool.Runs, Run: c.wakeTool, Scope: wakeScope, Description: "Asks to be woken after a time when this session sleeps. after is a duration such as 30m or 2h.",
			Schema: json.RawMessage(`{"type":"object","properties":{"after":{"type":"string"}},"required":["after"]}`)},
		ownTool("spawn_worker", "Starts a helper agent with a conversation of its own, which works beside you. Returns at once.",
			`{"type":"object","properties":{"name":{"type":"string","description":"letters, digits, - and _"},"prompt":{"type":"string"},"agent":{"type":"string","description":"one of the agents that the system prompt lists, if it lists any"}},"required":["name","prompt"]}`, c.spawnTool),
		ownTool("await_worker", "Waits until a worker is done and returns what it said last.",
			`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`, c.awaitTool),
		ownTool("tell_worker", "Says something more to a worker. Returns at once.",
			`{"type":"object","properties":{"name":{"type":"string"},"text":{"type":"string"}},"required":["name","text"]}`, c.tellTool),
		{Name: "define_tool", Effect: tool.Runs, Run: c.defineTool, Scope: func(in json.RawMessage) string {
			d, _ := rawObject[tool.Definition](in)
			return d.Name
		}, Description: "Defines a tool that runs a shell command, kept with this session. The command gets the arguments as JSON on stdin and in TOOL_INPUT.",
			Schema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"},"description":{"type":"string"},"schema":{"type":"object"},"command":{"type":"string"}},"required":["name","command"]}`)},
	}
}

func ownTool(name, description, schema string, run func(context.Context, json.RawMessage) (tool.Result, error)) tool.Tool {
	return tool.Tool{Name: name, Description: description, Schema: json.RawMessage(schema), Effect: tool.Reads, Scope: noScope, Run: run}
}

// asResult turns an error that the model can react to into a result.
func asResult(text string, err error) (tool.Result, error) {
	if lost(err) {
		return tool.Result{}, err
	}
	if err != nil {
		return tool.Result{IsError: true, Text: err.Error()}, nil
	}
	return tool.Result{Text: text}, nil
}

// maxMemoryBytes bounds one part of core memory, so that it fits into a prompt.
const maxMemoryBytes = 8 << 10

func (c *Chat) rememberTool(ctx context.Context, in json.RawMessage) (tool.Result, error) {
	a, bad := rawObject[struct {
		Key, Text string
		Append    bool
	}](in)
	if bad != nil {
		return *bad, nil
	}
	return asResult("Remembered.", c.SetMemory(ctx, a.Key, a.Text, a.Append))
}

// SetMemory writes a part of core memory.
func (c *Chat) SetMemory(ctx context.Context, key, text string, add bool) error {
	key = strings.TrimSpace(key)
	if key == "" || len(key) > 64 || strings.ContainsAny(key, "\n\r\x00") {
		return tidemark.Invalidf("memory key %.40q: want one short line", key)
	}
	return c.Change(ctx, func(s *checkpoint) error {
		if old := s.CoreMemory[key]; add && old != "" {
			text = old + "\n" + text
		}
		if len(text) > maxMemoryBytes {
			return tidemark.Invalidf("memory %q: %d bytes, at most %d are allowed", key, len(text), maxMemoryBytes)
		}
		if s.CoreMemory[key] = text; text == "" {
			delete(s.CoreMemory, key)
		}
		return nil
	})
}

// memory is core memory as the end of a system prompt, "" when there is
// none.
func (c *Chat) memory() string {
	if text := memoryText(c.current().CoreMemory); text != "" {
		return "\n\n" + text
	}
	return ""
}

// memoryText formats core memory for the system prompt.
func memoryText(memory map[string]string) string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(memory)) {
		if text := memory[key]; text != "" {
			fmt.Fprintf(&b, "\n[%s]\n%s", key, text)
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "Core memory of this session:" + b.String()
}

func (c *Chat) taskTool(ctx context.Context, in json.RawMessage) (tool.Result, error) {
	a, bad := rawObject[struct {
		Action, Text string
		ID           int
	}](in)
	if bad != nil {
		return *bad, nil
	}
	switch a.Action {
	case "add":
		task, err := c.AddTask(ctx, a.Text)
		return asResult(fmt.Sprintf("Task %d added.", task.ID), err)
	case "done":
		return asResult("Done.", c.EndTask(ctx, a.ID))
	case "list":
		return asResult(taskText(c.State().Tasks), nil)
	}
	return asResult("", tidemark.Invalidf("action %q: want add, done or list", a.Action))
}

func taskText(tasks []store.Task) string {
	var b strings.Builder
	for _, t := range tasks {
		box := "[ ]"
		if t.Done {
			box = "[x]"
		}
		fmt.Fprintf(&b, "%s %d %s\n", box, t.ID, t.Text)
	}
	if b.Len() == 0 {
		return "There are no tasks."
	}
	return b.String()
}

// AddTask adds to the task list.
func (c *Chat) AddTask(ctx context.Context, text string) (store.Task, error) {
	task := store.Task{Text: strings.TrimSpace(text)}
	if task.Text == "" {
		return task, tidemark.Invalidf("a task without words")
	}
	err := c.Change(ctx, func(s *checkpoint) error {
		for _, t := range s.Tasks {
			task.ID = max(task.ID, t.ID)
		}
		task.ID++
		s.Tasks = append(s.Tasks, task)
		return nil
	})
	return task, err
}

// EndTask marks a task as done, or returns ErrNotFound.
func (c *Chat) EndTask(ctx context.Context, id int) error {
	return c.Change(ctx, func(s *checkpoint) error {
		for i := range s.Tasks {
			if s.Tasks[i].ID == id {
				s.Tasks[i].Done = true
				return nil
			}
		}
		return tidemark.NotFoundf("task %d: not found", id)
	})
}

func (c *Chat) wakeTool(ctx context.Context, in json.RawMessage) (tool.Result, error) {
	a, bad := rawObject[struct{ After string }](in)
	if bad != nil {
		return *bad, nil
	}
	d, err := time.ParseDuration(a.After)
	if err != nil || d <= 0 {
		return asResult("", tidemark.Invalidf("after %q: want a duration such as 30m", a.After))
	}
	at := c.o.Now().Add(d).UTC().Truncate(time.Second)
	err = c.WakeAt(ctx, at)
	return asResult("To be woken at "+at.Format(time.RFC3339)+" when the session sleeps.", err)
}

// WakeAt stores the time at which the session is to be woken.
func (c *Chat) WakeAt(ctx context.Context, at time.Time) error {
	err := c.Change(ctx, func(s *checkpoint) error {
		// A time that has passed already woke somebody, or was not needed.
		now := c.o.Now()
		s.WakeTriggers = slices.DeleteFunc(s.WakeTriggers, func(w store.WakeTrigger) bool { return w.Kind == store.WakeTimer && w.At.Before(now) })
		s.WakeTriggers = append(s.WakeTriggers, store.WakeTrigger{Kind: store.WakeTimer, At: at})
		return nil
	})
	if err == nil && c.o.Wake != nil {
		err = c.o.Wake(ctx, c.ID(), at)
	}
	return err
}

func (c *Chat) defineTool(ctx context.Context, in json.RawMessage) (tool.Result, error) {
	d, bad := rawObject[tool.Definition](in)
	if bad != nil {
		return *bad, nil
	}
	for _, own := range append(c.ownTools(), tool.Tool{Name: skillName}) {
		if own.Name == d.Name {
			return asResult("", tidemark.Invalidf("tool %q: there is one of this name", d.Name))
		}
	}
	// The box checks the definition; the tool is offered once it is kept.
	was := slices.IndexFunc(c.box.Defined(), func(old tool.Definition) bool { return old.Name == d.Name })
	if err := c.box.Define(d); err != nil {
		return asResult("", err)
	}
	err := c.Change(context.WithoutCancel(ctx), func(s *checkpoint) error {
		s.DynamicTools = slices.DeleteFunc(s.DynamicTools, func(old store.DynamicTool) bool { return old.Name == d.Name })
		s.DynamicTools = append(s.DynamicTools, store.DynamicTool(d))
		return nil
	})
	if err != nil && was < 0 {
		c.box.Undefine(d.Name)
	}
	return asResult("Defined. It is kept with the session.", err)
}
