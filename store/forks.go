package store

import (
	"context"

	"github.com/tidemark-sessions/tidemark"
)

// Forks lists the sessions that share the past of this one, by id; limit
// bounds how many, 0 does not.
func (v *View) Forks(ctx context.Context, limit int) ([]tidemark.SessionID, error) {
	var ids []tidemark.SessionID
	q := tidemark.Query{Kind: kindFork, Prefix: string(v.ID) + ".", Order: tidemark.ByID, Limit: limit}
	for r, err := range v.s.backend.List(ctx, q) {
		if err != nil {
			return ids, err
		}
		ids = append(ids, tidemark.SessionID(r.ID[len(v.ID)+1:]))
	}
	return ids, nil
}
