package converttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// Conversation is a session that a writer is tried with.
type Conversation struct {
	Name    string
	Session *convert.Session
	// Extra are texts that have to be in what was written, besides what is in the
	// messages on the path to the head.
	Extra []string
	// Loses says that a writer has to name a loss.
	Loses bool
	// Mended says that the messages are not all there as they were; then only Extra
	// is looked for.
	Mended bool
}

// talk makes a session of entries.
type talk struct {
	entries []convert.Entry
	at      time.Time
}

func (c *talk) add(role tidemark.Role, blocks ...tidemark.Block) *talk {
	return c.entry(tidemark.Entry{Kind: tidemark.KindMessage, Role: role, Blocks: blocks})
}

func (c *talk) entry(e tidemark.Entry) *talk {
	if c.at.IsZero() {
		c.at = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	}
	c.at = c.at.Add(1500 * time.Millisecond)
	e.At = c.at
	if e.Role == tidemark.Assistant {
		e.Model, e.Usage = "model-1", &tidemark.Usage{InputTokens: 10, OutputTokens: 3, CacheReadTokens: 2}
	}
	c.entries = append(c.entries, convert.Entry{Entry: e, ID: fmt.Sprintf("e%d", len(c.entries)+1)})
	return c
}

func (c *talk) ask(s string) *talk    { return c.add(tidemark.User, tidemark.Text(s)) }
func (c *talk) answer(s string) *talk { return c.add(tidemark.Assistant, tidemark.Text(s)) }

// under makes the last entry a child of another one.
func (c *talk) under(id string) *talk {
	c.entries[len(c.entries)-1].Parent = id
	return c
}

func call(id, name, input string) tidemark.Block {
	return tidemark.Block{Type: tidemark.BlockToolUse, ID: id, Name: name, Input: json.RawMessage(input)}
}

func result(id, text string, blocks ...tidemark.Block) tidemark.Block {
	return tidemark.Block{Type: tidemark.BlockToolResult, ToolUseID: id, Text: text, Blocks: blocks}
}

// Picture is an image of a size.
func Picture(width, height int) tidemark.Block {
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, width, height))); err != nil {
		panic(err) // a buffer takes everything
	}
	return tidemark.Block{Type: tidemark.BlockImage, MediaType: "image/png", Data: b.Bytes()}
}

