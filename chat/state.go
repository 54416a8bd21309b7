package chat

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/tool"
)

// extra is what a chat keeps in a checkpoint in addition to the fields
// that every agent has.
type extra struct {
	Provider string     `json:"provider,omitempty"`
	Model    string     `json:"model,omitempty"`
	Shell    tool.State `json:"shell"`
}

// ModelOf returns the provider and the model that a session was last used
// with.
func ModelOf(c store.Checkpoint) (provider, name string) {
	var x extra
	if len(c.Extra) > 0 && json.Unmarshal(c.Extra, &x) != nil {
		return "", ""
	}
	return x.Provider, x.Model
}

// shell returns the state of the session's shell, or why it begins anew.
func (c *Chat) shell() (was tool.State, fresh string) {
	if c.o.FreshInterpreter != "" || len(c.state.Extra) == 0 {
		return tool.State{}, c.o.FreshInterpreter
	}
	var x extra
	if err := json.Unmarshal(c.state.Extra, &x); err != nil {
		c.notice("Where the shell was is not known any more; it begins in the project.")
		return tool.State{}, "where the shell was cannot be read: " + err.Error()
	}
	return x.Shell, ""
}

// open makes the tools of the session, with the shell as it was.
func (c *Chat) open(was tool.State) error {
	box, err := c.o.Box(was, &sessionFiles{c}, c.state.Limits, func(name string, chunk []byte) {
		c.emit(Event{Output: strings.ToValidUTF8(string(chunk), "\uFFFD")})
	})
	if err != nil {
		return err
	}
	for _, d := range c.state.DynamicTools {
		if err := box.Define(tool.Definition(d)); err != nil {
			c.notice("A tool of this session cannot be used: " + err.Error())
		}
	}
	c.box = box
	return nil
}

// save keeps the state of the session if it changed. When the checkpoint is
// damaged and cannot be replaced, the conversation continues without one.
func (c *Chat) save(ctx context.Context) error {
	c.saving.Lock()
	defer c.saving.Unlock()
	return c.keepIfPossible(ctx, c.current())
}

func (c *Chat) keepIfPossible(ctx context.Context, s store.Checkpoint) error {
	err := c.keep(ctx, s, "")
	if !errors.Is(err, tidemark.ErrCorrupt) {
		return err
	}
	c.mu.Lock()
	told := c.warned
	c.warned = true
	c.mu.Unlock()
	if !told {
		c.notice("Approvals, loops and memory of this session cannot be kept: " + err.Error())
	}
	return nil
}

