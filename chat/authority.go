package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark/internal/grant"
	"github.com/tidemark-sessions/tidemark/internal/sandbox"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/tool"
)

// The approvals, loops, wakes, tools, variables, paths and limits in a
// checkpoint are only proposals, because a checkpoint may come from
// anywhere. Only what the person at this machine granted is in force. That
// is computed here alone, for every caller that resumes a session.

// Proposal is something that a session asks for and that is not in force.
type Proposal struct {
	grant.Thing
	Text     string `json:"text"`               // from outside: whoever shows it has to make it harmless
	Declined bool   `json:"declined,omitempty"` // the person refused it earlier
}

// standing is the part of a checkpoint that gives authority, together with
// the authority of the shell, which is kept in Extra.
type standing struct {
	state store.Checkpoint
	shell tool.State
}

// claim is one thing that a checkpoint grants, and how to add it to another
// checkpoint.
type claim struct {
	Proposal
	into func(*standing)
}

// claims splits a checkpoint into what needs no grant and what has to be
// granted. Paths inside root and limits up to most need none.
func (s standing) claims(root string, most store.Limits) (free standing, all []claim) {
	free = standing{cloned(s.state), tool.State{}}
	f := &free.state
	add := func(k grant.Kind, value any, text string, into func(*standing)) {
		all = append(all, claim{Proposal{Thing: grant.Of(k, value), Text: text}, into})
	}
	f.Approvals, f.Loops, f.WakeTriggers, f.DynamicTools, f.DocumentPaths, f.Interpreter.ContextPaths = nil, nil, nil, nil, nil, nil
	for _, a := range s.state.Approvals {
		add(grant.Approval, a, fmt.Sprintf("use %s without asking: %s", a.Tool, orAll(a.Scope)), func(to *standing) { to.state.Approvals = append(to.state.Approvals, a) })
	}
	for _, l := range s.state.Loops {
		// The due time and the count change as the loop runs, so they are not
		// part of the grant.
		exact := store.Loop{Goal: l.Goal, EverySeconds: l.EverySeconds}
		add(grant.Loop, exact, fmt.Sprintf("repeat every %s: %s", time.Duration(l.EverySeconds)*time.Second, orTasks(l.Goal)), func(to *standing) { to.state.Loops = append(to.state.Loops, l) })
	}
	for _, w := range s.state.WakeTriggers {
		all = append(all, claim{Proposal{Thing: WakeThing(w), Text: wakeText(w)}, func(to *standing) { to.state.WakeTriggers = append(to.state.WakeTriggers, w) }})
	}
	for _, d := range s.state.DynamicTools {
		add(grant.Tool, exactTool(d), fmt.Sprintf("the tool %s, which runs: %s", d.Name, d.Command), func(to *standing) { to.state.DynamicTools = append(to.state.DynamicTools, d) })
	}
	paths := func(what string, paths []string, list func(*standing) *[]string) {
		for _, p := range paths {
			if within(root, p) {
				to := list(&free)
				*to = append(*to, p)
				continue
			}
			add(grant.Path, p, what+" outside the project: "+p, func(to *standing) { *list(to) = append(*list(to), p) })
		}
	}
	paths("the document", s.state.DocumentPaths, func(to *standing) *[]string { return &to.state.DocumentPaths })
	paths("the context", s.state.Interpreter.ContextPaths, func(to *standing) *[]string { return &to.state.Interpreter.ContextPaths })
	free.state.Limits = store.Limits{}
	for _, l := range limitFields {
		of, most := *l.of(&s.state.Limits), *l.of(&most)
		if of <= most {
			*l.of(&free.state.Limits) = of
			continue
		}
		*l.of(&free.state.Limits) = most
		add(grant.Limit, map[string]int{l.name: of}, fmt.Sprintf("the limit %s: %d", l.name, of), func(to *standing) { *l.of(&to.state.Limits) = of })
	}
	shell := s.shell
	if within(root, shell.Dir) {
		free.shell.Dir = shell.Dir
	} else {
		add(grant.Path, shell.Dir, "a shell in the folder outside the project: "+shell.Dir, func(to *standing) { to.shell.Dir = shell.Dir })
	}
	for _, name := range slices.Sorted(maps.Keys(shell.Set)) {
		if !tool.Restorable(name) {
			continue // never allowed, whoever grants it
		}
		value := shell.Set[name]
		add(grant.Variable, map[string]string{"name": name, "value": value}, fmt.Sprintf("the variable %s=%s", name, value), func(to *standing) {
			if to.shell.Set == nil {
				to.shell.Set = make(map[string]string)
			}
			to.shell.Set[name] = value
		})
	}
	for _, name := range shell.Unset {
		if tool.Restorable(name) {
			add(grant.Variable, map[string]string{"unset": name}, "without the variable "+name, func(to *standing) { to.shell.Unset = append(to.shell.Unset, name) })
		}
	}
	return free, all
}

