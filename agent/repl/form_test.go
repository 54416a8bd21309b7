package repl

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/internal/terminal"
	"github.com/tidemark-sessions/tidemark/render"
)

// form fills in a form with the lines that a person types.
func form(t *testing.T, typed string, f chat.Form) (map[string]any, string, error) {
	t.Helper()
	var out bytes.Buffer
	r := &repl{conversation: &conversation{}, exits: newWaysOut()}
	set := terminal.Options{In: strings.NewReader(typed), Out: &out, Plain: true, Text: terminal.Text{Clean: render.CleanLine, Width: render.Width}}
	var err error
	if r.console, err = terminal.Open(set); err != nil {
		t.Fatal(err)
	}
	defer r.console.Close()
	r.screen = &screen{side: io.Discard, body: r.console}
	answers, err := r.fill(t.Context(), f)
	return answers, out.String(), err
}

func TestAPersonAnswersAFormAndSeesWhatIsSent(t *testing.T) {
	f := chat.Form{From: "the MCP server test", Message: "Where to?", Fields: []chat.FormField{
		{Name: "town", Title: "Town\x1b[2J", Kind: chat.FieldText, Required: true},
		{Name: "class", Kind: chat.FieldChoice, Choices: []chat.FieldOption{{Value: "1", Title: "First"}, {Value: "2", Title: "Second"}}, Default: "2"},
		{Name: "note", Kind: chat.FieldText},
	}}
	answers, shown, err := form(t, "\nUlm\nthird\n\n\ny\n", f)
	if diff := cmp.Diff(map[string]any{"town": "Ulm", "class": "2"}, answers); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	for _, part := range []string{"the MCP server test asks: Where to?", "is needed", "there is no choice", "2. Second", "(choice, empty for 2)", `{"class":"2","town":"Ulm"}`, "Send this to the MCP server test?"} {
		if !strings.Contains(shown, part) {
			t.Errorf("%q is not shown: %s", part, shown)
		}
	}
	if strings.ContainsRune(shown, 0x1b) {
		t.Errorf("%q", shown)
	}
	for typed, why := range map[string]string{"Ulm\n\n\nn\n": "declined", "Ulm\n": "nobody"} {
		if got, _, err := form(t, typed, f); !errors.Is(err, tidemark.ErrDenied) || !strings.Contains(err.Error(), why) || got != nil {
			t.Errorf("%q: %v, %v", typed, got, err)
		}
	}
}
