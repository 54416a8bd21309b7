package tidemark_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The threat model is a page that promises tests, too: together they are the
// adversarial suite, which make attacks runs alone.

var (
	namedTest = regexp.MustCompile("`(Test[A-Za-z0-9_]+)`")
	testFunc  = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
)

func TestEveryTestOfTheThreatModelExists(t *testing.T) {
	have := make(map[string]bool)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		code, err := os.ReadFile(path)
		for _, m := range testFunc.FindAllSubmatch(code, -1) {
			have[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := make(map[string]bool)
	for _, page := range []string{"docs/threat-model.md", "SECURITY.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range namedTest.FindAllSubmatch(text, -1) {
			name := string(m[1])
			if named[name] = true; !have[name] {
				t.Errorf("%s: there is no %s", page, name)
			}
		}
	}
	if len(named) < 140 {
		t.Errorf("%d tests are named, want at least 140", len(named))
	}
}
