package store

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// kindRequest is a record: HASH, what somebody asked for under a key of their
// own, so that they may ask again when they did not hear the answer.
const kindRequest = "request"

// requestLife is how long a request is remembered: longer than anybody tries
// again.
const requestLife = 24 * time.Hour

// request is the body of its record.
type request struct {
	Sum    string          `json:"sum"` // of what was asked
	Answer json.RawMessage `json:"answer,omitempty"`
}

func (s *Store) requestKey(key string) tidemark.Key {
	return tidemark.Key{Kind: kindRequest, ID: s.hash("request", key)}
}

// Request notes that something is asked under a key, before it is done. It
// returns what was answered before, nil when that is not known: then it is
// asked for the first time, or nobody lived to say what came of it. ErrConflict
// when something else was asked under the key.
func (s *Store) Request(ctx context.Context, key, sum string) (json.RawMessage, error) {
	var had request
	err := retry(ctx, func() error {
		had = request{}
		r, err := s.get(ctx, s.requestKey(key), &had)
		if err != nil || r.Version > 0 && r.Due.After(s.now()) {
			return err
		}
		had = request{Sum: sum}
		return s.putRequest(ctx, r, had)
	})
	if err != nil {
		return nil, err
	}
	if had.Sum != sum {
		return nil, tidemark.Conflictf("the key was used for another request")
	}
	return had.Answer, nil
}

// Answered keeps what a request was answered.
func (s *Store) Answered(ctx context.Context, key, sum string, answer json.RawMessage) error {
	return retry(ctx, func() error {
		r, err := s.get(ctx, s.requestKey(key), &request{})
		if err != nil {
			return err
		}
		return s.putRequest(ctx, r, request{Sum: sum, Answer: answer})
	})
}

func (s *Store) putRequest(ctx context.Context, old tidemark.Record, q request) error {
	r, err := put(old.Key, old.Version, q)
	if err != nil {
		return err
	}
	r.Due = s.now().Add(requestLife)
	_, err = s.commit(ctx, tidemark.Batch{Puts: []tidemark.Record{r}})
	return err
}

// ForgetRequests removes requests that are no longer remembered, some at a
// time, and returns how many.
func (s *Store) ForgetRequests(ctx context.Context, limit int) (int, error) {
	var b tidemark.Batch
	for r, err := range s.backend.List(ctx, tidemark.Query{Kind: kindRequest, DueBy: s.now(), Order: tidemark.ByDue, Limit: limit}) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue
		}
		if err != nil {
			return 0, err
		}
		b.Deletes = append(b.Deletes, tidemark.Need{Key: r.Key, Version: r.Version})
	}
	if len(b.Deletes) == 0 {
		return 0, nil
	}
	if _, err := s.commit(ctx, b); err != nil && !errors.Is(err, tidemark.ErrConflict) {
		return 0, err
	}
	return len(b.Deletes), nil
}
