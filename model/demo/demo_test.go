package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/model"
)

// person has a conversation with the demo.
type person struct {
	t     *testing.T
	r     model.Request
	heard string
}

func (p *person) hear() *model.Answer {
	p.t.Helper()
	p.heard = ""
	var answer *model.Answer
	for e, err := range New(Options{Delay: -1}).Stream(p.t.Context(), p.r) {
		if err != nil {
			p.t.Fatal(err)
		}
		p.heard += e.Text
		if e.Done != nil {
			answer = e.Done
		}
	}
	if answer == nil || answer.Entry.Text() != p.heard {
		p.t.Fatalf("streamed %q, answered %+v", p.heard, answer)
	}
	p.r.Entries = append(p.r.Entries, answer.Entry)
	return answer
}

func (p *person) say(text string) *model.Answer {
	p.t.Helper()
	p.r.Entries = append(p.r.Entries, tidemark.Say(tidemark.User, text))
	return p.hear()
}

func (p *person) result(text string, isError bool) *model.Answer {
	p.t.Helper()
	last := p.r.Entries[len(p.r.Entries)-1].Blocks
	p.r.Entries = append(p.r.Entries, tidemark.Entry{Kind: tidemark.KindMessage, Role: tidemark.Tool,
		Blocks: []tidemark.Block{{Type: tidemark.BlockToolResult, ToolUseID: last[len(last)-1].ID, Text: text, IsError: isError}}})
	return p.hear()
}

func (p *person) want(words ...string) {
	p.t.Helper()
	for _, w := range words {
		if !strings.Contains(p.heard, w) {
			p.t.Errorf("heard %q, want %q in it", p.heard, w)
		}
	}
}

func TestFirstAnswerSaysThatItIsADemo(t *testing.T) {
	p := &person{t: t}
	p.say("hello")
	p.want("demo", `You said: "hello"`, "first message")
	p.say("again")
	p.want(`You said: "again"`, "I see 3 messages")
	if strings.Contains(p.heard, "demo") {
		t.Errorf("it says it again: %q", p.heard)
	}
	p.say("What have I said so far?")
	p.want("1. hello\n2. again")
	p.say("Please summarise this.")
	p.want("Summary:", "3 messages", "hello; again")
	alone := &person{t: t}
	alone.say("2 messages, to be summarised:\nUser: hello\nAssistant: good day")
	alone.want("Summary: a text of 3 lines that ends with: Assistant: good day")
	if a := p.say("think about ships"); a.Entry.Blocks[0].Type != tidemark.BlockThinking {
		t.Errorf("it did not think: %+v", a.Entry)
	}
}

func TestOrdersBecomeCalls(t *testing.T) {
	schema := func(s string) json.RawMessage { return json.RawMessage(s) }
	tools := []model.Tool{
		{Name: "bash", Schema: schema(`{"type":"object","properties":{"command":{"type":"string"},"seconds":{"type":"integer"}},"required":["command","seconds"]}`)},
		{Name: "Read", Schema: schema(`{"type":"object","properties":{"file_path":{"type":"string"}},"required":["file_path"]}`)},
		{Name: "write"},
		{Name: "update_memory", Schema: schema(`{"type":"object","properties":{"key":{"enum":["human","persona"]},"value":{"type":"string"}},"required":["key","value"]}`)},
		{Name: "odd", Schema: schema(`{"properties":7}`)},
	}
	for prompt, want := range map[string]string{
		"run ls -l | wc":              `bash {"command":"ls -l | wc","seconds":0}`,
		"LIST FILES":                  `bash {"command":"ls","seconds":0}`,
		"list files in it's here":     `bash {"command":"ls -- 'it'\\''s here'","seconds":0}`,
		"read a b.txt":                `Read {"file_path":"a b.txt"}`,
		"write a.txt: one\ntwo: <3>":  `write {"content":"one\ntwo: <3>","path":"a.txt"}`,
		"write a.txt:\none: two":      `write {"content":"\none: two","path":"a.txt"}`,
		"write session:memory/a: one": `write {"content":"one","path":"session:memory/a"}`,
		"remember I like tea":         `update_memory {"key":"human","value":"I like tea"}`,
		`call odd {"x": [1, 2]}`:      `odd {"x":[1,2]}`,
		"call odd":                    `odd {}`,
		"search x":                    "I would search for x, but was offered no tool for it.",
		"call none {}":                "I would call none, but was offered no tool for it.",
		"list what you can do":        `You said: "list what you can do"`,
		"call odd [1]":                `You said: "call odd [1]"`,
		"read this:\nit is not order": `You said: "read this: it is not order"`,
	} {
		p := &person{t: t, r: model.Request{Tools: tools}}
		a := p.say(prompt)
		got := p.heard
		if last := a.Entry.Blocks[len(a.Entry.Blocks)-1]; last.Type == tidemark.BlockToolUse {
			got = last.Name + " " + string(last.Input)
		}
		if !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %s", prompt, got, want)
		}
	}
}