// current returns the state, which must not be changed.
func (c *Chat) current() store.Checkpoint {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// keep keeps a state; the caller holds saving. Without a reason it keeps it
// only if it changed.
func (c *Chat) keep(ctx context.Context, s store.Checkpoint, reason string) error {
	if !c.Exists() {
		return nil
	}
	if err := c.record(ctx, s, c.box.State()); err != nil {
		return err
	}
	s, err := c.completed(s)
	if err != nil {
		return err
	}
	now, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if bytes.Equal(now, c.kept) && reason == "" {
		return nil
	}
	s.Reason = reason
	if err := c.writer().SaveCheckpoint(ctx, s); err != nil {
		return err
	}
	c.kept = now
	return nil
}

// timeless is a state without the time and the reason of its checkpoint.
func timeless(s store.Checkpoint) store.Checkpoint {
	s.Name, s.SavedAt, s.Seq, s.Reason = "", time.Time{}, 0, ""
	return s
}

// completed is a state with the current state of the tools, and with what is
// proposed. What another program keeps in Extra stays there.
func (c *Chat) completed(s store.Checkpoint) (store.Checkpoint, error) {
	s, shell := c.merged(timeless(s), c.box.State())
	if project := c.Session().Project; project != "" { // otherwise it belongs to another program, which wants it back
		s.Interpreter.WorkspacePath = project
	}
	all := make(map[string]json.RawMessage)
	if len(s.Extra) > 0 && json.Unmarshal(s.Extra, &all) != nil {
		all = make(map[string]json.RawMessage) // not ours, and not an object
	}
	who := c.answering()
	own, err := json.Marshal(extra{Provider: who.provider, Model: who.name, Shell: shell})
	if err == nil {
		err = json.Unmarshal(own, &all)
	}
	if err == nil {
		s.Extra, err = json.Marshal(all)
	}
	return s, err
}

// Checkpoint keeps the state under a name; a resume looks for the one
// without a name. ErrNotFound means that nothing was said yet.
func (c *Chat) Checkpoint(ctx context.Context, name, reason string) error {
	if !c.Exists() {
		return tidemark.NotFoundf("nothing was said yet")
	}
	c.saving.Lock()
	defer c.saving.Unlock()
	if name == "" && reason != "" {
		return c.keep(ctx, c.current(), reason)
	}
	s, err := c.completed(c.current())
	if err != nil {
		return err
	}
	s.Name, s.Reason = name, reason
	return c.writer().SaveCheckpoint(ctx, s)
}

// State returns what is in force, without what is only proposed.
func (c *Chat) State() store.Checkpoint { return cloned(c.current()) }

// cloned returns a copy that shares nothing with s.
func cloned(s store.Checkpoint) store.Checkpoint {
	s.Approvals, s.Loops, s.Tasks = slices.Clone(s.Approvals), slices.Clone(s.Loops), slices.Clone(s.Tasks)
	s.DynamicTools, s.DocumentPaths = slices.Clone(s.DynamicTools), slices.Clone(s.DocumentPaths)
	s.WakeTriggers, s.CoreMemory = slices.Clone(s.WakeTriggers), maps.Clone(s.CoreMemory)
	s.Interpreter.ContextPaths = slices.Clone(s.Interpreter.ContextPaths)
	return s
}

// Change changes the state and keeps it; if it cannot be kept, the state
// stays as it was. A change before the first message is kept right after
// that message.
func (c *Chat) Change(ctx context.Context, change func(*store.Checkpoint) error) error {
	c.saving.Lock()
	defer c.saving.Unlock()
	s := c.State()
	if s.CoreMemory == nil {
		s.CoreMemory = make(map[string]string)
	}
	if err := change(&s); err != nil {
		return err
	}
	if err := c.keepIfPossible(ctx, s); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state = s
	c.changed = c.changed || !c.created
	return nil
}

// approved reports whether a call needs no further approval. A command of
// several forms is approved when each of them is.
func (c *Chat) approved(asked ApprovalRequest) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := approval(asked)
	has := func(scope string) bool {
		return slices.Contains(c.state.Approvals, store.Approval{Tool: a.Tool, Scope: scope})
	}
	if has(a.Scope) || has(wholeSession) && coveredBySession(asked) {
		return true
	}
	forms := tool.Forms(a.Scope)
	return len(forms) > 0 && !slices.ContainsFunc(forms, func(form string) bool { return !has(tool.FormScope(form)) })
}

func (c *Chat) limits() store.Limits {
	c.mu.Lock()
	defer c.mu.Unlock()
	return mostOf(c.state.Limits)
}

// sessionFiles are the durable files of the session, for its tools. They also keep
// what files of the project were.
type sessionFiles struct{ c *Chat }

func (f *sessionFiles) ReadFile(ctx context.Context, name string) ([]byte, error) {
	return f.c.o.Store.ReadFile(ctx, f.c.ID(), name)
}

func (f *sessionFiles) WriteFile(ctx context.Context, name string, data []byte) error {
	_, err := f.c.writer().PutFile(ctx, name, bytes.NewReader(data))
	return err
}

func (f *sessionFiles) List(ctx context.Context, prefix string) ([]string, error) {
	all, err := f.c.o.Store.Files(ctx, f.c.ID())
	var names []string
	for _, file := range all {
		if strings.HasPrefix(file.Name, prefix) {
			names = append(names, file.Name)
		}
	}
	return names, err
}
