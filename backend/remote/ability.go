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

// Search asks the server. When the answer is cut off, the query is sent again
// and hits that came before are skipped.
func (b *Backend) Search(ctx context.Context, a tidemark.IndexQuery) iter.Seq2[tidemark.Hit, error] {
	return func(yield func(tidemark.Hit, error) bool) {
		type line struct {
			log   tidemark.Key
			seq   int64
			owner string
		}
		were, done, n := make(seen[line]), false, 0
		a.Limit = max(a.Limit, 0)
		r := reading[tidemark.Hit]{b: b, name: "search", over: func() { done = true }}
		r.rest = func() (any, bool) {
			return api.SearchQuestionOf(a), !done && (a.Limit == 0 || n < a.Limit)
		}
		r.take = func(item api.Element) (f found[tidemark.Hit], err error) {
			h := item.Hit
			if h == nil || h.Log.Check() != nil || h.Seq < 1 {
				return f, b.badAnswer("search: not a line")
			}
			f.v = tidemark.Hit{Log: h.Log, Seq: h.Seq, At: h.At, Owner: h.Owner}
			if f.again, err = were.again(line{h.Log, h.Seq, h.Owner}); f.again || err != nil {
				return f, err
			}
			if n++; a.Limit > 0 && n > a.Limit {
				f.again = true // newer ones came meanwhile
			}
			return f, nil
		}
		r.run(ctx, yield)
	}
}

// Unindexed asks the server, as Search does.
func (b *Backend) Unindexed(ctx context.Context, kinds ...string) iter.Seq2[tidemark.Lag, error] {
	return func(yield func(tidemark.Lag, error) bool) {
		were, done := make(seen[tidemark.Key]), false
		r := reading[tidemark.Lag]{b: b, name: "unindexed", over: func() { done = true }}
		r.rest = func() (any, bool) { return api.KindsQuestion{Kinds: kinds}, !done }
		r.take = func(item api.Element) (f found[tidemark.Lag], err error) {
			l := item.Lag
			if l == nil || l.Log.Check() != nil || l.From < 1 || l.To < l.From {
				return f, b.badAnswer("unindexed: not a run of lines")
			}
			f.v = tidemark.Lag{Log: l.Log, From: l.From, To: l.To}
			f.again, err = were.again(l.Log)
			return f, err
		}
		r.run(ctx, yield)
	}
}

// Index sends words to the server. When the answer is lost they are sent again;
// then ErrConflict may mean that the first try succeeded, and Unindexed tells.
func (b *Backend) Index(ctx context.Context, lines ...tidemark.Indexed) error {
	body, err := api.EncodeIndex(lines)
	if err == nil && int64(len(body)) > b.most {
		err = tidemark.Invalidf("words of %d lines: %d bytes on the wire, the server takes at most %d", len(lines), len(body), b.most)
	}
	if err != nil {
		return err
	}
	return b.change(ctx, call{name: "index", media: api.MediaLines, body: body})
}

// Unindex has the server empty its index.
func (b *Backend) Unindex(ctx context.Context) error {
	return b.changeBy(ctx, "unindex", struct{}{})
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
	of := &Backend{base: b.base, o: b.o, http: b.http, packs: b.packs, most: b.most, finds: b.finds, life: b.life, end: func() {}, owner: string(id)}
	of.o.ReadOnly = true
	return of, nil
}

var (
	_ tidemark.Backend  = (*Backend)(nil)
	_ tidemark.Searcher = (*Backend)(nil)
	_ tidemark.Sharer   = (*Backend)(nil)
)
