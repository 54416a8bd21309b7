package convert_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
)

func TestADatabaseIsReadAlsoAfterItWasClosed(t *testing.T) {
	dir := t.TempDir()
	converttest.Exec(t, filepath.Join(dir, "a.db"), sqlite.OpenForeign,
		`CREATE TABLE s (id, "odd ""name", large)`, `CREATE VIEW v AS SELECT id FROM s`,
		`INSERT INTO s VALUES (7, 1.5, zeroblob(2000000)), ('x', x'6869', NULL)`)
	src := convert.SourceDatabase{Source: converttest.Disk(t, dir, ".", sqlite.OpenForeign), Name: "a.db"}
	if err := src.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	columns, err := src.Columns(t.Context(), "s", "v", "none")
	if d := cmp.Diff(map[string][]string{"s": {"id", `odd "name`, "large"}}, columns); d != "" || err != nil {
		t.Fatalf("%v: %s", err, d)
	}
	for range 2 {
		var got [][]string
		for row, err := range src.Query(t.Context(), "SELECT "+convert.BoundedColumns(columns["s"])+" FROM s ORDER BY rowid") {
			if err != nil {
				t.Fatal(err)
			}
			var cells []string
			for _, cell := range row {
				cells = append(cells, convert.CellText(cell))
			}
			got = append(got, cells)
		}
		if d := cmp.Diff([][]string{{"7", "1.5", ""}, {"x", "hi", ""}}, got); d != "" {
			t.Error(d)
		}
		src.Close()
	}
}

func TestAPlaceWithoutDatabasesSaysSo(t *testing.T) {
	src := convert.SourceDatabase{Name: "a.db"}
	if err := src.Open(t.Context()); !errors.Is(err, tidemark.ErrUnsupported) {
		t.Errorf("%v", err)
	}
	src.Close()
}
