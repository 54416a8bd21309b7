package transfer

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/archive"
	"github.com/tidemark-sessions/tidemark/internal/vault"
	"github.com/tidemark-sessions/tidemark/open"
)

// MigrateOptions are the callbacks of a migration.
type MigrateOptions struct {
	Progress func(archive.Progress)
	Damaged  func(error)   // called for each item that is left out
	Indexing func(n int64) // called with the number of indexed entries
	NoVault  func()        // called once if the vault is not copied
}

// Migrate copies all of a store into another one, of any kind, and compares it
// afterwards. It can be interrupted and called again: it continues where it
// was. The old store is not changed, and the new one is closed.
func Migrate(ctx context.Context, from tidemark.Backend, target *open.Opened, o MigrateOptions) (archive.Stats, error) {
	change := target.Refile
	if target.Sealed() == nil {
		change = withoutVault(change, o.NoVault)
	}
	stats, err := copyAll(ctx, from, target, &archive.CopyOptions{Progress: o.Progress, Change: change, Damaged: o.Damaged})
	if err == nil {
		if _, err = target.Store.CatchUp(ctx, o.Indexing); errors.Is(err, tidemark.ErrUnsupported) {
			err = nil
		}
	}
	if closeErr := target.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		err = WithResumeHint(err, "what was copied is kept; run it again to go on")
	}
	return stats, err
}

func copyAll(ctx context.Context, from tidemark.Backend, target *open.Opened, o *archive.CopyOptions) (archive.Stats, error) {
	adopted, err := target.Store.Adopting(ctx)
	if err != nil {
		return archive.Stats{}, err
	}
	stats, err := archive.Copy(ctx, from, target.Backend, o)
	return stats, errors.Join(err, adopted(context.WithoutCancel(ctx)))
}

// withoutVault leaves out the content of the vault: a plain store has none.
func withoutVault(change func(tidemark.Record) (tidemark.Record, error), tell func()) func(tidemark.Record) (tidemark.Record, error) {
	said := false
	return func(r tidemark.Record) (tidemark.Record, error) {
		if r.Key.Kind != vault.KindSecret {
			return change(r)
		}
		if !said {
			said = true
			tell()
		}
		return tidemark.Record{}, nil
	}
}

// SameStore reports whether two URLs name the same store.
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
