//go:build !windows

package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var updateScreens = flag.Bool("screens", false, "write the screens of chat anew into testdata/screens")

// unstable is what differs between two runs of the same conversation.
var unstable = []struct {
	find *regexp.Regexp
	put  string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "00000000-0000-0000-0000-000000000000"},
	{regexp.MustCompile(`[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏] [0-9:]+ (s|min)`), "⠋ 0 s"},
	{regexp.MustCompile(`[0-9]+% of`), "16% of"},
	{regexp.MustCompile(`, [0-9:]+ (s|min)\)`), ")"},
	{regexp.MustCompile(`\b[0-9a-f]{8}\b`), "00000000"},
	{regexp.MustCompile(`[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}Z`), "2026-01-01 00:00:00Z"},
	{regexp.MustCompile(`\b[0-9]+ (s|min) ago *`), "0 s ago "},
	{regexp.MustCompile(`[0-9][0-9.]*[kM]? tokens`), "0 tokens"},
	{regexp.MustCompile(`about [0-9.k]+ \([0-9]+%\)`), "about 0 (16%)"},
	{regexp.MustCompile(` \([0-9:]+ (s|min)\)`), ""},
	{regexp.MustCompile(`\b[0-9a-f]{16}\b`), "0000000000000000"},
	{regexp.MustCompile(`(?m)· /.*$`), "· /harbour"},
	{regexp.MustCompile(`(?m) (now|[0-9]+m)$`), " now"},
}