// WakeThing is a wake in the form in which it is granted.
func WakeThing(w store.WakeTrigger) grant.Thing {
	w.At = w.At.UTC()
	return grant.Of(grant.Wake, w)
}

// limitFields lists the limits by their JSON names.
var limitFields = []struct {
	name string
	of   func(*store.Limits) *int
}{
	{"tool_rounds", func(l *store.Limits) *int { return &l.ToolRounds }},
	{"output_bytes", func(l *store.Limits) *int { return &l.OutputBytes }},
	{"tools_in_context", func(l *store.Limits) *int { return &l.ToolsInContext }},
}

// exactTool is a tool in the form in which it is granted: the same for any
// spacing of its schema.
func exactTool(d store.DynamicTool) map[string]any {
	exact := map[string]any{"name": d.Name, "description": d.Description, "command": d.Command}
	switch {
	case len(d.Schema) == 0:
	case json.Valid(d.Schema):
		exact["schema"] = d.Schema
	default:
		exact["broken"] = string(d.Schema)
	}
	return exact
}

func orAll(scope string) string {
	switch scope {
	case "":
		return "calls without a scope"
	case wholeSession:
		return "in this session, but for commands that are not vetted and files outside the project"
	}
	return scope
}

func orTasks(goal string) string {
	if goal == "" {
		return "work through the task list"
	}
	return goal
}

