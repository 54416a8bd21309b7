package render

import (
	"bufio"
	"bytes"
	"html"
	"regexp"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
)

func TestToolsOfEveryClientAreKnown(t *testing.T) {
	for name, want := range map[string]ToolKind{
		"Bash": ShellTool, "run_shell_command": ShellTool, "exec_command": ShellTool, "run_commands": ShellTool, "Execute": ShellTool,
		"Read": ReadTool, "read_file": ReadTool, "view": ReadTool, "replace": EditTool, "apply_patch": EditTool, "write_file": EditTool, "Create": EditTool,
		"search_contents": SearchTool, "WebFetch": WebTool, "spawn_agent": AgentTool, "invoke_agent": AgentTool, "Task": AgentTool,
		"todowrite": PlanTool, "update_plan": PlanTool, "TaskCreate": PlanTool, "mcp__files__read_file": ReadTool, "moor": OtherTool, "": OtherTool, "__": OtherTool,
	} {
		if got := KindOfTool(name); got != want {
			t.Errorf("%q is %s, want %s", name, got, want)
		}
	}
}

func TestACallIsToldByItsArgument(t *testing.T) {
	for _, c := range []struct {
		tool, input, want string
		added, removed    int
	}{
		{"Bash", `{"description":"Run the tests","command":"go test ./..."}`, "go test ./...", 0, 0},
		{"shell", `{"command":["bash","-lc","cat 'a b'"]}`, "cat 'a b'", 0, 0},
		{"run_commands", `{"commands":["ls -l"]}`, "ls -l", 0, 0},
		{"Edit", `{"old_string":"a\nb","new_string":"a\nc\nd","file_path":"/x/calc.py"}`, "/x/calc.py", 2, 1},
		{"edit", `{"path":"p.go","edits":[{"oldText":"1","newText":"2"},{"oldText":"3","newText":""}]}`, "p.go", 1, 2},
		{"write", `{"content":"one\ntwo\n","filePath":"n.txt"}`, "n.txt", 2, 0},
		{"create", `{"file_text":"one\n","path":"n.txt"}`, "n.txt", 1, 0},
		{"apply_patch", `"*** Begin Patch\n*** Update File: a.go\n@@\n-old\n+new\n+more\n same\n*** Add File: b.go\n+first\n*** End Patch"`, "a.go, b.go", 3, 1},
		{"apply_patch", `{"input":"*** Begin Patch\n*** Delete File: a.go\n*** End Patch"}`, "a.go", 0, 0},
		{"patch", `{"diff":"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"}`, "x", 1, 1},
		{"update_plan", `{"plan":[{"step":"Read","status":"completed"},{"step":"Write","status":"in_progress"}]}`, "1/2 · Write", 0, 0},
		{"Read", `{}`, "", 0, 0}, {"Read", `nonsense`, "", 0, 0}, {"note", `{"content":"no file"}`, "no file", 0, 0},
	} {
		call := tidemark.Block{Type: tidemark.BlockToolUse, Name: c.tool, Input: []byte(c.input)}
		if got := Argument(call); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.tool, c.input, got, c.want)
		}
		if added, removed := ChangedLines(call); added != c.added || removed != c.removed {
			t.Errorf("%s %s: %d added, %d removed; want %d, %d", c.tool, c.input, added, removed, c.added, c.removed)
		}
	}
}

func TestAFileIsCalledAsInItsProject(t *testing.T) {
	for _, c := range []struct{ tool, input, want string }{
		{"Read", `{"file_path":"/home/ada/quay/cmd/main.go"}`, "cmd/main.go"},
		{"Read", `{"file_path":"/home/ada/quays/main.go"}`, "/home/ada/quays/main.go"},
		{"Read", `{"file_path":"/home/ada/quay"}`, "/home/ada/quay"},
		{"Bash", `{"command":"/home/ada/quay/run.sh --all"}`, "/home/ada/quay/run.sh --all"},
		{"Grep", `{"path":"/home/ada/quay/cmd","pattern":"tide"}`, "tide · cmd"},
		{"Grep", `{"path":"/home/ada/quay","pattern":"tide"}`, "tide"},
		{"ls", `{"path":"/home/ada/quay/cmd"}`, "cmd"},
		{"apply_patch", `{"input":"*** Begin Patch\n*** Delete File: /home/ada/quay/a.go\n*** End Patch"}`, "a.go"},
	} {
		call := tidemark.Block{Type: tidemark.BlockToolUse, Name: c.tool, Input: []byte(c.input)}
		if got := ArgumentIn(call, "/home/ada/quay"); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.tool, c.input, got, c.want)
		}
	}
}

