package transfer

import (
	"context"
	"errors"
	"iter"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/store"
)

// Kept returns the entries of a session as they are kept: those up to seq, or
// without one those of the branch that the session is at, or all of them; with or
// without what another tool may still change.
func Kept(ctx context.Context, v *store.View, seq int64, all, draft bool) (iter.Seq2[tidemark.Entry, error], error) {
	with, err := v.WithDraft(ctx)
	switch {
	case err != nil:
		return nil, err
	case all && draft:
		return with.Log(ctx), nil
	case all:
		return v.Log(ctx), nil
	case seq != 0:
		return v.Path(ctx, seq), nil
	case draft:
		return with.Path(ctx, 0), nil
	}
	return func(yield func(tidemark.Entry, error) bool) {
		for e, err := range with.Path(ctx, 0) {
			if !e.Draft && !yield(e, err) {
				return
			}
		}
	}, nil
}

// Revealed replaces masks by the secrets that they stand for, where the vault has
// them.
func Revealed(ctx context.Context, v *store.View, entries iter.Seq2[tidemark.Entry, error]) iter.Seq2[tidemark.Entry, error] {
	return func(yield func(tidemark.Entry, error) bool) {
		for e, err := range entries {
			if err == nil {
				e, err = v.Reveal(ctx, e)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// SessionOrWorker returns the view of a session or, if worker is not empty, of its
// worker of that name, which may be abbreviated.
func SessionOrWorker(ctx context.Context, p store.Point, worker string) (*store.View, error) {
	if worker == "" {
		return p.View, nil
	}
	if p.Seq != 0 {
		return nil, tidemark.Invalidf("--worker and a point in the session exclude each other")
	}
	v, err := p.Worker(ctx, worker)
	if !errors.Is(err, tidemark.ErrNotFound) {
		return v, err
	}
	names, listErr := p.Workers(ctx)
	if listErr != nil {
		return nil, listErr
	}
	var begin []string
	for _, name := range names {
		if strings.HasPrefix(name, worker) {
			begin = append(begin, name)
		}
	}
	switch {
	case len(begin) == 1:
		return p.Worker(ctx, begin[0])
	case len(begin) > 1:
		return nil, tidemark.Invalidf("worker %q means several: %s", worker, strings.Join(begin, ", "))
	case len(names) > 0:
		err = hint.With(err, "its workers are: %s", strings.Join(names, ", "))
	}
	return nil, err
}
