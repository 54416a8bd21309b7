package search_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/search"
)

func parse(t interface {
	Helper()
	Fatalf(string, ...any)
}, text string) search.Query {
	t.Helper()
	q, err := search.Parse(text)
	if err != nil {
		t.Fatalf("Parse(%q): %v", text, err)
	}
	return q
}

func TestWhatAQueryMatches(t *testing.T) {
	for _, tt := range []struct {
		query, text string
		want        bool
	}{
		{"cat", "The Cat sat", true},
		{"cat", "concatenate", false},
		{"CRÈME", "creme brûlée", true},
		{"cat dog", "dog and cat", true},
		{"cat dog", "only a cat", false},
		{"parseHTTP", "func parseHTTPRequest()", true},
		{"parseHTTP", "parse the http header", true},
		{"parseHTTP", "parsehttp", true},
		{"parseHTTP", "parse it", false},
		{"request", "parseHTTPRequest2", true},
		{"v2", "v and 2", false},
		{"v2", "api v2", true},
		{"src/main.go", "go to main in src", true},
		{"検索", "全文検索", true},
		{"索検", "全文検索", false},
		{"文", "全文検索", true},

		{"'exit", "exit code", true},
		{"'exit", "exiting", true},
		{"'xit", "exit", false},
		{`"exit code"`, "the Exit\n  Code was", true},
		{`'"exit code"`, "exit codes", true},
		{`"exit code"`, "exit the code", false},
		{`"exit code"`, "exitcode", false},
		{"'exit code'", "exit code", true},
		{"'exit code' !'was it'", "the exit code it was", true},
		{"'exit code'", "code exit", false},
		{"'code 'exit", "exit code", true},
		{"'code 'exit'", "exit code", true},
		{"'don't panic'", "Don't panic", true},
		{"'foo.bar(", "x = Foo.Bar(1)", true},
		{"'foo.bar", "foo bar", false},
		{`"say ""hi"""`, `they say "hi"`, true},
		{"'foo", "afoo food", true},
		{`"foo bar"`, "afoo bar, foo", false},
		{"'検索", "全文検索", true},
		{"'ก", "กิ", false},
		{"'門for", "入門for", true},

		{"^par", "parser", true},
		{"^req", "parseHTTPRequest", true},
		{"^arse", "parser", false},
		{"^src/ma", "src/main.go", true},

		{"cat !dog", "cat", true},
		{"cat !dog", "cat dog", false},
		{"cat !'dog", "cat dogma", false},
		{"cat !^dog", "cat dogma", false},
		{"cat !dog", "cat dogma", true},
		{`cat !"big dog"`, "cat dog big", true},
		{`cat !"big dog"`, "cat big dog", false},
		{"cat !fooBar", "cat foo", true},
		{"cat !fooBar", "cat bar foo", false},

		{"cat | dog", "dog", true},
		{"cat | dog", "bird", false},
		{"big cat | dog", "big dog", true},
		{"big cat | dog", "dog", false},
		{"big cat | !dog", "big dog", false},
		{"big cat | !dog", "big bird", true},
		{"a|b", "b then a", true},
		{"cat '--force", "cat --force", true},
		{"cat '--force", "cat force", false},
		{"don't", "I don't", true},
	} {
		if got := parse(t, tt.query).Match(tt.text); got != tt.want {
			t.Errorf("%s on %q: %v, want %v", tt.query, tt.text, got, tt.want)
		}
	}
}

