package open

import (
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/archive"
	"github.com/tidemark-sessions/tidemark/backend/files"
	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
	"github.com/tidemark-sessions/tidemark/seal"
)

// FormatRange is which versions of a format this program reads without
// conversion, and which it writes.
type FormatRange struct {
	Reads  []int `json:"reads"`
	Writes int   `json:"writes"`
}

// Formats are those that docs/formats describes, each by the name of its page.
// Tables of a database are upgraded by their owner, and never read in an older
// version; both sides of a wire protocol use the same version.
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

// upTo is a format whose older versions are read, too.
func upTo(newest int) FormatRange {
	f := FormatRange{Writes: newest}
	for n := 1; n <= newest; n++ {
		f.Reads = append(f.Reads, n)
	}
	return f
}
