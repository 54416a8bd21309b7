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

// TestFiguresCalledMeasuredAreInTheTables looks for each row of what a page calls measured: the page that it
// names has to have the figure beside the same words.
func TestFiguresCalledMeasuredAreInTheTables(t *testing.T) {
	t.Parallel()
	const page = "docs/guide/scale.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "<!-- measured: begin -->")
	table, _, ended := strings.Cut(table, "<!-- measured: end -->")
	rows := regexp.MustCompile(`(?m)^\| ([^|]*\d[^|]*) \| ([^|]+) \| \[\w+\]\(([^)]+)\) \|$`).FindAllStringSubmatch(table, -1)
	if lines := strings.Count(table, "\n| "); !ended || len(rows) < 10 || len(rows) != lines-2 {
		t.Fatalf("%s: %d of %d lines of the table are rows with a figure", page, len(rows), lines-2)
	}
	for _, row := range rows {
		figure, work := row[1], row[2]
		from, err := os.ReadFile(filepath.Join(filepath.Dir(page), row[3]))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for line := range strings.Lines(string(from)) {
			found = found || strings.Contains(line, work) && strings.Contains(line, figure)
		}
		if !found {
			t.Errorf("%s: %q of %q stands nowhere in %s", page, figure, work, row[3])
		}
	}
}
