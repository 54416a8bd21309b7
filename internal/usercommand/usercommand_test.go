package usercommand_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark/internal/usercommand"
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
	own := write(t, t.TempDir(), map[string]string{"mine.md": "My own."})
	got := make(map[string]string)
	for _, c := range usercommand.Read(usercommand.Options{Project: project, Own: own}) {
		got[c.Name] = fmt.Sprintf("%s|%s|%s", c.Args, c.Help, c.Message("it now"))
	}
	want := map[string]string{
		"fix": "|Ours: fix $1, then $ARGUMENTS.|Ours: fix it, then it now.", "git:tidy": "[BRANCH]|Tidies up|# Tidy\nTidy it up.\n\nit now", "mine": "|My own.|My own.\n\nit now",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if all := usercommand.Read(usercommand.Options{Project: t.TempDir(), Own: filepath.Join(own, "none")}); len(all) != 0 {
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
	if all := usercommand.Read(usercommand.Options{Project: project}); len(all) != 1 || all[0].Name != "a" {
		t.Errorf("%+v", all)
	}
}

func TestMoreCommandsThanAnybodyCanReadAreBounded(t *testing.T) {
	files := make(map[string]string)
	for i := range 400 {
		files[fmt.Sprintf(".claude/commands/c%d.md", i)] = "x"
	}
	if n := len(usercommand.Read(usercommand.Options{Project: write(t, t.TempDir(), files)})); n != 256 {
		t.Errorf("%d commands", n)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "---\n---\n", "---\ndescription: x\n---\nbody", "---\nno end", "$1 $ARGUMENTS $", "---\r\ndescription: y\r\n---\r\nz"} {
		f.Add(s, "a b")
	}
	f.Fuzz(func(t *testing.T, content, args string) {
		c := usercommand.Parse(content)
		if len(c.Help) > 210 || len(c.Args) > 210 || strings.Contains(c.Help+c.Args, "\n") {
			t.Fatalf("%+v", c)
		}
		if m := c.Message(args); utf8.ValidString(content) && utf8.ValidString(args) && !utf8.ValidString(m) {
			t.Fatalf("%q", m)
		}
	})
}
