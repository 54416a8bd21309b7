package convert_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark/convert"
)

func TestATextIsReadAsJSONReadsIt(t *testing.T) {
	for _, raw := range []string{`"a"`, `""`, `"a\nb"`, "\"\xff\"", `"\ud83c\udf75"`, `7`, `null`, `{}`, ``, `"`} {
		var want string
		wantOK := len(raw) > 0 && raw[0] == '"' && json.Unmarshal([]byte(raw), &want) == nil
		if got, ok := convert.Text([]byte(raw)); got != want || ok != wantOK {
			t.Errorf("Text(%s) = %q, %v, want %q, %v", raw, got, ok, want, wantOK)
		}
	}
}

func TestWhatIsTakenOutOfAnObjectIsNotInItAnyMore(t *testing.T) {
	o := convert.Object{"a": json.RawMessage(`"x"`), "n": json.RawMessage(`7`), "in": json.RawMessage(`{"b":"y"}`)}
	var s string
	if !o.Take("a", &s) || s != "x" || o.Take("n", &s) || o.Take("none", &s) || s != "x" {
		t.Errorf("took %q", s)
	}
	if in, ok := o.Object("in"); !ok || in.Text("b") != "y" {
		t.Errorf("%v, %v", in, ok)
	}
	if in, ok := o.Object("n"); ok || in == nil {
		t.Errorf("%v, %v", in, ok)
	}
	o.Set("t", "<b>")
	if diff := cmp.Diff(convert.Object{"t": json.RawMessage(`"<b>"`), "n": json.RawMessage(`7`)}, o.Without("in", "a")); diff != "" {
		t.Error(diff)
	}
	if got := convert.Object(nil).Without("a"); got == nil {
		t.Error("nothing without something is nil")
	}
}

func TestAWordThatMeansSomethingHereIsNoKind(t *testing.T) {
	for word, want := range map[string]bool{"notice": true, "branch_summary": true, "": false, "user": false, "message": false, "branch": false,
		"gap": false, "Notice": false, "a-b": false, "abcdefghijklmnopqrstuvwxyzabcdefg": false} {
		if got := convert.IsKind(word); got != want {
			t.Errorf("IsKind(%q) = %v", word, got)
		}
	}
	if !convert.Begins(" \n<tag>x", "<a>", "<tag>") || convert.Begins("x <tag>", "<tag>") || convert.Begins("", "<a>") {
		t.Error("marks are not told from texts")
	}
}
