package sqlite

import (
	"path/filepath"
	"testing"
)

// The look that every Open takes compares with figures; they are those of the
// schema that is made.
func TestFiguresOfTheSchemaAreThoseOfStoresAsTheyAreMade(t *testing.T) {
	for version, want := range schemaSums {
		s, err := schemaOf(version, here)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.sum(); got != want {
			t.Errorf("schemaSums[%d] = %#x, is %#x", version, want, got)
		}
	}
	first := here
	first.upgrades = nil
	for _, set := range []setting{here, first} {
		b, err := open(t.Context(), filepath.Join(t.TempDir(), "store.db"), &Options{Create: true}, set)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		for _, do := range []string{"SELECT 1", "VACUUM"} {
			harm(t, b, do)
			if s, err := readSchema(b.writer.c); err != nil || !s.laidOut() {
				t.Errorf("version %d after %s: %v, the tables begin at %v", set.version(), do, err, s.begins)
			}
		}
	}
}
