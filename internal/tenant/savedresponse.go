package tenant

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// kindRequest is a record: HASH, the response to a request with an idempotency
// key, so that a client that did not receive it may ask again.
const kindRequest = "request"

// responseLife is how long a response is kept: longer than any client retries.
const responseLife = 24 * time.Hour

// Responses are the server's responses to requests with an idempotency key.
// They are kept in the store that the requests are about.
type Responses struct {
	k *records.Kernel
}

// NewResponses returns the Responses that are kept in a store.
func NewResponses(k *records.Kernel) Responses { return Responses{k} }

// savedResponse is the body of its record.
type savedResponse struct {
	Sum    string          `json:"sum"` // hash of the request
	Answer json.RawMessage `json:"answer,omitempty"`
}

func (s Responses) key(key string) tidemark.Key {
	return tidemark.Key{Kind: kindRequest, ID: s.k.Hash("request", key)}
}

// Begin records a request under its key before anything is done for it. It
// returns the earlier response, nil when there is none: then the request is
// new, or the server died before it could respond. ErrConflict when another
// request used the key.
func (s Responses) Begin(ctx context.Context, key, sum string) (json.RawMessage, error) {
	var had savedResponse
	err := records.Retry(ctx, func() error {
		had = savedResponse{}
		r, err := s.k.Get(ctx, s.key(key), &had)
		if err != nil || r.Version > 0 && r.Due.After(s.k.Now()) {
			return err
		}
		had = savedResponse{Sum: sum}
		return s.put(ctx, r, had)
	})
	if err != nil {
		return nil, err
	}
	if had.Sum != sum {
		return nil, tidemark.Conflictf("the key was used for another request")
	}
	return had.Answer, nil
}

// Save keeps the response to a request.
func (s Responses) Save(ctx context.Context, key, sum string, answer json.RawMessage) error {
	return records.Retry(ctx, func() error {
		r, err := s.k.Get(ctx, s.key(key), &savedResponse{})
		if err != nil {
			return err
		}
		return s.put(ctx, r, savedResponse{Sum: sum, Answer: answer})
	})
}

func (s Responses) put(ctx context.Context, old tidemark.Record, saved savedResponse) error {
	r, err := records.Put(old.Key, old.Version, saved)
	if err != nil {
		return err
	}
	r.Due = s.k.Now().Add(responseLife)
	_, err = s.k.Commit(ctx, tidemark.Batch{Puts: []tidemark.Record{r}})
	return err
}

// Forget removes expired responses, at most limit of them, and returns how
// many.
func (s Responses) Forget(ctx context.Context, limit int) (int, error) {
	var b tidemark.Batch
	for r, err := range s.k.Backend().List(ctx, tidemark.Query{Kind: kindRequest, DueBy: s.k.Now(), Order: tidemark.ByDue, Limit: limit}) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue
		}
		if err != nil {
			return 0, err
		}
		b.Deletes = append(b.Deletes, tidemark.Precondition{Key: r.Key, Version: r.Version})
	}
	if len(b.Deletes) == 0 {
		return 0, nil
	}
	if _, err := s.k.Commit(ctx, b); err != nil && !errors.Is(err, tidemark.ErrConflict) {
		return 0, err
	}
	return len(b.Deletes), nil
}
