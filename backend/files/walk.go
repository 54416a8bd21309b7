package files

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"maps"
	"slices"

	"github.com/tidemark-sessions/tidemark"
)

// Walk reads the directories, and no file. A log that is gone although its head
// says that it existed is yielded, too: reading it reports the damage.
func (b *Backend) Walk(ctx context.Context, after tidemark.Key) iter.Seq2[tidemark.Key, error] {
	return func(yield func(tidemark.Key, error) bool) {
		if err := b.use(ctx); err != nil {
			yield(tidemark.Key{}, err)
			return
		}
		kinds, err := b.kinds()
		if err != nil {
			yield(tidemark.Key{}, b.readError(after, err))
			return
		}
		for _, kind := range kinds {
			if kind < after.Kind {
				continue
			}
			ids, err := b.ids(kind)
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				yield(tidemark.Key{}, b.readError(tidemark.Key{Kind: kind}, err))
				return
			}
			for _, id := range ids {
				if kind == after.Kind && id <= after.ID {
					continue
				}
				if !yield(tidemark.Key{Kind: kind, ID: id}, nil) {
					return
				}
			}
		}
	}
}

// kinds returns the kinds that are stored, in order.
func (b *Backend) kinds() ([]string, error) {
	seen := make(map[string]bool)
	for _, folder := range []string{headsDir, recordsDir, logsDir} {
		names, err := b.fs.Names(folder)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, n := range names {
			if (tidemark.Key{Kind: n, ID: "x"}).Check() != nil {
				continue // not ours: a .gitkeep, a note
			}
			info, err := b.fs.Stat(folder + "/" + n)
			if err == nil && info.Mode.IsDir() {
				seen[n] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(seen)), nil
}

// ids returns the ids of one kind, in order. Heads are listed first: a drop
// removes the head before the log, so a head without a log is usually a loss.
func (b *Backend) ids(kind string) ([]string, error) {
	var all []string
	for _, f := range []struct{ folder, ext string }{{headsDir, ".json"}, {recordsDir, ".json"}, {logsDir, ".ndjson"}} {
		ids, err := b.names(f.folder, kind, f.ext)
		if err != nil {
			return nil, err
		}
		all = append(all, ids...)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}
