// Package upkeep does the maintenance of a store that is not urgent: it moves
// sessions to the trash that nobody has changed for a long time, finishes
// interrupted purges, and finds and masks secrets in what is already kept.
//
// The rules are those of package store; upkeep applies them session by session. It
// never purges a session because of its age.
//
//	done, err := upkeep.Clean(ctx, s, upkeep.CleanOptions{Retention: 180 * 24 * time.Hour, Holder: me})
package upkeep

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/store"
)

// CleanOptions configure Clean.
type CleanOptions struct {
	DryRun    bool            // only return what would be done
	Retention time.Duration   // how long a session is kept after its last change; 0: for ever
	Holder    tidemark.Holder // who takes the leases for purging
	Progress  func(format string, args ...any)
	Skipped   func(error) // called with the error of each purge that could not be finished
}

// Cleaned is what Clean did, or with DryRun would do.
type Cleaned struct {
	Trashed []Expired            `json:"trashed"`
	Purged  []tidemark.SessionID `json:"purged"`
}

// Expired is a session that retention moves to the trash.
type Expired struct {
	ID        tidemark.SessionID `json:"id"`
	Title     string             `json:"title"`
	UpdatedAt time.Time          `json:"updated_at"`
}

// Clean moves sessions to the trash whose retention is over, and finishes
// interrupted purges. With an error it also returns what was done before.
func Clean(ctx context.Context, s *store.Store, o CleanOptions) (Cleaned, error) {
	c := Cleaned{Trashed: []Expired{}, Purged: []tidemark.SessionID{}}
	if err := c.retain(ctx, s, o); err != nil {
		return c, err
	}
	return c, c.finishPurges(ctx, s, o)
}

// retain moves sessions to the trash whose retention is over.
func (c *Cleaned) retain(ctx context.Context, s *store.Store, o CleanOptions) error {
	if o.Retention == 0 {
		return nil
	}
	before := time.Now().Add(-o.Retention)
	expired, err := s.Expired(ctx, before)
	if err != nil {
		return err
	}
	for n, i := range expired {
		if !o.DryRun {
			o.Progress("%d of %d moved to the trash", n, len(expired))
			moved, err := expire(ctx, s, i.ID, before)
			if err != nil {
				return err
			}
			if !moved {
				continue
			}
		}
		c.Trashed = append(c.Trashed, Expired{i.ID, i.Title, i.UpdatedAt})
	}
	return nil
}

// expire moves a session to the trash unless it was changed, pinned, put on hold or
// opened in the meantime: the listing may be minutes old.
func expire(ctx context.Context, s *store.Store, id tidemark.SessionID, before time.Time) (moved bool, err error) {
	i, err := s.Session(ctx, id)
	if err == nil && (i.State != store.Live || i.Pinned || !i.UpdatedAt.Before(before)) {
		return false, nil
	}
	if err == nil {
		err = s.Trash(ctx, id)
	}
	if errors.Is(err, tidemark.ErrNotFound) || errors.Is(err, tidemark.ErrHeld) || errors.Is(err, tidemark.ErrDenied) {
		return false, nil
	}
	return err == nil, err
}

// statePurging is the state of a session whose purge has begun.
const statePurging = "purging"

// finishPurges finishes interrupted purges.
func (c *Cleaned) finishPurges(ctx context.Context, s *store.Store, o CleanOptions) error {
	ids, err := s.Purging(ctx)
	if err != nil {
		return err
	}
	for _, id := range ids {
		i, err := s.Session(ctx, id)
		if err == nil && i.State != statePurging || errors.Is(err, tidemark.ErrNotFound) {
			continue
		}
		// A session that cannot be read is skipped: its state is not known.
		if err == nil && !o.DryRun {
			o.Progress("finishing the purge of %.8s", id)
			err = s.Destroy(ctx, id, o.Holder)
		}
		switch {
		case errors.Is(err, context.Canceled):
			return err
		case err != nil:
			o.Skipped(err)
		default:
			c.Purged = append(c.Purged, id)
		}
	}
	if len(c.Purged) == 0 || o.DryRun {
		return nil
	}
	return s.RewriteIndex(ctx)
}

// ParseAge reads a length of time like 180d or 36h.
func ParseAge(s string) (time.Duration, error) {
	wrong := tidemark.Invalidf("%q: want a length of time like 180d or 36h", s)
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseInt(days, 10, 32)
		if age := time.Duration(n) * 24 * time.Hour; err == nil && n > 0 && age/(24*time.Hour) == time.Duration(n) {
			return age, nil
		}
		return 0, wrong
	}
	if d, err := time.ParseDuration(s); err == nil && d > 0 {
		return d, nil
	}
	return 0, wrong
}
