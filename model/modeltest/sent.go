package modeltest

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/model"
)

// ReadOrRefused expects of any bytes that they give an answer, which is sent
// back unchanged even after it was stored, or an error of package model.
func (p Provider) ReadOrRefused(t *testing.T, answer *model.Answer, err error) {
	t.Helper()
	if err != nil {
		var told *model.Error
		if !errors.As(err, &told) || answer != nil {
			t.Fatalf("error %v with answer %v", err, answer)
		}
		return
	}
	live, again := p.ask("hi"), p.ask("hi")
	live.Entries = append(live.Entries, answer.Entry)
	again.Entries = append(again.Entries, kept(t, answer.Entry))
	a, errA := p.Body(live)
	b, errB := p.Body(again)
	if errA != nil || errB != nil || !bytes.Equal(a, b) || !json.Valid(a) {
		t.Fatalf("sent back as\n%s (%v)\nand after it was kept\n%s (%v)", a, errA, b, errB)
	}
}

// kept returns an entry as it comes back from a store.
func kept(t interface{ Fatal(...any) }, e tidemark.Entry) tidemark.Entry {
	line, err := e.Line()
	if err != nil {
		t.Fatal("it cannot be kept:", err)
	}
	again, err := tidemark.EntryOf(line)
	if err != nil {
		t.Fatal(err)
	}
	return again
}

// drawEntries draws conversations, valid or not.
func (p Provider) drawEntries(t *rapid.T, label string) []tidemark.Entry {
	block := rapid.Custom(func(t *rapid.T) tidemark.Block {
		s := rapid.String().Draw(t, "text")
		all := []tidemark.Block{
			tidemark.Text(s), {Type: "thinking", Text: s}, {Type: "tool_use", ID: s, Name: "bash", Input: json.RawMessage(`{ "a" : "<b>" }`)},
			{Type: "tool_result", ToolUseID: s, Text: s}, {Type: "image", MediaType: "image/png", Data: []byte(s)}, {Type: "file", Name: s, Data: []byte(s)},
		}
		if p.Blocks != nil {
			all = append(all, p.Blocks(s)...)
		}
		return rapid.SampledFrom(all).Draw(t, "block")
	})
	entry := rapid.Custom(func(t *rapid.T) tidemark.Entry {
		return tidemark.Entry{Role: rapid.SampledFrom([]tidemark.Role{tidemark.User, tidemark.Assistant, tidemark.Tool, tidemark.System}).Draw(t, "role"),
			Blocks: rapid.SliceOfN(block, 0, 4).Draw(t, "blocks")}
	})
	return rapid.SliceOfN(entry, 0, 8).Draw(t, label)
}

func parts(t *testing.T, p Provider) {
	client := p.New(Dial{})
	rapid.Check(t, func(t *rapid.T) {
		r := model.Request{Model: "m", System: "s", Tools: []model.Tool{{Name: "bash"}}, Entries: p.drawEntries(t, "entries")}
		short, err := client.Parts(r)
		if err != nil {
			t.Fatal(err)
		}
		more := r
		more.Entries = nil
		for _, e := range slices.Concat(r.Entries, p.drawEntries(t, "more")) {
			more.Entries = append(more.Entries, kept(t, e))
		}
		long, err := client.Parts(more)
		if err != nil {
			t.Fatal(err)
		}
		if len(short) != len(r.Entries)+2 {
			t.Fatalf("%d parts for %d entries", len(short), len(r.Entries))
		}
		for i, part := range short {
			if !bytes.Equal(part, long[i]) {
				t.Fatalf("part %d was %s and is %s", i, part, long[i])
			}
		}
		if body, err := p.Body(more); err == nil && !json.Valid(body) {
			t.Fatalf("no JSON: %s", body)
		}
	})
}

func largePrompt(t *testing.T, p Provider) {
	client, server := p.client(t, Dial{}, p.Saying("ok"))
	text := strings.Repeat("0123456789abcdef", 10<<20/16)
	if h := Collect(client.Stream(t.Context(), p.ask(text))); h.Err != nil {
		t.Fatal(h.Err)
	}
	if !strings.Contains(server.Bodies[0], text) {
		t.Errorf("the server received %d bytes", len(server.Bodies[0]))
	}
}
