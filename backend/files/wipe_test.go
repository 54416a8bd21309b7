package files_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/backendtest"
	"github.com/tidemark-sessions/tidemark/backend/files"
)

// A purge overwrites what it removes. A second name for each file shows what is
// left in its blocks.
func TestWhatAPurgeRemovesIsOverwritten(t *testing.T) {
	const canary = "kanarienvogel"
	dir, kept := t.TempDir(), t.TempDir()
	b := open(t, dir, &files.Options{Create: true})
	key := tidemark.Key{Kind: "datakey", ID: "a"}
	keep(t, b, backendtest.NewRecord(sessA, 1, `{"title":"`+canary+`"}`), backendtest.NewRecord(key, 1, `{"key":"`+canary+`"}`), run(sessA, 1, 500))
	names := map[string]string{"record": "records/session/a.json", "key": "records/datakey/a.json", "log": logA}
	for as, name := range names {
		if err := os.Link(filepath.Join(dir, name), filepath.Join(kept, as)); err != nil {
			t.Fatal(err)
		}
	}
	keep(t, b, tidemark.Precondition{Key: sessA, Version: 1}, tidemark.Precondition{Key: key, Version: 1}, sessA)
	for as, name := range names {
		data, err := os.ReadFile(filepath.Join(kept, as))
		if err != nil || len(data) == 0 || len(bytes.Trim(data, "\x00")) > 0 {
			t.Errorf("what was %s: %d bytes, %v; want zeros", name, len(data), err)
		}
		if _, err := os.Stat(filepath.Join(dir, name)); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", name, err)
		}
	}
}
