package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-sessions/tidemark"
)

var noon = time.Date(2026, 1, 2, 12, 0, 5, 0, time.UTC)

func show(t *testing.T, e tidemark.Entry, o *Options) string {
	t.Helper()
	var b strings.Builder
	if err := Entry(&b, e, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func answer(blocks ...tidemark.Block) tidemark.Entry {
	return tidemark.Entry{
		Seq: 12, At: noon, Kind: tidemark.KindMessage, Role: tidemark.Assistant, Model: "model-x", Blocks: blocks,
	}
}

func TestAnEntryIsAHeadAndItsBlocks(t *testing.T) {
	e := answer(
		tidemark.Block{Type: tidemark.BlockThinking, Text: "first this,\nthen that"},
		tidemark.Text("Let me look.\n\nNow.\n"),
		tidemark.Block{Type: tidemark.BlockToolUse, ID: "t1", Name: "bash", Input: json.RawMessage("{\n  \"command\": \"ls\\n\"\n}")},
		tidemark.Block{Type: tidemark.BlockToolResult, ToolUseID: "t1", Text: "a.go\nb.go\n"},
		tidemark.Block{Type: tidemark.BlockToolResult, ToolUseID: "t2", Text: "no such file", IsError: true},
		tidemark.Block{Type: tidemark.BlockToolResult, Blocks: []tidemark.Block{tidemark.Text("inside"), {Type: tidemark.BlockImage, MediaType: "image/png", Data: make([]byte, 12345)}}},
		tidemark.Block{Type: tidemark.BlockToolResult},
		tidemark.Block{Type: tidemark.BlockFile, Name: "plan.pdf", MediaType: "application/pdf", URL: "https://example.org/plan.pdf"},
		tidemark.Block{Type: tidemark.BlockThinking, Provider: "anthropic", Raw: "0123456789"},
		tidemark.Block{Type: "hologram", Raw: "{}", Text: "what it says"},
	)
	want := `#12 assistant · 2026-01-02 12:00:05Z · model-x
  ┊ first this,
  ┊ then that
  Let me look.

  Now.
  → bash {"command":"ls\n"}
  ← a.go
    b.go
  ← error: no such file
  ← (2 blocks)
    inside
    [image image/png, 12.3 kB]
  ← (nothing)
  [file plan.pdf application/pdf, https://example.org/plan.pdf]
  ┊ (thinking that only anthropic can read, 10 B)
  [hologram, 2 B]
  what it says
`
	if diff := cmp.Diff(want, show(t, e, nil)); diff != "" {
		t.Error(diff)
	}
}

func TestHeadsSayWhatAnEntryIs(t *testing.T) {
	ago := &Options{All: true, Relative: func(time.Time) string { return "3 h ago" }}
	for _, c := range []struct {
		entry tidemark.Entry
		o     *Options
		want  string
	}{
		{tidemark.Entry{Seq: 1, Kind: tidemark.KindMessage, Role: tidemark.User}, &Options{All: true}, "#1 user\n"},
		{tidemark.Entry{Seq: 1, At: noon, Kind: tidemark.KindMessage, Role: tidemark.User}, ago, "#1 user · 3 h ago\n"},
		{tidemark.Entry{Seq: 5, Position: tidemark.Position{Parent: 3}, Kind: tidemark.KindBranch}, nil, "#5 branch · from #3\n"},
		{tidemark.Entry{Seq: 5, Kind: tidemark.KindGap}, nil, "#5 gap\n"},
		{tidemark.Entry{Seq: 5, Kind: "evil\x1b[2J\nkind", Model: "m\u202e"}, &Options{All: true}, `#5 evil\x1b[2J\nkind · m\u202e` + "\n"},
	} {
		if got := show(t, c.entry, c.o); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestContextIsOneLineAndEmptyEntriesAreNone(t *testing.T) {
	reminder := "<system-reminder>\n# Environment\n" + strings.Repeat("You have been invoked. ", 40) + "\n</system-reminder>"
	agents := "# AGENTS.md instructions for /src\n\n<INSTRUCTIONS>\nUse tabs.\n</INSTRUCTIONS>"
	for _, c := range []struct {
		name  string
		entry tidemark.Entry
		want  string
	}{
		{"a call", tidemark.Entry{Seq: 5, Kind: "call", Extra: json.RawMessage(`{}`)}, ""},
		{"a worker", tidemark.Entry{Seq: 1, Kind: "worker"}, ""},
		{"an empty answer", tidemark.Entry{Seq: 2, Kind: tidemark.KindMessage, Role: tidemark.Assistant, Blocks: []tidemark.Block{tidemark.Text(" \n")}}, ""},
		{"context", tidemark.Entry{Seq: 2, Kind: tidemark.KindContext, Blocks: []tidemark.Block{tidemark.Text(reminder)}},
			"#2 context · system-reminder: # Environment You have been invoked. You … (971 B)\n"},
		{"a system prompt", tidemark.Say(tidemark.System, "You are\n\x1b[2Jan agent."), `#0 system · You are \x1b[2Jan agent. (21 B)` + "\n"},
		{"an instruction in the user's name", tidemark.Say(tidemark.User, agents), "#0 context · AGENTS.md: instructions for /src (75 B)\n"},
		{"a prompt with context before and behind", tidemark.Say(tidemark.User, agents+"\nFix the bug.\n"+reminder),
			"#0 user\n  Fix the bug.\n  [AGENTS.md: instructions for /src (75 B)]\n  [system-reminder: # Environment You have been invoked. You h… (971 B)]\n"},
		{"a prompt that speaks of it", tidemark.Say(tidemark.User, "what is <system-reminder> in a prompt?"), "#0 user\n  what is <system-reminder> in a prompt?\n"},
		{"markup", tidemark.Say(tidemark.User, "<div>\nfix\n</div>"), "#0 user\n  <div>\n  fix\n  </div>\n"},
	} {
		if got := show(t, c.entry, nil); got != c.want {
			t.Errorf("%s:\n%q\nwant\n%q", c.name, got, c.want)
		}
		all := strings.Join(strings.Fields(show(t, c.entry, &Options{All: true})), " ")
		if want := strings.Join(strings.Fields(Clean(c.entry.Text())), " "); all == "" || !strings.Contains(all, want) {
			t.Errorf("%s: All shows %q, which lacks some of %q", c.name, all, want)
		}
	}
}

func TestToolTrafficIsCutUnlessAllIsAskedFor(t *testing.T) {
	long := answer(
		tidemark.Block{Type: tidemark.BlockToolUse, Name: "write", Input: json.RawMessage(`"` + strings.Repeat("x", 5000) + `"`)},
		tidemark.Block{Type: tidemark.BlockToolResult, Text: strings.Repeat("line\r\n", 20) + strings.Repeat("y", 5000)},
		tidemark.Block{Type: tidemark.BlockToolResult, Text: strings.Repeat("z", 5000)},
	)
	cut := show(t, long, &Options{Width: 60})
	if !strings.Contains(cut, "… 13 more lines\n") {
		t.Errorf("the cut does not say how much is left out:\n%s", cut)
	}
	if len(cut) > 1000 {
		t.Errorf("cut to %d bytes, want a few lines", len(cut))
	}
	for line := range strings.Lines(cut) {
		if w := Width(strings.TrimSuffix(line, "\n")); w > 60 && !strings.HasPrefix(line, "  → ") {
			t.Errorf("a line is %d wide, want at most 60: %s", w, line)
		}
	}
	full := show(t, long, &Options{Full: true})
	for _, want := range []string{strings.Repeat("x", 5000), strings.Repeat("y", 5000), strings.Repeat("z", 5000)} {
		if !strings.Contains(full, want) {
			t.Errorf("all was asked for, and %.5s… is cut", want)
		}
	}
	if n := strings.Count(full, "line\n"); n != 20 {
		t.Errorf("all was asked for, and %d of 20 lines are there", n)
	}
}

func TestColourIsAddedAroundTheSameText(t *testing.T) {
	sgr := regexp.MustCompile("\x1b\\[[0-9;]*m")
	e := answer(
		tidemark.Text("x\x1b[31my"),
		tidemark.Block{Type: tidemark.BlockToolUse, Name: "bash\x1b[0m", Input: json.RawMessage(`{"a":"\u001b"}`)},
		tidemark.Block{Type: tidemark.BlockToolResult, Text: "bad\x1bc", IsError: true},
	)
	colored := show(t, e, &Options{Color: true})
	if plain := show(t, e, nil); sgr.ReplaceAllString(colored, "") != plain {
		t.Errorf("without its colours %q differs from %q", colored, plain)
	}
	if colored == show(t, e, nil) {
		t.Error("no colour was added")
	}
	for line := range strings.Lines(colored) {
		if strings.Count(line, "\x1b[0m")*2 != strings.Count(line, "\x1b[") {
			t.Errorf("a colour does not end on its line: %q", line)
		}
	}
}

func TestNoEntryReachesTheTerminalUncleaned(t *testing.T) {
	block := rapid.Custom(func(t *rapid.T) tidemark.Block {
		return tidemark.Block{
			Type: rapid.OneOf(hostile, rapid.SampledFrom([]string{
				tidemark.BlockText, tidemark.BlockThinking, tidemark.BlockToolUse, tidemark.BlockToolResult, tidemark.BlockImage,
			})).Draw(t, "type"),
			Text: hostile.Draw(t, "text"), Name: hostile.Draw(t, "name"), Input: json.RawMessage(hostile.Draw(t, "input")),
			MediaType: hostile.Draw(t, "media"), URL: hostile.Draw(t, "url"), Provider: hostile.Draw(t, "provider"),
			IsError: rapid.Bool().Draw(t, "error"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		b := block.Draw(t, "block")
		b.Blocks = rapid.SliceOfN(block, 0, 2).Draw(t, "inner")
		e := tidemark.Entry{Kind: hostile.Draw(t, "kind"), Role: tidemark.Role(hostile.Draw(t, "role")),
			Model: hostile.Draw(t, "model"), Blocks: []tidemark.Block{b}}
		var out strings.Builder
		if err := Entry(&out, e, &Options{Full: rapid.Bool().Draw(t, "full")}); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); Clean(got) != got {
			t.Fatalf("%q is not clean", got)
		}
		for i, line := range strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n") {
			if i > 0 && line != "" && !strings.HasPrefix(line, "  ") {
				t.Fatalf("line %d could be a head: %q", i, line)
			}
		}
	})
}

func TestDeepResultsStopMovingRight(t *testing.T) {
	b := tidemark.Text("core")
	for range 1000 {
		b = tidemark.Block{Type: tidemark.BlockToolResult, Blocks: []tidemark.Block{b}}
	}
	out := show(t, answer(b), nil)
	if !strings.Contains(out, "core") || len(out) > 1000*(2*maxIndent+20) {
		t.Errorf("%d bytes for a thousand levels", len(out))
	}
}

func TestAFailingWriterIsReported(t *testing.T) {
	if err := Entry(brokenWriter{}, answer(), nil); !errors.Is(err, errBroken) {
		t.Errorf("Entry = %v, want %v", err, errBroken)
	}
	if err := Tree(brokenWriter{}, []Node{{Parent: -1}}, nil); !errors.Is(err, errBroken) {
		t.Errorf("Tree = %v, want %v", err, errBroken)
	}
}

func ExampleEntry() {
	e := tidemark.Say(tidemark.User, "What is in here?\x1b[2J")
	e.Seq = 1
	var b strings.Builder
	if err := Entry(&b, e, nil); err != nil {
		fmt.Println(err)
	}
	fmt.Print(b.String())
	// Output:
	// #1 user
	//   What is in here?\x1b[2J
}

func TestAnErrorOfAToolFitsTheTerminal(t *testing.T) {
	e := tidemark.Entry{Role: tidemark.Tool, Blocks: []tidemark.Block{{Type: tidemark.BlockToolResult, IsError: true, Text: strings.Repeat("no way ", 40)}}}
	for line := range strings.Lines(show(t, e, &Options{Width: 60})) {
		if w := Width(strings.TrimRight(line, "\n")); w > 60 {
			t.Errorf("%d columns: %s", w, line)
		}
	}
}

func TestLinesAreFoldedBetweenWords(t *testing.T) {
	for _, c := range []struct {
		text    string
		columns int
		want    string
	}{
		{"", 10, ""},
		{"short", 10, "short"},
		{"the keeper walked along", 10, "the keeper\nwalked\nalong"},
		{"a_word_that_is_too_long for it", 10, "a_word_that_is_too_long\nfor it"},
		{"one\n\n  two three four", 12, "one\n\n  two three\nfour"},
		{"日本 日本 日本", 10, "日本 日本\n日本"},
		{"trailing   ", 9, "trailing   "},
		{"x\n", 10, "x\n"},
	} {
		if got := fold(c.text, c.columns); got != c.want {
			t.Errorf("fold(%q, %d) = %q, want %q", c.text, c.columns, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := Clean(hostile.Draw(t, "text"))
		folded := fold(text, rapid.IntRange(1, 20).Draw(t, "columns"))
		if strings.Join(strings.Fields(folded), " ") != strings.Join(strings.Fields(text), " ") {
			t.Fatalf("%q became %q", text, folded)
		}
	})
}
