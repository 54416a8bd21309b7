package tool

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWhatIsWrittenIsWhatWasShown(t *testing.T) {
	for name, input := range map[string]m{
		"write": {"path": "a.txt", "content": "new\n"},
		"edit":  {"path": "a.txt", "old_string": "old", "new_string": "new"},
	} {
		b := newBox(t, Options{})
		file := filepath.Join(b.o.Root, "a.txt")
		put := func(text string) {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		put("old\n")
		raw, err := json.Marshal(input)
		if err != nil {
			t.Fatal(err)
		}
		tool := b.Find(name)
		c, err := tool.Change(t.Context(), raw)
		if err != nil || string(c.Old) != "old\n" || string(c.New) != "new\n" || c.Made {
			t.Fatalf("%s: %+v, %v", name, c, err)
		}
		scope, _ := tool.Asks(raw)
		seen := WithSeen(t.Context(), Seen{Scope: scope, Change: c.Hash()})
		put("old\nand more\n")
		if res, err := tool.Run(seen, raw); err != nil || !res.IsError || !strings.Contains(res.Text, "changed after it was shown") {
			t.Errorf("%s: %+v, %v", name, res, err)
		}
		if got, _ := os.ReadFile(file); string(got) != "old\nand more\n" {
			t.Errorf("%s wrote %q", name, got)
		}
		put("old\n")
		if res, err := tool.Run(seen, raw); err != nil || res.IsError {
			t.Errorf("%s: %+v, %v", name, res, err)
		}
		if got, _ := os.ReadFile(file); string(got) != "new\n" {
			t.Errorf("%s wrote %q", name, got)
		}
	}
}

func TestACommandThatWasJudgedOtherwiseDoesNotRun(t *testing.T) {
	b := shellBox(t, Options{})
	raw := commandInput("ls")
	if res, err := b.Find("bash").Run(WithSeen(t.Context(), Seen{Scope: "exactly: ls"}), raw); err != nil || !res.IsError || !strings.Contains(res.Text, "not run") {
		t.Errorf("%+v, %v", res, err)
	}
	scope, _ := b.Find("bash").Asks(raw)
	if res, err := b.Find("bash").Run(WithSeen(t.Context(), Seen{Scope: scope}), raw); err != nil || res.IsError {
		t.Errorf("%+v, %v", res, err)
	}
}
