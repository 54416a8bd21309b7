package adk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/store"
	"google.golang.org/adk/session"
)

// scopes is a change of state, by what it holds for. The keys have their
// prefixes.
type scopes struct{ app, user, session, temporary map[string]any }

func split(state map[string]any) scopes {
	s := scopes{make(map[string]any), make(map[string]any), make(map[string]any), make(map[string]any)}
	for key, value := range state {
		switch {
		case strings.HasPrefix(key, session.KeyPrefixApp):
			s.app[key] = value
		case strings.HasPrefix(key, session.KeyPrefixUser):
			s.user[key] = value
		case strings.HasPrefix(key, session.KeyPrefixTemp):
			s.temporary[key] = value
		default:
			s.session[key] = value
		}
	}
	return s
}

// kept is what of a change is kept with its event.
func (s scopes) kept() map[string]any {
	all := maps.Clone(s.app)
	maps.Copy(all, s.user)
	maps.Copy(all, s.session)
	return all
}

// kindState is the kind of the items that hold the state which sessions share.
const kindState = "adk-state"

// The items with the state of an app, and of one of its users.
func appItem(o owner) store.Item {
	return store.Item{Kind: kindState, ID: tidemark.IDOf("adk state", o.App), Title: o.App}
}

func userItem(o owner) store.Item {
	return store.Item{Kind: kindState, ID: tidemark.IDOf("adk state", o.App, o.User), Title: o.App + ", " + o.User}
}

// share keeps what a change says of app and user, and returns the state that
// is shared with the session.
func (s *Service) share(ctx context.Context, o owner, change scopes) (map[string]any, error) {
	if err := s.merge(ctx, appItem(o), change.app); err != nil {
		return nil, err
	}
	if err := s.merge(ctx, userItem(o), change.user); err != nil {
		return nil, err
	}
	return s.shared(ctx, o)
}

// shared is the state of app and user.
func (s *Service) shared(ctx context.Context, o owner) (map[string]any, error) {
	all := make(map[string]any)
	for _, item := range []store.Item{appItem(o), userItem(o)} {
		values, _, err := s.item(ctx, item)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, values)
	}
	return all, nil
}

// item reads the values of an item and its version, 0 when there is none.
func (s *Service) item(ctx context.Context, i store.Item) (map[string]any, int64, error) {
	values := make(map[string]any)
	found, err := s.store.Item(ctx, i.Kind, i.ID)
	if errors.Is(err, tidemark.ErrNotFound) {
		return values, 0, nil
	}
	if err == nil {
		err = json.Unmarshal(found.Data, &values)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("state of %s: %w", i.Title, err)
	}
	return values, found.Version, nil
}

// merge adds values to an item. Whoever else changes it at the same time does
// not lose what they wrote: the slower one looks again.
func (s *Service) merge(ctx context.Context, i store.Item, change map[string]any) error {
	for len(change) > 0 {
		values, version, err := s.item(ctx, i)
		if err != nil {
			return err
		}
		maps.Copy(values, change)
		if i.Data, err = json.Marshal(values); err != nil {
			return tidemark.Invalidf("state of %s: %w", i.Title, err)
		}
		_, err = s.store.PutItem(ctx, i, version)
		if !errors.Is(err, tidemark.ErrConflict) && !errors.Is(err, tidemark.ErrExists) {
			return err
		}
	}
	return nil
}
