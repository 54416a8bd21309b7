package open

import (
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/archive"
	"github.com/tidemark-sessions/tidemark/backend/files"
	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
	"github.com/tidemark-sessions/tidemark/seal"
)

// FormatRange is which numbers of a format this program takes as they are, and
// which it makes.
type FormatRange struct {
	Reads  []int `json:"reads"`
	Writes int   `json:"writes"`
}

// Formats are those that docs/formats describes, each by the name of its page.
// Tables of a database are brought up to date by their owner, never read as an
// older program left them; both sides of a wire speak the same number.
func Formats() map[string]FormatRange {
	return map[string]FormatRange{
		"sqlite":   upTo(sqlite.Format),
		"files":    upTo(files.Format),
		"postgres": {Reads: []int{postgres.Schema}, Writes: postgres.Schema},
		"archive":  upTo(archive.Format),
		"seal":     upTo(seal.Format),
		"wire":     {Reads: []int{api.BackendFormat}, Writes: api.BackendFormat},
	}
}

// upTo is a format whose older forms are read, too.
func upTo(newest int) FormatRange {
	f := FormatRange{Writes: newest}
	for n := 1; n <= newest; n++ {
		f.Reads = append(f.Reads, n)
	}
	return f
}
