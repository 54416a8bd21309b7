package slash

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/project"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/search"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/store/hits"
	"github.com/tidemark-sessions/tidemark/tool"
)

// Node is a node of a session as render draws it.
func Node(n store.Node) render.Node {
	out := render.Node{Number: n.Number, Parent: n.Parent, Messages: n.Messages, Label: n.Label, Current: n.Current, Seq: n.Last,
		At: n.At, Text: n.Text}
	if n.Moved {
		out.Machine = n.Machine
	}
	return out
}

func (c *Conversation) tree(ctx context.Context, _ string) error {
	v, err := c.begun(ctx)
	if err != nil {
		return err
	}
	nodes, err := v.Tree(ctx)
	if err != nil {
		return err
	}
	drawing := make([]render.Node, len(nodes))
	for i, n := range nodes {
		drawing[i] = Node(n)
	}
	c.pause()
	return render.Tree(c.Out, drawing, &render.TreeOptions{Width: c.columns(), Relative: func(t time.Time) string { return render.Ago(t, time.Now()) }})
}

func (c *Conversation) branch(ctx context.Context, node string) error {
	v, err := c.begun(ctx)
	if err != nil {
		return err
	}
	if node == "" {
		return hint.With(tidemark.Invalidf("from which node?"), "see them with /tree")
	}
	p, err := c.Store.Resolve(ctx, string(v.ID)+"@"+strings.TrimPrefix(node, "@"), "")
	if err != nil {
		return hint.With(err, "see the nodes with /tree")
	}
	return c.branchTo(ctx, p.Seq, node)
}

func (c *Conversation) branchTo(ctx context.Context, seq int64, name string) error {
	if err := c.Chat.Branch(ctx, seq); err != nil {
		return err
	}
	messages, err := c.Chat.Messages(ctx)
	if err != nil {
		return err
	}
	c.note("Branched from %s (%d messages)", name, messages)
	return nil
}

func (c *Conversation) label(ctx context.Context, text string) error {
	v, err := c.begun(ctx)
	if err != nil {
		return err
	}
	head, err := v.Head(ctx)
	if err != nil {
		return err
	}
	if err := c.Store.Label(ctx, v.ID, head, text); err != nil {
		return err
	}
	c.note("Labeled current node.")
	return nil
}

func (c *Conversation) checkpoint(ctx context.Context, name string) error {
	if err := c.Chat.Checkpoint(ctx, name, "asked for"); err != nil {
		return err
	}
	c.note("Checkpoint saved: %s", cmp.Or(name, "the one that a resume looks for"))
	return nil
}

func (c *Conversation) compact(ctx context.Context, strategy string) error {
	if c.Front == nil {
		return c.Chat.Compact(ctx, strategy) // the caller knows how to stop it
	}
	if _, err := c.begun(ctx); err != nil {
		return err
	}
	var err error
	c.Front.Turn(ctx, func(ctx context.Context) error { err = c.Chat.Compact(ctx, strategy); return nil })
	return err
}

// maxHits is how much a search shows.
const maxHits = 10

func (c *Conversation) search(ctx context.Context, text string) error {
	if text == "" {
		return tidemark.Invalidf("search for what?")
	}
	q, err := search.Parse(text)
	if err != nil {
		return err
	}
	answer, err := hits.Search(ctx, c.Store, q, store.Question{Limit: maxHits, Within: hits.Patience}, hits.Width)
	if err != nil {
		return err
	}
	for _, h := range answer.Hits {
		c.print("%s  %s  %s", h.Ref, render.Phrase(h.Title), h.Snippet)
	}
	switch {
	case len(answer.Hits) == 0:
		c.print("Nothing was found.")
	case answer.Cut:
		c.print("There is more: tidemark search has all of it.")
	}
	return nil
}

func (c *Conversation) export(ctx context.Context, arg string) error {
	v, err := c.begun(ctx)
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
	err = c.Front.Export(ctx, format, file)
	if errors.Is(err, tidemark.ErrStorage) {
		// The path of the file is wrong, not the store: the
		// conversation continues.
		return hint.With(tidemark.Invalidf("%s", err), "the session is kept; name another file")
	}
	if err != nil {
		return err
	}
	c.note("Exported to %s", file)
	return nil
}

func (c *Conversation) sessions(ctx context.Context, _ string) error {
	n := 0
	for i, err := range c.Store.Sessions(ctx, store.Filter{Project: c.Options.Project, Limit: 20}) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue
		}
		if err != nil {
			return err
		}
		n++
		mark := " "
		if i.ID == c.Chat.ID() {
			mark = "*"
		}
		c.print("%s %.8s  %-12s  %4d messages  %s", mark, i.ID, render.Ago(i.UpdatedAt, time.Now()), i.Messages, render.Phrase(i.Title))
	}
	if n == 0 {
		c.print("This project has no session.")
	}
	return nil
}

func (c *Conversation) rename(ctx context.Context, title string) error {
	if !c.Chat.Exists() {
		return tidemark.Invalidf("nothing was said yet; name it with --name, or later")
	}
	if err := c.Store.Rename(ctx, c.Chat.ID(), title); err != nil {
		return err
	}
	c.note("Named %q.", title)
	return nil
}

func (c *Conversation) tools(context.Context, string) error {
	for _, t := range c.Chat.Tools() {
		c.print("  %-14s %-8s %s", render.CleanLine(t.Name), t.Effect, render.Phrase(t.Description))
	}
	return nil
}

