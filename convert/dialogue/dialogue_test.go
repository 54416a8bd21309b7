package dialogue_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
	"github.com/tidemark-sessions/tidemark/convert/dialogue"
)

// anyBlock draws a block of any type, with ids that often meet.
func anyBlock(t *rapid.T) tidemark.Block {
	b := tidemark.Block{Type: rapid.SampledFrom([]string{"text", "thinking", "tool_use", "tool_use", "tool_result", "tool_result", "image", "file", "odd"}).Draw(t, "type")}
	id := rapid.SampledFrom([]string{"a", "b", "c", "ü", ""}).Draw(t, "id")
	b.Text = rapid.SampledFrom([]string{"", " ", "said"}).Draw(t, "text")
	switch b.Type {
	case tidemark.BlockToolUse:
		b.ID, b.Name, b.Input = id, rapid.SampledFrom([]string{"", "bash"}).Draw(t, "name"), json.RawMessage(rapid.SampledFrom([]string{``, `{}`, `[1]`, `null`, `{`}).Draw(t, "input"))
	case tidemark.BlockToolResult:
		b.ToolUseID = id
		b.Blocks = []tidemark.Block{{Type: tidemark.BlockImage, MediaType: "image/png", Data: []byte("x")}}
	case tidemark.BlockThinking:
		b.Raw = rapid.SampledFrom([]string{"", `{"signature":"x"}`}).Draw(t, "raw")
	}
	return b
}

func TestWhateverASessionHoldsBecomesADialogueThatModelsAccept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []convert.Entry
		for n := range rapid.IntRange(0, 12).Draw(t, "entries") {
			e := tidemark.Entry{Kind: tidemark.KindMessage, Role: rapid.SampledFrom([]tidemark.Role{tidemark.User, tidemark.Assistant, tidemark.Assistant, tidemark.Tool, tidemark.System}).Draw(t, "role")}
			if rapid.IntRange(0, 9).Draw(t, "other") == 0 {
				e.Role, e.Kind = "", rapid.SampledFrom([]string{convert.KindCompaction, convert.KindCommand, convert.KindContext, convert.KindError}).Draw(t, "kind")
			}
			for range rapid.IntRange(0, 4).Draw(t, "blocks") {
				e.Blocks = append(e.Blocks, anyBlock(t))
			}
			all = append(all, convert.Entry{Entry: e, ID: fmt.Sprint("e", n)})
		}
		takes := dialogue.Takes{Thinking: rapid.Bool().Draw(t, "thinking"), Files: rapid.SampledFrom([]func(string) bool{nil, func(string) bool { return true }, func(kind string) bool { return kind == "application/pdf" }}).Draw(t, "files"), Summary: rapid.Bool().Draw(t, "summary")}
		s := &convert.Session{Entries: convert.All(all)}
		d, err := dialogue.Of(t.Context(), s, takes)
		if err != nil {
			t.Fatal(err)
		}
		wrong(t, d)
		// What was mended has nothing to mend.
		var mended []convert.Entry
		for n, m := range d.Messages {
			m.ID = fmt.Sprint("m", n)
			if m.Summary {
				m.Kind, m.Role = convert.KindCompaction, ""
			}
			mended = append(mended, m.Entry)
		}
		takes.Summary = true
		again, err := dialogue.Of(t.Context(), &convert.Session{Entries: convert.All(mended)}, takes)
		if err != nil || len(again.Faults) > 0 {
			t.Fatalf("the second time: %v, %v", again.Faults, err)
		}
	})
}

// wrong fails for what a model would refuse.
func wrong(t *rapid.T, d *dialogue.Dialogue) {
	var open []string
	seen := map[string]bool{}
	for n, m := range d.Messages {
		if len(m.Blocks) == 0 {
			t.Fatalf("message %d is empty", n)
		}
		if n == 0 && m.Role != tidemark.User {
			t.Fatalf("it begins with the role %s", m.Role)
		}
		if len(open) > 0 && m.Role != tidemark.Tool {
			t.Fatalf("message %d comes before the results of %v", n, open)
		}
		for _, b := range m.Blocks {
			switch {
			case b.Type == tidemark.BlockToolUse:
				if m.Role != tidemark.Assistant || seen[b.ID] || b.Name == "" || json.Unmarshal(b.Input, &map[string]any{}) != nil {
					t.Fatalf("message %d of %s: call %+v", n, m.Role, b)
				}
				seen[b.ID], open = true, append(open, b.ID)
			case b.Type == tidemark.BlockToolResult:
				at := slices.Index(open, b.ToolUseID)
				if m.Role != tidemark.Tool || at < 0 {
					t.Fatalf("message %d of %s: result %+v, open are %v", n, m.Role, b, open)
				}
				open = slices.Delete(open, at, at+1)
			case m.Role == tidemark.Tool:
				t.Fatalf("message %d: a %s among results", n, b.Type)
			}
		}
	}
	if len(open) > 0 {
		t.Fatalf("there are no results of %v", open)
	}
}

func TestImagesThatModelsRefuseAreNamed(t *testing.T) {
	for name, c := range map[string]struct {
		takes dialogue.Takes
		found int
	}{
		"any":  {dialogue.Takes{}, 0},
		"long": {dialogue.Takes{MaxImage: 10}, 1},
		"wide": {dialogue.Takes{MaxSide: 299}, 1},
		"fits": {dialogue.Takes{MaxImage: 1 << 20, MaxSide: 300}, 0},
	} {
		e := tidemark.Entry{Kind: tidemark.KindMessage, Role: tidemark.User, Blocks: []tidemark.Block{converttest.Picture(300, 2)}}
		d, err := dialogue.Of(t.Context(), &convert.Session{Entries: convert.All([]convert.Entry{{Entry: e, ID: "e"}})}, c.takes)
		if err != nil || len(d.Faults) != c.found || len(d.Messages) != 1 || (d.Messages[0].Blocks[0].Type == tidemark.BlockImage) != (c.found == 0) {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
}

func TestAResultThatAPromptBringsBelongsToItsCall(t *testing.T) {
	all := []convert.Entry{
		{ID: "1", Entry: tidemark.Say(tidemark.User, "look")},
		{ID: "2", Entry: tidemark.Entry{Kind: tidemark.KindMessage, Role: tidemark.Assistant, Blocks: []tidemark.Block{{Type: tidemark.BlockToolUse, ID: "a", Name: "ls", Input: json.RawMessage(`{}`)}}}},
		{ID: "3", Entry: tidemark.Entry{Kind: tidemark.KindMessage, Role: tidemark.User, Blocks: []tidemark.Block{{Type: tidemark.BlockToolResult, ToolUseID: "a", Text: "a.txt"}, tidemark.Text("and now?")}}},
	}
	d, err := dialogue.Of(t.Context(), &convert.Session{Entries: convert.All(all)}, dialogue.Takes{})
	if err != nil || len(d.Faults) > 0 || len(d.Messages) != 4 || d.Messages[2].Blocks[0].Text != "a.txt" || d.Messages[3].Text() != "and now?" {
		t.Errorf("%+v, %v", d, err)
	}
}
