package yaml

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func limits() Limits {
	return Limits{Bytes: 1 << 20, Parts: 10_000, Keys: 100, Depth: 16, Anchors: 20, Values: 1000}
}

func scalar(t testing.TB, text string) *Node {
	t.Helper()
	root, problems := Parse([]byte(text), limits())
	if len(problems) > 0 || root.Get("k") == nil {
		t.Fatalf("%q: %v", text, problems)
	}
	return root.Get("k")
}

// The cases follow the chapters of YAML 1.2 on scalars: what is written after
// a key, and the text that it is.
func TestAScalarIsWhatItsStyleSays(t *testing.T) {
	for written, want := range map[string]string{
		// Plain: white space inside stays, that at its ends does not.
		"a\tb": "a\tb", "a\t\tb": "a\t\tb", "a \t b": "a \t b", "\ta": "a", "a\t": "a", "a b \t ": "a b", "a\tb # c": "a\tb", "a\t# c": "a",
		"a#b": "a#b", "a #b": "a", "a:b": "a:b", "a\n  b": "a b", "a\n\n  b": "a\nb", "a\t\n  \tb": "a b", "a\tb\n  c\td": "a\tb c\td",
		"a\u00a0b": "a\u00a0b", "a\u3000": "a\u3000", "\u2003a": "\u2003a", "a\u2028b": "a\u2028b", "a\u0085b": "a\u0085b", "a\u2029": "a\u2029", "a\ufeffb": "a\ufeffb",
		"-a": "-a", "?a": "?a", ":a": ":a", "a'b\"c": "a'b\"c", "a, b]": "a, b]", "\U0001f600\tx": "\U0001f600\tx",
		// Single quotes.
		"'a\tb'": "a\tb", "' a '": " a ", "'a # b: c'": "a # b: c", "'it''s'": "it's", "'a\n  b'": "a b", "'a \t\n\n  b'": "a\nb", "'\\n'": "\\n", "'a\u2028 b'": "a\u2028 b", "'\x7f'": "\x7f",
		// Double quotes.
		"\"a\tb\"": "a\tb", `"a\tb\u2028\x85\"\\"`: "a\tb\u2028\u0085\"\\", "\"a\\\n  b\"": "ab", "\"a\\\n  \\ b\"": "a b", "\"a \n  b\"": "a b", "\"a\u2029 b\"": "a\u2029 b", `"\ue000` + "\u2028\"": "\ue000\u2028", "\"# : \"": "# : ",
		// Literal blocks.
		"|\n  a\tb\n": "a\tb\n", "|-\n  a\n  \tb\n": "a\n\tb", "|+\n  a\n": "a\n\n", "|-\n  \ta\n  b\n": "\ta\nb", "|\n  a  \n   b # c\n": "a  \n b # c\n", "|2\n   a\n": " a\n", "|\n  a\u2028b\n": "a\u2028b\n", "|\n  a: b\n": "a: b\n",
		// Folded blocks.
		">\n  a\tb\n  c\n": "a\tb c\n", ">-\n  a\n\n  b\n": "a\nb", ">\n  a\n    b\n  c\n": "a\n  b\nc\n", ">\n  a \n  b\n": "a  b\n", ">-\n  a\u0085b\n  c": "a\u0085b c",
	} {
		if got := scalar(t, "k: "+written+"\n"); got.Text != want || got.Shape != Text {
			t.Errorf("%q is %s %q, want %q", written, got.Shape, got.Text, want)
		}
	}
}

func TestAScalarWithoutQuotesMayBeSomethingElse(t *testing.T) {
	for written, want := range map[string]Shape{"1": Number, "-1.5e3": Number, "true": Bool, "False": Bool, "~": Null, "null": Null, "": Null, "yes": Text, "2026-11-15": Text,
		"2026-11-15T10:00:00.000Z": Text, "1h": Text, "'1'": Text, "!!str 1": Text, "\"true\"": Text, "{}": Map, "[]": List, ".inf": Number} {
		root, problems := Parse([]byte("k: "+written+"\n"), limits())
		if len(problems) > 0 || root.Entries[0].Value.Shape != want {
			t.Errorf("%q: %+v, %v, want %s", written, root, problems, want)
		}
	}
}

// Any text that is written by the rules of a style comes back.
func TestTextsComeBackFromEveryStyle(t *testing.T) {
	alphabet := []rune("ab1\t  #:-?,[]{}&*!|>'\"%@`\\~é\u00a0\u0085\u2028\u2029\u3000\ufeff\x7f\U0001f600")
	word := rapid.StringOfN(rapid.RuneFrom(alphabet), 1, 12, -1)
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(word, 1, 4).Draw(t, "lines")
		text := strings.Join(lines, "\n")
		inner := strings.Trim(text, " \t\n")
		written := map[string][2]string{"double": {quotedTwice(text), text}, "single": {quotedOnce(text), text}}
		if first := strings.TrimLeft(lines[0], " "); first == lines[0] { // else the indent has to be said
			written["literal"] = [2]string{"|-\n  " + strings.ReplaceAll(text, "\n", "\n  "), text}
		}
		if len(lines) == 1 && isPlain(inner) {
			written["plain"] = [2]string{inner, inner}
		}
		for style, c := range written {
			root, problems := Parse([]byte("k: "+c[0]+"\nz: end\n"), limits())
			if len(problems) > 0 || root.Entries[0].Value.Text != c[1] || root.Get("z") == nil {
				t.Fatalf("%s: %q is %+v, %v, want %q", style, c[0], root, problems, c[1])
			}
		}
	})
}

// quotedTwice writes a text on one line, with what is odd as it is.
func quotedTwice(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}