func wakeText(w store.WakeTrigger) string {
	if w.Kind == store.WakeTimer {
		return "go on by itself at " + w.At.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("go on by itself: %s from %s", w.Kind, orAnybody(w.From))
}

func orAnybody(from string) string {
	if from == "" {
		return "anybody"
	}
	return from
}

// within reports whether a path lies in the folder, also after links
// are followed. "" is the folder itself.
func within(root, path string) bool {
	if path == "" {
		return true
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(root, filepath.FromSlash(path))
	}
	if real, err := filepath.EvalSymlinks(root); err == nil && root != "" {
		root = real
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	_, ok := sandbox.Below(root, path)
	return root != "" && ok
}

// ProposalsOf lists what a checkpoint asks for in a project and that is not
// in force there, without resuming its session.
func ProposalsOf(c store.Checkpoint, root string, granted grant.Answers) []Proposal {
	_, all := standing{c, shellOf(c)}.claims(root, mostOf(store.Limits{}))
	return proposals(all, granted)
}

func proposals(all []claim, said grant.Answers) []Proposal {
	var open []Proposal
	for _, c := range all {
		yes, answered := said[c.Thing]
		if yes || slices.ContainsFunc(open, func(p Proposal) bool { return p.Thing == c.Thing }) {
			continue
		}
		c.Declined = answered
		open = append(open, c.Proposal)
	}
	return open
}

// shellOf is the shell that a checkpoint keeps, or the zero State when it
// cannot be read.
func shellOf(c store.Checkpoint) tool.State {
	var x extra
	if len(c.Extra) > 0 && json.Unmarshal(c.Extra, &x) != nil {
		return tool.State{}
	}
	return x.Shell
}

// mostOf fills the limits that are not set with the defaults.
func mostOf(l store.Limits) store.Limits {
	if l.ToolRounds <= 0 {
		l.ToolRounds = DefaultRounds
	}
	if l.ToolsInContext <= 0 {
		l.ToolsInContext = DefaultTools
	}
	if l.OutputBytes <= 0 {
		l.OutputBytes = tool.DefaultOutputBytes
	}
	return l
}

// splitByGrant splits the state of a resumed session into what is in force and what
// is only proposed, and returns the shell that may be restored.
func (c *Chat) splitByGrant(shell tool.State) tool.State {
	said, err := c.o.Grants.Of(c.id)
	if errors.Is(err, grant.ErrUntrusted) {
		c.notice("What was granted to this session is not known, and is asked for again: " + err.Error())
	}
	c.cap = mostOf(c.o.Limits)
	now, all := standing{c.state, shell}.claims(c.o.Root, c.cap)
	c.recorded = make(map[grant.Thing]bool)
	for _, one := range all {
		if said[one.Thing] {
			one.into(&now)
			c.recorded[one.Thing] = true
		} else {
			c.proposed = append(c.proposed, one)
		}
	}
	c.state = now.state
	return now.shell
}

// Proposals are what the session asks for and does not have: the person was
// not asked yet, or declined.
func (c *Chat) Proposals() []Proposal {
	said, _ := c.o.Grants.Of(c.id) // on an error nothing counts as answered
	c.mu.Lock()
	defer c.mu.Unlock()
	return proposals(c.proposed, said)
}

// Accept puts proposals in force after a person agreed to them; the grant is
// durable before it takes effect. The remaining proposals are declined, and
// not asked about again.
func (c *Chat) Accept(ctx context.Context, yes []Proposal) error {
	c.saving.Lock()
	defer c.saving.Unlock()
	now := standing{c.State(), c.box.State()}
	var left []claim
	var no []grant.Thing
	var tools []store.DynamicTool
	c.mu.Lock()
	for _, one := range c.proposed {
		if slices.ContainsFunc(yes, func(p Proposal) bool { return p.Thing == one.Thing }) {
			one.into(&now)
			continue
		}
		left, no = append(left, one), append(no, one.Thing)
	}
	was := c.proposed
	c.proposed = left
	tools = now.state.DynamicTools[len(c.state.DynamicTools):]
	c.mu.Unlock()
	if err := c.o.Grants.Decline(ctx, c.id, no...); err != nil {
		return err
	}
	before := c.box.State()
	if !sameShell(before, now.shell) {
		c.box.Reset(now.shell)
	}
	if err := c.keepIfPossible(ctx, now.state); err != nil {
		c.box.Reset(before)
		c.mu.Lock()
		c.proposed = was
		c.mu.Unlock()
		return err
	}
	c.mu.Lock()
	c.state = now.state
	c.mu.Unlock()
	for _, d := range tools {
		if err := c.box.Define(tool.Definition(d)); err != nil {
			c.notice("A tool of this session cannot be used: " + err.Error())
		}
	}
	return nil
}

func sameShell(a, b tool.State) bool {
	return a.Dir == b.Dir && maps.Equal(a.Set, b.Set) && slices.Equal(a.Unset, b.Unset)
}

// record writes a grant for what the state has gained, and revokes what it has
// lost: both were just done at this machine. It runs before the state is kept,
// so that nothing is in force without a grant, and nothing comes back with an
// older checkpoint. The caller holds saving.
func (c *Chat) record(ctx context.Context, s store.Checkpoint, shell tool.State) error {
	if c.o.Grants == nil {
		return nil
	}
	_, all := standing{s, shell}.claims(c.o.Root, c.cap)
	now := make(map[grant.Thing]bool)
	var add, end []grant.Thing
	for _, one := range all {
		if !c.recorded[one.Thing] && !now[one.Thing] {
			add = append(add, one.Thing)
		}
		now[one.Thing] = true
	}
	for t := range c.recorded {
		if !now[t] {
			end = append(end, t)
		}
	}
	if err := c.o.Grants.Revoke(ctx, c.id, end...); err != nil {
		return err
	}
	if err := c.o.Grants.Add(ctx, c.id, add...); err != nil {
		return err
	}
	c.recorded = now
	return nil
}

// merged is a state together with what is proposed: a checkpoint keeps both.
func (c *Chat) merged(s store.Checkpoint, shell tool.State) (store.Checkpoint, tool.State) {
	to := standing{cloned(s), tool.State{Dir: shell.Dir, Set: maps.Clone(shell.Set), Unset: slices.Clone(shell.Unset)}}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.proposed {
		one.into(&to)
	}
	// The shell's directory and variables are newer than what is proposed.
	to.shell.Dir = shell.Dir
	maps.Copy(to.shell.Set, shell.Set)
	to.shell.Unset = slices.DeleteFunc(to.shell.Unset, func(name string) bool { _, set := shell.Set[name]; return set })
	return to.state, to.shell
}

// refresh drops what the person has revoked elsewhere since. A grant file
// that is no longer trusted grants nothing.
func (c *Chat) refresh() {
	if c.o.Grants == nil {
		return
	}
	c.saving.Lock()
	defer c.saving.Unlock()
	said, _ := c.o.Grants.Of(c.id)
	now, all := standing{c.State(), tool.State{}}.claims(c.o.Root, c.cap)
	gone := 0
	var left []claim
	for _, one := range all {
		if c.recorded[one.Thing] && !said[one.Thing] {
			gone++
			left = append(left, one)
			delete(c.recorded, one.Thing)
			continue
		}
		one.into(&now)
	}
	if gone == 0 {
		return
	}
	c.mu.Lock()
	c.state, c.proposed = now.state, append(c.proposed, left...)
	c.mu.Unlock()
	for _, d := range c.box.Defined() {
		if !slices.ContainsFunc(now.state.DynamicTools, func(o store.DynamicTool) bool { return o.Name == d.Name }) {
			c.box.Undefine(d.Name)
		}
	}
	c.notice(fmt.Sprintf("%d grant(s) of this session were revoked, and do not hold any more.", gone))
}
