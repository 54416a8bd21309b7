package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
)

// IdempotencyInput is for calls that a client may repeat when it got no answer.
type IdempotencyInput struct {
	Key string `header:"Idempotency-Key" maxLength:"255" doc:"what is sent again under the same key within a day is not done again"`
}

// sweepOdds is how rarely a request removes old keys, and sweepSize how many.
const (
	sweepOdds = 64
	sweepSize = 200
)

// keyedCall is a call with an idempotency key.
type keyedCall struct {
	saved    tenant.Responses
	key, sum string
	answer   json.RawMessage // the earlier answer, nil if there is none
}

// idempotent records that a call is made under a key. The same key with another
// request is refused.
func idempotent(ctx context.Context, st *store.Store, call, key string, body any) (*keyedCall, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(append([]byte(call+"\x00"), text...))
	c := &keyedCall{saved: tenant.NewResponses(st.Records()), key: key, sum: hex.EncodeToString(sum[:16])}
	c.answer, err = c.saved.Begin(ctx, key, c.sum)
	if errors.Is(err, tidemark.ErrConflict) {
		return nil, &api.Problem{Status: http.StatusUnprocessableEntity, Title: "Unprocessable Entity", Code: "conflict",
			Detail: "this Idempotency-Key was sent before with another request", Hint: "make a new key for each request"}
	}
	if rand.IntN(sweepOdds) == 0 {
		if _, err := c.saved.Forget(ctx, sweepSize); err != nil {
			request.Note(ctx, "sweep", err.Error())
		}
	}
	return c, err
}

// keep stores the answer to a call for a repetition. The call is done: an
// error here must not be reported as its failure.
func (c *keyedCall) keep(ctx context.Context, answer any) {
	kept, err := json.Marshal(answer)
	if err == nil {
		err = c.saved.Save(context.WithoutCancel(ctx), c.key, c.sum, kept)
	}
	if err != nil {
		request.Note(ctx, "answer not kept", err.Error())
	}
}

// keyed gives entries without keys ones derived from the key of the
// request, so that they are appended once.
func keyed(entries []tidemark.Entry, key string) {
	sum := sha256.Sum256([]byte(key))
	for i := range entries {
		if entries[i].Key == "" {
			entries[i].Key = "request." + hex.EncodeToString(sum[:16]) + "." + strconv.Itoa(i)
		}
	}
}
