package file

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/tidemark-sessions/tidemark/fleet"
)

func TestAFileThatIsWrittenIsReadAsTheSame(t *testing.T) {
	large, err := os.ReadFile(filepath.Join("testdata", "large.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{string(large), string(Template()), "agents: [{name: ops.auditor}]\n"} {
		want, err := Parse("f", []byte(text), inFolder())
		if err != nil {
			t.Fatal(err)
		}
		written := want.YAML()
		got, err := Parse("f", written, inFolder())
		if err != nil {
			t.Fatalf("%v\n%s", err, written)
		}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(File{})); diff != "" {
			t.Errorf("(-want +got):\n%s\n%s", diff, written)
		}
	}
}

func TestAnyTextThatIsWrittenIsReadAsTheSame(t *testing.T) {
	alphabet := []rune("ab 1\t\n\n#:-?,[]{}&*!|>'\"%@`\\~é\u00a0\u0085\u2028\u3000\ufeff\x7f\x1b\U0001f600")
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.RuneFrom(alphabet)).Draw(t, "text")
		if strings.TrimSpace(text) == "" {
			return
		}
		want := &File{Version: 1, Agents: []Agent{{Name: "a", Description: text, Env: map[string]string{"A": text}, Schedules: []Schedule{{Name: "s", Type: fleet.TypeChat, Prompt: text}}}}}
		got, err := Parse("f", want.YAML(), nil)
		if err != nil {
			t.Fatalf("%v\n%s", err, want.YAML())
		}
		if a := got.Agents[0]; a.Description != text || a.Env["A"] != text || a.Schedules[0].Prompt != text {
			t.Fatalf("%q is %+v\n%s", text, a, want.YAML())
		}
	})
}