func TestWhatAQueryAsksAnIndexFor(t *testing.T) {
	show := func(terms []tidemark.Term, sep string) string {
		var s []string
		for _, t := range terms {
			w := t.Word
			if t.Prefix {
				w += "*"
			}
			s = append(s, w)
		}
		return strings.Join(s, sep)
	}
	for _, tt := range []struct{ query, want string }{
		{"cat dog", "cat & dog"},
		{"cat | dog", "cat|dog"},
		{"parseHTTP", "parsehttp|parse & parsehttp|http"},
		{"parseHTTP | foo", "parsehttp|parse|foo & parsehttp|http|foo"},
		{"http2", "http2"},
		{"^par", "par*"},
		{"'exit", "exit* ?"},
		{`"the exit code"`, "the & exit ?"},
		{"'exit.", "exit ?"},
		{"cat !dog", "cat - dog"},
		{"cat !^dog", "cat - dog*"},
		{"cat !'dog", "cat ?"},
		{"cat !parseHTTP", "cat - parsehttp ?"},
		{"cat !foo.bar", "cat ?"},
		{"cat dog | !bird", "cat ?"},
		{"全文検索", "全文 & 文検 & 検索"},
		{"cat '--", "cat ?"},
	} {
		all, none, verify := parse(t, tt.query).Terms()
		var s []string
		for _, a := range all {
			s = append(s, show(a, "|"))
		}
		got := strings.Join(s, " & ")
		if len(none) > 0 {
			got += " - " + show(none, " ")
		}
		if verify {
			got += " ?"
		}
		if got != tt.want {
			t.Errorf("%s asks %q, want %q", tt.query, got, tt.want)
		}
	}
}

func TestManyAlternativesOfManyPartsAreAskedForInShort(t *testing.T) {
	wide := strings.Repeat("aa.bb.cc.dd | ", 20) + "longest.e"
	all, _, verify := parse(t, wide).Terms()
	if len(all) != 1 || !verify {
		t.Errorf("asks %d clauses, verify %v; want one that is verified", len(all), verify)
	}
	long := strings.Repeat("語彙", 200)
	if all, _, verify := parse(t, "'"+long+"彙語漢字").Terms(); len(all) > 64 || !verify {
		t.Errorf("asks %d clauses, verify %v", len(all), verify)
	}
}

func TestQueriesThatSayNothingAreRefused(t *testing.T) {
	for _, tt := range []struct{ query, why string }{
		{"", "nothing to look for"},
		{" \t\n", "nothing to look for"},
		{"!cat", "only negations"},
		{"!cat !'dog", "only negations"},
		{"cat | !dog", "only negations"},
		{`"open`, "not closed"},
		{`cat '"open`, "not closed"},
		{"!", "empty"},
		{"'", "empty"},
		{"^", "empty"},
		{`""`, "empty"},
		{`" "`, "empty"},
		{"--", "no letter or digit"},
		{"'--", "no letter or digit"},
		{"| cat", "between"},
		{"cat |", "behind"},
		{"cat | | dog", "between"},
		{strings.Repeat("a ", 65), "more than 64 terms"},
		{strings.Repeat("a", 1<<20), "1048576 bytes"},
	} {
		_, err := search.Parse(tt.query)
		if !errors.Is(err, tidemark.ErrInvalid) || !strings.Contains(fmt.Sprint(err), tt.why) {
			t.Errorf("Parse(%.20q) = %v, want ErrInvalid that says %q", tt.query, err, tt.why)
		}
		if err != nil && len(err.Error()) > 300 {
			t.Errorf("Parse(%.20q): an error of %d bytes", tt.query, len(err.Error()))
		}
	}
}

func TestNoQueryMatchesNothing(t *testing.T) {
	if (search.Query{}).Match("text") {
		t.Error("the zero Query matches")
	}
}

// pieces make texts and queries that have something to do with each other.
var pieces = rapid.SampledFrom([]string{"a", "B", "foo", "Foo", "BAR", "fooBar", "HTTP", "2", "42", "é", "e\u0301", "ß", "SS",
	"検", "索", "サ", "ー", "が", "か\u3099", "한", "\u1112\u1161", "ก", "\u0e34", "न", "\u093f", "ﬁ", "İ", "ı", "\u0301",
	".", "-", "_", "/", "(", " ", " ", "\n", "\u00a0", "\u00ad", "\u200b", "・", "\xff",
	strings.Repeat("x", 40), strings.Repeat("д", 33)})

func drawText(t *rapid.T, name string, most int) []string {
	return rapid.SliceOfN(pieces, 1, most).Draw(t, name)
}

