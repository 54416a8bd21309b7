package render

import (
	"bufio"
	"fmt"
	"io"
	"iter"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
)

// asHTML renders the text of one message.
func asHTML(s string) string {
	var b strings.Builder
	w := bufio.NewWriter(&b)
	h := mdHTML{w: w, s: &English}
	h.text(s)
	w.Flush()
	return b.String()
}

func TestMarkdownBecomesHTML(t *testing.T) {
	const rel = `<a rel="noopener noreferrer" href=`
	for _, c := range []struct{ in, want string }{
		{"plain", "<p>plain</p>\n"},
		{"a *b* **c** ~~d~~ `e<`", "<p>a <em>b</em> <strong>c</strong> <del>d</del> <code>e&lt;</code></p>\n"},
		{"~a~ ~~~b~~~ x ~~ y", "<p>~a~ ~~~b~~~ x ~~ y</p>\n"},
		{"# one\n###### six", "<h3>one</h3>\n<h6>six</h6>\n"},
		{"a  \nb\nc\\\nd", "<p>a<br>\nb\nc<br>\nd</p>\n"},
		{"- a\n- b", "<ul dir=\"auto\">\n<li>a\n</li>\n<li>b\n</li>\n</ul>\n"},
		{"3. a", "<ol dir=\"auto\" start=\"3\">\n<li>a\n</li>\n</ol>\n"},
		{"- [ ] a\n- [x] b\n- [y] c [ ] d", "<ul dir=\"auto\">\n<li>☐ a\n</li>\n<li>☑ b\n</li>\n<li>[y] c [ ] d\n</li>\n</ul>\n"},
		{"> a\n\n---", "<blockquote dir=\"auto\">\n<p>a</p>\n</blockquote>\n<hr>\n"},
		{"```go title=x\na<b\n```", "<pre tabindex=\"0\"><code class=\"language-go\">a&lt;b\n</code></pre>\n"},
		{"```{r}\nx", "<pre tabindex=\"0\"><code>x\n</code></pre>\n"},
		{"    a\n    b", "<pre tabindex=\"0\"><code>a\nb\n</code></pre>\n"},
		{"<div>\nx\n</div>", "<pre tabindex=\"0\">&lt;div&gt;\nx\n&lt;/div&gt;</pre>\n"},
		{"a <b>c</b> <!-- d -->", "<p>a &lt;b&gt;c&lt;/b&gt; &lt;!-- d --&gt;</p>\n"},
		{"&lt; &copy; &#65; \\* \\a &nope; &", "<p>&lt; © A * \\a &amp;nope; &amp;</p>\n"},
		{"&#x202e;a &#0; &#27;", "<p>\\u202ea \ufffd \\x1b</p>\n"},
		{"[a *b*](https://x.y/?a=1&b=2 \"t<\")", "<p>" + rel + "\"https://x.y/?a=1&amp;b=2\" title=\"t&lt;\">a <em>b</em></a></p>\n"},
		{"[](https://x.y)", "<p>" + rel + "\"https://x.y\">https://x.y</a></p>\n"},
		{"[a](javascript:b)", "<p>a <span class=\"goal\">(javascript:b)</span></p>\n"},
		{"[a](b.md) [c](#d)", "<p>a <span class=\"goal\">(b.md)</span> c <span class=\"goal\">(#d)</span></p>\n"},
		{"[a][b]\n\n[b]: mailto:c@d.e", "<p>" + rel + "\"mailto:c@d.e\">a</a></p>\n<p class=\"definition\">[b]: mailto:c@d.e</p>\n"},
		{"![a *b*](https://x.y/z.png)", "<p>" + rel + "\"https://x.y/z.png\">[Image: a <em>b</em>]</a></p>\n"},
		{"[![a](https://i.j)](https://x.y)", "<p>" + rel + "\"https://x.y\">[Image: a] <span class=\"goal\">(https://i.j)</span></a></p>\n"},
		{"<https://x.y> <a@b.c>", "<p>" + rel + "\"https://x.y\" class=\"self\">https://x.y</a> " + rel + "\"mailto:a@b.c\" class=\"self\">a@b.c</a></p>\n"},
		{"(see https://x.y/a_b_c(d)?e=*f*.) ftp://a xhttps://b", "<p>(see " + rel + "\"https://x.y/a_b_c(d)?e=\" class=\"self\">https://x.y/a_b_c(d)?e=</a><em>f</em>.) ftp://a xhttps://b</p>\n"},
		{"|a|b|\n|-|-:|\n|`c\\|d`|e|f|\n|g", "<div class=\"wide\" tabindex=\"0\"><table dir=\"auto\">\n<tr><th scope=\"col\">a</th><th scope=\"col\" class=\"end\">b</th></tr>\n<tr><td><code>c|d</code></td><td class=\"end\">e</td></tr>\n<tr><td>g</td></tr>\n</table></div>\n"},
		{"x\na | b\n:-:|:-", "<p>x</p>\n<div class=\"wide\" tabindex=\"0\"><table dir=\"auto\">\n<tr><th scope=\"col\" class=\"center\">a</th><th scope=\"col\">b</th></tr>\n</table></div>\n"},
		{"a|b\n-", "<h4>a|b</h4>\n"},
	} {
		if got := asHTML(c.in); got != c.want {
			t.Errorf("%q\n got %q\nwant %q", c.in, got, c.want)
		}
	}
}

