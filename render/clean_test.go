package render

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

var cleanCases = []struct{ name, in, text, line string }{
	{"empty", "", "", ""},
	{"plain", "Hello, world!", "Hello, world!", "Hello, world!"},
	{"newline and tab", "a\n\tb", "a\n\tb", `a\n\tb`},
	{"lines of Windows", "a\r\nb\r\n", "a\nb\n", `a\r\nb\r\n`},
	{"a return that overwrites", "safe\rEVIL", `safe\rEVIL`, `safe\rEVIL`},
	{"a return at the end", "a\r", `a\r`, `a\r`},
	{"two returns before a newline", "a\r\r\n", "a\\r\n", `a\r\r\n`},
	{"colour", "\x1b[31mred\x1b[0m", `\x1b[31mred\x1b[0m`, `\x1b[31mred\x1b[0m`},
	{"clipboard", "\x1b]52;c;aGk=\x07", `\x1b]52;c;aGk=\x07`, `\x1b]52;c;aGk=\x07`},
	{"link", "\x1b]8;;http://x\x1b\\t", `\x1b]8;;http://x\x1b\t`, `\x1b]8;;http://x\x1b\t`},
	{"NUL, backspace, DEL", "\x00\b\x7f", `\x00\x08\x7f`, `\x00\x08\x7f`},
	{"C1 as a character", "\u009b31m", `\u009b31m`, `\u009b31m`},
	{"C1 as a byte", "\x9b31m", `\x9b31m`, `\x9b31m`},
	{"not UTF-8", "a\xff\xc3(\xe2\x82", `a\xff\xc3(\xe2\x82`, `a\xff\xc3(\xe2\x82`},
	{"overlong and surrogate", "\xc0\x9b\xed\xa0\x80", `\xc0\x9b\xed\xa0\x80`, `\xc0\x9b\xed\xa0\x80`},
	{"replacement character", "\ufffd", "\ufffd", "\ufffd"},
	{"bidi", "\u202eevil\u202c\u2066\u2069\u200e\u200f\u061c", `\u202eevil\u202c\u2066\u2069\u200e\u200f\u061c`, `\u202eevil\u202c\u2066\u2069\u200e\u200f\u061c`},
	{"zero width", "a\u200bb\u2060\ufeff\u00ad", `a\u200bb\u2060\ufeff\u00ad`, `a\u200bb\u2060\ufeff\u00ad`},
	{"separators", "a\u2028b\u2029c", `a\u2028b\u2029c`, `a\u2028b\u2029c`},
	{"annotation", "\ufff9a\ufffab\ufffb", `\ufff9a\ufffab\ufffb`, `\ufff9a\ufffab\ufffb`},
	{"tags", "hi\U000e0041\U000e007f", `hi\U000e0041\U000e007f`, `hi\U000e0041\U000e007f`},
	{"joiner between Latin letters", "a\u200db\u200cc", `a\u200db\u200cc`, `a\u200db\u200cc`},
	{"joiner at the end", "👩\u200d", `👩\u200d`, `👩\u200d`},
	{"two joiners", "👩\u200d\u200d💻", `👩\u200d\u200d💻`, `👩\u200d\u200d💻`},
	{"emoji of a profession", "👩🏽\u200d💻 ❤\ufe0f\u200d🔥", "👩🏽\u200d💻 ❤\ufe0f\u200d🔥", "👩🏽\u200d💻 ❤\ufe0f\u200d🔥"},
	{"keycap and text style", "1\ufe0f⃣ ☎\ufe0e", "1\ufe0f⃣ ☎\ufe0e", "1\ufe0f⃣ ☎\ufe0e"},
	{"Persian", "می\u200cخواهم", "می\u200cخواهم", "می\u200cخواهم"},
	{"Hindi", "क्\u200dष", "क्\u200dष", "क्\u200dष"},
	{"a selector behind a letter", "a\ufe0f", `a\ufe0f`, `a\ufe0f`},
	{"a row of selectors", "☎\ufe0f\ufe0f\ufe01", "☎\ufe0f" + `\ufe0f\ufe01`, "☎\ufe0f" + `\ufe0f\ufe01`},
	{"bytes hidden in selectors", "😀\U000e0101\U000e0102", `😀\U000e0101\U000e0102`, `😀\U000e0101\U000e0102`},
	{"a variant of a Han character", "葛\U000e0100", "葛\U000e0100", "葛\U000e0100"},
	{"other scripts", "日本語 עברית العربية ไทย é", "日本語 עברית العربية ไทย é", "日本語 עברית العربية ไทย é"},
	{"spaces", "a\u00a0b\u3000c\u202f!", "a\u00a0b\u3000c\u202f!", "a\u00a0b\u3000c\u202f!"},
	{"private use", "\ue0b0", "\ue0b0", "\ue0b0"},
	{"backslashes are text", `C:\x1b`, `C:\x1b`, `C:\x1b`},
}

