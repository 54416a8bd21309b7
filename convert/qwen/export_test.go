package qwen_test

import (
	"slices"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/converttest"
	"github.com/tidemark-sessions/tidemark/convert/qwen"
)

func TestWhatIsWrittenForQwenCodeIsReadBack(t *testing.T) {
	converttest.CheckWriter(t, qwen.Tool(), func() string { return string(tidemark.NewSessionID()) })
}

// The client sends only a note for files that are neither images nor PDFs.
func TestTextFilesAreWrittenAsText(t *testing.T) {
	for _, talk := range converttest.Conversations() {
		if talk.Name != "file" {
			continue
		}
		entries := talk.Session.Entries
		talk.Session.Entries = func(yield func(convert.Entry, error) bool) {
			for e, err := range entries {
				if e.Role == tidemark.User {
					e.Blocks = append(slices.Clone(e.Blocks), tidemark.Block{Type: tidemark.BlockFile, Name: "b.pdf", MediaType: "application/pdf", Data: []byte("%PDF-")})
				}
				if !yield(e, err) {
					return
				}
			}
		}
		s, lost := converttest.Written(t, qwen.Tool(), talk.Session)
		blocks := s.Entries[0].Blocks
		if len(blocks) != 3 || blocks[1].Text != "[file a.md text/markdown]\n# Tea" || blocks[2].Type != tidemark.BlockFile || string(blocks[2].Data) != "%PDF-" {
			t.Errorf("written: %+v", blocks)
		}
		if !slices.Contains(lost, "files that are kept as text") {
			t.Errorf("lost: %q", lost)
		}
		return
	}
	t.Error("there is no conversation with a file")
}