func TestLinesAreCarriedOutOneByOne(t *testing.T) {
	p := &person{t: t, r: model.Request{Tools: []model.Tool{{Name: "bash"}, {Name: "read"}}}}
	first := p.say("run date\n\nread a.txt\n")
	second := p.result("Friday", false)
	if first.Stop != model.StopTools || second.Stop != model.StopTools || second.Entry.Blocks[1].Name != "read" || first.Entry.Blocks[1].ID == second.Entry.Blocks[1].ID {
		t.Fatalf("first %+v, second %+v", first.Entry, second.Entry)
	}
	if third := p.result("no such file", true); third.Stop != model.StopEnd {
		t.Fatalf("third %+v", third)
	}
	p.want("That did not work: no such file")
	p.say("run true")
	p.result("", false)
	p.want("nothing to say")
	p.say("run x")
	p.result("12 files", false)
	p.want("8 bytes: 12 files")
}

func TestAnswerIsCutAtTheLimit(t *testing.T) {
	p := &person{t: t, r: model.Request{MaxTokens: 3}}
	if a := p.say("hello"); a.Stop != model.StopMaxTokens || len(strings.Fields(p.heard)) != 3 {
		t.Errorf("heard %q, stop %s", p.heard, a.Stop)
	}
}

func TestWordsComeWithADelayUntilCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer cancel()
		words, begin := 0, time.Now()
		var last error
		for e, err := range New(Options{Delay: time.Second}).Stream(ctx, model.Request{Entries: []tidemark.Entry{tidemark.Say(tidemark.User, "hi")}}) {
			if last = err; err == nil && e.Text != "" {
				words++
			}
		}
		if words != 3 || !errors.Is(last, context.DeadlineExceeded) || time.Since(begin) != 3500*time.Millisecond {
			t.Errorf("%d words, then %v after %v", words, last, time.Since(begin))
		}
	})
}

// A stream that went on after its listener left would panic.
func TestListenerMayLeave(t *testing.T) {
	for range New(Options{Delay: -1}).Stream(t.Context(), model.Request{}) {
		break
	}
}

func TestPartsOfLongerConversationBeginWithThoseOfShorter(t *testing.T) {
	p := &person{t: t, r: model.Request{System: "s", Tools: []model.Tool{{Name: "bash"}}}}
	var before [][]byte
	for _, text := range []string{"hello", "run ls", "what have I said so far?"} {
		p.say(text)
		parts, err := New(Options{}).Parts(p.r)
		if err != nil || len(parts) != len(p.r.Entries)+2 {
			t.Fatalf("%d parts, %v", len(parts), err)
		}
		for i := range before {
			if !bytes.Equal(before[i], parts[i]) {
				t.Errorf("part %d was %s and is %s", i, before[i], parts[i])
			}
		}
		before = parts
	}
}

func TestSameConversationGetsSameAnswer(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var r model.Request
		r.Tools = []model.Tool{{Name: "bash"}, {Name: "read", Schema: json.RawMessage(rapid.SampledFrom([]string{`{}`, `{"required":["x"]}`}).Draw(rt, "schema"))}}
		for range rapid.IntRange(0, 5).Draw(rt, "n") {
			text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"run x", "list files", "call read {}", "summarize", "what have i said so far", "think about", "İlist"})).Draw(rt, "text")
			r.Entries = append(r.Entries, rapid.SampledFrom([]tidemark.Entry{tidemark.Say(tidemark.User, text), tidemark.Say(tidemark.Assistant, text), tidemark.Say(tidemark.System, text),
				{Role: tidemark.Tool, Blocks: []tidemark.Block{{Type: tidemark.BlockToolResult, Text: text}}}}).Draw(rt, "entry"))
		}
		var all [2][]byte
		for i := range all {
			for e, err := range New(Options{Delay: -1}).Stream(t.Context(), r) {
				if err != nil {
					rt.Fatal(err)
				}
				raw, err := model.JSON(e)
				if err != nil {
					rt.Fatal(err)
				}
				all[i] = append(all[i], raw...)
				if e.Done != nil {
					if _, err := e.Done.Entry.Line(); err != nil {
						rt.Fatalf("the answer cannot be kept: %v", err)
					}
				}
			}
		}
		if !bytes.Equal(all[0], all[1]) {
			rt.Fatalf("%s\nand\n%s", all[0], all[1])
		}
	})
}
