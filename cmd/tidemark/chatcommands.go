package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/search"
	"github.com/tidemark-sessions/tidemark/store"
)

// slash is a command of the conversation.
type slash struct {
	name, args, help string
	run              func(*repl, context.Context, string) error
}

// anytime are the commands that are about what happens now.
var anytime = map[string]bool{"/workers": true, "/view": true, "/send": true, "/stop": true, "/spawn": true, "/status": true, "/loops": true, "/cancel": true, "/help": true, "/history": true, "/task": true}

func slashes() []slash {
	return []slash{
		{"/tree", "", "the branches of this session", (*repl).treeOf},
		{"/branch", "NODE", "go on from an earlier node, such as n1", (*repl).branch},
		{"/rewind", "[N]", "go back N turns (1)", (*repl).rewind},
		{"/label", "TEXT", "name the current node", (*repl).label},
		{"/checkpoint", "[NAME]", "keep the state of the session", (*repl).checkpoint},
		{"/compact", "[STRATEGY]", "make the context shorter now", (*repl).compactNow},
		{"/history", "", "what was before (PageUp)", func(r *repl, ctx context.Context, _ string) error { r.history(ctx); return nil }},
		{"/search", "TEXT", "find something in all sessions", (*repl).searchFor},
		{"/export", "[FORMAT] [FILE]", "write the session to a file", (*repl).exportNow},
		{"/sessions", "", "the sessions of this project", (*repl).sessionsHere},
		{"/resume", "[SESSION]", "go on with another session", (*repl).resume},
		{"/name", "TITLE", "give the session a title", (*repl).nameIt},
		{"/model", "[MODEL]", "the model, or take [PROVIDER/]NAME", (*repl).switchModel},
		{"/tools", "", "what the agent can do", (*repl).listTools},
		{"/approvals", "[clear]", "what may be done without asking", (*repl).listApprovals},
		{"/memory", "[KEY TEXT]", "core memory of this session", (*repl).memory},
		{"/doc", "[PATH]", "a document, sent with your next message", (*repl).document},
		{"/workers", "", "the helper agents", (*repl).listWorkers},
		{"/spawn", "NAME PROMPT", "start a helper agent", (*repl).spawn},
		{"/view", "[WORKER]", "look at a worker, or back (Ctrl-], Ctrl-\\)", (*repl).viewOf},
		{"/send", "WORKER TEXT", "say something to a worker", (*repl).send},
		{"/stop", "WORKER", "stop a worker", (*repl).stopWorker},
		{"/task", "add TEXT|done N|ls", "the task list", (*repl).task},
		{"/start", "", "work through the task list, every 5 minutes", (*repl).start},
		{"/loop", `"GOAL" INTERVAL`, "repeat a goal", (*repl).addLoop},
		{"/loop-target", `INTERVAL ["GOAL"]`, "repeat a goal, or work through the task list", (*repl).addLoop},
		{"/loops", "", "what is repeated", (*repl).listLoops},
		{"/cancel", "LOOP", "end a loop", (*repl).cancelLoop},
		{"/wake", "AFTER", "wake this session after a time", (*repl).wake},
		{"/status", "", "what this session is", (*repl).statusOf},
		{"/doctor", "", "look for damage in this session", (*repl).check},
		{"/help", "", "this list", (*repl).helpAll},
		{"/exit", "", "save and leave (/quit, /q, Ctrl-D)", func(r *repl, _ context.Context, _ string) error { r.leaving = &leaving{}; return nil }},
	}
}

// command runs a command of the conversation.
func (r *repl) command(ctx context.Context, line string) {
	name, arg, _ := strings.Cut(strings.TrimSpace(line), " ")
	if name == "/quit" || name == "/q" {
		name = "/exit"
	}
	for _, s := range slashes() {
		if s.name == name {
			r.fail(s.run(r, ctx, strings.TrimSpace(arg)))
			return
		}
	}
	r.fail(withHint(tidemark.Invalidf("there is no command %s", name), "see /help; a message that begins with a slash begins with two"))
}

// print shows text that is ours or was made harmless.
func (r *repl) print(format string, args ...any) {
	r.screen.pause()
	fmt.Fprintf(r.console, format+"\n", args...)
}

func (r *repl) helpAll(context.Context, string) error {
	for _, s := range slashes() {
		r.print("  %-32s %s", s.name+" "+s.args, s.help)
	}
	return nil
}

// begun is the session as it is kept, for what needs one.
func (r *repl) begun(ctx context.Context) (*store.View, error) {
	if !r.c.Exists() {
		return nil, tidemark.Invalidf("nothing was said yet")
	}
	return r.c.View(ctx)
}

