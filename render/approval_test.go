package render

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	corpora "github.com/tidemark-sessions/tidemark/workshop/hostile"
)

func shownOf(t *testing.T, command string) string {
	t.Helper()
	input, err := json.Marshal(map[string]string{"command": command})
	if err != nil {
		t.Fatal(err)
	}
	return ApprovalText(ApprovalLines("bash", input, nil))
}

func TestAnApprovalShowsEverythingThatWillRun(t *testing.T) {
	const head = "@ bash\n@ command:\n"
	for name, c := range map[string]struct{ command, want string }{
		"one line":            {"ls", "  ls\n"},
		"a second line":       {"ls\nrm -r x", "  ls\n  rm -r x\n"},
		"a comment first":     {"# list files\nrm -r x", "  # list files\n  rm -r x\n"},
		"blanks before":       {"ls" + strings.Repeat(" ", 150) + "; rm -r x", "  ls⟨150 blanks⟩; rm -r x\n"},
		"blanks of all kinds": {"ls" + strings.Repeat("\u00a0\u3000\u2800\t", 30) + "; rm", "  ls⟨120 blanks⟩; rm\n"},
		"empty lines":         {"ls\n" + strings.Repeat(" \n", 200) + "rm", "  ls\n  ⟨200 empty lines⟩\n  rm\n"},
		"zero width":          {"r\u200bm\u2060 x\ufeff", "  r\\u200bm\\u2060 x\\ufeff\n"},
		"bidi":                {"ls \u202e# x\u2066", "  ls \\u202e# x\\u2066\n"},
		"tags":                {"ls \U000e0072\U000e006d", "  ls \\U000e0072\\U000e006d\n"},
		"variation selectors": {"a\ufe00b\U000e0101", "  a\\ufe00b\\U000e0101\n"},
		"combining flood":     {"a" + strings.Repeat("\u0301", 500) + "b", "  a⟨500 combining marks⟩b\n"},
		"carriage return":     {"rm x\rls  ", "  rm x\\rls  \n"},
		"backspace":           {"rm\b\bls", "  rm\\x08\\x08ls\n"},
		"escape sequences":    {"rm x\x1b[2K\x1b[1Gls\x9b2J", "  rm x\\x1b[2K\\x1b[1Gls\ufffd2J\n"},
		"NUL and DEL":         {"a\x00b\x7f", "  a\\x00b\\x7f\n"},
		"a line like a sign":  {"a\n+ b\n@ command:\n- c", "  a\n  + b\n  @ command:\n  - c\n"},
		"line separators":     {"a\u2028b\u0085c\vd\fe", "  a\\u2028b\\u0085c\\x0bd\\x0ce\n"},
	} {
		if diff := cmp.Diff(head+c.want, shownOf(t, c.command)); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
	if got := shownOf(t, strings.Repeat("echo x\n", 150_000)+"rm -r x"); !strings.HasSuffix(got, "  rm -r x\n") || strings.Count(got, "\n") != 150_003 {
		t.Error("1 MB is not shown whole")
	}
}

func TestNoHostileCommandHidesAnything(t *testing.T) {
	for name, command := range corpora.Commands() {
		text := shownOf(t, command)
		if !strings.Contains(text, corpora.Hidden) {
			t.Errorf("%s: %q", name, text)
		}
		for _, r := range text {
			if r != '\n' && r != '\t' && !unicode.IsGraphic(r) {
				t.Errorf("%s has %U", name, r)
			}
		}
		if strings.Contains(text, strings.Repeat(" ", 30)) || strings.Contains(text, strings.Repeat("\n  \n", 4)) {
			t.Errorf("%s is pushed out of sight", name)
		}
	}
}

func TestAnApprovalShowsEveryMember(t *testing.T) {
	for input, want := range map[string]string{
		`{"a":1,"b":["x\u001b"],"c":"two\nlines"}`: "@ t\n@ a:\n  1\n@ b:\n  [\"x\\u001b\"]\n@ c:\n  two\n  lines\n",
		`{"command":"ls","command":"rm"}`:          "@ t\n  {\"command\":\"ls\",\"command\":\"rm\"}\n",
		`{"command":"ls","Command":"rm"}`:          "@ t\n@ Command:\n  rm\n@ command:\n  ls\n",
		`["x"]`:                                    "@ t\n  [\"x\"]\n",
		`null`:                                     "@ t\n  null\n",
		`not json`:                                 "@ t\n  not json\n",
		``:                                         "@ t\n",
		"{\"a\\u202e\\nb\":\"x\"}":                 "@ t\n@ a\\u202e\\nb:\n  x\n",
	} {
		if diff := cmp.Diff(want, ApprovalText(ApprovalLines("t", json.RawMessage(input), nil))); diff != "" {
			t.Errorf("%s:\n%s", input, diff)
		}
	}
}

func TestAChangeIsShownAsADifference(t *testing.T) {
	var old, now []string
	for i := range 20 {
		old = append(old, fmt.Sprintf("line %d\n", i+1))
	}
	now = append(now, old...)
	now[4], now[17] = "new\n", "\x1b[2Jother\n"
	for name, c := range map[string]struct {
		change Change
		want   string
	}{
		"two places": {Change{Path: "a.txt", Old: strings.Join(old, ""), New: strings.Join(now, "")},
			"@ edit: changes a.txt\n@ lines 2 to 8\n  line 2\n  line 3\n  line 4\n- line 5\n+ new\n  line 6\n  line 7\n  line 8\n@ lines 15 to 20\n  line 15\n  line 16\n  line 17\n- line 18\n+ \\x1b[2Jother\n  line 19\n  line 20\n"},
		"a new file":   {Change{Path: "a\n+ b", New: "x\ny", Made: true}, "@ edit: a new file, a\\n+ b\n@ lines 1 to 2\n+ x\n+ y\n@ the last line has no newline any more\n"},
		"emptied":      {Change{Path: "a", Old: "x\n"}, "@ edit: changes a\n@ lines 1 to 1\n- x\n"},
		"nothing":      {Change{Path: "a", Old: "x\n", New: "x\n"}, "@ edit: changes a\n@ nothing changes\n"},
		"line ends":    {Change{Path: "a", Old: "x\n", New: "x\r\n"}, "@ edit: changes a\n@ lines 1 to 1\n- x\n+ x\\r\n"},
		"a newline":    {Change{Path: "a", Old: "x", New: "x\n"}, "@ edit: changes a\n@ lines 1 to 1\n- x\n+ x\n@ the last line gets a newline\n"},
		"an insertion": {Change{Path: "a", Old: "a\nb\n", New: "a\nx\nb\n"}, "@ edit: changes a\n@ lines 1 to 3\n  a\n+ x\n  b\n"},
	} {
		if diff := cmp.Diff(c.want, ApprovalText(ApprovalLines("edit", nil, &c.change))); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
	large := strings.Repeat("a\nb\n", 5000)
	got := ApprovalText(ApprovalLines("write", nil, &Change{Path: "a", Old: large, New: strings.ReplaceAll(large, "b", "c")}))
	if strings.Count(got, "\n- ") < 5000 || strings.Count(got, "\n+ ") < 5000 {
		t.Error("a large change is not shown whole")
	}
}

func FuzzApproval(f *testing.F) {
	for _, s := range []string{"ls", "a\n+ b", "\x1b[2J", strings.Repeat(" ", 99), "a\u0301\u0301\u0301\u0301\u0301", "\u202e", "\r\n", "⟨9 blanks⟩"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, old, now string) {
		for _, lines := range [][]ApprovalLine{ApprovalLines("t", json.RawMessage(now), nil), ApprovalLines(old, nil, &Change{Path: now, Old: old, New: now})} {
			text := ApprovalText(lines)
			if diff := cmp.Diff(lines, ParseApproval(text)); diff != "" {
				t.Error(diff)
			}
			for _, r := range text {
				if r != '\n' && r != '\t' && (unicode.IsControl(r) || r == 0x202e || r == 0x200b) {
					t.Errorf("%q has %U", text, r)
				}
			}
			if !utf8.ValidString(text) {
				t.Errorf("%q", text)
			}
		}
		// What a file gets is what is added and what stays.
		var made []string
		for _, s := range difference(splitLines(old), splitLines(now)) {
			if s.kind != RemovedLine {
				made = append(made, s.text)
			}
		}
		if old != now && strings.Join(made, "") != now {
			t.Errorf("%q to %q: %q", old, now, made)
		}
	})
}
