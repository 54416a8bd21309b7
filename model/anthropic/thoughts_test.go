package anthropic

import (
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/model"
)

func thought(more ...tidemark.Block) tidemark.Entry {
	b := tidemark.Block{Type: tidemark.BlockThinking, Provider: Provider, Raw: `{"type":"thinking","thinking":"x","signature":"s"}`}
	return tidemark.Entry{Role: tidemark.Assistant, Blocks: append([]tidemark.Block{b}, more...)}
}

func TestATurnThatBeganWithoutThoughtsEndsWithoutThem(t *testing.T) {
	use := tidemark.Block{Type: tidemark.BlockToolUse, ID: "c1", Name: "bash", Input: []byte(`{}`)}
	call := tidemark.Entry{Role: tidemark.Assistant, Blocks: []tidemark.Block{use}}
	result := tidemark.Entry{Role: tidemark.Tool, Blocks: []tidemark.Block{{Type: tidemark.BlockToolResult, ToolUseID: "c1", Text: "ok"}}}
	for what, c := range map[string]struct {
		entries []tidemark.Entry
		want    bool
	}{
		"no thought":              {[]tidemark.Entry{call, result}, false},
		"a thought":               {[]tidemark.Entry{thought(use), result}, true},
		"thought once, two calls": {[]tidemark.Entry{thought(use), result, call, result}, true},
		"an earlier turn":         {[]tidemark.Entry{call, result, {Role: tidemark.Assistant, Blocks: []tidemark.Block{tidemark.Text("done")}}, tidemark.Say(tidemark.User, "next")}, true},
	} {
		r := model.Request{Model: "claude-sonnet-4-5", Thinking: 2000, Entries: append([]tidemark.Entry{tidemark.Say(tidemark.User, "q")}, c.entries...)}
		body, err := New(Options{}).body(r)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(body), `"budget_tokens"`); got != c.want {
			t.Errorf("%s: thinking is asked for: %v, want %v", what, got, c.want)
		}
	}
}