func (r *repl) treeOf(ctx context.Context, _ string) error {
	v, err := r.begun(ctx)
	if err != nil {
		return err
	}
	nodes, err := v.Tree(ctx)
	if err != nil {
		return err
	}
	drawing := make([]render.Node, len(nodes))
	for i, n := range nodes {
		drawing[i] = drawn(n)
	}
	r.screen.pause()
	return render.Tree(r.console, drawing, &render.TreeOptions{Width: r.console.Columns(), Relative: sinceNow})
}

func (r *repl) branch(ctx context.Context, node string) error {
	v, err := r.begun(ctx)
	if err != nil {
		return err
	}
	if node == "" {
		return withHint(tidemark.Invalidf("from which node?"), "see them with /tree")
	}
	p, err := r.s.Resolve(ctx, string(v.ID)+"@"+strings.TrimPrefix(node, "@"), "")
	if err != nil {
		return withHint(err, "see the nodes with /tree")
	}
	return r.branchTo(ctx, p.Seq, node)
}

func (r *repl) branchTo(ctx context.Context, seq int64, name string) error {
	if err := r.c.Branch(ctx, seq); err != nil {
		return err
	}
	messages, err := r.c.Messages(ctx)
	if err != nil {
		return err
	}
	r.screen.note("Branched from %s (%d messages)", name, messages)
	return nil
}

func (r *repl) rewind(ctx context.Context, arg string) error {
	v, err := r.begun(ctx)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(cmp.Or(arg, "1"))
	if err != nil || n < 1 {
		return tidemark.Invalidf("/rewind %q: want a number of turns", arg)
	}
	head, err := v.Head(ctx)
	if err != nil {
		return err
	}
	seq, err := v.Up(ctx, head, n)
	if err != nil {
		return withHint(err, "see the nodes with /tree")
	}
	return r.branchTo(ctx, seq, fmt.Sprintf("%d turn(s) before", n))
}

func (r *repl) label(ctx context.Context, text string) error {
	v, err := r.begun(ctx)
	if err != nil {
		return err
	}
	head, err := v.Head(ctx)
	if err != nil {
		return err
	}
	if err := r.s.Label(ctx, v.ID, head, text); err != nil {
		return err
	}
	r.screen.note("Labeled current node.")
	return nil
}

func (r *repl) checkpoint(ctx context.Context, name string) error {
	if err := r.c.Checkpoint(ctx, name, "asked for"); err != nil {
		return err
	}
	r.screen.note("Checkpoint saved: %s", cmp.Or(name, "the one that a resume looks for"))
	return nil
}

func (r *repl) compactNow(ctx context.Context, strategy string) error {
	if _, err := r.begun(ctx); err != nil {
		return err
	}
	var err error
	r.turn(ctx, func(ctx context.Context) error { err = r.c.Compact(ctx, strategy); return nil })
	return err
}

func (r *repl) searchFor(ctx context.Context, text string) error {
	if text == "" {
		return tidemark.Invalidf("search for what?")
	}
	q, err := search.Parse(text)
	if err != nil {
		return err
	}
	answer, err := r.s.Search(ctx, question(q, store.Question{Limit: 10}))
	if err != nil {
		return err
	}
	for _, f := range answer.Found {
		r.print("%s  %s  %s", f.Ref(), firstLine(f.Info.Title), firstLine(f.Entry.Text()))
	}
	if len(answer.Found) == 0 {
		r.print("Nothing was found.")
	}
	return nil
}

func (r *repl) exportNow(ctx context.Context, arg string) error {
	v, err := r.begun(ctx)
	if err != nil {
		return err
	}
	format, file, _ := strings.Cut(arg, " ")
	if file == "" && strings.Contains(format, ".") {
		format, file = "", format
	}
	format = cmp.Or(format, strings.TrimPrefix(filepath.Ext(file), "."), "md")
	if file = strings.TrimSpace(file); file == "" {
		file = fmt.Sprintf("%.8s.%s", v.ID, format)
	}
	err = r.exportOne(r.cmd, string(v.ID), exporting{format: format, output: file})
	if errors.Is(err, tidemark.ErrStorage) {
		// It is the place of the file that is wrong, not the store: the
		// conversation goes on.
		return withHint(tidemark.Invalidf("%s", err), "the session is kept; name another file")
	}
	if err != nil {
		return err
	}
	r.screen.note("Exported to %s", file)
	return nil
}

