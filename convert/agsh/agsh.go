// Package agsh reads and writes the sessions of agsh, which is called meka since
// its version 0.27: one SQLite database with a row per session and a row per
// message.
//
// The database does not reliably say which version wrote it, so its form is
// deduced from its columns. Tables with credentials are in the same file; no
// statement here names them. A session that an agsh has open is imported as far
// as it goes, and says so in Lost.
//
//	for s, err := range agsh.Tool().Import(ctx, place) { … }
package agsh

import (
	"bytes"
	"context"
	"io/fs"
	"iter"
	"path"
	"strings"

	"github.com/tidemark-sessions/tidemark/convert"
)

// Tool returns agsh.
func Tool() convert.Tool {
	return convert.Tool{
		Name:   "agsh",
		Title:  "agsh",
		Homes:  homes(),
		Detect: detect,
		Import: importAll,
		Export: export,
	}
}

// The databases. When both exist, the successor has taken over what the first
// one held, so it is read first and wins.
const (
	mekaDB = "meka.db"
	agshDB = "sessions.db"
)

// homes are the data folders of the three systems.
func homes() []string {
	return []string{
		".local/share/meka", ".local/share/agsh",
		"Library/Application Support/meka", "Library/Application Support/agsh",
		"AppData/Roaming/meka", "AppData/Roaming/agsh",
	}
}

// headBytes is enough for the statements that made the first tables.
const headBytes = 64 << 10

// candidates are the files at the Source that may hold sessions.
func candidates(p convert.Source) []string {
	info, err := fs.Stat(p.FS, p.Path)
	if err != nil {
		return nil
	}
	if !info.IsDir() {
		return []string{p.Path}
	}
	var found []string
	for _, dir := range append([]string{"."}, homes()...) {
		for _, base := range []string{mekaDB, agshDB} {
			name := path.Join(p.Path, dir, base)
			if convert.IsFile(p.FS, name) {
				found = append(found, name)
			}
		}
	}
	return found
}

// detect reads the columns of a database only when its name or its first bytes
// look like agsh: reading them means copying it.
func detect(ctx context.Context, p convert.Source) bool {
	for _, name := range candidates(p) {
		b, _ := convert.Head(p.FS, name, headBytes)
		switch {
		case isEnvelope(b):
			return true
		case !bytes.HasPrefix(b, []byte(convert.SQLiteMagic)) || p.SQL == nil:
			continue
		case !named(name) && !bytes.Contains(b, []byte("CREATE TABLE sessions")):
			continue
		}
		if src, err := open(ctx, p, name); err == nil {
			src.Close()
			return true
		}
	}
	return false
}

func named(name string) bool { return path.Base(name) == mekaDB || path.Base(name) == agshDB }

// importAll yields the sessions of every database at the Source, each id once.
func importAll(ctx context.Context, p convert.Source) iter.Seq2[*convert.Session, error] {
	return func(yield func(*convert.Session, error) bool) {
		names := candidates(p)
		if len(names) == 0 {
			yield(nil, convert.Skipf(p.Path, "there is no %s and no %s", agshDB, mekaDB))
			return
		}
		seen := map[string]bool{}
		for _, name := range names {
			read := importDB
			if b, _ := convert.Head(p.FS, name, headBytes); !bytes.HasPrefix(b, []byte(convert.SQLiteMagic)) && strings.HasSuffix(name, ".json") {
				read = importEnvelope
			}
			for s, err := range read(ctx, p, name) {
				if s != nil && seen[s.ForeignID] {
					continue
				}
				if s != nil {
					seen[s.ForeignID] = true
				}
				if !yield(s, err) || err != nil && !convert.IsSkip(err) {
					return
				}
			}
		}
	}
}