func (c *Conversation) approvals(ctx context.Context, arg string) error {
	if arg == "clear" {
		err := c.Chat.Change(ctx, func(s *store.Checkpoint) error { s.Approvals = nil; return nil })
		if err == nil {
			c.note("Everything is asked for again.")
		}
		return err
	}
	approvals := c.Chat.State().Approvals
	for _, a := range approvals {
		c.print("  %s %s", render.CleanLine(a.Tool), render.CleanLine(a.Scope))
	}
	if len(approvals) == 0 {
		c.print("Nothing is approved for the whole session.")
	}
	for _, p := range c.Chat.Proposals() {
		state := "proposed"
		if p.Declined {
			state = "declined"
		}
		c.print("  %s %s", state, ProposalText(p))
	}
	return nil
}

func (c *Conversation) memory(ctx context.Context, arg string) error {
	key, text, ok := strings.Cut(arg, " ")
	if ok {
		return c.Chat.SetMemory(ctx, key, text, false)
	}
	shown := false
	for _, part := range memoryParts(c.Chat.State().CoreMemory) {
		if key == part[0] || key == "" && part[1] != "" {
			shown = true
			c.print("[%s]\n%s", render.CleanLine(part[0]), render.Clean(part[1]))
		}
	}
	if !shown {
		c.print("Nothing is remembered. Write it with /memory KEY TEXT.")
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

// document loads a document: it is sent with the next message, and the
// session remembers that it was loaded.
func (c *Conversation) document(ctx context.Context, path string) error {
	if path == "" {
		paths := c.Chat.State().DocumentPaths
		for _, p := range paths {
			c.print("  %s", render.CleanLine(p))
		}
		if len(paths) == 0 {
			c.print("No document was loaded. Load one with /doc PATH.")
		}
		return nil
	}
	b, err := project.ReadOwn(path, max(maxDocument, tool.MaxImage))
	if errors.Is(err, fs.ErrNotExist) {
		return hint.With(tidemark.NotFoundf("%w", err), "name a file, relative to the folder that you are in")
	}
	document, no := imageBlock(filepath.Base(path), b)
	if err != nil || no != nil && len(b) > maxDocument {
		return tidemark.Invalidf("%s: cannot be read, or is over %d bytes", path, maxDocument)
	}
	full, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if no != nil {
		document = documentBlock(full, b)
	}
	c.documents = append(c.documents, document)
	c.note("Loaded %s; it goes with your next message.", full)
	return c.Chat.Change(ctx, func(s *store.Checkpoint) error {
		if !slices.Contains(s.DocumentPaths, full) {
			s.DocumentPaths = append(slices.Clone(s.DocumentPaths), full)
		}
		return nil
	})
}

func (c *Conversation) stop(_ context.Context, name string) error {
	if name == "" {
		return hint.With(tidemark.Invalidf("which worker?"), "see them with /workers")
	}
	return hint.With(c.Chat.StopWorker(name), "see them with /workers")
}

func (c *Conversation) cancelLoop(ctx context.Context, id string) error {
	if id == "" {
		return hint.With(tidemark.Invalidf("which loop?"), "see them with /loops")
	}
	if err := c.Chat.CancelLoop(ctx, id); err != nil {
		return hint.With(err, "see them with /loops")
	}
	c.note("%s is over.", render.CleanLine(id))
	return nil
}

func (c *Conversation) status(ctx context.Context, _ string) error {
	if !c.Chat.Exists() {
		c.print("A new session, %s/%s; nothing was said yet.", c.Model.Provider, render.CleanLine(c.Model.Name))
		c.print("sandbox    %s", render.CleanLine(c.Setup.FenceFor(c.Options).Status()))
		return nil
	}
	v, err := c.Store.View(ctx, c.Chat.ID())
	if err != nil {
		return err
	}
	i := v.Info
	used, err := v.Used(ctx)
	if err != nil {
		return err
	}
	state := c.Chat.State()
	c.print("session    %s (%s)", i.ID, c.EncryptionText())
	c.print("title      %s", render.OrDash(i.Title))
	c.print("project    %s", render.OrDash(i.Project))
	c.print("mode       %s", i.Mode)
	c.print("model      %s/%s", c.Model.Provider, render.CleanLine(c.Model.Name))
	c.print("messages   %d on this branch, %d entries, %d nodes", i.Messages, i.Entries, i.Nodes)
	c.print("used       %s tokens in, %s out, cost %s", render.Count(used.InputTokens+used.CacheReadTokens+used.CacheWriteTokens), render.Count(used.OutputTokens), c.costText(used))
	for _, note := range render.CostNotes(used.Cost, time.Now()) {
		c.print("           %s", note)
	}
	c.print("sandbox    %s", render.CleanLine(c.Setup.FenceFor(c.Options).Status()))
	c.print("approvals  %d, loops %d, tasks %d, documents %d", len(state.Approvals), len(state.Loops), len(state.Tasks), len(state.DocumentPaths))
	return nil
}

func (c *Conversation) check(ctx context.Context, _ string) error {
	v, err := c.begun(ctx)
	if err != nil {
		return err
	}
	damaged := 0
	for e, err := range v.Log(ctx) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			damaged++
			c.note("%d: %s", e.Seq, err)
			continue
		}
		if err != nil {
			return err
		}
	}
	if damaged == 0 {
		c.print("All %d entries are whole.", v.Entries)
	}
	return nil
}

// ProposalText is a proposal in one line, harmless and complete: nobody
// should grant what they cannot see.
func ProposalText(p chat.Proposal) string {
	return fmt.Sprintf("%s: %s", p.Kind, render.CleanLine(strings.ReplaceAll(p.Text, "\n", " ⏎ ")))
}
