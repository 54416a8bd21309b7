package tidemark

import "fmt"

// NewerError says that something was written by a newer program, in a format
// that this one does not know. Nothing of it was changed. It answers to
// ErrUnsupported.
type NewerError struct {
	What   string // such as "store /srv/tidemark.db"
	Format int64  // the format that it has
	Known  int64  // the newest that this program knows
	Backup string // the copy from before it got that format, "" when none is known
}

func (e *NewerError) Error() string {
	return fmt.Sprintf("%s: has format %d, made by a newer program; this one knows format %d", e.What, e.Format, e.Known)
}

func (e *NewerError) Is(target error) bool { return target == ErrUnsupported }