// drawQuery draws a query whose terms are mostly taken from the text.
func drawQuery(t *rapid.T, text []string) (string, search.Query) {
	n := rapid.IntRange(1, 4).Draw(t, "terms")
	var terms []string
	for range n {
		var term []string
		if rapid.IntRange(0, 4).Draw(t, "foreign") == 0 {
			term = drawText(t, "term", 4)
		} else {
			from := rapid.IntRange(0, len(text)-1).Draw(t, "from")
			term = text[from:min(len(text), from+rapid.IntRange(1, 5).Draw(t, "length"))]
		}
		form := rapid.SampledFrom([]string{"%s", "%s", "'%s", "^%s", `"%s"`, `"%s"`, `^"%s"`, "!%s", "!'%s", "!^%s", `!"%s"`,
			"| %s", "| '%s"}).Draw(t, "form")
		terms = append(terms, fmt.Sprintf(form, strings.Join(term, "")))
	}
	query := strings.Join(terms, " ")
	q, err := search.Parse(query)
	if err != nil {
		t.Skip(err)
	}
	return query, q
}

func TestIndexFindsWhatTheQueryMatches(t *testing.T) {
	matched, missed := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		parts := drawText(t, "text", 30)
		text := strings.Join(parts, "")
		query, q := drawQuery(t, parts)
		all, none, verify := q.Terms()
		hit := has(search.Words(text), all, none)
		match := q.Match(text)
		if match && !hit {
			t.Fatalf("%q matches %q, but the index does not find it by %v without %v", query, text, all, none)
		}
		if hit && !match && !verify {
			t.Fatalf("%q does not match %q, but the index finds it and nobody verifies", query, text)
		}
		if match {
			matched++
		} else {
			missed++
		}
	})
	if matched == 0 || missed == 0 {
		t.Errorf("%d matches, %d misses: the test drew too little", matched, missed)
	}
}

func TestSnippetShowsTheFirstMatch(t *testing.T) {
	long := strings.Repeat("lorem ipsum ", 20)
	for _, tt := range []struct {
		query, text string
		width       int
		want        string
	}{
		{"cat", "the cat sat", 40, "the [cat] sat"},
		{"cat", "line one\nthe\tcat\x1b sat\n", 40, "line one the [cat] sat"},
		{"cat sat", "the cat sat on the cat", 40, "the [cat] [sat] on the [cat]"},
		{`"cat sat"`, "sat cat\n\n  sat", 40, "sat [cat sat]"},
		{"creme", "une CRÈME, cre\u0300me!", 40, "une [CRÈME], [cre\u0300me]!"},
		{"request", "func parseHTTPRequest()", 40, "func parseHTTP[Request]()"},
		{"検索", "全文検索を", 40, "全文[検索]を"},
		{"file", "the ﬁle", 40, "the [ﬁle]"},
		{"'f", "the ﬁle", 40, "the [ﬁ]le"},
		{"needle", long + "needle " + long, 30, "…ipsum [needle] lorem ipsum lor…"},
		{"needle", long + "needle", 30, "…ipsum lorem ipsum [needle]"},
		{"needle", strings.Repeat("x, ", 50_000) + "needle end", 20, "…x, x, x, [needle] end"},
		{"cat !dog", "cat", 10, "[cat]"},
		{"cat | bird", "a bird", 10, "a [bird]"},
		{"missing", "nothing of it here", 10, "nothing o…"},
		{"cat", "cat", 0, ""},
		{"cat", "bad \xff cat", 20, "bad \ufffd [cat]"},
	} {
		snippet, marks := parse(t, tt.query).Snippet(tt.text, tt.width)
		if got := bracket(snippet, marks); got != tt.want {
			t.Errorf("%s in %.30q: %q, want %q", tt.query, tt.text, got, tt.want)
		}
		if n := utf8.RuneCountInString(snippet); n > tt.width {
			t.Errorf("%s in %.30q: %d characters, want at most %d", tt.query, tt.text, n, tt.width)
		}
	}
}

func bracket(s string, marks [][2]int) string {
	var b strings.Builder
	at := 0
	for _, m := range marks {
		b.WriteString(s[at:m[0]] + "[" + s[m[0]:m[1]] + "]")
		at = m[1]
	}
	return b.String() + s[at:]
}

func TestSnippetsAreOneLineWithMarksInside(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := drawText(t, "text", 40)
		width := rapid.IntRange(0, 60).Draw(t, "width")
		_, q := drawQuery(t, parts)
		checkSnippet(t, q, strings.Join(parts, ""), width)
	})
}

