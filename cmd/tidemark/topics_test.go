package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/manual"
)

// variable is the name of a variable of the environment, as code spells it.
var variable = regexp.MustCompile(`"((?:TIDEMARK|XDG|LC|CLICOLOR)_?[A-Z_]*|NO_COLOR|TERM|LANG|APPDATA)"`)

func TestEveryVariableThatIsReadIsExplained(t *testing.T) {
	var files []string
	for _, room := range []string{".", "../../open", "../../server/serve", "../../internal/terminal"} {
		some, err := filepath.Glob(filepath.Join(room, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, some...)
	}
	named := make(map[string]bool)
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(f, "_test.go") || !strings.Contains(strings.ToLower(string(text)), "env(") {
			continue
		}
		for _, m := range variable.FindAllStringSubmatch(string(text), -1) {
			named[m[1]] = true
		}
	}
	if len(named) < 14 {
		t.Errorf("only %d variables were found", len(named))
	}
	for name := range named {
		if !strings.Contains(topic("environment"), name) {
			t.Errorf("tidemark help environment does not explain %s", name)
		}
	}
}

// topic is the text of a topic.
func topic(name string) string {
	all := manual.Topics()
	return all[slices.IndexFunc(all, func(t manual.Topic) bool { return t.Name == name })].Text
}

func TestEveryExitCodeIsExplained(t *testing.T) {
	for _, c := range tidemark.Codes {
		if row := fmt.Sprintf("  %3d  %-15s  %s\n", c.Exit, c.Name, c.Err); !strings.Contains(manual.ExitCodes(), row) {
			t.Errorf("tidemark help exit-codes has no row %q", row)
		}
	}
}

func TestEveryTemplateFunctionIsExplained(t *testing.T) {
	text, err := os.ReadFile("../../render/data/data.go")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^\t\t"([a-z]+)": +func\(`).FindAllStringSubmatch(string(text), -1)
	if len(found) == 0 {
		t.Error("no function was found")
	}
	for _, m := range found {
		if !strings.Contains(topic("formatting"), "\n  "+m[1]+" ") {
			t.Errorf("tidemark help formatting does not explain %s", m[1])
		}
	}
}
