package tenant

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// ServerKey returns a secret that all servers of one store share, and creates
// it on first use: so a cursor or a cookie of one server is valid at the
// others.
func (d *Directory) ServerKey(ctx context.Context, name string) ([]byte, error) {
	if err := tidemark.CheckID(name); err != nil {
		return nil, err
	}
	key := tidemark.Key{Kind: kindServerKey, ID: name}
	for range records.Tries {
		var kept struct {
			Key []byte `json:"key"`
		}
		r, err := d.k.Get(ctx, key, &kept)
		if err != nil || r.Version > 0 {
			return kept.Key, err
		}
		kept.Key = make([]byte, 32)
		rand.Read(kept.Key)
		made, err := records.Put(key, 0, kept)
		if err != nil {
			return nil, err
		}
		if _, err = d.k.Commit(ctx, tidemark.Batch{Puts: []tidemark.Record{made}}); err == nil {
			return kept.Key, nil
		}
		if !errors.Is(err, tidemark.ErrConflict) {
			return nil, err
		}
	}
	return nil, tidemark.Conflictf("%s: changed all the time", key)
}
