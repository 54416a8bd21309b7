package mcpclient_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/chat"
)

// asking is a call of the server's tool that asks the person by a schema.
func asking(t *testing.T, id, schema string) tidemark.Block {
	t.Helper()
	b, err := json.Marshal(said{schema})
	if err != nil {
		t.Fatal(err)
	}
	return use(id, "mcp__test__ask", string(b))
}

const travel = `{"type":"object","required":["town"],"properties":{
	"seats":{"type":"integer","minimum":1,"maximum":4,"default":2},
	"town":{"type":"string","title":"Town","description":"where it goes","minLength":2},
	"class":{"type":"string","oneOf":[{"const":"1","title":"First"},{"const":"2","title":"Second"}]},
	"meal":{"type":"boolean"}}}`

func TestAServerAsksThePersonInTheMiddleOfACall(t *testing.T) {
	r := newRig(t)
	r.own(r.program())
	var forms []chat.Form
	r.o.AskForm = func(_ context.Context, f chat.Form) (map[string]any, error) {
		forms = append(forms, f)
		return map[string]any{"town": "Ulm", "seats": 3.0}, nil
	}
	c := r.open("")
	r.send(c, asking(t, "1", travel))
	if got := r.result("1").Text; !strings.Contains(got, `accept {"seats":3,"town":"Ulm"}`) {
		t.Errorf("%q", got)
	}
	one, two, four := 1.0, 2.0, 4.0
	want := []chat.Form{{From: "the MCP server test", Message: `Where to?\x1b[31m`, Fields: []chat.FormField{
		{Name: "town", Title: "Town", Description: "where it goes", Kind: chat.FieldText, Required: true, Min: &two},
		{Name: "class", Kind: chat.FieldChoice, Choices: []chat.FieldOption{{Value: "1", Title: "First"}, {Value: "2", Title: "Second"}}},
		{Name: "meal", Kind: chat.FieldYesNo},
		{Name: "seats", Kind: chat.FieldInteger, Default: 2.0, Min: &one, Max: &four},
	}}}
	if diff := cmp.Diff(want, forms); diff != "" {
		t.Error(diff)
	}
}

func TestAServerThatMayNotAskIsDeclinedWithAReason(t *testing.T) {
	r := newRig(t)
	r.own(r.program())
	c := r.open("") // there is no way to ask
	r.send(c, asking(t, "1", travel))
	if got := r.result("1").Text; !strings.Contains(got, "decline") || !r.noticed("there is no way to ask for it here") {
		t.Errorf("%q, %q", got, r.notices)
	}
	r.o.AskForm = func(context.Context, chat.Form) (map[string]any, error) {
		t.Error("the person was asked")
		return nil, nil
	}
	r.o.Unattended = true
	c = r.open("")
	r.o.Approve = nil
	r.send(c, asking(t, "2", travel))
	if got := r.result("2").Text; !strings.Contains(got, "decline") || !r.noticed("nobody is there to ask") {
		t.Errorf("%q, %q", got, r.notices)
	}
	r.o.Unattended = false
	c = r.open("")
	r.send(c, asking(t, "3", "https://example.org/sign-in"))
	if got := r.result("3").Text; strings.Contains(got, "accept") {
		t.Errorf("a page: %q", got)
	}
}
