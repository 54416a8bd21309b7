package tidemark_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestEveryModuleHasAReason(t *testing.T) {
	page, err := os.ReadFile("docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, m := range regexp.MustCompile(`(?m)^\s+([^\s]+\.[^\s]+) (v[^\s]+)`).FindAllStringSubmatch(string(mod), -1) {
		named++
		if row := fmt.Sprintf("| `%s` | %s |", m[1], m[2]); !strings.Contains(string(page), row) {
			t.Errorf("docs/dependencies.md has no row that begins with %s", row)
		}
	}
	if named == 0 {
		t.Error("go.mod names no module")
	}
}

func TestLinksInPagesLeadSomewhere(t *testing.T) {
	pages, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir("docs", func(name string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(name, ".md") {
			pages = append(pages, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`\]\(([^)#:\s]+)(#[^)]*)?\)`)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s: links to %s, which is not there", page, m[1])
			}
		}
	}
}
