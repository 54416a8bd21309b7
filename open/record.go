package open

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// RecordView is a record as programs see it that repair a store.
type RecordView struct {
	Kind      string          `json:"kind"`
	ID        string          `json:"id"`
	Version   int64           `json:"version"`
	Group     string          `json:"group,omitempty"`
	State     string          `json:"state,omitempty"`
	Due       time.Time       `json:"due_at,omitzero"`
	UpdatedAt time.Time       `json:"updated_at"`
	Length    int64           `json:"length,omitempty"` // of the log of the same name
	Body      json.RawMessage `json:"body,omitempty"`
	Data      []byte          `json:"data,omitempty"` // a body that is not JSON
}

// ViewOfRecord returns a record as programs see it.
func ViewOfRecord(r tidemark.Record) RecordView {
	v := RecordView{Kind: r.Kind, ID: r.ID, Version: r.Version, Group: r.Group, State: r.State, Due: r.Due,
		UpdatedAt: r.Touched(), Length: r.Head.Length}
	if json.Valid(r.Body) {
		v.Body = r.Body
	} else {
		v.Data = r.Body
	}
	return v
}

// ReplaceRecord replaces a record, whose Version names the one that stands now, 0 for
// none; it returns it with the next. Its due time stays as it is, and so do state and
// group if asked. ErrConflict when another version stands.
func (o *Opened) ReplaceRecord(ctx context.Context, r tidemark.Record, keepState, keepGroup bool) (tidemark.Record, error) {
	old, err := o.Backend.Get(ctx, r.Key)
	if err != nil && !errors.Is(err, tidemark.ErrNotFound) && !errors.Is(err, tidemark.ErrCorrupt) {
		return r, err
	}
	if keepState {
		r.State = old.State
	}
	if keepGroup {
		r.Group = old.Group
	}
	r.Due = old.Due
	r.Version++
	r.Sum = r.Checksum()
	b := tidemark.Batch{ID: tidemark.NewBatchID(), At: time.Now().UTC().Truncate(time.Microsecond), Puts: []tidemark.Record{r}}
	_, err = o.Backend.Commit(ctx, b)
	return r, err
}
