package render

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestWidthCountsColumns(t *testing.T) {
	for s, want := range map[string]int{
		"":              0,
		"abc":           3,
		"日本語":           6,
		"한국어":           6,
		"e\u0301":       1,
		"é":             1,
		"ｆｕｌｌ":          8,
		"👍":             2,
		"👍🏽":            2,
		"👩🏽\u200d💻":     2,
		"❤":             1,
		"❤\ufe0f":       2,
		"🇩🇪🇫🇷":          4,
		"1\ufe0f⃣":      2,
		"…":             1,
		"├── ":          4,
		"\x1b":          0,
		"ไทย":           3,
		"กำ":            2,
		"می\u200cخواهم": 7,
		"a\u3000b":      4,
		"\u1112\u1161":  2,
		"\U0002000b":    2,
		"\ufffd\ufffd!": 3,
	} {
		if got := Width(s); got != want {
			t.Errorf("Width(%q) = %d, want %d", s, got, want)
		}
	}
}

func TestTruncateKeepsSignsWhole(t *testing.T) {
	for _, c := range []struct {
		in      string
		columns int
		want    string
	}{
		{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"abcd", 1, "…"}, {"abcd", 0, ""}, {"abcd", -1, ""}, {"", 0, ""},
		{"日本語", 6, "日本語"}, {"日本語", 5, "日本…"}, {"日本語", 4, "日…"}, {"日本語", 2, "…"},
		{"e\u0301e\u0301e\u0301", 2, "e\u0301…"}, {"👩🏽\u200d💻👩🏽\u200d💻", 3, "👩🏽\u200d💻…"}, {"🇩🇪🇫🇷", 3, "🇩🇪…"},
	} {
		if got := Truncate(c.in, c.columns); got != c.want {
			t.Errorf("Truncate(%q, %d) = %q, want %q", c.in, c.columns, got, c.want)
		}
	}
}

func TestATruncatedTextFitsAndIsAPrefix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := CleanLine(hostile.Draw(t, "text"))
		columns := rapid.IntRange(0, 30).Draw(t, "columns")
		got := Truncate(s, columns)
		if Width(got) > columns {
			t.Fatalf("Truncate(%q, %d) = %q is %d wide", s, columns, got, Width(got))
		}
		if Width(s) <= columns && got != s && columns > 0 {
			t.Fatalf("Truncate(%q, %d) = %q, and it fits", s, columns, got)
		}
		if got != s && !strings.HasPrefix(s, strings.TrimSuffix(got, "…")) {
			t.Fatalf("Truncate(%q, %d) = %q is not its beginning", s, columns, got)
		}
	})
}

func TestALineIsBrokenBetweenWords(t *testing.T) {
	for _, test := range []struct {
		line    string
		columns int
		want    []string
	}{
		{"a few words here", 9, []string{"a few", "words", "here"}},
		{"  one two", 5, []string{"  one", "two"}},
		{"see https://example.org/long now", 10, []string{"see", "https://example.org/long", "now"}},
		{"海 海 海", 5, []string{"海 海", "海"}},
		{"", 5, []string{""}},
		{"short", 80, []string{"short"}},
	} {
		if got := Wrap(test.line, test.columns); !slices.Equal(got, test.want) {
			t.Errorf("%q in %d columns is %q, want %q", test.line, test.columns, got, test.want)
		}
	}
}
