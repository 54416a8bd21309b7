package open

import (
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/archive"
	"github.com/tidemark-sessions/tidemark/backend/files"
	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
	"github.com/tidemark-sessions/tidemark/seal"
)

// FormatRange says which versions of a format this program reads without
// conversion, and which one it writes.
type FormatRange struct {
	Reads  []int `json:"reads"`
	Writes int   `json:"writes"`
}

// Formats returns the formats that docs/formats describes, by the names of the
// pages there. The tables of a database are never read in an older version: their
// owner has to upgrade them first. Both sides of the wire protocol have to use the
// same version.
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

// upTo returns the range of a format of which all older versions are read, too.
func upTo(newest int) FormatRange {
	f := FormatRange{Writes: newest}
	for n := 1; n <= newest; n++ {
		f.Reads = append(f.Reads, n)
	}
	return f
}
