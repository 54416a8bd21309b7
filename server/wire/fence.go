package wire

import (
	"context"
	"iter"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
)

// Fence is a Backend without the records that say who may do what. Where one
// store holds both, a caller who could write there could become an admin.
type Fence struct {
	tidemark.Backend
	Whole bool         // nothing is hidden: the caller is the operator
	Also  records.Also // adds to each batch who sent it

	Blobs  bool // all but the blobs of remotes is hidden
	Quota  *BlobQuota
	Caller tidemark.Principal // who uses up the quota
}

func (f Fence) hides(k tidemark.Key) bool {
	return !f.Whole && tenant.IsOperators(k) || f.Blobs && !records.IsBlob(k.Kind)
}

func (f Fence) Get(ctx context.Context, key tidemark.Key) (tidemark.Record, error) {
	if f.hides(key) {
		return tidemark.Record{}, tidemark.NotFoundf("%s: not found", key)
	}
	return f.Backend.Get(ctx, key)
}

func (f Fence) List(ctx context.Context, q tidemark.Query) iter.Seq2[tidemark.Record, error] {
	if f.hides(tidemark.Key{Kind: q.Kind}) {
		return func(func(tidemark.Record, error) bool) {}
	}
	return f.Backend.List(ctx, q)
}

func (f Fence) Lines(ctx context.Context, log tidemark.Key, spans ...tidemark.Span) iter.Seq2[tidemark.Line, error] {
	if f.hides(log) {
		return func(func(tidemark.Line, error) bool) {}
	}
	return f.Backend.Lines(ctx, log, spans...)
}

func (f Fence) Commit(ctx context.Context, b tidemark.Batch) (tidemark.Receipt, error) {
	for key := range KeysOf(b) {
		if f.hides(key) {
			return tidemark.Receipt{}, tidemark.ErrDenied
		}
	}
	if err := f.Quota.admit(ctx, f.Caller, f.Backend, b); err != nil {
		return tidemark.Receipt{}, err
	}
	return f.Also.Commit(ctx, f.Backend, b)
}

// KeysOf yields every key that a batch names.
func KeysOf(b tidemark.Batch) iter.Seq[tidemark.Key] {
	return func(yield func(tidemark.Key) bool) {
		for _, n := range b.Require {
			if !yield(n.Key) {
				return
			}
		}
		for _, r := range b.Puts {
			if !yield(r.Key) {
				return
			}
		}
		for _, n := range b.Deletes {
			if !yield(n.Key) {
				return
			}
		}
		for _, a := range b.Appends {
			if !yield(a.Log) {
				return
			}
		}
		for _, k := range b.Drops {
			if !yield(k) {
				return
			}
		}
	}
}

// The abilities of the underlying Backend are kept; those that return keys
// return only keys that are not hidden.

func (f Fence) Walk(ctx context.Context, after tidemark.Key) iter.Seq2[tidemark.Key, error] {
	return func(yield func(tidemark.Key, error) bool) {
		for k, err := range f.Backend.Walk(ctx, after) {
			if err == nil && f.hides(k) {
				continue
			}
			if !yield(k, err) {
				return
			}
		}
	}
}

func (f Fence) Wait(ctx context.Context, log tidemark.Key, after int64) error {
	if f.hides(log) {
		return tidemark.Unsupportedf("this store wakes nobody")
	}
	return f.Backend.Wait(ctx, log, after)
}

func (f Fence) Share(ctx context.Context, id tidemark.SessionID, with tidemark.Scope) error {
	if f.Blobs {
		return tidemark.ErrDenied
	}
	s, err := tidemark.Ability[tidemark.Sharer](f.Backend)
	if err != nil {
		return err
	}
	return s.Share(ctx, id, with)
}

func (f Fence) Audience() (me string, scopes []string) {
	s, err := tidemark.Ability[tidemark.Sharer](f.Backend)
	if err != nil {
		return "", nil
	}
	return s.Audience()
}

func (f Fence) Of(owner string) (tidemark.Backend, error) {
	of, err := ofOwner(f.Backend, owner)
	if err != nil {
		return nil, err
	}
	f.Backend = of
	return f, nil
}

func (f Fence) Shared(ctx context.Context, id tidemark.SessionID) (tidemark.Scope, string, error) {
	if f.Blobs {
		return tidemark.Scope{}, "", tidemark.ErrDenied
	}
	s, err := tidemark.Ability[tidemark.Sharer](f.Backend)
	if err != nil {
		return tidemark.Scope{}, "", err
	}
	return s.Shared(ctx, id)
}
