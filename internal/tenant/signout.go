package tenant

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// A cookie is proof of identity until it expires. That its user signed out
// earlier is kept here, under the hash of the cookie, so that no server of the
// store accepts a copy.

// signOutsSwept bounds how many expired ones a new one removes.
const signOutsSwept = 100

func signOutKey(cookie string) tidemark.Key {
	sum := sha256.Sum256([]byte(cookie))
	return tidemark.Key{Kind: kindSignOut, ID: hex.EncodeToString(sum[:])}
}

// SignOut makes a cookie that is valid until then void, for every server of the
// store, before it returns.
func (d *Directory) SignOut(ctx context.Context, cookie string, until time.Time) error {
	r, err := records.Put(signOutKey(cookie), 0, struct {
		Until time.Time `json:"until"`
	}{records.Keepable(until)})
	if err != nil {
		return err
	}
	r.Due = records.Keepable(until)
	r.Sum = r.Checksum()
	b := tidemark.Batch{Puts: []tidemark.Record{r}}
	if _, err := d.k.Commit(ctx, b); err != nil && !errors.Is(err, tidemark.ErrConflict) { // they had signed out before
		return err
	}
	var over tidemark.Batch
	for old, err := range d.k.Backend().List(ctx, tidemark.Query{Kind: kindSignOut, DueBy: d.k.Now(), Order: tidemark.ByDue, Limit: signOutsSwept}) {
		if err != nil {
			return nil // expired ones do no harm
		}
		over.Deletes = append(over.Deletes, tidemark.Precondition{Key: old.Key, Version: old.Version})
	}
	if len(over.Deletes) > 0 {
		d.k.Commit(ctx, over) // another server may sweep as well
	}
	return nil
}

// SignedOut reports whether the user of a cookie signed out with it.
func (d *Directory) SignedOut(ctx context.Context, cookie string) (bool, error) {
	_, err := d.k.Backend().Get(ctx, signOutKey(cookie))
	if errors.Is(err, tidemark.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