func TestOnlyPixelsBecomeImages(t *testing.T) {
	for media, want := range map[string]bool{
		"image/png": true, "IMAGE/JPEG": true, "image/gif": true, "image/webp": true,
		"image/svg+xml": false, "text/html": false, "image/png;x": false, "": false,
	} {
		page := document(t, HTML, Document{}, answer(tidemark.Block{Type: tidemark.BlockImage, MediaType: media, Data: dot}))
		if strings.Contains(page, "<img") != want {
			t.Errorf("%q becomes an image: %v, want %v", media, !want, want)
		}
	}
}

func TestEditsAreShownAsLinesTakenAndPut(t *testing.T) {
	for _, c := range []struct{ input, want string }{
		{`{"old_string":"a\nb\nc","new_string":"a\nx\ny\nc"}`, "  a\n<span class=\"pair\"><del>- b\n</del><ins>+ x\n+ y\n</ins></span>  c\n"},
		{`{"oldText":"<a>","newText":""}`, "<del>- &lt;a&gt;\n</del>"},
		{`{"path":"p","edits":[{"old_str":"","new_str":"n\n"}]}`, "<ins>+ n\n</ins>"},
		{`{"old_str":"1\n2\n3\n4\nx","new_str":"1\n2\n3\n4\ny"}`, "  2\n  3\n  4\n<span class=\"pair\"><del>- x\n</del><ins>+ y\n</ins></span>"},
	} {
		page := document(t, HTML, Document{}, answer(tidemark.Block{Type: tidemark.BlockToolUse, Name: "edit", Input: []byte(c.input)}))
		if want := `<pre class="diff" tabindex="0">` + c.want + "</pre>"; !strings.Contains(page, want) {
			t.Errorf("%s: no %q in %s", c.input, want, page[strings.Index(page, "<main"):])
		}
	}
	for _, input := range []string{`{"old_string":"a"}`, `{"old_string":1,"new_string":"b"}`, `{"edits":{}}`, `{"edits":[1]}`, `[]`, `{`, ``} {
		page := document(t, HTML, Document{}, answer(tidemark.Block{Type: tidemark.BlockToolUse, Name: "edit", Input: []byte(input)}))
		if strings.Contains(page, `class="diff"`) {
			t.Errorf("%s is shown as an edit", input)
		}
	}
}

func TestDeepResultsStopNestingOnAPage(t *testing.T) {
	b := tidemark.Text("core")
	for range 1000 {
		b = tidemark.Block{Type: tidemark.BlockToolResult, Blocks: []tidemark.Block{b}}
	}
	page := document(t, HTML, Document{}, answer(b))
	if err := scanPage(page); err != nil {
		t.Error(err)
	}
	depth, deepest := 0, 0
	for i := range len(page) {
		switch {
		case strings.HasPrefix(page[i:], "<details"):
			depth++
			deepest = max(deepest, depth)
		case strings.HasPrefix(page[i:], "</details"):
			depth--
		}
	}
	if deepest > maxIndent+1 || !strings.Contains(page, "core") {
		t.Errorf("%d levels, want at most %d", deepest, maxIndent+1)
	}
}