func (r *repl) sessionsHere(ctx context.Context, _ string) error {
	n := 0
	for i, err := range r.s.Sessions(ctx, store.Filter{Project: r.project(), Limit: 20}) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue
		}
		if err != nil {
			return err
		}
		n++
		mark := " "
		if i.ID == r.c.ID() {
			mark = "*"
		}
		r.print("%s %.8s  %-12s  %4d messages  %s", mark, i.ID, ago(i.UpdatedAt, time.Now()), i.Messages, firstLine(i.Title))
	}
	if n == 0 {
		r.print("This project has no session.")
	}
	return nil
}

// resume leaves this session for another one. Everything of the old one is gone
// before the new one attaches: its shell, its interpreter, its memory.
func (r *repl) resume(ctx context.Context, ref string) error {
	if ref == "" {
		if !r.interactive {
			return tidemark.Invalidf("which session?")
		}
		err := r.console.Lend(func() error {
			var err error
			ref, err = r.pick(ctx, r.cmd, "Go on with")
			return err
		})
		if err != nil || ref == "" {
			return err
		}
	}
	p, err := r.s.Resolve(ctx, ref, r.project())
	if err != nil {
		return withHint(err, "see them with /sessions")
	}
	if p.ID == r.c.ID() {
		return tidemark.Invalidf("this is that session")
	}
	l, err := r.s.Lease(ctx, p.ID)
	if err != nil {
		return err
	}
	if l.Held && !l.Dead && !l.Expired {
		return &store.HeldError{Lease: l, Now: time.Now()}
	}
	old := r.c
	if err := old.Close(ctx); err != nil {
		return err
	}
	if old.Exists() {
		r.saved()
	}
	r.oldest, r.screen.view, r.loaded = 0, "", nil
	if err := r.attach(ctx, p.ID, p.Seq); err != nil {
		// There is nothing to go back to: a new session begins.
		if again := r.attach(ctx, "", 0); again != nil {
			r.leaving = &leaving{err: errors.Join(err, again)}
		}
		return err
	}
	r.greet(ctx, p.ID, p.Seq)
	return nil
}

func (r *repl) nameIt(ctx context.Context, title string) error {
	if !r.c.Exists() {
		return tidemark.Invalidf("nothing was said yet; name it with --name, or later")
	}
	if err := r.s.Rename(ctx, r.c.ID(), title); err != nil {
		return err
	}
	r.screen.note("Named %q.", title)
	return nil
}

func (r *repl) switchModel(_ context.Context, name string) error {
	if name == "" {
		r.print("%s/%s", r.provider.name, render.CleanLine(r.provider.model))
		return nil
	}
	p, err := r.another(name)
	if err != nil {
		return err
	}
	if err := r.c.SetModel(p.client, p.name, p.model, p.remote); err != nil {
		return withHint(err, "allow it with: tidemark chat --remote --resume %.8s", r.c.ID())
	}
	r.provider = p
	r.screen.note("Now asking %s/%s.", p.name, p.model)
	return nil
}

// another is the model of a name: NAME of the same provider, or PROVIDER/NAME.
func (t *talk) another(name string) (provider, error) {
	choice := modelChoice{provider: t.provider.name, model: name, baseURL: t.f.baseURL}
	if maker, rest, ok := strings.Cut(name, "/"); ok && maker != t.provider.name {
		if _, err := makerOf(maker); err == nil {
			choice = modelChoice{provider: maker, model: rest}
		}
	} else if ok {
		choice.model = rest
	}
	return t.model(choice, modelChoice{})
}

func (r *repl) listTools(context.Context, string) error {
	for _, t := range r.c.Tools() {
		r.print("  %-14s %-8s %s", render.CleanLine(t.Name), t.Effect, firstLine(t.Description))
	}
	return nil
}

func (r *repl) listApprovals(ctx context.Context, arg string) error {
	if arg == "clear" {
		err := r.c.Change(ctx, func(s *store.Checkpoint) error { s.Approvals = nil; return nil })
		if err == nil {
			r.screen.note("Everything is asked for again.")
		}
		return err
	}
	approvals := r.c.State().Approvals
	for _, a := range approvals {
		r.print("  %s %s", render.CleanLine(a.Tool), render.CleanLine(a.Scope))
	}
	if len(approvals) == 0 {
		r.print("Nothing is approved for the whole session.")
	}
	for _, p := range r.c.Proposals() {
		state := stateProposed
		if p.Declined {
			state = stateDeclined
		}
		r.print("  %s %s", state, proposalText(p))
	}
	return nil
}

func (r *repl) memory(ctx context.Context, arg string) error {
	key, text, ok := strings.Cut(arg, " ")
	if ok {
		return r.c.SetMemory(ctx, key, text, false)
	}
	shown := false
	for _, part := range memoryParts(r.c.State().CoreMemory) {
		if key == part[0] || key == "" && part[1] != "" {
			shown = true
			r.print("[%s]\n%s", render.CleanLine(part[0]), render.Clean(part[1]))
		}
	}
	if !shown {
		r.print("Nothing is remembered. Write it with /memory KEY TEXT.")
	}
	return nil
}