// Conversations are the sessions that every writer is tried with.
func Conversations() []Conversation {
	const odd = "日本語 العربية 👩‍👩‍👧 e\u0301 𝒳 \u2028 \u2029 \u200b <b>&amp;</b> \"q\" \\n\ttab"
	failed := result("c1", "no such file")
	failed.IsError = true
	think := tidemark.Block{Type: tidemark.BlockThinking, Text: "I had better look."}
	signed := tidemark.Block{Type: tidemark.BlockThinking, Text: "secret", Provider: "anthropic", Raw: `{"type":"thinking","thinking":"secret","signature":"c2ln"}`}
	small := Picture(2, 2)
	begin := func() *talk { return (&talk{}).ask("Name a blue flower.") }
	used := func() *talk {
		return begin().add(tidemark.Assistant, tidemark.Text("I look."), call("c1", "bash", `{"command":"ls"}`))
	}
	long := &talk{}
	for n := range 1000 {
		long.ask(fmt.Sprintf("prompt %d", n))
		if n%10 == 0 {
			id := fmt.Sprintf("call_%d", n)
			long.add(tidemark.Assistant, call(id, "bash", fmt.Sprintf(`{"command":"echo %d"}`, n))).add(tidemark.Tool, result(id, fmt.Sprint(n)))
		}
		long.answer(fmt.Sprintf("answer %d", n))
	}
	all := []Conversation{
		{Name: "prompt and answer", Session: of(begin().answer("Cornflower."))},
		{Name: "prompt only", Session: of(begin())},
		{Name: "two prompts", Session: of(begin().ask("And a red one.").answer("Poppy."))},
		{Name: "call", Session: of(used().add(tidemark.Tool, result("c1", "a.txt")).answer("One file."))},
		{Name: "call at the end", Session: of(used().add(tidemark.Tool, result("c1", "a.txt")))},
		{Name: "calls at once", Session: of(begin().add(tidemark.Assistant, call("c1", "read", `{"path":"a"}`), call("c2", "read", `{"path":"b"}`), call("c3", "read", `{}`)).
			add(tidemark.Tool, result("c1", "A"), result("c2", "B"), result("c3", "C")).answer("Three."))},
		{Name: "results apart", Session: of(begin().add(tidemark.Assistant, call("c1", "read", `{"path":"a"}`), call("c2", "read", `{"path":"b"}`)).
			add(tidemark.Tool, result("c1", "A")).add(tidemark.Tool, result("c2", "B")).answer("Two."))},
		{Name: "steps", Session: of(used().add(tidemark.Tool, result("c1", "a.txt")).add(tidemark.Assistant, call("c2", "read", `{"path":"a.txt"}`)).
			add(tidemark.Tool, result("c2", "text")).answer("Done.").ask("Thanks.").answer("Welcome."))},
		{Name: "failed call", Session: of(used().add(tidemark.Tool, failed).answer("It is not there."))},
		{Name: "empty output", Session: of(used().add(tidemark.Tool, result("c1", "")).answer("Nothing."))},
		{Name: "deep input", Session: of(begin().add(tidemark.Assistant, call("c1", "edit", `{"a":{"b":[1,2.5,null,true,"\u00fc"]},"n":12345678901234567890,"<x>":"&"}`)).
			add(tidemark.Tool, result("c1", "ok")).answer("Done."))},
		{Name: "image", Session: of((&talk{}).add(tidemark.User, tidemark.Text("What is this?"), small).answer("A square."))},
		{Name: "image in a result", Session: of(used().add(tidemark.Tool, result("c1", "", tidemark.Text("here:"), small)).answer("A square."))},
		{Name: "unicode", Session: of((&talk{}).ask(odd).add(tidemark.Assistant, tidemark.Text(odd), call("c1", "bash", `{"command":"日本"}`)).
			add(tidemark.Tool, result("c1", odd)).answer(odd))},
		{Name: "long text", Session: of((&talk{}).ask(strings.Repeat("word ", 60_000)).answer(strings.Repeat("线", 50_000)))},
		{Name: "1,000 turns", Session: of(long)},
		{Name: "thinking", Session: of(begin().add(tidemark.Assistant, think, tidemark.Text("Cornflower.")))},
		{Name: "signed thinking", Session: of(begin().add(tidemark.Assistant, signed, tidemark.Text("Cornflower."))), Mended: true, Extra: []string{"Name a blue flower.", "Cornflower."}, Loses: true},
		{Name: "fork", Session: of(begin().answer("Cornflower.").ask("Go on.").answer("No.").ask("Or so.").under("e2").answer("Yes.")), Loses: true},
		{Name: "file", Session: of((&talk{}).add(tidemark.User, tidemark.Text("Read this."), tidemark.Block{Type: tidemark.BlockFile, Name: "a.md", MediaType: "text/markdown", Data: []byte("# Tea")}).
			answer("I did.")), Mended: true, Extra: []string{"Read this.", "a.md", "I did."}},
		{Name: "command", Session: of(begin().answer("Yes.").entry(tidemark.Entry{Kind: convert.KindCommand, Blocks: []tidemark.Block{tidemark.Text("$ make tea")}}).ask("Now?").answer("Now.")),
			Extra: []string{"$ make tea"}, Mended: true},
		{Name: "error on the way", Session: of(begin().entry(tidemark.Entry{Kind: convert.KindError, Blocks: []tidemark.Block{tidemark.Text("overloaded")}}).answer("Yes.")), Loses: true},
		{Name: "summary", Session: of(begin().answer("Cornflower.").entry(tidemark.Entry{Kind: convert.KindCompaction, Blocks: []tidemark.Block{tidemark.Text("They spoke of flowers.")}}).
			ask("Which?").answer("Blue ones.")), Mended: true, Extra: []string{"They spoke of flowers.", "Which?", "Blue ones."}},
		{Name: "call without a result", Session: of(used().ask("Well?").answer("Sorry.")), Mended: true, Extra: []string{"ls", "was not kept", "Well?", "Sorry."}},
		{Name: "result without a call", Session: of(begin().add(tidemark.Tool, result("gone", "left over")).answer("Cornflower.")), Mended: true, Extra: []string{"left over", "Cornflower."}},
		{Name: "the same call twice", Session: of(used().add(tidemark.Tool, result("c1", "one")).add(tidemark.Assistant, call("c1", "bash", `{"command":"again"}`)).
			add(tidemark.Tool, result("c1", "two")).answer("Done.")), Mended: true, Extra: []string{"one", "again", "two", "Done."}},
	}
	all[1].Session.Project = "/home/tester/My Project.v2 (ü)"
	all[2].Session.Title = "A \"title\"\nin two lines — ü"
	return all
}

// of is the session of a talk.
func of(c *talk) *convert.Session {
	s := &convert.Session{Entries: convert.All(c.entries), UpdatedAt: c.at}
	s.ID = tidemark.DerivedSessionID("conversation", fmt.Sprint(len(c.entries)), c.entries[0].Text())
	s.Project, s.Title, s.Model, s.CreatedAt = "/home/tester/work", "Flowers", "model-1", c.entries[0].At
	return s
}
