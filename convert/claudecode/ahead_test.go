package claudecode_test

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/tidemark-sessions/tidemark/convert/converttest"
)

func TestALongTranscriptComesBehindShorterOnesAndBeforeItsForks(t *testing.T) {
	much := strings.Repeat("many words ", 1<<17)
	first := func(id string) []string {
		return []string{line(id, "u-"+id, "", 1, prompt("first")), line(id, "a-"+id, "u-"+id, 2, answer("m-"+id, text("one")))}
	}
	long := first(one)
	for _, uuid := range []string{"u1", "u2", "u3", "u4", "u5", "u6", "u7", "u8"} {
		long = append(long, line(one, uuid, "a-"+one, 3, prompt(much)))
	}
	fork := append([]string{strings.ReplaceAll(long[0], `"sessionId":"`+one, `"sessionId":"`+two)}, line(two, "u9", "u-"+one, 9, prompt("fork")))
	large := append(first(two), line(two, "u9", "a-"+two, 3, prompt(much)))
	for name, c := range map[string]struct {
		second []string
		want   []string
	}{
		"as many bytes as it takes to read it once": {large, []string{two, one, three}},
		"all others":                         {first(two), []string{two, three, one}},
		"none: the next one is a copy of it": {fork, []string{one, two, three}},
	} {
		t.Run(name, func(t *testing.T) {
			got := read(t, fstest.MapFS{file(one): converttest.Lines(long...), file(two): converttest.Lines(c.second...), file(three): converttest.Lines(first(three)...)})
			var order []string
			for _, s := range got.Sessions {
				if order = append(order, s.ForeignID); s.ForeignID == one && len(s.Entries) != 10 {
					t.Errorf("the long one has %d entries, want 10", len(s.Entries))
				}
			}
			if !slices.Equal(order, c.want) {
				t.Errorf("the order is %q, want %q", order, c.want)
			}
		})
	}
}