func memoryParts(memory map[string]string) (parts [][2]string) {
	for key, text := range memory {
		parts = append(parts, [2]string{key, text})
	}
	slices.SortFunc(parts, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	return parts
}

// maxDocument bounds a document that is loaded into a conversation.
const maxDocument = 1 << 20

// document loads a document: it goes with the next message, and the session
// remembers that it was loaded.
func (r *repl) document(ctx context.Context, path string) error {
	if path == "" {
		paths := r.c.State().DocumentPaths
		for _, p := range paths {
			r.print("  %s", render.CleanLine(p))
		}
		if len(paths) == 0 {
			r.print("No document was loaded. Load one with /doc PATH.")
		}
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return withHint(tidemark.NotFoundf("%w", err), "name a file, relative to the folder that you are in")
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxDocument+1))
	if err != nil || len(b) > maxDocument {
		return tidemark.Invalidf("%s: cannot be read, or is over %d bytes", path, maxDocument)
	}
	full, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	r.loaded = append(r.loaded, tidemark.Text(fmt.Sprintf("<document path=%q>\n%s\n</document>", full, strings.ToValidUTF8(string(b), "\uFFFD"))))
	r.screen.note("Loaded %s; it goes with your next message.", full)
	return r.c.Change(ctx, func(s *store.Checkpoint) error {
		if !slices.Contains(s.DocumentPaths, full) {
			s.DocumentPaths = append(slices.Clone(s.DocumentPaths), full)
		}
		return nil
	})
}

// documents are what was loaded since the last message.
func (r *repl) documents() []tidemark.Block {
	loaded := r.loaded
	r.loaded = nil
	return loaded
}

func (r *repl) stopWorker(_ context.Context, name string) error {
	if name == "" {
		return withHint(tidemark.Invalidf("which worker?"), "see them with /workers")
	}
	return withHint(r.c.StopWorker(name), "see them with /workers")
}

func (r *repl) cancelLoop(ctx context.Context, id string) error {
	if id == "" {
		return withHint(tidemark.Invalidf("which loop?"), "see them with /loops")
	}
	return withHint(r.c.CancelLoop(ctx, id), "see them with /loops")
}

func (r *repl) statusOf(ctx context.Context, _ string) error {
	if !r.c.Exists() {
		r.print("A new session, %s/%s; nothing was said yet.", r.provider.name, render.CleanLine(r.provider.model))
		r.print("sandbox    %s", render.CleanLine(r.sandboxStatus()))
		return nil
	}
	v, err := r.s.View(ctx, r.c.ID())
	if err != nil {
		return err
	}
	i := v.Info
	var used store.Tally
	own := int64(1) // behind what a fork shares
	if i.Base != nil {
		own = i.Base.Seq + 1
	}
	for e, err := range v.LogRange(ctx, own, i.Entries) {
		if err == nil {
			r.s.Tally(&used, store.Owned{Session: &v.Info, Entry: e})
		} else if !errors.Is(err, tidemark.ErrCorrupt) {
			return err
		}
	}
	state := r.c.State()
	r.print("session    %s (%s)", i.ID, r.encrypted())
	r.print("title      %s", orDash(i.Title))
	r.print("project    %s", orDash(i.Project))
	r.print("mode       %s", i.Mode)
	r.print("model      %s/%s", r.provider.name, render.CleanLine(r.provider.model))
	r.print("messages   %d on this branch, %d entries, %d nodes", i.Messages, i.Entries, i.Nodes)
	r.print("used       %s tokens in, %s out, cost %s", short(used.InputTokens+used.CacheReadTokens+used.CacheWriteTokens), short(used.OutputTokens), r.cost(used.Cost))
	for _, note := range r.costNotes(used.Cost) {
		r.print("           %s", note)
	}
	r.print("sandbox    %s", render.CleanLine(r.sandboxStatus()))
	r.print("approvals  %d, loops %d, tasks %d, documents %d", len(state.Approvals), len(state.Loops), len(state.Tasks), len(state.DocumentPaths))
	return nil
}

func (r *repl) check(ctx context.Context, _ string) error {
	v, err := r.begun(ctx)
	if err != nil {
		return err
	}
	damaged := 0
	for e, err := range v.Log(ctx) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			damaged++
			r.screen.note("%d: %s", e.Seq, err)
			continue
		}
		if err != nil {
			return err
		}
	}
	if damaged == 0 {
		r.print("All %d entries are whole.", v.Entries)
	}
	return nil
}
