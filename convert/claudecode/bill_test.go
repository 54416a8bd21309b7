package claudecode

import (
	"fmt"
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
	b := newBill()
	b.open = []answer{{id: "before", lead: -1, model: "m", weight: 1}} // of a point, which may have forgotten the name
	b.before = len(b.open)
	for n, id := range []string{"first", "second", "before", "second", "first", "", ""} {
		b.see(answered(t, id, n+1), n, id)
	}
	want := []answer{{"before", -1, "", "m", 15}, {"first", 0, "first", "m", 25}, {"second", 1, "second", "m", 20}, {"", 5, "", "m", 30}, {"", 6, "", "m", 35}}
	if fmt.Sprint(b.open) != fmt.Sprint(want) {
		t.Errorf("open are %v, want %v", b.open, want)
	}
	b.settle(nil)
	b.see(answered(t, "first", 9), 9, "again")
	if len(b.open) != 0 {
		t.Errorf("a reply that was settled is open again: %v", b.open)
	}
}
