package extension_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark/internal/extension"
)

func write(t *testing.T, root string, files map[string]string) string {
	t.Helper()
	for name, text := range files {
		at := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestCommandsOfAPersonCountMoreThanThoseOfAProject(t *testing.T) {
	project := write(t, t.TempDir(), map[string]string{
		".tidemark/commands/fix.md": "Ours: fix $1, then $ARGUMENTS.", ".claude/commands/fix.md": "Theirs.", ".claude/commands/git/tidy.md": "---\ndescription: \"Tidies up\"\nargument-hint: [BRANCH]\nallowed-tools: Bash(*)\n---\n# Tidy\nTidy it up.",
		".claude/commands/mine.md": "The project's.", ".claude/commands/empty.md": "---\ndescription: x\n---\n", ".claude/commands/no name.md": "x", ".claude/commands/a.txt": "x", ".claude/commands/binary.md": "a\x00b",
		".claude/commands/long.md": strings.Repeat("x", 1<<17), ".claude/commands/1/2/3/4/deep.md": "x",
	})
	own := write(t, t.TempDir(), map[string]string{"commands/mine.md": "My own."})
	got := make(map[string]string)
	for _, c := range extension.Commands(extension.Options{Project: project, Own: own}) {
		got[c.Name] = fmt.Sprintf("%s|%s|%s", c.Args, c.Help, c.Message("it now"))
	}
	want := map[string]string{
		"fix": "|Ours: fix $1, then $ARGUMENTS.|Ours: fix it, then it now.", "git:tidy": "[BRANCH]|Tidies up|# Tidy\nTidy it up.\n\nit now", "mine": "|My own.|My own.\n\nit now",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	claude := write(t, t.TempDir(), map[string]string{"commands/mine.md": "Of another tool.", "commands/git/tidy.md": "For Claude Code.", "skills/tides/SKILL.md": "Tides.", "agents/mate.md": "You help."})
	all := extension.Options{Project: project, Own: own, Claude: claude}
	for _, c := range extension.Commands(all) {
		if c.Foreign != (c.Name == "git:tidy") || c.Own != (c.Name != "fix") || c.Name == "git:tidy" && c.Text != "For Claude Code." {
			t.Errorf("with a folder of Claude Code: %+v", c)
		}
	}
	if s, a := extension.Skills(all), extension.Agents(all); len(s) != 1 || len(a) != 1 || !s[0].Own || !a[0].Own {
		t.Errorf("skills %+v, agents %+v", s, a)
	}
	if all := extension.Commands(extension.Options{Project: t.TempDir(), Own: filepath.Join(own, "none")}); len(all) != 0 {
		t.Errorf("where there is nothing: %+v", all)
	}
}

func TestNoLinkLeadsOutOfTheProject(t *testing.T) {
	outside := write(t, t.TempDir(), map[string]string{"commands/secret.md": "SECRET"})
	project := write(t, t.TempDir(), map[string]string{".claude/commands/a.md": "a"})
	for link, to := range map[string]string{".claude/commands/b.md": filepath.Join(outside, "commands", "secret.md"), ".tidemark": outside} {
		if err := os.Symlink(to, filepath.Join(project, link)); err != nil {
			t.Skip("no links here: ", err)
		}
	}
	if all := extension.Commands(extension.Options{Project: project}); len(all) != 1 || all[0].Name != "a" {
		t.Errorf("%+v", all)
	}
}

func TestMoreCommandsThanAnybodyCanReadAreBounded(t *testing.T) {
	files := make(map[string]string)
	for i := range 400 {
		files[fmt.Sprintf(".claude/commands/c%d.md", i)] = "x"
	}
	if n := len(extension.Commands(extension.Options{Project: write(t, t.TempDir(), files)})); n != 256 {
		t.Errorf("%d commands", n)
	}
}

func TestShellLinesAreFoundAndReplacedByTheirOutput(t *testing.T) {
	c := extension.ParseCommand("On !`git branch` with $1:\n!`git log -- $1`\nThat is all: $ARGUMENTS. !``")
	if diff := cmp.Diff([]string{"git branch", "git log -- $1"}, c.ShellLines()); diff != "" {
		t.Error(diff)
	}
	if got, want := c.Message("a b", "main $1", "!`no`"), "On main $1 with a:\n!`no`\nThat is all: a b. !``"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := c.Message("a"); !strings.Contains(got, "!`git log -- $1`") {
		t.Errorf("without output: %q", got)
	}
	many := extension.ParseCommand(strings.Repeat("!`true`\n", 100))
	if n := len(many.ShellLines()); n != 16 {
		t.Errorf("%d lines are run", n)
	}
}

// TestArgumentsAreNeverRun has a real shell run lines with arguments of
// somebody who wants to run something else.
func TestArgumentsAreNeverRun(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash here")
	}
	dir := t.TempDir()
	for _, args := range []string{"$(touch pwned)", "`touch pwned`", "'; touch pwned; '", `"; touch pwned; "`, "x\ntouch pwned", ") ; touch pwned ; (", `\'; touch pwned #`} {
		cmd := exec.Command(bash, "-c", extension.Script(`printf '%s|' "$ARGUMENTS"; echo $1`, args))
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), strings.TrimSpace(args)+"|"+strings.Fields(args)[0]) {
			t.Errorf("%q: %v: %s", args, err, out)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "pwned")); err == nil {
		t.Error("arguments were run")
	}
}

func TestHeadsThatPeopleWriteAreRead(t *testing.T) {
	for head, want := range map[string]string{
		"description: plain":                               "plain",
		"description: \"in quotes\"":                       "in quotes",
		"description: Use when: it is late":                "Use when: it is late",
		"description: >-\n  folded\n  text":                "folded text",
		"description: |\n  literal\n\n  text\nmodel: x":    "literal text",
		"description:\n  - one\n  - 'two'":                 "one, two",
		"model: x\n  description: not a key of the head":   "The body.",
		"# description: a comment\nname: x":                "The body.",
		"description: x\ndescription: the last one counts": "the last one counts",
	} {
		if got := extension.ParseCommand("---\n" + head + "\n---\nThe body."); got.Help != want || got.Text != "The body." {
			t.Errorf("%q: %q, %q", head, got.Help, got.Text)
		}
	}
}

func FuzzParseCommand(f *testing.F) {
	for _, s := range []string{"", "---\n---\n", "---\ndescription: x\n---\nbody", "---\nno end", "$1 $ARGUMENTS $", "---\r\ndescription: y\r\n---\r\nz", "---\ndescription: >\n  a\n  b\ntools:\n- x\n---\n!`a` $1"} {
		f.Add(s, "a b")
	}
	f.Fuzz(func(t *testing.T, content, args string) {
		c := extension.ParseCommand(content)
		if len(c.Help) > 210 || len(c.Args) > 210 || strings.Contains(c.Help+c.Args, "\n") {
			t.Fatalf("%+v", c)
		}
		if len(c.ShellLines()) > 16 {
			t.Fatalf("%q", c.ShellLines())
		}
		if m := c.Message(args, c.ShellLines()...); utf8.ValidString(content) && utf8.ValidString(args) && !utf8.ValidString(m) {
			t.Fatalf("%q", m)
		}
	})
}