// What the row of a call says is not said again below it.
func TestTheInputOfACallIsWhatItsRowDoesNotSay(t *testing.T) {
	if got := calledWith(t, "Bash", `{"command":"make","description":"Build it"}`); strings.Contains(got, "make") || !strings.Contains(got, "Build it") {
		t.Errorf("a command and why: %s", got)
	}
	if got := calledWith(t, "Bash", `{"command":"make"}`); got != "" {
		t.Errorf("a command alone: %s", got)
	}
	if got := calledWith(t, "Bash", `{"command":"make\nmake test"}`); !strings.Contains(got, "make test") {
		t.Errorf("a command of two lines: %s", got)
	}
}

func TestAPatchIsShownFileByFile(t *testing.T) {
	got := calledWith(t, "apply_patch", `"*** Begin Patch\n*** Update File: a.go\n@@ func f\n-old\n+new\n same\n*** Delete File: b.go\n*** End Patch"`)
	for _, want := range []string{"<span class=\"file\">a.go\n</span>", "<span class=\"quiet\">  @@ func f\n</span>", `<span class="pair"><del>- old` + "\n</del><ins>+ new\n</ins></span>  same\n", "<span class=\"file\">b.go\n</span>", "<span class=\"quiet\">  *** Delete File: b.go\n</span>"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
}

func TestAPlanIsAListOfTasks(t *testing.T) {
	got := calledWith(t, "todowrite", `{"todos":[{"content":"Read <it>","status":"completed"},{"content":"Do it","status":"in_progress"},{"content":"Rest","status":"pending"}]}`)
	for _, want := range []string{"☑ <bdi>Read &lt;it&gt;</bdi>", "▶ <bdi>Do it</bdi>", "☐ <bdi>Rest</bdi>"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
}

func TestAPlanIsNotToldTwice(t *testing.T) {
	const plan = `[{"content":"Read it","status":"completed","id":"1"}]`
	for told, shown := range map[string]bool{plan: false, `[{"content":"Read it","status":"pending","id":"1"}]`: true, "the plan is kept": true} {
		if got := answeredTo(t, "todowrite", `{"todos":`+plan+`}`, told); (strings.TrimSpace(got) != "") != shown {
			t.Errorf("%s is answered by %q", told, got)
		}
	}
}

func TestWhatIsReadHasItsNumbersBesideIt(t *testing.T) {
	for _, c := range []struct{ input, told, numbers, text string }{
		{`{"file_path":"a.txt"}`, "1\tone\n2\t\n3\tthree", "1\n2\n3\n", "one\n\nthree"},
		{`{"filePath":"a.txt"}`, "<file>\n00041| one\n00042| two\n</file>", "41\n42\n", "one\ntwo"},
		{`{"path":"a.txt"}`, "     7→one\n     8→two", "7\n8\n", "one\ntwo"},
		{`{"path":"a.txt","offset":5}`, "one\ntwo\n", "5\n6\n", "one\ntwo"},
		{`{"path":"a.txt"}`, "1: one\n3: three\n", "1\n2\n", "1: one\n3: three"},
	} {
		got := answeredTo(t, "Read", c.input, c.told)
		if want := `<pre aria-hidden="true">` + c.numbers + `</pre><pre tabindex="0">` + c.text + "</pre>"; !strings.Contains(got, want) {
			t.Errorf("%q: no %q in %s", c.told, want, got)
		}
	}
	if got := answeredTo(t, "Read", `{}`, "no such file"); strings.Contains(got, "numbered") {
		t.Errorf("one line about a file has numbers: %s", got)
	}
}

func TestATerminalHasItsColoursAndHidesNothing(t *testing.T) {
	for in, want := range map[string]string{
		"\x1b[31mred\x1b[0m plain":                   `<span class="a-r">red</span> plain`,
		"\x1b[1;92mok\x1b[22m go\x1b[m.":             `<span class="a-g a-1">ok</span><span class="a-g"> go</span>.`,
		"\x1b[38;5;196mr\x1b[38;2;0;0;255mb\x1b[39m": `<span class="a-r">r</span><span class="a-b">b</span>`,
		"\x1b[30;40;8mhidden?":                       "hidden?",
		"a\x1b[2Kb\x1b[10Cc":                         "abc",
		"<\x1b[4mb>":                                 `&lt;<span class="a-4">b&gt;</span>`,
	} {
		if got := answeredTo(t, "bash", `{}`, in); !strings.Contains(got, `<pre tabindex="0">`+want+"</pre>") {
			t.Errorf("%q: no %q in %s", in, want, got)
		}
	}
	got := answeredTo(t, "shell", `{}`, `{"output":"done\n","metadata":{"exit_code":3}}`)
	if !strings.Contains(got, "done\nmetadata: {&#34;exit_code&#34;:3}") {
		t.Errorf("what a client wrapped in JSON: %s", got)
	}
}

func calledWith(t *testing.T, tool, input string) string {
	t.Helper()
	var b bytes.Buffer
	if err := new(Transcript).CallInput(&b, tidemark.Block{Type: tidemark.BlockToolUse, Name: tool, Input: []byte(input)}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func answeredTo(t *testing.T, tool, input, told string) string {
	t.Helper()
	var b bytes.Buffer
	call := tidemark.Block{Type: tidemark.BlockToolUse, ID: "c", Name: tool, Input: []byte(input)}
	if err := new(Transcript).CallResult(&b, call, tidemark.Block{Type: tidemark.BlockToolResult, ToolUseID: "c", Text: told}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var (
	anyTag      = regexp.MustCompile(`<[^>]*>`)
	anySequence = regexp.MustCompile("\x1b\\[[\x20-\x3f]*[\x40-\x7e]")
)

// FuzzTerminalColours shows that a page has all the text of a program's output, whatever
// sequences are in it, and only spans of its own.
func FuzzTerminalColours(f *testing.F) {
	for _, s := range []string{"\x1b[31mred\x1b[0m", "\x1b[38;5", "\x1b[", "\x1b[1;31m<b>\x1b[;;m", "\x1b[38;2;1;2m\x1b]0;x\a", "\x1b\x1b[m["} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var b bytes.Buffer
		h := newPage(bufio.NewWriter(&b), &Transcript{})
		h.terminal(s)
		h.w.Flush()
		var want strings.Builder
		for _, piece := range anySequence.Split(s, -1) {
			want.WriteString(Clean(piece))
		}
		if got := html.UnescapeString(anyTag.ReplaceAllString(b.String(), "")); squeezed(got) != squeezed(want.String()) {
			t.Errorf("%q is shown as %q, want %q", s, got, want.String())
		}
		for _, tag := range anyTag.FindAllString(b.String(), -1) {
			if !regexp.MustCompile(`^(<span class="a-[0rgybmc134]( a-[134])*">|</span>)$`).MatchString(tag) {
				t.Errorf("%q makes the tag %s", s, tag)
			}
		}
	})
}

// squeezed leaves out what Clean decides by the neighbours of a character, which
// a sequence between them takes away.
func squeezed(s string) string {
	return strings.Map(func(r rune) rune {
		if r > 0x7e || r == '\\' {
			return -1
		}
		return r
	}, s)
}

// FuzzToolResult shows that no answer of a tool breaks out of its place.
func FuzzToolResult(f *testing.F) {
	for _, tool := range []string{"Read", "bash", "edit", "todowrite"} {
		f.Add(tool, `{"path":"a.go","offset":3}`, "1\tx\n2\ty\n")
		f.Add(tool, `{"todos":[{"content":"<script>"}]}`, `{"output":"<script>","m":[1]}`)
		f.Add(tool, `"*** Begin Patch\n*** Add File: <b>\n+</pre><script>"`, "diff --git a b\n+</pre>")
	}
	f.Fuzz(func(t *testing.T, tool, input, told string) {
		call := answer(tidemark.Block{Type: tidemark.BlockToolUse, ID: "c", Name: tool, Input: []byte(input)})
		result := answer(tidemark.Block{Type: tidemark.BlockToolResult, ToolUseID: "c", Text: told})
		if err := scanPage(document(t, HTML, Document{}, call, result)); err != nil {
			t.Fatal(err)
		}
	})
}