// golden waits for a screen that was looked at.
func (c *terminalChat) golden(name string) {
	c.t.Helper()
	file := filepath.Join("testdata", "screens", name+".txt")
	if *updateScreens {
		was, late := c.text(), time.After(time.Second)
		for settled := false; !settled; {
			select {
			case data := <-c.read:
				c.take(data)
				if now := c.text(); now != was {
					was, late = now, time.After(time.Second)
				}
			case <-late:
				settled = true
			}
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			c.t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(c.text()), 0o600); err != nil {
			c.t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() {
		if c.t.Failed() {
			c.t.Logf("%s is\n%s\nif it should be another: go test ./cmd/tidemark -run ScreenOfChat -screens", file, want)
		}
	}()
	c.waitFor(func(now string) bool { return now == string(want) })
}

// album returns a function that waits for texts on the screen, and for the next
// screen of a folder of testdata/screens.
func (c *terminalChat) album(folder string) func(name string, texts ...string) {
	step := 0
	return func(name string, texts ...string) {
		c.t.Helper()
		c.shows(texts...)
		step++
		c.golden(fmt.Sprintf("%s/%02d-%s", folder, step, name))
	}
}

// projectFor makes a work tree with some files.
func projectFor(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "harbour")
	for name, text := range map[string]string{
		".git/HEAD":    "ref: refs/heads/main\n",
		"tides.txt":    "one\ntwo\nthree\n",
		"docs/moon.md": "The moon.\n",
		"slow":         "while ! test -e go; do sleep 0.05; done; seq 1 30\n",
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestTheScreenOfChat goes through a conversation with every key of the guide,
// wide and narrow, and compares what a person sees.
func TestTheScreenOfChat(t *testing.T) {
	t.Parallel()
	for _, columns := range []uint16{80, 40} {
		t.Run(fmt.Sprint(columns), func(t *testing.T) {
			t.Parallel()
			c := openChat(t, projectFor(t), columns, "--provider", "demo", "--no-encrypt", "--sandbox", "off")
			see := c.album(fmt.Sprint(columns))
			see("prompt", "asks · sandbox off")

			// A call: the question, the sign of life, a queue, the fold.
			c.types("run sh slow\r")
			see("question", "[n] deny")
			c.answers("y", "▸ bash: ")
			c.types("and then this\rhalf")
			see("running", "» and then this", "you> half")
			c.types("\x15\x1b[A")
			c.shows("you> and then this")
			c.types("\x15")
			if err := os.WriteFile(filepath.Join(c.dir, "go"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			see("folded", "✓ bash: ", "Ctrl-O shows all", "Done.")
			c.types("\x0c\x0f")
			see("unfolded", "── ✓ bash: sh slow", "  29 ")

			// Edits are accepted after Shift-Tab, and shown as a diff.
			c.types("\x0c\x1b[Z")
			c.shows("accepts edits")
			c.types(`call edit {"path":"tides.txt","old_string":"two\n","new_string":"2\n2b\n"}` + "\r")
			see("edit", "(+2 −1", "2 - two", "3 + 2b", "Done.")
			c.types(`call task {"action":"add","text":"look at the moon"}` + "\r")
			see("tasks", "☐ 1 look at the moon", "Done.")

			// Files, commands and memories from the prompt.
			c.types("\x0csee @moo")
			see("mention", "@docs/moon.md")
			c.types("\t")
			c.shows("you> see @docs/moon.md")
			c.types("\x15!echo from the harbour\r")
			see("command", "✓ bash: echo from the har") // a slow one says more behind it
			c.types("# the tide comes twice a day\r")
			see("memory", "Remembered for this project")
			c.types("\x0c/help\r")
			see("help", "/help WORD says more")
			c.types("\x0c/help zebra\r")
			c.shows("hint: see all of it with /help")
			c.types("\x0c/help branch\r")
			see("search", "/branch NODE")

			// What was said before, also in other sessions; Esc; the way out.
			c.types("\x0c/new\r")
			c.shows("Session saved: ")
			c.types("\x12moon")
			see("recall", "search moon: ")
			c.types("\x1b")
			c.waitFor(func(now string) bool { return strings.Contains(now, "you>\n") })
			c.types("\x1b[Z")
			c.shows("plans only")
			c.types("run true\r")
			see("plan", "Carry out this plan?")
			c.answers("n", "\nkeep planning")
			c.types("\x0chalf a line\x03")
			see("leave", "press Ctrl-C again to leave")
			c.types("\x03")
			if code := c.ends(); code != 130 {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

// TestTheScreenOfChatCommands goes through the commands of the guide, and the
// keys that the conversation above does not need.
func TestTheScreenOfChatCommands(t *testing.T) {
	t.Parallel()
	for _, columns := range []uint16{80, 40} {
		t.Run(fmt.Sprint(columns), func(t *testing.T) {
			t.Parallel()
			cmd := tidemarkIn(committed(t), "chat", "--provider", "demo", "--no-encrypt", "--sandbox", "off", "--permission-mode", "edits", "--name", "tides")
			cmd.Env = append(cmd.Env, "VISUAL=sh "+filepath.Join(cmd.Dir, ".git", "editor"), "WAYLAND_DISPLAY=", "DISPLAY=")
			c := onTerminal(t, cmd, columns)
			see := c.album(fmt.Sprintf("%d/commands", columns))
			c.shows("accepts edits")

			// The other keys: an editor, a clipboard without a picture, Up, Esc.
			c.types("hello\x07")
			see("editor", "you> hello", "from the editor")
			c.types("\r")
			c.shows("of the conversation.")
			c.waitFor(func(now string) bool { return !strings.Contains(now, "Esc stops") })
			c.types("\x0c\x16")
			see("clipboard", "clipboard")
			c.types("\x1b[A")
			see("up", "you> hello", "from the editor")
			c.types("\x03!sh slow\r")
			c.shows("▸ bash: sh slow")
			c.types("\x1b")
			see("stopped", "interrupted")

			// What there is, before and after a change.
			for _, s := range []struct{ name, keys, shows string }{
				{"change", `call edit {"path":"tides.txt","old_string":"two\n","new_string":"2\n2b\n"}`, "Done."},
				{"tree", "/tree", "n3 "},
				{"context", "/context", "/compact does it now"},
				{"cost", "/cost", "out  "},
				{"model", "/model", "demo"},
				{"another", "\x15/model zebra", "demo/zebra"},
				{"effort", "/effort", "The model thinks"},
				{"effort-high", "/effort high", "32000"},
				{"diff", "/diff", "+2b"},
				{"review", "/review", "You said"},
				{"tasks-none", "/tasks", "There are no tasks."},
				{"task", "/task add look at the moon", "Task 1 added."},
				{"tasks", "/tasks", "☐ 1 look at the moon"},
				{"agents", "/agents", "agents"},
				{"mcp", "/mcp", "There are none."},
				{"init", "/init", "Done."},
				{"compact", "/compact", "context compacted"},
				{"retry", "/retry", "Done."},
				{"export", "/export md talk.md", "Exported to talk.md"},
				{"unknown", "/zebra", "/help"},
			} {
				c.types("\x0c" + s.keys + "\r")
				see(s.name, s.shows)
			}

			// Files and the conversation come back.
			c.types("\x0c" + `call edit {"path":"tides.txt","old_string":"2b\n","new_string":"low\n"}` + "\r")
			c.shows("the workspace.") // the end of the answer
			c.types("\x0c/undo\r")
			see("undo", "[n] nothing")
			c.answers("b", "[n] no\n")
			see("undo-files", "[n] no")
			c.answers("y", "are as they were")
			see("undone", "Branched from")
			c.types("\x0c/rewind n0 conversation\r")
			see("rewind", "Branched from n0")

			// Other sessions.
			c.types("\x0c/fork another try\r")
			see("fork", "Resumed session")
			c.types("\x0c/resume\r")
			see("resume", "Go on with")
			c.types("\x1b")
			c.shows("you>")
			c.types("\x0c/clear\r")
			see("clear", "Session saved")
			c.types("\x04")
			if code := c.ends(); code != 0 {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

// committed is projectFor with a commit, and with an editor that adds a line.
func committed(t *testing.T) string {
	t.Helper()
	dir := projectFor(t)
	if err := os.RemoveAll(filepath.Join(dir, ".git")); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "."}, {"-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "-q", "-m", "tides"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v %s", args[0], err, out)
		}
	}
	for name, text := range map[string]string{"editor": `printf '\nfrom the editor\n' >>"$1"`, "info/exclude": "data/\n"} { // the store of the test
		if err := os.WriteFile(filepath.Join(dir, ".git", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// answers answers a question, until that is on the screen which the answer leads
// to: a key counts only when somebody can have read the question, and goes into
// the line before.
func (c *terminalChat) answers(key, leadsTo string) {
	c.t.Helper()
	for range 20 {
		c.types(key)
		now := c.waitFor(func(now string) bool { return strings.Contains(now, leadsTo) || strings.Contains(now, "you> "+key) })
		if strings.Contains(now, leadsTo) {
			return
		}
		c.types("\x7f")
		c.waitFor(func(now string) bool { return !strings.Contains(now, "you> "+key) })
		time.Sleep(500 * time.Millisecond) // a key so soon after another is no answer
	}
	c.t.Fatalf("%q is taken for no answer:\n%s", key, c.text())
}

// waitFor waits until the screen is as wanted, and returns it.
func (c *terminalChat) waitFor(wanted func(now string) bool) string {
	c.t.Helper()
	late := time.After(2 * time.Minute)
	for {
		now := c.text()
		if wanted(now) {
			return now
		}
		select {
		case data, more := <-c.read:
			if !more {
				c.t.Fatalf("it ended with\n%s", now)
			}
			c.take(data)
		case <-late:
			c.t.Fatalf("the screen stays\n%s", now)
		}
	}
}

// text is the screen, without blanks at the ends of rows and without what
// differs between two runs.
func (c *terminalChat) text() string {
	var rows []string
	for row := range strings.SplitSeq(c.term.String(), "\n") {
		rows = append(rows, strings.TrimRight(row, " "))
	}
	text := strings.TrimRight(strings.Join(rows, "\n"), "\n") + "\n"
	for _, u := range unstable {
		text = u.find.ReplaceAllString(text, u.put)
	}
	return text
}
