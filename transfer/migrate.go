package transfer

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/archive"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/store"
)

// MigrateOptions say who is told of a migration.
type MigrateOptions struct {
	Progress func(archive.Progress)
	Damaged  func(error)   // is told of each thing that is left out
	Indexing func(n int64) // is told how many entries are indexed
	NoVault  func()        // is told once that the vault stays behind
}

// Migrate copies all of a store into another one, of any kind, and compares it
// afterwards. It can be interrupted and called again: it goes on where it was.
// The old store is left as it is, and the new one is closed.
func Migrate(ctx context.Context, from tidemark.Backend, target *open.Opened, o MigrateOptions) (archive.Stats, error) {
	change := target.Refile
	if target.Sealed() == nil {
		change = withoutVault(change, o.NoVault)
	}
	stats, err := archive.Copy(ctx, from, target.Backend, &archive.CopyOptions{Progress: o.Progress, Change: change, Damaged: o.Damaged})
	if err == nil {
		if _, err = target.Store.CatchUp(ctx, o.Indexing); errors.Is(err, tidemark.ErrUnsupported) {
			err = nil
		}
	}
	if closeErr := target.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		err = GoOn(err, "what was copied is kept; run it again to go on")
	}
	return stats, err
}

// withoutVault leaves out what the vault keeps: a plain store has none.
func withoutVault(change func(tidemark.Record) (tidemark.Record, error), tell func()) func(tidemark.Record) (tidemark.Record, error) {
	said := false
	return func(r tidemark.Record) (tidemark.Record, error) {
		if !store.IsSecret(r.Key) {
			return change(r)
		}
		if !said {
			said = true
			tell()
		}
		return tidemark.Record{}, nil
	}
}

// SameStore reports whether two URLs lead to one place.
func SameStore(a, b string) bool {
	if a == b {
		return true
	}
	_, one, _ := strings.Cut(a, ":")
	_, other, _ := strings.Cut(b, ":")
	x, err := os.Stat(one)
	if err != nil {
		return false
	}
	y, err := os.Stat(other)
	return err == nil && os.SameFile(x, y)
}
