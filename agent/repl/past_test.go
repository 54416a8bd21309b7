package repl

import (
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
)

// A resumed conversation reads like one that was never left.
func TestThePastReadsLikeAConversation(t *testing.T) {
	var out strings.Builder
	s := &screen{body: &out, side: &out, progress: func(...string) {}}
	p := past{s, make(map[string]*running)}
	call := tidemark.Entry{Kind: tidemark.KindMessage, Role: tidemark.Assistant, Blocks: []tidemark.Block{
		{Type: tidemark.BlockThinking, Text: "which file?"}, tidemark.Text("I change it."),
		{Type: tidemark.BlockToolUse, ID: "a", Name: "edit", Input: []byte(`{"path":"src/main.go","old_string":"hi","new_string":"ahoy"}`)},
		{Type: tidemark.BlockToolUse, ID: "b", Name: "bash", Input: []byte(`{"command":"seq 1 9"}`)},
	}}
	results := tidemark.Entry{Kind: tidemark.KindMessage, Role: tidemark.Tool, Blocks: []tidemark.Block{
		{Type: tidemark.BlockToolResult, ToolUseID: "a", Text: "changed"},
		{Type: tidemark.BlockToolResult, ToolUseID: "b", Text: "1\n2\n3\n4\n5\n6\n7\n8\n9\n"},
		{Type: tidemark.BlockToolResult, ToolUseID: "of before", Text: "no\x1b[2Jthing", IsError: true},
	}}
	for _, e := range []tidemark.Entry{
		{Kind: tidemark.KindCompaction, Blocks: []tidemark.Block{tidemark.Text("There was\na boat.")}},
		tidemark.Say(tidemark.System, "You are a coding agent."),
		tidemark.Say(tidemark.User, "greet\x1b[31m them\nas sailors do"), call, results, tidemark.Say(tidemark.Assistant, "It is `done`."),
	} {
		p.show(e)
	}
	want := `≡ a summary of what was before (2 lines, Ctrl-O shows all)
you> greet\x1b[31m them
as sailors do
I change it.
✓ edit: src/main.go (+1 −1)
  1 - hi
  1 + ahoy
✓ bash: seq 1 9 (9 lines)
  … 9 lines more, Ctrl-O shows all
  ✗ no\x1b[2Jthing
It is ` + "`done`" + `.
`
	if got := out.String(); got != want {
		t.Errorf("it reads\n%s\nwant\n%s", got, want)
	}
	out.Reset()
	s.unfold()
	s.unfold()
	if got := out.String(); !strings.Contains(got, "── ✓ bash: seq 1 9\n  1\n  2\n") || !strings.Contains(got, "before\n  There was\n  a boat.\n") {
		t.Errorf("unfolded it is\n%s", got)
	}
}