func TestWhatActsOrHidesIsShown(t *testing.T) {
	for _, c := range cleanCases {
		if got := Clean(c.in); got != c.text {
			t.Errorf("%s: Clean(%q) = %q, want %q", c.name, c.in, got, c.text)
		}
		if got := CleanLine(c.in); got != c.line {
			t.Errorf("%s: CleanLine(%q) = %q, want %q", c.name, c.in, got, c.line)
		}
	}
}

func TestCleanTextIsReturnedAsItIs(t *testing.T) {
	for _, s := range []string{strings.Repeat("plain text\n", 100), "日本語 👩🏽\u200d💻 می\u200cخواهم"} {
		if n := testing.AllocsPerRun(10, func() { Clean(s); CleanLine("a title") }); n != 0 {
			t.Errorf("Clean(%.20q…) allocates %v times, want 0", s, n)
		}
	}
}

// harmless is the promise, told another way than the code tells it.
func harmless(r rune) bool {
	switch {
	case r < ' ' || r >= 0x7f && r <= 0x9f,
		r == 0x061c, r >= 0x200e && r <= 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2066 && r <= 0x2069,
		r == 0x200b, r >= 0x2060 && r <= 0x2064, r == 0xfeff, r >= 0xfff9 && r <= 0xfffb,
		r >= 0xe0000 && r <= 0xe007f:
		return false
	}
	return true
}

func checkClean(t interface{ Fatalf(string, ...any) }, in string) {
	text, line := Clean(in), CleanLine(in)
	for _, s := range []string{text, line} {
		if !utf8.ValidString(s) {
			t.Fatalf("of %q: %q is not UTF-8", in, s)
		}
	}
	for _, r := range text {
		if r != '\n' && r != '\t' && !harmless(r) {
			t.Fatalf("Clean(%q) = %q holds %U", in, text, r)
		}
	}
	for _, r := range line {
		if !harmless(r) {
			t.Fatalf("CleanLine(%q) = %q holds %U", in, line, r)
		}
	}
	if again := Clean(text); again != text {
		t.Fatalf("of %q: Clean(%q) = %q, want it unchanged", in, text, again)
	}
	if again := CleanLine(line); again != line {
		t.Fatalf("of %q: CleanLine(%q) = %q, want it unchanged", in, line, again)
	}
}

// checkStream writes in, cut at each of the cuts, and wants what Clean makes
// of the whole.
func checkStream(t interface{ Fatalf(string, ...any) }, in string, cuts []int) {
	var out bytes.Buffer
	w := NewWriter(&out)
	at := 0
	for _, n := range append(cuts, len(in)) {
		n = min(max(n, at), len(in))
		if k, err := w.Write([]byte(in[at:n])); k != n-at || err != nil {
			t.Fatalf("Write = %d, %v, want %d, nil", k, err, n-at)
		}
		at = n
	}
	if err := w.Flush(); err != nil {
		t.Fatalf("Flush = %v", err)
	}
	if want := Clean(in); out.String() != want {
		t.Fatalf("%q cut at %v: wrote %q, want %q", in, cuts, out.String(), want)
	}
}

