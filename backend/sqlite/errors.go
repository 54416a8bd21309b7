package sqlite

import (
	"errors"
	"fmt"

	lib "modernc.org/sqlite/lib"

	"github.com/tidemark-sessions/tidemark"
)

var errClosed = errors.New("sqlite: closed")

// primary returns the primary result code that err carries, 0 when it carries
// none.
func primary(err error) int32 {
	if err == nil {
		return 0
	}
	var s *sqliteError
	if errors.As(err, &s) {
		return s.code & 0xff
	}
	return 0
}

// isCorrupt reports whether SQLite itself found the file damaged.
func isCorrupt(err error) bool {
	code := primary(err)
	return code == lib.SQLITE_CORRUPT || code == lib.SQLITE_NOTADB || code == lib.SQLITE_FORMAT
}

// named makes an error of SQLite answer to a sentinel, and adds which store it
// is about. Other errors pass unchanged.
func (b *Backend) named(err error) error { return named(b.path, err) }

func named(path string, err error) error {
	if err == nil {
		return nil
	}
	for _, already := range []error{tidemark.ErrStorage, tidemark.ErrCorrupt, tidemark.ErrInvalid, tidemark.ErrUnsupported} {
		if errors.Is(err, already) {
			return err
		}
	}
	switch {
	case primary(err) == 0:
		return err
	case isCorrupt(err):
		return fmt.Errorf("store %s: %w: %w", path, tidemark.ErrCorrupt, err)
	case primary(err) == lib.SQLITE_BUSY:
		return tidemark.Storagef("store %s: another program keeps it locked: %w", path, err)
	case primary(err) == lib.SQLITE_FULL:
		return tidemark.Storagef("store %s: no room left on its disk: %w", path, err)
	}
	return tidemark.Storagef("store %s: %w", path, err)
}

func invalid(path, why string) error {
	return tidemark.Invalidf("store %s: %s", path, why)
}

func unsupported(path, format string, args ...any) error {
	return fmt.Errorf("store %s: %s: %w", path, fmt.Sprintf(format, args...), tidemark.ErrUnsupported)
}
