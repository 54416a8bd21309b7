package slash

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark/agent"
)

func TestAMessageNamesFiles(t *testing.T) {
	for text, want := range map[string][]string{
		"look at @a/b.go, please":      {"a/b.go"},
		"@one and (@two) and @\"a b\"": {"one", "two", "a b"},
		"mail me@example.org @ 5":      nil,
		"@":                            nil,
		`@"never closed`:               nil,
	} {
		if got := mentions(text); !slices.Equal(got, want) {
			t.Errorf("%q names %q, want %q", text, got, want)
		}
	}
	if got := mentions(strings.Repeat("@x ", 1000)); len(got) != maxMentions {
		t.Errorf("%d names", len(got))
	}
}

func TestAFileThatIsNamedIsSentAndNothingElse(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(dir, "a.txt"), "hello\n")
	write(filepath.Join(dir, "big.txt"), strings.Repeat("x", maxDocument+1))
	write(filepath.Join(outside, "secret.txt"), "secret\n")
	if err := os.Symlink(filepath.Join(outside, "secret.txt"), filepath.Join(dir, "link.txt")); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	c := &Conversation{Options: agent.Options{Project: dir}, Out: &out}
	got := c.Mentioned("@a.txt @link.txt @../" + filepath.Base(outside) + "/secret.txt @" + outside + "/secret.txt @. @nosuch @big.txt")
	if len(got) != 1 || !strings.Contains(got[0].Text, "hello\n") || strings.Contains(got[0].Text, "secret") {
		t.Errorf("sent: %v", got)
	}
	if said := out.String(); !strings.Contains(said, "Sent with it: a.txt (1 lines)") || !strings.Contains(said, "big.txt is over") {
		t.Errorf("said: %s", said)
	}
}

func TestAFastTypistIsOfferedAllFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"first.txt", "last.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := &Conversation{Options: agent.Options{Project: dir}, Setup: &agent.Setup{}}
	overtaken, cancel := context.WithCancel(t.Context())
	cancel()
	c.completeFile(overtaken, "@")
	if len(c.files.list) != 2 {
		t.Errorf("the list that the next key finds is %q", c.files.list)
	}
	if got := c.completeFile(t.Context(), "@last"); !slices.Equal(got, []string{"@last.txt "}) {
		t.Errorf("offered %q", got)
	}
}

func FuzzMentions(f *testing.F) {
	f.Add(`see @a/b.go and @"c d", @e`)
	f.Fuzz(func(t *testing.T, text string) {
		names := mentions(text)
		if len(names) > maxMentions {
			t.Fatalf("%d names", len(names))
		}
		for _, name := range names {
			if name == "" || strings.Contains(name, "\n") || !strings.Contains(text, name) {
				t.Fatalf("%q names %q", text, name)
			}
		}
	})
}
