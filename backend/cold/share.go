package cold

import (
	"context"

	"github.com/tidemark-sessions/tidemark"
)

// Where the Backend underneath has many users, whoever may read a session reads its
// lines from their segments, too: what says where they are is shared with it.

func (b *Backend) sharer() (tidemark.Sharer, error) {
	return tidemark.Ability[tidemark.Sharer](b.inner)
}

// Share sets who else may read a session.
func (b *Backend) Share(ctx context.Context, id tidemark.SessionID, with tidemark.Scope) error {
	s, err := b.sharer()
	if err != nil {
		return err
	}
	return s.Share(ctx, id, with)
}

// Shared returns who else may read a session, and its owner.
func (b *Backend) Shared(ctx context.Context, id tidemark.SessionID) (tidemark.Scope, string, error) {
	s, err := b.sharer()
	if err != nil {
		return tidemark.Scope{}, "", err
	}
	return s.Shared(ctx, id)
}

// Audience returns the principal and the scopes it is in; nothing where there is one
// user.
func (b *Backend) Audience() (me string, scopes []string) {
	s, err := b.sharer()
	if err != nil {
		return "", nil
	}
	return s.Audience()
}

// Of returns a Backend for what one owner keeps.
func (b *Backend) Of(owner string) (tidemark.Backend, error) {
	s, err := b.sharer()
	if err != nil {
		return nil, err
	}
	return b.around(s.Of(owner))
}

// Keeper returns the Backend of a scope itself.
func (b *Backend) Keeper(scope string) (tidemark.Backend, error) {
	k, err := tidemark.Ability[interface {
		Keeper(scope string) (tidemark.Backend, error)
	}](b.inner)
	if err != nil {
		return nil, err
	}
	return b.around(k.Keeper(scope))
}

// around returns a Backend over another one of the same store.
func (b *Backend) around(inner tidemark.Backend, err error) (tidemark.Backend, error) {
	if err != nil {
		return nil, err
	}
	return &Backend{inner: inner, places: b.places, url: b.url, limits: b.limits, lent: true}, nil
}
