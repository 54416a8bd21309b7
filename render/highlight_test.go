package render

import (
	"bufio"
	"html"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func paintedCode(language, code string) string {
	var b strings.Builder
	w := bufio.NewWriter(&b)
	highlight(w, language, code)
	w.Flush()
	return b.String()
}

// marked shows spans as {class text}, which is easier to read.
func marked(s string) string {
	s = regexp.MustCompile(`<span class="hl-(.)">`).ReplaceAllString(s, "{$1 ")
	return html.UnescapeString(strings.ReplaceAll(s, "</span>", "}"))
}

func TestCodeIsPainted(t *testing.T) {
	for _, c := range []struct{ language, code, want string }{
		{"go", "func f() { x := \"a\\\"b\" } // c", `{k func} f() { x := {s "a\"b"} } {c // c}`},
		{"Go", "`a\nb` + 'x' + '\\u00e9' 0x1F", "{s `a\nb`} + {s 'x'} + {s '\\u00e9'} {n 0x1F}"},
		{"c", "#include <a.h>\n/* a\nb */ int x = 1.5e-3;", "{k #include} <a.h>\n{c /* a\nb */} {k int} x = {n 1.5e-3};"},
		{"rust", "fn f<'a>(x: &'a str) { r#\"a\"b\"# }", "{k fn} f<'a>(x: &'a {k str}) { {s r#\"a\"b\"#} }"},
		{"js", "x.default = `a\n${b}`", "x.default = {s `a\n${b}`}"},
		{"py", "def f(): # c\n  '''a\nb''' and don", "{k def} f(): {c # c}\n  {s '''a\nb'''} {k and} don"},
		{"bash", "echo $# \"a b\" a#b # c\nif-not if", "echo $# {s \"a b\"} a#b {c # c}\nif-not {k if}"},
		{"yaml", "- a-b: don't # c\n  c: 'd'\n  e: http://f", "- {a a-b}: don't {c # c}\n  {a c}: {s 'd'}\n  {a e}: http://f"},
		{"toml", "[a.b]\nc = 1 # d\ne = [\n [1], ]", "{t [a.b]}\n{a c} = {n 1} {c # d}\n{a e} = [\n [{n 1}], ]"},
		{"ini", "; a\n[b]\nc=d", "{c ; a}\n{t [b]}\n{a c}=d"},
		{"sql", "Select 'it''s' -- c\nFROM t1", "{k Select} {s 'it'}{s 's'} {c -- c}\n{k FROM} t1"},
		{"lua", "--[[ a\nb ]] local x = [[c\nd]]", "{c --[[ a\nb ]]} {k local} x = {s [[c\nd]]}"},
		{"haskell", "f' x = 'c' {- a\nb -} -- c", "f' x = {s 'c'} {c {- a\nb -}} {c -- c}"},
		{"json", "{\"a\" : [1, true, \"b\"]}", "{{a \"a\"} : [{n 1}, {k true}, {s \"b\"}]}"},
		{"css", "@media x { a-b: 1px #fff; /* c */ } #main{}", "{k @media} x { {a a-b}: {n 1px} {n #fff}; {c /* c */} } #main{}"},
		{"html", "<!-- a --><a b='c' d=e>f < g</a>", "{c <!-- a -->}{t <a} {a b}={s 'c'} {a d}={s e}{t >}f < g{t </a}{t >}"},
		{"html", "<script>if (a</b/) '</x'</SCRIPT>", "{t <script}{t >}{k if} (a</b/) {s '</x'}{t </SCRIPT}{t >}"},
		{"diff", "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n z\n--- w", "{c --- a}\n{c +++ b}\n{k @@ -1 +1 @@}\n{d -x}\n{i +y}\n z\n{d --- w}"},
		{"makefile", "all: a b\n\techo 'x' # c", "{a all}: a b\n\techo {s 'x'} {c # c}"},
		{"dockerfile", "FROM a AS b\n# c", "{k FROM} a {k AS} b\n{c # c}"},
		{"", "func // a", "func // a"},
		{"text", "func // a", "func // a"},
	} {
		if got := marked(paintedCode(c.language, c.code)); got != c.want {
			t.Errorf("%s %q\n got %q\nwant %q", c.language, c.code, got, c.want)
		}
	}
}

func TestWhatIsNeverClosedEndsWithItsLineOrTheCode(t *testing.T) {
	for _, c := range []struct{ language, code, want string }{
		{"go", "\"a\nif", "{s \"a}\n{k if}"},
		{"go", "/* a\nif", "{c /* a\nif}"},
		{"go", "'a if", "'a {k if}"},
		{"go", "\"\\", "{s \"\\}"},
		{"html", "<a b=\"c\nd", "{t <a} {a b}={s \"c\nd}"},
		{"html", "<a <b>", "{t <a} {t <b}{t >}"},
		{"html", "<style>a{", "{t <style}{t >}a{"},
		{"html", "<", "<"},
	} {
		if got := marked(paintedCode(c.language, c.code)); got != c.want {
			t.Errorf("%s %q\n got %q\nwant %q", c.language, c.code, got, c.want)
		}
	}
}

func TestMoreCodeThanAnyoneReadsIsNotPainted(t *testing.T) {
	code := strings.Repeat("if ", maxHighlight/3+1)
	if got := paintedCode("go", code); got != code {
		t.Errorf("%d bytes became %d", len(code), len(got))
	}
	if got := paintedCode("go", code[:maxHighlight]); !strings.Contains(got, "<span") {
		t.Error("code within the limit is not painted")
	}
	block := "```go\n" + strings.Repeat("0\n", maxHighlight/8) + "```\n"
	page := asHTML(strings.Repeat(block, 8))
	if got := strings.Count(page, "<span"); got != maxHighlight/2 {
		t.Errorf("%d spans in many blocks, want %d", got, maxHighlight/2)
	}
}

var spanForm = regexp.MustCompile(`<span class="hl-[cskntaid]">([^<]+)</span>`)

// checkPaint looks whether painting left the text alone: without its spans it
// is what the plain path writes, and no span cuts a character.
func checkPaint(t interface{ Fatalf(string, ...any) }, language, code string) {
	code = Clean(code)
	got := paintedCode(language, code)
	if bare := spanForm.ReplaceAllString(got, "$1"); bare != paintedCode("", code) || html.UnescapeString(bare) != code {
		t.Fatalf("%s: %q became %q", language, code, got)
	}
	if Clean(got) != got {
		t.Fatalf("%s: %q became %q, which is not clean", language, code, got)
	}
	for _, part := range regexp.MustCompile(`<[^>]*>`).Split(got, -1) {
		if !utf8.ValidString(part) {
			t.Fatalf("%s: %q cuts a character", language, got)
		}
	}
}

// shreds are the pieces that mean something to one language or another.
var shreds = []string{
	"\"", "'", "`", "\"\"\"", "'''", "\\", "/*", "*/", "//", "#", "--", "--[[", "]]", "[[", "{-", "-}", "<!--", "-->", "<![CDATA[", "]]>", "<a", "</a", "<script>", "</script>", "<style>", "</style", "<", ">", "=", "/", "&", "&lt;",
	"\n", " ", "\t", "- ", ":", ": ", ";", "{", "}", "[", "]", "(", ".", "..", "@", "@@", "+", "+++ ", "--- ", "r#\"", "\"#", "R\"(", ")\"", "$", "_", "-",
	"if", "return", "SELECT", "true", "a", "x1", "0", "1.5e-3", "0x", "9", "#fff", "é", "語", "👩‍🚀", "1\ufe0f\u20e3", "#\ufe0f", "*\ufe0f", "\u200d", "\u200c", "\ufe0f", "\u202e", "\u200b", "می\u200cخواهم", "\xff", "\x1b", "\r\n", "\r", "\x00", "\u0301",
}

func languageNames() []string {
	var all []string
	for name := range languages() {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

func TestPaintingNeverChangesTheText(t *testing.T) {
	names := languageNames()
	rapid.Check(t, func(t *rapid.T) {
		code := strings.Join(rapid.SliceOfN(rapid.SampledFrom(shreds), 0, 40).Draw(t, "code"), "")
		for _, name := range names {
			checkPaint(t, name, code)
		}
	})
}

func FuzzHighlight(f *testing.F) {
	names := languageNames()
	for i, s := range shreds {
		f.Add(i, s+"a b: \"c\" "+s+"\nif 1 "+s)
	}
	f.Fuzz(func(t *testing.T, n int, code string) {
		checkPaint(t, names[uint(n)%uint(len(names))], code)
	})
}

// TestKnotsOfCodeAreUntiedInTime has no clock of its own: code that takes the
// square of its length would not end before the test's deadline.
func TestKnotsOfCodeAreUntiedInTime(t *testing.T) {
	seen := map[*grammar]bool{}
	for _, name := range languageNames() {
		if g := languages()[name]; seen[g] {
			continue
		} else {
			seen[g] = true
		}
		for _, s := range shreds {
			code := strings.Repeat(Clean(s), 20_000/len(s))
			if got := paintedCode(name, code); len(got) > 40*len(code) {
				t.Errorf("%s: %d bytes of %q became %d", name, len(code), s, len(got))
			}
		}
	}
}

func TestFencedCodeIsPaintedWithinItsBlock(t *testing.T) {
	const open, end = `<pre tabindex="0"><code class="language-`, "</code></pre>\n"
	for _, c := range []struct{ in, want string }{
		{"```go\n/* <a>\n```\nb", open + "go\"><span class=\"hl-c\">/* &lt;a&gt;\n</span>" + end + "<p>b</p>\n"},
		{"- ```JSON\n  {\"a\": 1}\n  ```", "<ul dir=\"auto\">\n<li>" + open + "JSON\">{<span class=\"hl-a\">&#34;a&#34;</span>: <span class=\"hl-n\">1</span>}\n" + end + "</li>\n</ul>\n"},
		{"~~~py\n# \u202ea\u200b\n~~~", open + "py\"><span class=\"hl-c\"># \\u202ea\\u200b</span>\n" + end},
		{"```unknown\nif // a\n```", open + "unknown\">if // a\n" + end},
		{"    if // a", "<pre tabindex=\"0\"><code>if // a\n" + end},
	} {
		if got := asHTML(c.in); got != c.want {
			t.Errorf("%q\n got %q\nwant %q", c.in, got, c.want)
		}
	}
}

// luminance is that of the guidelines for accessible content.
func luminance(t *testing.T, hex string) float64 {
	n, err := strconv.ParseUint(strings.TrimPrefix(hex, "#"), 16, 24)
	if err != nil || len(hex) != 7 {
		t.Fatalf("%q is not a colour", hex)
	}
	sum := 0.0
	for shift, weight := range map[int]float64{16: 0.2126, 8: 0.7152, 0: 0.0722} {
		c := float64(n>>shift&255) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}

func TestPaintedCodeCanBeReadInLightAndDark(t *testing.T) {
	light, rest, _ := strings.Cut(style, "@media (prefers-color-scheme: dark)")
	dark, rest, _ := strings.Cut(rest, "* { box-sizing")
	for theme, css := range map[string]string{"light": light, "dark": dark} {
		colours := map[string]string{}
		for _, m := range regexp.MustCompile(`--([a-z-]+): (#[0-9a-f]{6});`).FindAllStringSubmatch(css, -1) {
			colours[m[1]] = m[2]
		}
		check := func(ink, paper string) {
			a, b := luminance(t, colours[ink]), luminance(t, colours[paper])
			if ratio := (max(a, b) + 0.05) / (min(a, b) + 0.05); ratio < 4.5 {
				t.Errorf("%s: %s on %s has a contrast of %.2f, want 4.5", theme, ink, paper, ratio)
			}
		}
		for _, class := range []string{comment, quoted, keyword, number, tagName, attrName} {
			ink := "code-" + strings.TrimPrefix(class, "hl-")
			if !strings.Contains(rest, "."+class+" { color: var(--"+ink+");") {
				t.Errorf("no colour of %s", class)
			}
			check(ink, "soft")
			check(ink, "page") // what a user says stands on the soft one, and its code on this
		}
		check("ink", "taken")
		check("ink", "put")
	}
}

func BenchmarkHighlight(b *testing.B) {
	code := strings.Repeat("func tide(h int) string { return fmt.Sprint(h, \"m\", 12) } // a comment\n", 1000)
	b.SetBytes(int64(len(code)))
	for b.Loop() {
		paintedCode("go", code)
	}
}