// hostile draws text in which the characters that matter are frequent.
var hostile = rapid.Custom(func(t *rapid.T) string {
	piece := rapid.OneOf(
		rapid.SampledFrom([]string{
			"\x1b", "\x1b[2J", "\r", "\n", "\r\n", "\t", "\x9b", "\u009b", "\u200d", "\u200c", "\ufe0f", "\ufe01",
			"👩", "💻", "🏽", "❤", "ا", "ي", "क", "्", "ᠠ", "᠋", "\u180e", "葛", "\U000e0100", "\U000e0041", "1", "a",
			"\xe2", "\x80", "\xf0\x9f", "\xc2", "\xff", "\u202e", "\u2028", "\ufeff", "\u061c", "\u17b4", "\ufdd0", "\U0001ffff",
		}),
		rapid.String(),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 5), func(b []byte) string { return string(b) }),
	)
	return strings.Join(rapid.SliceOfN(piece, 0, 12).Draw(t, "pieces"), "")
})

func TestAnyTextBecomesHarmless(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkClean(t, hostile.Draw(t, "text")) })
}

func TestAStreamIsCleanedLikeTheWholeHoweverItIsCut(t *testing.T) {
	for _, c := range cleanCases {
		for i := range len(c.in) + 1 {
			checkStream(t, c.in, []int{i})
			checkStream(t, c.in, []int{i, i + 1})
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s := hostile.Draw(t, "text")
		checkStream(t, s, rapid.SliceOfN(rapid.IntRange(0, len(s)), 0, 6).Draw(t, "cuts"))
		var each []int
		for i := range len(s) {
			each = append(each, i)
		}
		checkStream(t, s, each)
	})
}

func TestAStreamHoldsBackOnlyWhatIsNotDecided(t *testing.T) {
	var out bytes.Buffer
	w := NewWriter(&out)
	for _, step := range []struct{ in, want string }{
		{"Hello", "Hello"}, {" \xe2\x82", " "}, {"\xac", "€"}, {"\r", ""}, {"\n", "\n"}, {"\x1b", `\x1b`}, {"[0m", "[0m"},
	} {
		out.Reset()
		w.Write([]byte(step.in))
		if out.String() != step.want {
			t.Errorf("after %q came %q, want %q", step.in, out.String(), step.want)
		}
	}
}

type brokenWriter struct{}

var errBroken = errors.New("broken")

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }

func TestAnErrorBelowIsReturnedAndStays(t *testing.T) {
	w := NewWriter(brokenWriter{})
	for range 2 {
		if n, err := w.Write([]byte("x")); n != 0 || !errors.Is(err, errBroken) {
			t.Errorf("Write = %d, %v, want 0, %v", n, err, errBroken)
		}
	}
	if err := w.Flush(); !errors.Is(err, errBroken) {
		t.Errorf("Flush = %v, want %v", err, errBroken)
	}
}

func FuzzClean(f *testing.F) {
	for _, c := range cleanCases {
		f.Add(c.in, uint(1), uint(2))
	}
	f.Fuzz(func(t *testing.T, s string, a, b uint) {
		checkClean(t, s)
		checkStream(t, s, []int{int(a % uint(len(s)+1)), int(b % uint(len(s)+1))})
		if n := Width(CleanLine(s)); n < 0 {
			t.Fatalf("Width = %d", n)
		}
		if got := Truncate(CleanLine(s), int(a%50)); Width(got) > int(a%50) {
			t.Fatalf("Truncate(%q, %d) = %q is %d wide", s, a%50, got, Width(got))
		}
	})
}

func BenchmarkClean(b *testing.B) {
	for _, c := range []struct{ name, text string }{
		{"ascii", strings.Repeat("The quick brown fox jumps over the lazy dog.\n", 100)},
		{"cjk", strings.Repeat("日本語のテキスト。\n", 200)},
		{"colours", strings.Repeat("\x1b[32mok\x1b[0m  package/name  0.01s\n", 100)},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.text)))
			for b.Loop() {
				Clean(c.text)
			}
		})
	}
}
