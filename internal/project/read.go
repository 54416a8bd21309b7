package project

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// ErrLong is a file that is longer than whoever reads it takes.
var ErrLong = errors.New("too long")

// ReadFile reads a regular file of a project, by its path below the root. No
// link leads out of it. A file that is not there, or is none, is
// fs.ErrNotExist; one of more than most bytes is ErrLong.
func ReadFile(root, name string, most int64) (b []byte, err error) {
	err = read(root, name, most, func(f io.Reader) (err error) { b, err = readAtMost(f, most); return err })
	return b, err
}

// Sum returns the SHA-256 of a file of a project, in hexadecimal. The errors are
// those of ReadFile.
func Sum(root, name string, most int64) (sum string, err error) {
	h := sha256.New()
	err = read(root, name, most, func(f io.Reader) error {
		n, err := io.Copy(h, io.LimitReader(f, most+1))
		if err == nil && n > most {
			err = tooLong(most)
		}
		return err
	})
	return hex.EncodeToString(h.Sum(nil)), err
}

// read opens a file for take, which has to bound what it reads: the file may grow.
func read(root, name string, most int64, take func(io.Reader) error) error {
	w, err := durable.OpenWorkspace(root)
	if err != nil {
		return err
	}
	defer w.Close()
	info, err := fs.Stat(w.ReadOnly(), name)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fs.ErrNotExist
	case info.Size() > most:
		return tooLong(most)
	}
	f, err := w.ReadOnly().Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return take(f)
}

// PathOf returns the path in a file: address, false for any other address.
func PathOf(uri string) (string, bool) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" || u.Path == "" {
		return "", false
	}
	path := u.Path
	if len(path) > 2 && path[0] == '/' && path[2] == ':' {
		path = path[1:] // a drive
	}
	return filepath.FromSlash(path), true
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
		err = tooLong(most)
	}
	return b, err
}

func tooLong(most int64) error { return fmt.Errorf("%w: it has more than %d bytes", ErrLong, most) }
