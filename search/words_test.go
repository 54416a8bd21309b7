package search_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/search"
)

func TestWordsOfText(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"none", " \n\t--- !? ", []string{}},
		{"each once, folded", "The cat saw the CAT", []string{"the", "cat", "saw"}},
		{"camel case", "parseHTTPRequest2", []string{"parsehttprequest2", "parse", "http", "request"}},
		{"capitals at the front", "XMLHttp IOError", []string{"xmlhttp", "xml", "http", "ioerror", "io", "error"}},
		{"snake, kebab, path and dots", "snake_case kebab-case ./src/main.go",
			[]string{"snake", "case", "kebab", "src", "main", "go"}},
		{"digits", "utf8 h264 v2 2026", []string{"utf8", "utf", "h264", "264", "v2", "2026"}},
		{"capitalised words have no parts", "Hello HELLO", []string{"hello"}},
		{"camel case beyond ASCII", "größeÄndern", []string{"grosseandern", "grosse", "andern"}},
		{"a hash is not splintered", "1a2b3c4d5e6f7a8b9c0d1e2f", []string{"1a2b3c4d5e6f7a8b9c0d1e2f"}},
		{"Han", "全文検索", []string{"全", "文", "全文", "検", "文検", "索", "検索"}},
		{"mixed scripts", "Python入門3", []string{"python", "入", "門", "入門", "3"}},
		{"the long sign of kana", "サーバ", []string{"サ", "ー", "サー", "バ", "ーバ"}},
		{"a middle dot parts", "ア・イ", []string{"ア", "イ"}},
		{"Hangul", "검색", []string{"검", "색", "검색"}},
		{"Thai keeps its marks", "น้ำ", []string{"น้ํ", "า", "น้ํา"}},
		{"not UTF-8", "a\xffb", []string{"a", "b"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, search.Words(tt.text)); diff != "" {
				t.Errorf("Words(%q) (-want +got):\n%s", tt.text, diff)
			}
		})
	}
}

func TestLongWordsAreCutBetweenCharacters(t *testing.T) {
	got := search.Words(strings.Repeat("a", 63) + strings.Repeat("д", 10))
	want := []string{strings.Repeat("a", 63)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWordsAreBoundedInNumber(t *testing.T) {
	var b strings.Builder
	for i := range 2 * search.MaxWords {
		fmt.Fprintf(&b, "%d\n", i)
	}
	if n := len(search.Words(b.String())); n != search.MaxWords {
		t.Errorf("%d words, want %d", n, search.MaxWords)
	}
}

func TestWordsAcrossChunksAreWhole(t *testing.T) {
	text := strings.Repeat("needle ", 64<<10)
	if got := search.Words(text); !slices.Equal(got, []string{"needle"}) {
		t.Errorf("Words = %q", got)
	}
}

func TestEntryIsFoundByWhatPeopleSee(t *testing.T) {
	e := tidemark.Entry{Kind: tidemark.KindMessage, Role: tidemark.Assistant, Blocks: []tidemark.Block{
		{Type: tidemark.BlockText, Text: "plain"},
		{Type: tidemark.BlockThinking, Text: "pondering", Raw: `{"signature":"hiddenraw"}`},
		{Type: tidemark.BlockToolUse, ID: "toolid", Name: "read_file",
			Input: json.RawMessage(`{"path":"\u0073rc\/main.go","depth":{"lines":[42,true]}}`)},
		{Type: tidemark.BlockToolResult, Text: "output", Blocks: []tidemark.Block{{Type: tidemark.BlockText, Text: "nested"}}},
		{Type: tidemark.BlockImage, Name: "chart.png", URL: "https://example.org/pic", Data: []byte("hiddendata")},
	}}
	words := search.Words(search.Text(e))
	for _, want := range []string{"plain", "pondering", "read", "file", "path", "src", "main", "depth", "lines", "42",
		"output", "nested", "chart", "png", "example", "pic"} {
		if !slices.Contains(words, want) {
			t.Errorf("no word %q in %q", want, words)
		}
	}
	for _, hidden := range []string{"hiddenraw", "hiddendata", "toolid", "true"} {
		if slices.Contains(words, hidden) {
			t.Errorf("%q is a word", hidden)
		}
	}
}

func TestDamagedInputStillGivesItsWords(t *testing.T) {
	for _, raw := range []string{`{"key":"value`, `{"key" "value\x"}`, `["key","value\`} {
		e := tidemark.Entry{Role: tidemark.Tool, Blocks: []tidemark.Block{{Type: "tool_use", Input: json.RawMessage(raw)}}}
		if words := search.Words(search.Text(e)); !slices.Contains(words, "key") {
			t.Errorf("%s: %q", raw, words)
		}
	}
}

func FuzzWords(f *testing.F) {
	for _, s := range []string{"parseHTTPRequest2 snake_case", "全文検索 サーバ", "e\u0301 \xff ﬁ", "น้ำ हिन्दी 한국", strings.Repeat("aB1", 40)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		words := search.Words(text)
		for _, w := range words {
			if len(w) == 0 || len(w) > search.MaxWordBytes || !utf8.ValidString(w) {
				t.Errorf("word %q", w)
			}
		}
		if !slices.Equal(words, search.Words(text)) {
			t.Error("not the same words twice")
		}
		distinct := slices.Clone(words)
		slices.Sort(distinct)
		if len(slices.Compact(distinct)) != len(words) {
			t.Errorf("a word twice in %q", words)
		}
	})
}

// prose is text as agents write it: sentences, code, paths.
var prose = strings.Repeat(`I looked at the failing test in internal/parser/lexer_test.go and the cause is that
parseHTTPRequest drops the trailing header when Content-Length is zero. The fix is small:

	if req.ContentLength == 0 && !chunked { return readUntilEOF(conn) }

Ran go test ./... afterwards: 214 passed, 0 failed in 3.42s. Commit 4f9d2c81 has the change.
`, 200)

func BenchmarkWords(b *testing.B) {
	for name, text := range map[string]string{
		"prose":    prose,
		"entry":    prose[:240],
		"cyrillic": strings.Repeat("Съешь же ещё этих мягких французских булок, да выпей чаю. ", 500),
		"han":      strings.Repeat("会話の記録を検索して、すぐに見つける。", 500),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				search.Words(text)
			}
		})
	}
}
