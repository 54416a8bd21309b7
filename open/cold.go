package open

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/cold"
	"github.com/tidemark-sessions/tidemark/internal/hint"
)

// ColdVariable is the environment variable that says where older lines of quiet
// sessions are moved to.
const ColdVariable = "TIDEMARK_COLD"

// withCold returns b with the lines that were moved elsewhere. Only a move needs to
// know where to: each log knows where its own are.
func (k *opener) withCold(b tidemark.Backend) tidemark.Backend {
	places, url := ColdPlaces(&k.Options)
	return cold.Over(b, places, url)
}

// ColdPlaces returns the places that older lines are read from, for a program that
// opens the Backends of many owners, and the URL of the one that they are moved to, ""
// for none. Whoever calls it closes them.
func ColdPlaces(o *Options) (*cold.Places, string) {
	url := o.Cold
	if url == "" {
		url = Getenv(o.Environ, ColdVariable)
	}
	places := o.ColdPlace
	return cold.NewPlaces(func(ctx context.Context, url string) (cold.Place, error) {
		if kind, _, _ := strings.Cut(url, ":"); kind != "file" && kind != "s3" {
			return nil, hint.With(tidemark.Invalidf("%.100q is no URL of a cold place", url), "name a folder: file:/srv/cold, storage: s3://BUCKET/PREFIX, or the store itself: %s", cold.Here)
		}
		if places == nil {
			return nil, tidemark.Unsupportedf("this program does not open cold places")
		}
		return places(ctx, url)
	}), url
}

// Cold returns the cold tier of the store. ErrUnsupported: it has none.
func (o *Opened) Cold() (*cold.Backend, error) {
	b, ok := o.Inner.(*cold.Backend)
	if !ok {
		return nil, hint.With(tidemark.Unsupportedf("this store has no cold tier of its own"), "sqlite, files and PostgreSQL have one; for a server, run the command where its store is")
	}
	return b, nil
}

// bare is the Backend that keeps everything, below the cold tier.
func (o *Opened) bare() tidemark.Backend { return cold.Under(o.Inner) }

// ColdMove says what MoveQuiet does.
type ColdMove struct {
	Older    time.Duration // sessions that nobody touched for so long
	To       string        // URL of the place; "": the one that is set
	DryRun   bool
	Most     int64 // about how many bytes are moved at most; 0: all
	Progress func(format string, args ...any)
	Skipped  func(error) // a log that stays, since it is damaged
}

// ColdMoved is what MoveQuiet did, or would do.
type ColdMoved struct {
	DryRun bool `json:"dry_run"`
	Logs   int  `json:"logs"`
	cold.Moved
	Swept int `json:"swept"` // objects that nothing needed any more
}

// MoveQuiet moves the older lines of sessions that nobody touched for some time, and
// deletes what nothing needs at their place. Interrupted, it is run again.
func (o *Opened) MoveQuiet(ctx context.Context, how ColdMove) (did ColdMoved, err error) {
	did.DryRun = how.DryRun
	b, err := o.Cold()
	if err != nil {
		return did, err
	}
	if b.URL() == "" && !how.DryRun {
		return did, hint.With(tidemark.Invalidf("no cold place is set"), "set $%s or cold: in the configuration, or name one with --to: file:/srv/cold, s3://BUCKET/PREFIX or %s", ColdVariable, cold.Here)
	}
	if b.URL() == cold.Here && o.Sealed() != nil {
		return did, hint.With(tidemark.Unsupportedf("this store is encrypted: its lines would not become smaller"), "move them elsewhere: file:/srv/cold or s3://BUCKET/PREFIX")
	}
	if !how.DryRun {
		if err := b.Reach(ctx, b.URL()); err != nil {
			return did, err
		}
	}
	err = MoveCold(ctx, b, how, &did)
	if err == nil && !how.DryRun {
		did.Swept, err = b.Sweep(ctx)
	}
	return did, err
}

// MoveCold moves the older lines of what one owner keeps, and adds to what was done.
func MoveCold(ctx context.Context, b *cold.Backend, how ColdMove, did *ColdMoved) error {
	for r, err := range b.Quiet(ctx, time.Now().Add(-how.Older)) {
		if err != nil {
			return err
		}
		var m cold.Moved
		if how.DryRun {
			m, err = b.Would(ctx, r)
		} else if m, err = b.Move(ctx, r.Key); errors.Is(err, tidemark.ErrConflict) || errors.Is(err, tidemark.ErrNotFound) {
			err = nil // somebody uses it, or it was purged
		} else if errors.Is(err, tidemark.ErrCorrupt) {
			how.Skipped(err)
			err = nil
		}
		if m.Lines > 0 {
			did.Logs++
			did.Lines, did.Bytes, did.Packed = did.Lines+m.Lines, did.Bytes+m.Bytes, did.Packed+m.Packed
			how.Progress("%d logs moved, %d lines", did.Logs, did.Lines)
		}
		if err != nil {
			return err
		}
		if how.Most > 0 && did.Bytes >= how.Most {
			return nil
		}
	}
	return nil
}

// BringBack puts the lines of a session back that were moved, or of all sessions where
// id is "", and returns of how many logs.
func (o *Opened) BringBack(ctx context.Context, id tidemark.SessionID) (logs int, err error) {
	b, err := o.Cold()
	if err != nil {
		return 0, err
	}
	return BringBack(ctx, b, id)
}

// BringBack is Opened.BringBack of what one owner keeps.
func BringBack(ctx context.Context, b *cold.Backend, id tidemark.SessionID) (logs int, err error) {
	for log, err := range b.Logs(ctx) {
		if err != nil {
			return logs, err
		}
		if owner, _, _ := strings.Cut(log.ID, "."); id != "" && owner != string(id) {
			continue
		}
		if err := b.BringBack(ctx, log); err != nil {
			return logs, fmt.Errorf("%s: %w", log, err)
		}
		logs++
	}
	return logs, nil
}

// ColdLeft returns an error that names what is still at a cold place though it was
// destroyed: nil when nothing is, or there is no cold tier.
func (o *Opened) ColdLeft(ctx context.Context) error {
	b, err := o.Cold()
	if err != nil {
		return nil
	}
	return hint.With(b.Left(ctx), "when the place can be reached again: tidemark gc")
}

// SweepCold deletes what is at cold places and nothing needs.
func (o *Opened) SweepCold(ctx context.Context) (int, error) {
	b, err := o.Cold()
	if err != nil {
		return 0, nil
	}
	return b.Sweep(ctx)
}

// Cold says what is at cold places.
func (c *Checkup) Cold(ctx context.Context, o *Opened) error {
	b, err := o.Cold()
	if err != nil {
		return nil
	}
	st, err := b.Status(ctx)
	switch {
	case errors.Is(err, tidemark.ErrCorrupt):
		c.Add("cold", Broken, "%v", err)
		return nil
	case err != nil || st.Segments+st.Left == 0:
		return err
	case st.Left > 0:
		c.Add("cold", Warning, "%d object(s) of what was destroyed or brought back are still at a place", st.Left).Fix = "tidemark gc"
	}
	const mb = 1 << 20
	for place, bytes := range st.Places {
		if place == cold.Here {
			c.Add("cold", Healthy, "%.1f MB of packed lines in the store itself", float64(bytes)/mb)
			continue
		}
		if err := b.Reach(ctx, place); err != nil {
			c.Add("cold", Warning, "%v: older lines of sessions cannot be read until it answers", err)
			continue
		}
		c.Add("cold", Healthy, "%.1f MB at %s", float64(bytes)/mb, place)
	}
	return nil
}
