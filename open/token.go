package open

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/internal/hint"
)

// TokenName is the file with the token of the local user of a server.
const TokenName = "server.token"

// TokenPath returns where clients look for the token of the local user of a server:
// the named file, or else one in the data folder, since they do not know which store
// the server serves.
func TokenPath(environ []string, named string) (string, error) {
	if named != "" {
		return named, nil
	}
	dir, err := DataDir(environ)
	return filepath.Join(dir, TokenName), err
}

// ReadToken reads a token from a file, "" when there is none.
func ReadToken(path string) (string, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", tidemark.Invalidf("%w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 8<<10))
	return strings.TrimSpace(string(b)), err
}

// TokenBeside returns where a server keeps its token: the named file, or else a file
// beside the store that it serves or, if that is not on this machine, where clients
// look.
func TokenBeside(url string, environ []string, named string) (string, error) {
	if path := LocalPath(url); path != "" && named == "" {
		return filepath.Join(filepath.Dir(path), TokenName), nil
	}
	return TokenPath(environ, named)
}

// LocalPath returns the file or folder of the store at a URL, "" when it is not on
// this machine.
func LocalPath(url string) string {
	kind, path, _ := strings.Cut(url, ":")
	if kind != "sqlite" && kind != "files" {
		return ""
	}
	return path
}

// ServerToken returns the token of the local user of a server, and the file that it
// is in. A user has one token, which the first server creates. It is kept beside
// each store that is served and also where clients look, so that they find it
// whichever store is served.
func ServerToken(url string, environ []string, named string) (token, path string, err error) {
	if path, err = TokenBeside(url, environ, named); err != nil {
		return "", "", err
	}
	clients, err := TokenPath(environ, named)
	if err != nil {
		return "", "", err
	}
	for _, p := range []string{path, clients} {
		if token, err = ReadToken(p); token != "" || err != nil {
			break
		}
	}
	if token == "" && err == nil {
		token = newToken()
	}
	for _, p := range []string{path, clients} {
		if err == nil {
			_, err = keepToken(p, token)
		}
	}
	return token, path, err
}

// MakeToken returns the token in a file, which it creates if there is none.
func MakeToken(path string) (string, error) { return keepToken(path, newToken()) }

func newToken() string {
	var b [32]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// keepToken returns the token in a file, after writing the given one if
// there was none.
func keepToken(path, token string) (string, error) {
	if existing, err := ReadToken(path); existing != "" || err != nil {
		return existing, err
	}
	if err := durable.MakeDir(filepath.Dir(path)); err != nil {
		return "", tidemark.Storagef("%w", err)
	}
	dir, err := durable.OpenDir(filepath.Dir(path))
	if err != nil {
		return "", tidemark.Storagef("%w", err)
	}
	defer dir.Close()
	name := filepath.Base(path)
	err = durable.Stream(dir, fmt.Sprintf("%s.%d.tmp", name, os.Getpid()), name, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, token)
		return err
	})
	if err != nil {
		return "", tidemark.Storagef("%s: %w", path, err)
	}
	return token, nil
}

// LocalToken returns the token of the local user of the server of a store, from a file
// or, where none is named, from where servers and clients keep it. ErrNotFound: no
// server was started here yet.
func LocalToken(store string, environ []string, file string) (string, error) {
	path, err := TokenBeside(store, environ, file)
	if err != nil {
		return "", err
	}
	token, err := ReadToken(path)
	if clients, dirErr := TokenPath(environ, ""); token == "" && err == nil && file == "" && dirErr == nil {
		token, err = ReadToken(clients)
	}
	if token == "" && err == nil {
		err = hint.With(tidemark.NotFoundf("%s: no token is there, so no server was started here yet", path), "start one with: tidemark serve")
	}
	return token, err
}
