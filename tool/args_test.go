package tool

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tidemark-sessions/tidemark"
	"pgregory.net/rapid"
)

func TestBadArgumentsAreResultsThatHelp(t *testing.T) {
	b := newBox(t, Options{Shell: "/bin/bash", Python: "/usr/bin/python3"})
	define(t, b, Definition{Name: "mine", Command: "true"})
	for input, want := range map[string]string{
		`{"path":`:                          "not valid JSON",
		`[]`:                                "must be a JSON object, not an array",
		`"x"`:                               "not a string",
		`7`:                                 "not a number",
		"\xff":                              "not valid JSON",
		`{"no_such_argument":1}`:            "",
		`{} {}`:                             "not valid JSON",
		strings.Repeat("[", 100_000):        "not valid JSON",
		`{"a":` + strings.Repeat(`[`, 2000): "not valid JSON",
	} {
		for _, tool := range b.Tools() {
			if tool.Name == "mine" && want == "" || tool.Name == "ls" && input == "" {
				continue
			}
			tool.Asks(json.RawMessage(input))
			res, err := tool.Run(t.Context(), json.RawMessage(input))
			if err != nil || !res.IsError || !strings.Contains(res.Text, want) {
				t.Errorf("%s %.40s: %+v, %v", tool.Name, input, res, err)
			}
		}
	}
	for input, want := range map[string]string{
		`{}`:                             `the argument "path" is missing`,
		``:                               `the argument "path" is missing`,
		`null`:                           `the argument "path" is missing`,
		`{"path":null}`:                  `the argument "path" is missing`,
		`{"path":1}`:                     `the argument "path": want a string, got a number`,
		`{"path":"x","limit":"5"}`:       `the argument "limit": want a whole number, got "5"`,
		`{"path":"x","limit":1.5}`:       "want a whole number",
		`{"path":"x","limit":1e99}`:      "want a whole number",
		`{"path":"x","Limit":1}`:         `no argument "Limit"; this tool takes: path, offset, limit`,
		`{"path":"x","offset":{"a":[]}}`: "want a whole number",
	} {
		res, err := b.Find("read").Run(t.Context(), json.RawMessage(input))
		if err != nil || !res.IsError || !strings.Contains(res.Text, want) {
			t.Errorf("%s: %+v, %v; want %q", input, res, err, want)
		}
	}
	put(t, filepath.Join(b.o.Root, "x"), "1\n2\n")
	wantText(t, call(t, b, "read", m{"path": "x", "limit": 1.0, "offset": nil}), "     1\t1\n[there is more: go on with offset 2]\n")
}

func TestSchemasAreStableJSONOfTypeObject(t *testing.T) {
	b := newBox(t, Options{Shell: "/bin/bash", Python: "/usr/bin/python3"})
	again := b.Tools()
	for i, tool := range b.Tools() {
		var s struct {
			Type       string
			Properties map[string]struct{ Type, Description string }
			Required   []string
		}
		if err := json.Unmarshal(tool.Schema, &s); err != nil || s.Type != "object" {
			t.Errorf("%s: %v %s", tool.Name, err, tool.Schema)
		}
		for _, name := range s.Required {
			if s.Properties[name].Description == "" {
				t.Errorf("%s: %s has no description", tool.Name, name)
			}
		}
		if !bytes.Equal(tool.Schema, again[i].Schema) || tool.Name != builtin[i] {
			t.Errorf("%s: changes from call to call, or is not where builtin has it", tool.Name)
		}
	}
}

func TestBoxSaysWhatIsMissing(t *testing.T) {
	b := newBox(t, Options{Environ: []string{"PATH=relative" + string(os.PathListSeparator) + t.TempDir()}})
	if b.Find("bash") != nil || b.Find("python") != nil || len(b.Missing()) != 2 {
		t.Errorf("%v", b.Missing())
	}
	if _, err := New(Options{Root: "relative"}); tidemark.CodeOf(err).Err != tidemark.ErrInvalid {
		t.Error(err)
	}
	if _, err := New(Options{Root: filepath.Join(t.TempDir(), "none")}); err == nil {
		t.Error("a workspace that is not there was opened")
	}
}

func FuzzArguments(f *testing.F) {
	for _, s := range []string{`{"path":"x"}`, `{"path":"session:memory/x","limit":1}`, `{"path":null}`, `{"a":1}`, `[`, ``, `{"path":"../../x","offset":-1}`, `{"command":"a 'b' ; c"}`, `{"url":"http://x"}`} {
		f.Add([]byte(s))
	}
	root := f.TempDir()
	f.Fuzz(func(t *testing.T, input []byte) {
		b, err := New(Options{Root: root, Shell: "/bin/bash", Python: "/usr/bin/python3"})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		for _, tool := range b.Tools() {
			tool.Asks(input)
		}
		var r readArguments
		var g grepArguments
		var e editArguments
		for _, into := range []any{&r, &g, &e} {
			if err := readArgs(input, into); err != nil && err.Error() == "" {
				t.Error("an error without words")
			}
		}
		if p, err := b.locate(r.Path); err == nil && p.kind == inside && !filepath.IsLocal(p.name) {
			t.Errorf("%q is inside as %q", r.Path, p.name)
		}
	})
}

func TestGlobPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern  string
		yes, not []string
	}{
		{"*.go", []string{"a.go", "x/y/a.go"}, []string{"a.gox", "a.go/b"}},
		{"./*.go", []string{"a.go", "x/a.go"}, nil},
		{"x/*.go", []string{"x/a.go"}, []string{"a.go", "x/y/a.go"}},
		{"**/a.go", []string{"a.go", "x/a.go", "x/y/a.go"}, []string{"ba.go"}},
		{"**/**/a", []string{"a", "x/a"}, nil},
		{"x/**", []string{"x/a", "x/y/a"}, []string{"x", "y/x/a"}},
		{"x/**/b", []string{"x/b", "x/y/z/b"}, []string{"xb"}},
		{"a?c", []string{"abc", "aéc"}, []string{"ac", "a/c"}},
		{"[a-c]x", []string{"ax", "cx"}, []string{"dx"}},
		{"[!a]x", []string{"bx"}, []string{"ax"}},
		{"[!-a]x", []string{"bx", "0x"}, []string{"-x", "ax"}},
		{"[]]x", []string{"]x"}, []string{"x"}},
		{"[[:a]x", []string{"[x", ":x"}, nil},
		{"*.{ts,tsx}", []string{"a.ts", "a.tsx"}, []string{"a.js", "a.{ts,tsx}"}},
		{"{a,b/{c,d}}", []string{"a", "b/c", "b/d"}, []string{"b"}},
		{"{**/x,y}/z", []string{"x/z", "q/x/z", "y/z"}, nil},
		{`\*`, []string{"*"}, []string{"a"}},
		{"a.b+(c)", []string{"a.b+(c)"}, []string{"axb+(c)"}},
		{"a,b}", []string{"a,b}"}, nil},
	} {
		re, err := Glob(c.pattern)
		if err != nil {
			t.Errorf("%s: %v", c.pattern, err)
			continue
		}
		for _, s := range c.yes {
			if !re.MatchString(s) {
				t.Errorf("%s does not match %s (%s)", c.pattern, s, re)
			}
		}
		for _, s := range c.not {
			if re.MatchString(s) {
				t.Errorf("%s matches %s (%s)", c.pattern, s, re)
			}
		}
	}
	for _, bad := range []string{"", "[", "[a", "{a", `a\`, "[a/b]", "[z-a]", strings.Repeat("*", 2000)} {
		if _, err := Glob(bad); err == nil {
			t.Errorf("%.20q is a pattern", bad)
		}
	}
}

func FuzzGlob(f *testing.F) {
	for _, s := range []string{"*.go", "**/x", "{a,b}", "[!a-z]", `\{`, "{{,}", "[[:alpha:]]", "a**b/**"} {
		f.Add(s, "x/a.go")
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		re, err := Glob(pattern)
		if err != nil {
			return
		}
		re.MatchString(name)
		if pattern != "" && !strings.ContainsAny(pattern, `*?[]{}\,`) && utf8.ValidString(pattern) && !strings.HasPrefix(pattern, "./") && !re.MatchString(pattern) {
			t.Errorf("%q does not match itself", pattern)
		}
	})
}

func TestClipKeepsBothEndsOfWhateverIsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 40).Draw(t, "limit")
		c := newClip(limit)
		var all []byte
		for _, part := range rapid.SliceOf(rapid.SliceOfN(rapid.ByteRange('a', 'z'), 0, 60)).Draw(t, "parts") {
			c.Write(part)
			all = append(all, part...)
		}
		got, cut := c.text()
		if cut != (len(all) > limit) {
			t.Fatalf("cut %v, %d bytes, limit %d", cut, len(all), limit)
		}
		head, tail := limit/2, limit-limit/2
		want := string(all)
		if cut {
			want = string(all[:head]) + cutNote(int64(len(all)-limit)) + string(all[len(all)-tail:])
		}
		if got != want {
			t.Fatalf("%q, want %q", got, want)
		}
	})
}

func TestBoundTextIsValidAndCutBetweenCharacters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(8, 60).Draw(t, "limit")
		c := newClip(limit)
		s := rapid.String().Draw(t, "s")
		c.Write([]byte(s))
		got, cut := c.text()
		if !utf8.ValidString(got) || !strings.ContainsRune(s, '\uFFFD') && !strings.ContainsRune(s, 0) && strings.ContainsRune(got, '\uFFFD') {
			t.Fatalf("%q of %q", got, s)
		}
		raw := string(rapid.SliceOf(rapid.Byte()).Draw(t, "raw"))
		if got, _ := bound(raw, limit); !utf8.ValidString(got) || len(got) > limit+60 {
			t.Fatalf("%q of %q", got, raw)
		}
		if !cut && got != strings.ReplaceAll(s, "\x00", "\uFFFD") {
			t.Fatalf("%q of %q", got, s)
		}
	})
}