// knots are texts that parsers of Markdown have taken minutes for.
func knots(size int) map[string]string {
	all := map[string]string{}
	for _, unit := range []string{
		"[", "]", "![", "[a](", "[a]", "[a](b", "[a]:b\n", "[a]: <b\n", "[x]\n", "*a ", "**a", "_a ", "*", "_a*b ", "*a_ ", "**_ ", "`", "` ", "`a``b ", "<", "<a ", "<!--", "<a href=\"",
		"&", "&a", "&a;", "\\", ">", "> ", "- ", "1. ", "> - ", "#", "# ", "|", "|a|\n", "|-|\n", "a|b\n-|-\n", "~", "~~a ", "http://a", "http://a ", "https://a.b/c](", "a@b.c ", "((", "-\n", "  - a\n", "> - a\n",
		">\n", "```\n", "~~~\n    ", "    a\n", "\t", "a\n===\n", "<div>\n", "<?", "]]>", "- [ ] ", "://", "a ://", "![[](", "`x`y", "`a`b ", "$`a` ", "\n", "\\\n", "  \n", "1.1.", "0) ", "* * ", "[*a_", "a\n\n", "`@ ",
		"> [a](\n", "- a\n\n", "-  \n", "> 1. a\n", "*a**b*", "[a][b]", "\x1b", "\u202e", "\xff", "<a@", "<x:y", "</a", "\"'", ")", "](", "[]()", "- - a\n", "\u200d", "[a]: b 'c\n",
	} {
		all[unit] = strings.Repeat(unit, size/len(unit))
	}
	half := size / 2
	all["brackets in brackets"] = strings.Repeat("[", half) + strings.Repeat("]", half)
	all["parentheses"] = "[a](" + strings.Repeat("(", half) + strings.Repeat(")", half)
	all["emphasis"] = strings.Repeat("*", half) + "a" + strings.Repeat("*", half)
	all["a wide table"] = strings.Repeat("|a", size/6) + "|\n" + strings.Repeat("|-", size/6) + "|\n" + strings.Repeat("|\n", size/6)
	all["a long table"] = strings.Repeat("|a", 90) + "|\n" + strings.Repeat("|-", 90) + "|\n" + strings.Repeat("|\n", half)
	all["a definition in use"] = "[a]: " + strings.Repeat("x", half) + "\n\n" + strings.Repeat("[a]\n\n", size/10)
	all["many tables"] = strings.Repeat("a|b\n-|-\nc|d\n\n", size/14)
	all["quotes of quotes"] = strings.Repeat(strings.Repeat(">", maxContainers)+"a\n", size/(maxContainers+2))
	all["lists of lists"] = strings.Repeat(strings.Repeat("- ", maxContainers)+"a\n", size/(2*maxContainers+2))
	all["numbers of numbers"] = strings.Repeat(strings.Repeat("1. ", maxContainers)+"a\n", size/(3*maxContainers+2))
	all["brackets by paragraph"] = strings.Repeat(strings.Repeat("[", maxBrackets)+"\n\n", size/(maxBrackets+2))
	all["links by paragraph"] = strings.Repeat(strings.Repeat("[a](", maxBrackets)+"\n\n", size/(4*maxBrackets+2))
	all["signs by paragraph"] = strings.Repeat(strings.Repeat("*a_ ", maxSigns/2)+"\n\n", size/(2*maxSigns+2))
	all["JSON"] = strings.Repeat("[{", half)
	var stairs, ticks strings.Builder
	for i := 0; stairs.Len() < size; i++ {
		stairs.WriteString(strings.Repeat(" ", 2*i) + "- a\n")
	}
	for i := 1; ticks.Len() < size; i++ {
		ticks.WriteString("e" + strings.Repeat("`", i))
	}
	var steps strings.Builder
	for i := 0; steps.Len() < size; i++ {
		steps.WriteString(strings.Repeat(" ", i*2%maxIndented) + "- a\n")
	}
	all["stairs"], all["ticks"], all["steps"] = stairs.String(), ticks.String(), steps.String()
	return all
}

