package convert_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark/convert"
)

func TestOriginalsComeBeforeTheirCopies(t *testing.T) {
	for all, want := range map[string]string{
		"a b c":         "a b c",
		"a<b b<c c":     "c b a",
		"b<a a c<b":     "a b c",
		"a<gone b":      "a b",
		"a<b b<a c":     "b a c",
		"a<a b":         "a b",
		"d<b a<b b<c c": "c b d a",
	} {
		found := strings.Fields(all)
		ordered := convert.OriginalsFirst(found, func(s string) (string, string) {
			id, original, _ := strings.Cut(s, "<")
			return id, original
		})
		var ids []string
		for _, s := range ordered {
			ids = append(ids, s[:1])
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("%s: %s, want %s", all, got, want)
		}
	}
}

func TestSessionsAreOrderedByTheirCreationAndEachIsThereOnce(t *testing.T) {
	all := []convert.Identity{{ID: "late", CreatedAt: time.Unix(3, 0)}, {ID: "copy", Original: "late", CreatedAt: time.Unix(1, 0)},
		{ID: "late", Original: "again", CreatedAt: time.Unix(4, 0)}, {ID: "early", CreatedAt: time.Unix(2, 0)}}
	var ids []string
	for _, s := range convert.InOrder(all, func(s convert.Identity) convert.Identity { return s }) {
		ids = append(ids, s.ID+s.Original)
	}
	if d := cmp.Diff([]string{"late", "copylate", "early"}, ids); d != "" {
		t.Error(d)
	}
}

func TestIDsOfEntriesAreUniqueAndFit(t *testing.T) {
	ids := convert.EntryIDs{}
	var got []string
	for i, own := range []string{"a", "a", "", "line.4", "\x00root", strings.Repeat("x", 200), "line.6", "\xff"} {
		got = append(got, ids.Of(own, "line."+string(rune('0'+i))))
	}
	if d := cmp.Diff([]string{"a", "line.1", "line.2", "line.4", "line.4'", "line.5", "line.6", "line.7"}, got); d != "" {
		t.Error(d)
	}
}

func TestImpossibleNumbersOfTokensAreNone(t *testing.T) {
	if u := convert.Tokens(-1, 0, 0, 0); u != nil {
		t.Errorf("%+v", u)
	}
	u := convert.Tokens(1, 1e300, 3, 4)
	if u.InputTokens != 1 || u.OutputTokens <= 0 || u.OutputTokens+u.OutputTokens < 0 || u.CacheReadTokens != 3 || u.CacheWriteTokens != 4 {
		t.Errorf("%+v", u)
	}
}
