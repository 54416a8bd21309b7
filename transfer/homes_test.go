package transfer

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/store"
)

// movedHomes are where variables move the stores of samples: the variable, and the
// folder of the sample that it then names.
var movedHomes = map[string]struct{ sample, variable, folder string }{
	"claude-code": {"claude-code/2.1.197", "CLAUDE_CONFIG_DIR", ".claude"},
	"codex":       {"codex/0.98.0", "CODEX_HOME", ".codex"},
	"pi":          {"pi/0.73.1", "PI_CODING_AGENT_DIR", ".pi/agent"},
	"qwen-code":   {"qwen-code/0.24.4", "QWEN_HOME", ".qwen"},
	"kimi-code":   {"kimi-code/2.1.0", "KIMI_CODE_HOME", ".kimi-code"},
	"opencode":    {"opencode/1.18.33", "XDG_DATA_HOME", ".local/share"},
	"kilo-cli":    {"kilo-cli/7.7.9", "XDG_DATA_HOME", ".local/share"},
}

func TestAHomeThatTheEnvironmentMovesIsFound(t *testing.T) {
	for tool, m := range movedHomes {
		t.Run(tool, func(t *testing.T) {
			read := func(home, value string) int {
				i := &Importer{Opened: open.Around(store.New(memory.New(), nil)), Holder: store.Self("import"), Open: &open.Options{Environ: []string{m.variable + "=" + value}}}
				if _, err := i.Homes(t.Context(), home); err != nil {
					t.Fatal(err)
				}
				for _, r := range i.Results {
					if r.Tool != tool {
						t.Errorf("a session of %s", r.Tool)
					}
				}
				return len(i.Results)
			}
			sample := t.TempDir()
			if err := os.CopyFS(sample, os.DirFS("../convert/testdata/"+m.sample)); err != nil {
				t.Fatal(err)
			}
			moved := filepath.Join(sample, filepath.FromSlash(m.folder))
			usual := read(sample, "")
			if usual == 0 {
				t.Fatal("there is nothing in the sample")
			}
			if n := read(t.TempDir(), moved); n != usual {
				t.Errorf("%d sessions where %s says, want %d", n, m.variable, usual)
			}
			if n := read(sample, moved); n != usual {
				t.Errorf("%d sessions of a home that is named twice, want %d", n, usual)
			}
			if n := read(t.TempDir(), "somewhere"); n != 0 {
				t.Errorf("%d sessions of a folder that is not absolute", n)
			}
		})
	}
}
