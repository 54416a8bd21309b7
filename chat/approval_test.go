package chat_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/render"
)

func TestAPersonIsShownEverythingAndGetsExactlyThat(t *testing.T) {
	r := newRig(t, memory.New(), map[string][]reply{
		"run":    {calls(use("c1", "bash", `{"command":"true\ntouch ran"}`))},
		"write":  {calls(use("c2", "write", `{"path":"a.txt","content":"two\n"}`))},
		"binary": {calls(use("c3", "write", `{"path":"b.bin","content":"text"}`), use("c4", "write", `{"path":"b.bin","content":"more"}`))},
	})
	file := filepath.Join(r.dir, "a.txt")
	put := func(name, text string) {
		if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var shown []string
	r.decide = func(_ context.Context, a chat.ApprovalRequest) (chat.Decision, error) {
		shown = append(shown, render.ApprovalText(a.Lines))
		switch a.ID {
		case "c2":
			put("a.txt", "meanwhile\n")
			return chat.Once, nil
		case "c3":
			if a.Whole {
				t.Error("a binary file is said to be shown whole")
			}
		}
		return chat.Always, nil
	}
	c := r.new()
	r.send(c, "run")
	put("a.txt", "one\n")
	r.send(c, "write")
	put("b.bin", "\x00\x01")
	r.send(c, "binary")
	want := []string{"@ bash\n@ command:\n  true\n  touch ran\n", "- one\n+ two\n", "cannot be shown: it is binary\n", "- text\n+ more\n"}
	if len(shown) != len(want) {
		t.Fatalf("%q", shown)
	}
	for i := range want {
		if !strings.Contains(shown[i], want[i]) {
			t.Errorf("%q, want %q", shown[i], want[i])
		}
	}
	if got, _ := os.ReadFile(file); string(got) != "meanwhile\n" {
		t.Errorf("what changed after it was shown was overwritten: %q", got)
	}
}
