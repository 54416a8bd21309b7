package claudecode

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tidemark-sessions/tidemark/convert"
)

// answered is a record of a reply with so many tokens.
func answered(t *testing.T, id string, tokens int) record {
	t.Helper()
	var r record
	text := fmt.Sprintf(`{"type":"assistant","message":{"id":%q,"model":"m","usage":{"output_tokens":%d}}}`, id, tokens)
	if err := convert.Loose([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestALaterRecordOfAReplyHasItsFigures(t *testing.T) {
	b := newBill(new(convert.Interner))
	b.open = []answer{{id: b.texts.Intern("before"), lead: -1, model: b.texts.Intern("m"), weight: 1}} // of a point, which may have forgotten the name
	b.before = len(b.open)
	for n, id := range []string{"first", "second", "before", "second", "first", "", ""} {
		b.see(answered(t, id, n+1), int32(n))
	}
	want := []string{"before -1 m 15", "first 0 m 25", "second 1 m 20", " 5 m 30", " 6 m 35"}
	var open []string
	for _, a := range b.open {
		open = append(open, fmt.Sprintf("%s %d %s %v", b.texts.Text(a.id), a.lead, b.texts.Text(a.model), a.weight))
	}
	if !slices.Equal(open, want) {
		t.Errorf("open are %q, want %q", open, want)
	}
	b.settle(nil)
	b.see(answered(t, "first", 9), 9)
	if len(b.open) != 0 {
		t.Errorf("a reply that was settled is open again: %v", b.open)
	}
}