// quotedOnce folds: a break is written as two. White space around it would be
// lost, so such a text goes into double quotes.
func quotedOnce(s string) string {
	for line := range strings.SplitSeq(s, "\n") {
		if strings.Trim(line, " \t") != line || line == "" {
			return quotedTwice(s)
		}
	}
	return "'" + strings.ReplaceAll(strings.ReplaceAll(s, "'", "''"), "\n", "\n\n  ") + "'"
}

// isPlain asks more than YAML does of a text without quotes.
func isPlain(s string) bool {
	if s == "" || strings.ContainsAny(s[:1], "-?:,[]{}#&*!|>'\"%@`~1") {
		return false
	}
	for _, end := range []string{": ", ":\t", " #", "\t#"} {
		if strings.Contains(s+" ", end) {
			return false
		}
	}
	return !strings.HasPrefix(s, "\ufeff")
}

func TestAProblemSaysWhereItIs(t *testing.T) {
	for text, want := range map[string]string{
		"a: b\n\tc: d\n":            "2:1 a tab at the beginning of a line",
		"a: b: c\n":                 "1:5 a second colon in this line",
		"a: 'b\nc: d\n":             "1:4 a quote that is not closed",
		"a:\n  - [b\nc: d\n":        "2:5 a bracket [ that is not closed",
		"a: [\n":                    "2:1 a value is missing here",
		"a: *b\n":                   "1:4 alias *b: there is no anchor &b before it",
		"a: &a [*a]\n":              "1:8 alias *a: there is no anchor &a before it",
		"é: 1\né: 2\n":              `2:1 key "é" is there twice`,
		"a: !!binary eA==\n":        "1:4 tag !!binary has no meaning here",
		"a: 1\n---\nb: 2\n":         "2:1 a second document begins here",
		"? [a]\n: b\n":              "1:3 a key that is no text",
		"a: \xff\n":                 "1:1 is not UTF-8",
		strings.Repeat("[", 5000):   "1:1 a bracket [ that is not closed",
		deepList(40):                "1:20 this is too deep inside",
		strings.Repeat("- ", 20000): "1:1 has more than 10000 parts",
	} {
		_, problems := Parse([]byte(text), limits())
		if len(problems) == 0 {
			t.Errorf("%.40q: no problem", text)
		} else if got := fmt.Sprintf("%d:%d %s", problems[0].Line, problems[0].Column, problems[0].Message); got != want && !strings.HasPrefix(text, "[[[") {
			t.Errorf("%.40q: %s, want %s", text, got, want)
		}
	}
}

func deepList(n int) string { return "a: " + strings.Repeat("[", n) + strings.Repeat("]", n) }

func TestAliasesAreReplacedAndBounded(t *testing.T) {
	root, problems := Parse([]byte("a: &a {x: 1}\nb: *a\nc: {<<: *a, y: 2}\n"), limits())
	raw, err := root.JSON(1000)
	if want := `{"a":{"x":1},"b":{"x":1},"c":{"y":2,"x":1}}`; err != nil || len(problems) > 0 || string(raw) != want {
		t.Errorf("%s, %v, %v", raw, err, problems)
	}
	bomb := "a0: &a0 [x, x, x, x]\n"
	for i := 1; i < 8; i++ {
		bomb += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 2))
	}
	for name, text := range map[string]string{"values": bomb, "anchors": strings.Repeat("- &a x\n", 30)} {
		if root, problems := Parse([]byte(text), limits()); root != nil || len(problems) != 1 {
			t.Errorf("%s: %v, %v", name, root != nil, problems)
		}
	}
	long, _ := Parse([]byte("a: &a "+strings.Repeat("x", 1000)+"\nb: [*a, *a, *a]\n"), limits())
	if _, err := long.JSON(2000); err == nil {
		t.Error("JSON of aliases is not bounded")
	}
}

func TestJSONIsYAML(t *testing.T) {
	if got := scalar(t, `{"k": "a\/b\\/c\"\/"}`); got.Text != `a/b\/c"/` {
		t.Errorf("%q", got.Text)
	}
}

func TestDecodeKnowsTheKeysOfItsStruct(t *testing.T) {
	var into struct {
		Store string `yaml:"store"`
		Count int    `yaml:"count"`
	}
	if p := Decode([]byte("store: a\tb\u2028c\ncount: 3\n"), limits(), &into); len(p) > 0 || into.Store != "a\tb\u2028c" || into.Count != 3 {
		t.Errorf("%+v, %v", into, p)
	}
	if p := Decode([]byte("store: 2025-03-01\n"), limits(), &into); len(p) > 0 || into.Store != "2025-03-01" {
		t.Errorf("%+v, %v", into, p)
	}
	if p := Decode([]byte("# nothing\n"), limits(), &into); len(p) > 0 {
		t.Errorf("%v", p)
	}
	for _, text := range []string{"store: a\nstroe: b\n", "store: a\ncount: many\n", "store: a\nstore: b\n"} {
		if p := Decode([]byte(text), limits(), &into); len(p) != 1 || p[0].Line != 2 {
			t.Errorf("%q: %v", text, p)
		}
	}
}

func FuzzParseEndsWithANodeOrAProblem(f *testing.F) {
	for _, seed := range []string{"a: b\tc", "- [a, {b: c}]", "a: |\n  b\n", "&a [*a]", "\u2028: \x00", "? a\n: b", "%YAML 1.2\n---\na", "a: \"\\ue000\u0085\""} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		root, problems := Parse(data, limits())
		if root != nil && len(problems) == 0 {
			if _, err := root.JSON(1 << 20); err != nil {
				t.Log(err)
			}
		}
		for _, p := range problems {
			if p.Line < 1 || p.Column < 1 || p.Message == "" {
				t.Errorf("%+v", p)
			}
		}
	})
}
