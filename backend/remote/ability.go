package remote

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
)

// smallAnswer bounds answers that hold no data of a store.
const smallAnswer = 64 << 10

// pollEvery is how often a log is checked when the server cannot notify.
const pollEvery = time.Second

// Wait asks the server to answer when log grows. Where that does not work, it
// returns from time to time, so that the caller checks.
func (b *Backend) Wait(ctx context.Context, log tidemark.Key, after int64) error {
	for {
		begun := time.Now()
		var grown api.Grown
		err := b.roundTripInto(ctx, "wait", api.KeyQuestion{Key: log, After: after}, &grown, smallAnswer)
		switch {
		case err == nil && grown.Longer:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && !errors.Is(err, tidemark.ErrUnsupported) && !errors.Is(err, tidemark.ErrStorage):
			return err
		case err == nil && time.Since(begun) > pollEvery:
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-b.life.Done():
			return errClosed
		case <-time.After(pollEvery):
			return nil
		}
	}
}

// change makes a call, other than a commit, that changes something.
func (b *Backend) change(ctx context.Context, c call) error {
	if err := b.mayWrite(); err != nil {
		return err
	}
	reply, err := b.roundTrip(ctx, c, smallAnswer)
	if err != nil {
		return err
	}
	var done api.Done
	if json.Unmarshal(reply, &done) != nil || !done.Done {
		return b.badAnswer("%s: not that it is done", c.name)
	}
	return nil
}

func (b *Backend) changeBy(ctx context.Context, name string, v any) error {
	c, err := question(name, v)
	if err != nil {
		return err
	}
	return b.change(ctx, c)
}

// Walk yields every key that the server has. When the answer is cut off, the
// rest is requested starting after the last key that came.
func (b *Backend) Walk(ctx context.Context, after tidemark.Key) iter.Seq2[tidemark.Key, error] {
	return func(yield func(tidemark.Key, error) bool) {
		after, done := after, false
		r := reading[tidemark.Key]{b: b, name: "walk", over: func() { done = true }}
		r.rest = func() (any, bool) { return api.WalkQuestion{After: after}, !done }
		r.take = func(item api.Element) (f found[tidemark.Key], err error) {
			k := item.Key
			if k == nil || k.Check() != nil || k.Kind < after.Kind || k.Kind == after.Kind && k.ID <= after.ID {
				return f, b.badAnswer("walk: a key that is none, or not in order")
			}
			f.v, after = *k, *k
			return f, nil
		}
		r.run(ctx, yield)
	}
}

// Share sets who else may read a session.
func (b *Backend) Share(ctx context.Context, id tidemark.SessionID, with tidemark.Scope) error {
	return b.changeBy(ctx, "share", api.ShareQuestion{Session: string(id), With: &with})
}

// Shared returns who else may read a session, and its owner.
func (b *Backend) Shared(ctx context.Context, id tidemark.SessionID) (tidemark.Scope, string, error) {
	var s api.SharedAnswer
	err := b.roundTripInto(ctx, "shared", api.ShareQuestion{Session: string(id)}, &s, smallAnswer)
	return s.With, s.Owner, err
}

// Audience returns what the server said when the Backend was opened.
func (b *Backend) Audience() (me string, scopes []string) { return b.me, b.scopes }

// Of returns a Backend that asks the server for what one owner keeps. It only
// reads, and closes with b.
func (b *Backend) Of(owner string) (tidemark.Backend, error) {
	if owner == "" {
		return b, nil
	}
	id, err := tidemark.ParseSessionID(owner)
	if err != nil {
		return nil, tidemark.Invalidf("owner %.40q: not an id", owner)
	}
	of := &Backend{base: b.base, o: b.o, http: b.http, packs: b.packs, most: b.most, me: b.me, scopes: b.scopes, life: b.life, seen: b.seen, end: func() {}, owner: string(id)}
	of.o.ReadOnly = true
	return of, nil
}

var (
	_ tidemark.Backend = (*Backend)(nil)
	_ tidemark.Sharer  = (*Backend)(nil)
)