func checkSnippet(t interface{ Fatalf(string, ...any) }, q search.Query, text string, width int) {
	snippet, marks := q.Snippet(text, width)
	if !utf8.ValidString(snippet) || utf8.RuneCountInString(snippet) > max(width, 0) || strings.ContainsAny(snippet, "\n\r\t\x1b\x00") {
		t.Fatalf("snippet %q of %q in %d", snippet, text, width)
	}
	at := 0
	for _, m := range marks {
		if m[0] < at || m[1] <= m[0] || m[1] > len(snippet) || !utf8.ValidString(snippet[m[0]:m[1]]) {
			t.Fatalf("marks %v in %q", marks, snippet)
		}
		at = m[1]
	}
}

func FuzzQuery(f *testing.F) {
	for _, s := range []string{"cat", `'"exit code" ^time !warning`, "a | 'b !^c", `"""q""" 検索`, "fooBar.baz | HTTP2", "'ก ^ß"} {
		f.Add(s, "the exit code of fooBar was 検索 กิ in time", 20)
	}
	f.Fuzz(func(t *testing.T, query, text string, width int) {
		q, err := search.Parse(query)
		if err != nil {
			if !errors.Is(err, tidemark.ErrInvalid) {
				t.Errorf("Parse(%q) = %v", query, err)
			}
			return
		}
		all, none, verify := q.Terms()
		if len(all) == 0 {
			t.Errorf("%q asks for nothing", query)
		}
		again, _, _ := q.Terms()
		if diff := cmp.Diff(all, again); diff != "" {
			t.Errorf("asked twice (-first +second):\n%s", diff)
		}
		hit := has(search.Words(text), all, none)
		if match := q.Match(text); match && !hit || hit && !match && !verify {
			t.Errorf("%q on %q: match %v, hit %v, verify %v", query, text, match, hit, verify)
		}
		checkSnippet(t, q, text, width)
	})
}

func has(words []string, all [][]tidemark.Term, none []tidemark.Term) bool {
	one := func(terms []tidemark.Term) bool {
		for _, t := range terms {
			for _, w := range words {
				if w == t.Word || t.Prefix && strings.HasPrefix(w, t.Word) {
					return true
				}
			}
		}
		return false
	}
	for _, terms := range all {
		if !one(terms) {
			return false
		}
	}
	return !one(none)
}

func TestTheLastWordThatIsTypedIsABeginning(t *testing.T) {
	for _, tt := range []struct {
		typed, text string
		want        bool
	}{
		{"trail", "a trailing slash", true},
		{"slash trail", "a trailing slash", true},
		{"trail slash", "a trailing slash", false}, // only the last one is incomplete
		{"trail ", "a trailing slash", false},
		{"tr", "a trailing slash", false}, // too short
		{"'trail", "a trailing slash", true},
		{"!trail", "a trailing slash", false},
		{"slash\ttrail", "a trailing slash", true},
		{"späh", "die spähenden", true},
	} {
		q, err := search.ParseTyped(tt.typed)
		if err != nil {
			if tt.want {
				t.Errorf("%q: %v", tt.typed, err)
			}
			continue
		}
		if got := q.Match(tt.text); got != tt.want {
			t.Errorf("%q on %q: %v, want %v", tt.typed, tt.text, got, tt.want)
		}
	}
}

func BenchmarkMatch(b *testing.B) {
	for _, bb := range []struct{ name, query, text string }{
		{"absent in prose", "zebra", prose},
		{"absent in an entry", "zebra", prose[:240]},
		{"present in an entry", "trailing", prose[:240]},
		{"phrase in prose", `"no such phrase"`, prose},
		{"absent in cyrillic", "zebra", strings.Repeat("Съешь же ещё этих мягких французских булок. ", 500)},
	} {
		b.Run(bb.name, func(b *testing.B) {
			q := parse(b, bb.query)
			b.SetBytes(int64(len(bb.text)))
			for b.Loop() {
				q.Match(bb.text)
			}
		})
	}
}

func BenchmarkSnippet(b *testing.B) {
	q := parse(b, "trailing")
	for b.Loop() {
		q.Snippet(prose[:2000], 80)
	}
}
