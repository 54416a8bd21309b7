package project

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// ErrLong is a file that is longer than whoever reads it takes.
var ErrLong = errors.New("too long")

// ReadFile reads a regular file of a project, by its path below the root. No
// link leads out of it. A file that is not there, or is none, is
// fs.ErrNotExist; one of more than most bytes is ErrLong.
func ReadFile(root, name string, most int64) ([]byte, error) {
	w, err := durable.OpenWorkspace(root)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	info, err := fs.Stat(w.ReadOnly(), name)
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, err
	}
	f, err := w.ReadOnly().Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAtMost(f, most)
}

// ReadOwn reads a file of the person's own, which may be a link to wherever they
// keep it. The errors are those of ReadFile.
func ReadOwn(name string, most int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAtMost(f, most)
}

func readAtMost(f io.Reader, most int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("%w: it has more than %d bytes", ErrLong, most)
	}
	return b, err
}
