package transfer

import (
	"archive/zip"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/store"
)

// Somebody who gives a zip should hear why it is not taken, not that no tool is
// known.
func TestAZipIsImportedOrRefusedWithItsReason(t *testing.T) {
	const chats = `[{"conversation_id":"c1","title":"tea","mapping":{"u":{"message":{"author":{"role":"user"},"content":{"content_type":"text","parts":["Hello"]}}}}}]`
	for name, c := range map[string]struct {
		files map[string]string
		want  string // "": it comes in
	}{
		"export":  {map[string]string{"conversations.json": chats}, ""},
		"slip":    {map[string]string{"conversations.json": chats, "../x": "y"}, "leads out"},
		"other":   {map[string]string{"notes.txt": "x"}, "no conversations.json"},
		"unknown": {map[string]string{"conversations.json": `[{"thread":1}]`}, "no service that is known"},
	} {
		file := filepath.Join(t.TempDir(), "a.zip")
		f, err := os.Create(file)
		if err != nil {
			t.Fatal(err)
		}
		w := zip.NewWriter(f)
		for member, data := range c.files {
			m, err := w.Create(member)
			if err == nil {
				_, err = m.Write([]byte(data))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(w.Close(), f.Close()); err != nil {
			t.Fatal(err)
		}
		i := &Importer{Opened: open.Around(store.New(memory.New(), nil)), Holder: store.Self("import")}
		err = i.Paths(t.Context(), file)
		if c.want == "" {
			if err != nil || len(i.Results) != 1 || i.Results[0].Entries != 1 {
				t.Errorf("%s: %v, %+v", name, err, i.Results)
			}
		} else if !errors.Is(err, tidemark.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
