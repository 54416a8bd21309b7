package render

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// onTerminal returns what a Terminal makes of text that comes in pieces.
func onTerminal(columns int, color bool, pieces ...string) string {
	var b bytes.Buffer
	t := NewTerminal(&b, &TerminalOptions{Columns: columns, Color: color})
	for _, p := range pieces {
		t.WriteString(p)
	}
	t.Flush()
	return b.String()
}

func TestMarkdownOnATerminal(t *testing.T) {
	const b, d, i, u, c, x, o = "\x1b[1m", "\x1b[2m", "\x1b[3m", "\x1b[4m", "\x1b[36m", "\x1b[9m", "\x1b[0m"
	for _, e := range []struct{ name, in, color, plain string }{
		{"text", "Hello, world", "Hello, world\n", "Hello, world\n"},
		{"nothing", "", "", ""},
		{"blanks", " \n\n", "", ""},
		{"paragraphs", "a\nb\n\n\n\nc\n", "a\nb\n\nc\n", "a\nb\n\nc\n"},
		{"heading", "# One\n### Three *x*\n#no", b + "One" + o + "\n" + b + "Three" + o + " \x1b[1;3mx" + o + "\n#no\n", "# One\n### Three *x*\n#no\n"},
		{"bold and italic", "**b** *i* ***bi*** __b__ _i_", b + "b" + o + " " + i + "i" + o + " \x1b[1;3mbi" + o + " " + b + "b" + o + " " + i + "i" + o + "\n", "**b** *i* ***bi*** __b__ _i_\n"},
		{"nested", "**a *b* `c`**", b + "a" + o + " \x1b[1;3mb" + o + " \x1b[1;36mc" + o + "\n", "**a *b* `c`**\n"},
		{"ends together", "**a *b***", b + "a" + o + " \x1b[1;3mb" + o + "\n", "**a *b***\n"},
		{"struck", "~~no~~ ~yes~", x + "no" + o + " ~yes~\n", "~~no~~ ~yes~\n"},
		{"code", "`a*b*` ``c`d``", c + "a*b*" + o + " " + c + "c`d" + o + "\n", "`a*b*` ``c`d``\n"},
		{"no emphasis", "a_b_c 2 * 3 * 4 **open `open", "a_b_c 2 * 3 * 4 **open `open\n", "a_b_c 2 * 3 * 4 **open `open\n"},
		{"escapes", `\*a\* \x`, `*a* \x` + "\n", `\*a\* \x` + "\n"},
		{"link", "[a *b*](http://x.y/z_(1) \"t\").", u + "a" + o + " \x1b[3;4mb" + o + " " + d + "(http://x.y/z_(1))" + o + ".\n", "a *b* (http://x.y/z_(1)).\n"},
		{"link to itself", "[http://x.y](http://x.y) <http://x.z>", u + "http://x.y" + o + " " + u + "http://x.z" + o + "\n", "http://x.y http://x.z\n"},
		{"image", "![cat](c.png)", d + "image:" + o + " " + u + "cat" + o + " " + d + "(c.png)" + o + "\n", "image: cat (c.png)\n"},
		{"no link", "[x] a[0] ![ < b <c> [d]: e", "[x] a[0] ![ < b <c> [d]: e\n", "[x] a[0] ![ < b <c> [d]: e\n"},
		{"list", "- a\n* b\n  + c\n10. d\n-x\n1.5 e", d + "• " + o + "a\n" + d + "• " + o + "b\n" + d + "  • " + o + "c\n" + d + "10. " + o + "d\n-x\n1.5 e\n", "- a\n* b\n  + c\n10. d\n-x\n1.5 e\n"},
		{"quote", "> a\n> > b\n>\n> - c", d + "│ " + o + "a\n" + d + "│ │ " + o + "b\n" + d + "│" + o + "\n" + d + "│ • " + o + "c\n", "> a\n> > b\n>\n> - c\n"},
		{"rule", "---\n- - -\n***\n--", d + strings.Repeat("─", 30) + o + "\n" + d + strings.Repeat("─", 30) + o + "\n" + d + strings.Repeat("─", 30) + o + "\n--\n", "---\n-----\n***\n--\n"},
		{"code block", "x\n```go\n**a**\n\n\n\tb\n```\ny", "x\n  " + c + "**a**" + o + "\n\n\n  " + c + "    b" + o + "\ny\n", "x\n```go\n**a**\n\n\n    b\n```\ny\n"},
		{"other fences", "~~~\n```\n~~~~\n````\n```\n````\nz", "  " + c + "```" + o + "\n  " + c + "```" + o + "\nz\n", "~~~\n```\n~~~~\n````\n```\n````\nz\n"},
		{"unclosed", "```\na", "  " + c + "a" + o + "\n", "```\na\n"},
		{"code in an item", "- ```sh\n  ls\n  ```\n- b", d + "•" + o + "\n    " + c + "ls" + o + "\n" + d + "• " + o + "b\n", "- ```sh\n  ls\n  ```\n- b\n"},
		{"code in a quote", "> ```\n> a\n> ```\n> b\n> ```\n> c\nd", d + "│   " + o + c + "a" + o + "\n" + d + "│ " + o + "b\n" + d + "│   " + o + c + "c" + o + "\nd\n", "> ```\n> a\n> ```\n> b\n> ```\n> c\nd\n"},
		{"table", "| a | b |\n|---|--:|\n| `x|y` | 1 |\n|日|\n\nz", b + "a" + o + "  " + d + " │ " + o + b + "b" + o + "\n" + d + "───" + "─┼─" + "─" + o + "\n" + c + "x|y" + o + d + " │ " + o + "1\n日\n\nz\n",
			"a     | b\n----- | -\n`x|y` | 1\n日\n\nz\n"},
		{"no table", "| a |\nb\n|c|", "| a |\nb\n|c|\n", "| a |\nb\n|c|\n"},
		{"wrapped", "one two three four five six seven", "one two three four five six\nseven\n", "one two three four five six\nseven\n"},
		{"wrapped item", "- one two three four five six seven", d + "• " + o + "one two three four five six\n  seven\n", "- one two three four five six\n  seven\n"},
		{"long word", strings.Repeat("x", 35), strings.Repeat("x", 30) + "\nxxxxx\n", strings.Repeat("x", 30) + "\nxxxxx\n"},
		{"Chinese", strings.Repeat("字", 14) + "あ。い", strings.Repeat("字", 14) + "\nあ。い\n", strings.Repeat("字", 14) + "\nあ。い\n"},
		{"no tags, no entities", "<b>x</b> &lt;", "<b>x</b> &lt;\n", "<b>x</b> &lt;\n"},
		{"sequences", "a\x1b[31mb\x07\r\u202ec\u009b", `a\x1b[31mb\x07\r\u202ec\u009b` + "\n", `a\x1b[31mb\x07\r\u202ec\u009b` + "\n"},
		{"windows", "a\r\nb\r\n", "a\nb\n", "a\nb\n"},
	} {
		t.Run(e.name, func(t *testing.T) {
			if diff := cmp.Diff(e.color, onTerminal(30, true, e.in)); diff != "" {
				t.Errorf("with colours (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(e.plain, onTerminal(30, false, e.in)); diff != "" {
				t.Errorf("without (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAWideTableIsToldFieldByField(t *testing.T) {
	in := "| name | what it does |\n|---|---|\n| simple | keeps the **newest** messages |\n| model | asks |\n"
	want := "name: simple\nwhat it does: keeps\nthe **newest**\nmessages\n\nname: model\nwhat it does: asks\n"
	if diff := cmp.Diff(want, onTerminal(20, false, in)); diff != "" {
		t.Error(diff)
	}
}

func TestTextAppearsWhileItComes(t *testing.T) {
	var b bytes.Buffer
	term := NewTerminal(&b, &TerminalOptions{Columns: 40, Color: true})
	for _, step := range []struct{ in, sgrless string }{
		{"Hel", ""},
		{"lo wor", "Hello"},
		{"ld, **bo", "Hello world,"},
		{"ld** an", "Hello world, bold"},
		{"d more text t", "Hello world, bold and more text"},
		{"hat\n```go\nfunc", "Hello world, bold and more text that\n  fun"},
	} {
		term.WriteString(step.in)
		if got := colours.ReplaceAllString(b.String(), ""); got != step.sgrless {
			t.Errorf("after %q: %q, want %q", step.in, got, step.sgrless)
		}
	}
}

func TestALoneSignDoesNotHoldBackAParagraph(t *testing.T) {
	for _, open := range []string{"**", "*", "`", "[", "<", "~~", "_", "!["} {
		var b bytes.Buffer
		term := NewTerminal(&b, nil)
		term.WriteString("so " + open + "x ")
		for range 800 {
			term.WriteString("and on ")
		}
		if b.Len() < 3000 {
			t.Errorf("%s: %d bytes came", open, b.Len())
		}
	}
}

func TestResizeInTheMiddleOfALine(t *testing.T) {
	var b bytes.Buffer
	term := NewTerminal(&b, &TerminalOptions{Columns: 20})
	term.WriteString("one two three ")
	term.SetColumns(8)
	term.WriteString("four five six seven eight")
	term.Flush()
	if got, want := b.String(), "one two\nthree\nfour\nfive six\nseven\neight\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTerminalReturnsTheErrorOfItsWriter(t *testing.T) {
	broken := errors.New("broken pipe")
	term := NewTerminal(failing{broken}, nil)
	if _, err := term.WriteString("a b c"); err != broken {
		t.Errorf("err = %v", err)
	}
	if err := term.Flush(); err != broken {
		t.Errorf("Flush = %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// colours are the only sequences that may appear.
var colours = regexp.MustCompile("\x1b\\[[0-9;]+m")

// checkHarmless fails when out could do more than appear.
func checkHarmless(t interface {
	Helper()
	Fatalf(string, ...any)
}, out string, columns int) {
	t.Helper()
	text := colours.ReplaceAllString(out, "")
	if !utf8.ValidString(text) {
		t.Fatalf("not UTF-8: %q", text)
	}
	for _, r := range text {
		if r != '\n' && (hidden(r) && r != joiner) {
			t.Fatalf("%U in %q", r, text)
		}
	}
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		if w := Width(colours.ReplaceAllString(line, "")); columns > 1 && w > columns {
			t.Fatalf("a line of %d columns, there are %d: %q", w, columns, line)
		}
		if strings.Contains(line, "\x1b") && !strings.HasSuffix(colours.FindString(line[strings.LastIndex(line, "\x1b"):]), "[0m") {
			t.Fatalf("a line leaves its style behind: %q", line)
		}
	}
}

// painted is what a terminal shows: each character with how it looks.
func painted(out string) string {
	var b strings.Builder
	now := ""
	for out != "" {
		if loc := colours.FindStringIndex(out); loc != nil && loc[0] == 0 {
			now = strings.Trim(out[2:loc[1]], "0m")
			out = out[loc[1]:]
			continue
		}
		_, n := utf8.DecodeRuneInString(out)
		if out[0] == ' ' || out[0] == '\n' {
			b.WriteString(out[:n])
		} else {
			b.WriteString(now + ":" + out[:n])
		}
		out = out[n:]
	}
	return b.String()
}

// markdowns are texts that are full of marks, whole, cut and wrong.
var markdowns = rapid.Custom(func(t *rapid.T) string {
	marks := rapid.SampledFrom([]string{"#", " ", "\n", "\n\n", "**", "*", "_", "`", "```", "~~~", "~~", "[", "](", ")", "](http://x.y)", "> ", "- ", "1. ", "|", "|--|", "\n|a|b|\n|-|-|\n",
		"word", "a long word", "日本語", "👩‍👩‍👧‍👦", "🇩🇪", "e\u0301", "ا", "\x1b[31m", "\u202e", "\t", "\\", "<", ">", "!", "---", "\r\n", "\xff", "\u200d", "    ", "http://example.org/a_b_c", "\x9b", "=", "1\ufe0f\u20e3"})
	return strings.Join(rapid.SliceOfN(marks, 0, 60).Draw(t, "marks"), "")
})

func TestItDoesNotMatterHowTextIsCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := markdowns.Draw(t, "text")
		if rapid.IntRange(0, 9).Draw(t, "long") == 0 {
			s = strings.Repeat(s, 20)
		}
		columns, color := rapid.IntRange(1, 60).Draw(t, "columns"), rapid.Bool().Draw(t, "color")
		want := onTerminal(columns, color, s)
		checkHarmless(t, want, columns)
		var pieces []string
		for rest := s; rest != ""; {
			n := rapid.IntRange(1, min(len(rest), 12)).Draw(t, "cut")
			pieces = append(pieces, rest[:n])
			rest = rest[n:]
		}
		got := onTerminal(columns, color, pieces...)
		checkHarmless(t, got, columns)
		if diff := cmp.Diff(painted(want), painted(got)); diff != "" {
			t.Fatalf("%q\nin pieces %q\n%s", s, pieces, diff)
		}
	})
}

func TestNoWordIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.StringMatching(`[a-z]{1,12}`), 1, 40).Draw(t, "words")
		marks := rapid.SampledFrom([]string{" ", "\n", "\n- ", "\n> ", " **", "** ", " `", "` ", "\n\n", "\n# ", "\n| ", " | ", " [", " *"})
		var b strings.Builder
		for _, w := range words {
			b.WriteString(w + marks.Draw(t, "mark"))
		}
		out := onTerminal(-1, rapid.Bool().Draw(t, "color"), b.String())
		for _, w := range words {
			if !strings.Contains(out, w) {
				t.Fatalf("%q is not in %q", w, out)
			}
		}
	})
}

func TestHostileTranscriptsOnATerminal(t *testing.T) {
	for seed := range uint64(300) {
		c := newCorpus(seed)
		s := c.Disguise(fill(c.Of(contexts), fill(c.Of(links), c.Of(goals)))) + c.Of(sequences) + fill(c.Of(contexts), c.Of(payloads)+c.Of(sequences))
		for _, columns := range []int{1, 2, 7, 40, 80} {
			checkHarmless(t, onTerminal(columns, seed%2 == 0, s), columns)
		}
	}
}

func FuzzTerminal(f *testing.F) {
	for _, s := range append([]string{"# a\n**b** `c` [d](e)\n- f\n> g\n```\nh\n```\n|i|\n|-|\n"}, sequences...) {
		f.Add([]byte(s), 20, 3)
	}
	f.Fuzz(func(t *testing.T, p []byte, columns, cut int) {
		columns = columns&63 + 1
		cut = cut&15 + 1
		var pieces []string
		for at := 0; at < len(p); at += cut {
			pieces = append(pieces, string(p[at:min(at+cut, len(p))]))
		}
		got := onTerminal(columns, true, pieces...)
		checkHarmless(t, got, columns)
		if want := onTerminal(columns, true, string(p)); painted(want) != painted(got) {
			t.Fatalf("%q in pieces of %d: %q, whole: %q", p, cut, got, want)
		}
	})
}

// endlessTexts never end a line, a word or what they began.
var endlessTexts = []string{"x", "x ", "*", "**x ", "`", "[", "[x](", "\u0301", "字", " ", "-", "#", ">", "|x", "> ", "```x", "~", "\t", "<", "!", "\\", "1", "_a"}

func TestEndlessLinesNeedLittleMemory(t *testing.T) {
	for _, front := range []string{"", "a ", "```\n", "| a |\n|---|\n| "} {
		for _, s := range endlessTexts {
			term := NewTerminal(&discard{}, &TerminalOptions{Columns: 40, Color: true})
			term.WriteString(front)
			long := strings.Repeat(s, 1000)
			for range 20 {
				term.WriteString(long)
			}
			if n := len(term.line) + cap(term.word) + cap(term.out) + cap(term.text) + len(term.rest) + term.table.bytes; n > 1<<20 {
				t.Errorf("%q, then %q: %d bytes wait", front, s, n)
			}
		}
	}

}

type discard struct{ n int }

func (d *discard) Write(p []byte) (int, error) {
	d.n += len(p)
	return len(p), nil
}

func BenchmarkTerminalDelta(b *testing.B) {
	text := strings.Repeat("Some **bold** words and `code`, a [link](https://example.org/page) and more plain text in a paragraph.\n\n- an item of a list\n- 日本語のテキスト\n\n```go\nfunc f() int { return 1 }\n```\n\n", 20)
	var deltas []string
	for at := 0; at < len(text); at += 5 {
		deltas = append(deltas, text[at:min(at+5, len(text))])
	}
	term := NewTerminal(&discard{}, &TerminalOptions{Columns: 80, Color: true})
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		term.WriteString(deltas[i%len(deltas)])
	}
}

func BenchmarkTerminalHostileLine(b *testing.B) {
	for _, s := range endlessTexts {
		b.Run(s, func(b *testing.B) {
			long := strings.Repeat(s, 4096/len(s))
			b.SetBytes(int64(len(long)))
			term := NewTerminal(&discard{}, &TerminalOptions{Columns: 80, Color: true})
			for b.Loop() {
				term.WriteString(long)
			}
		})
	}
}