// TestKnotsAreUntiedInTime has no clock of its own: a text that takes the
// square of its length would not end before the test's deadline.
func TestKnotsAreUntiedInTime(t *testing.T) {
	size := 50_000
	if testing.Short() {
		size = 20_000
	}
	for name, s := range knots(size) {
		page, md := "", ""
		for format, out := range map[string]*string{"html": &page, "md": &md} {
			*out = document(t, formats[format], Document{}, answer(tidemark.Text(s), tidemark.Block{Type: tidemark.BlockToolUse, Input: []byte(s)}))
			if len(*out) > 100*len(s)+bufferSize {
				t.Errorf("%q: %d bytes of %s from %d", name, len(*out), format, len(s))
			}
		}
		if err := scanPage(page); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestWhatIsTooTangledIsShownAsItIs(t *testing.T) {
	for name, s := range map[string]string{
		"quotes": strings.Repeat(">", maxContainers+1) + " <core>", "brackets": strings.Repeat("[", maxBrackets+1) + "<core>",
		"signs": strings.Repeat("*a_", maxSigns) + "<core>", "a book": strings.Repeat("word ", maxMarkdown/5) + "<core>",
		"stairs": strings.Repeat(" ", maxIndented+1) + "<core>",
	} {
		want := `<pre class="plain">` + strings.NewReplacer("<", "&lt;", ">", "&gt;").Replace(s) + "</pre>\n"
		if got := asHTML(s); got != want {
			t.Errorf("%s: got %.80q…", name, got)
		}
	}
	for _, s := range []string{strings.Repeat("-", 100), strings.Repeat("* ", 100), strings.Repeat("[a](https://b.c)\n\n", maxBrackets+1)} {
		if strings.Contains(asHTML(s), "plain") {
			t.Errorf("%.20q… is shown as it is", s)
		}
	}
}

// prose is what an answer looks like.
const prose = "The loop stops at **any** error, also at `io.EOF` with text before it. It reads a line, looks at the\n" +
	"error, and forgets the line; so the last line is lost whenever the file does not end in a newline.\n\n" +
	"- look at the loop in [parse.go](https://example.org/parse.go)\n- add a test for it\n\n" +
	"```go\nfor {\n\tline, err := r.ReadString('\\n')\n\tif err != nil && line == \"\" {\n\t\tbreak\n\t}\n}\n```\n\n"

// session yields n entries of a session: half answers, half what tools said.
func session(n int) (entries iter.Seq2[tidemark.Entry, error], size int64) {
	say := tidemark.Say(tidemark.Assistant, strings.Repeat(prose, 4))
	run := answer(tidemark.Block{Type: tidemark.BlockToolUse, ID: "t1", Name: "bash", Input: []byte(`{"command":"go test ./... 2>&1 | head -50","timeout":30}`)})
	out := answer(tidemark.Block{Type: tidemark.BlockToolResult, ToolUseID: "t1", Text: strings.Repeat("ok  \texample.org/notes/parse\t0.012s\n", 60)})
	some := []tidemark.Entry{say, run, out}
	for i := range n {
		e := some[i%len(some)]
		size += int64(len(e.Blocks[0].Text) + len(e.Blocks[0].Input))
	}
	return func(yield func(tidemark.Entry, error) bool) {
		for i := range n {
			e := some[i%len(some)]
			e.Seq = int64(i + 1)
			if !yield(e, nil) {
				return
			}
		}
	}, size
}

func BenchmarkDocuments(b *testing.B) {
	for _, format := range []string{"md", "html"} {
		b.Run(fmt.Sprintf("format=%s", format), func(b *testing.B) {
			entries, size := session(3000)
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				if err := formats[format](io.Discard, Document{}, entries); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("text", func(b *testing.B) {
		s := strings.Repeat(prose, 4)
		h := mdHTML{w: bufio.NewWriter(io.Discard), s: &English}
		b.SetBytes(int64(len(s)))
		b.ReportAllocs()
		for b.Loop() {
			h.text(s)
		}
	})
}
