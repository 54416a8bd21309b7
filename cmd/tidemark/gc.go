package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/store"
)

// cleaned is what gc did, or with --dry-run would do.
type cleaned struct {
	DryRun     bool                 `json:"dry_run"`
	Retention  string               `json:"retention"` // "off" unless it is configured
	Trashed    []expiredView        `json:"trashed"`
	Purged     []tidemark.SessionID `json:"purged"`
	FreedBytes int64                `json:"freed_bytes"`

	skipped int
}

// expiredView is a session that retention moves to the trash.
type expiredView struct {
	ID        tidemark.SessionID `json:"id"`
	Title     string             `json:"title"`
	UpdatedAt time.Time          `json:"updated_at"`
}

func gcCommand(a *app) *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "Apply retention, finish purges, give back space",
		Long: `Does, in this order, what can wait:

Moves sessions to the trash that did not change for as long as "retention" in
your configuration says, like 180d or 36h. It is off unless you set it. Sessions
that are pinned, on hold or open are left alone, and nothing is ever purged for
its age: tidemark restore takes a session out of the trash again.

Finishes purges that were interrupted.

Gives back space that nothing needs any more.`,
		Example: "  tidemark gc --dry-run\n  tidemark gc\n  tidemark restore 7f3a",
		Args:    usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			how := writes
			if dryRun {
				how = reads
			}
			s, err := a.open(cmd.Context(), how)
			if err != nil {
				return err
			}
			c := &cleaned{DryRun: dryRun, Retention: a.config.retention(), Trashed: []expiredView{}, Purged: []tidemark.SessionID{}}
			err = a.clean(cmd, s, c)
			a.progressDone()
			// What was done is said, also when the rest could not be.
			err = errors.Join(err, a.print(c, func(w io.Writer) error { return c.print(a, w) }))
			if err == nil && c.skipped > 0 {
				return &partly{c.skipped}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be done, and do nothing")
	return cmd
}

func (a *app) clean(cmd *cobra.Command, s *store.Store, c *cleaned) error {
	if err := a.retain(cmd.Context(), s, c); err != nil {
		return err
	}
	if err := a.finishPurges(cmd, s, c); err != nil {
		return err
	}
	if c.DryRun {
		return nil
	}
	a.progress("giving back space")
	var err error
	c.FreedBytes, err = s.Compact(cmd.Context())
	return a.compacted(err)
}

// compacted makes no error of a store that cannot be compacted, and none of one
// for which there is no room now: what was to go is gone.
func (a *app) compacted(err error) error {
	var room *sqlite.NoRoomError
	if errors.As(err, &room) {
		a.progressDone()
		a.say("tidemark: %v", room)
		return nil
	}
	return supported(err)
}

// retain moves to the trash what is older than the configuration wants.
func (a *app) retain(ctx context.Context, s *store.Store, c *cleaned) error {
	if a.config.Retention == "" {
		return nil
	}
	age, err := parseAge(a.config.Retention)
	if err != nil {
		return err
	}
	before := time.Now().Add(-age)
	expired, err := s.Expired(ctx, before)
	if err != nil {
		return err
	}
	for n, i := range expired {
		if !c.DryRun {
			a.progress("%d of %d moved to the trash", n, len(expired))
			moved, err := expire(ctx, s, i.ID, before)
			if err != nil {
				return err
			}
			if !moved {
				continue
			}
		}
		c.Trashed = append(c.Trashed, expiredView{i.ID, i.Title, i.UpdatedAt})
	}
	return nil
}

// expire moves a session to the trash unless somebody wanted it meanwhile: the
// listing may be minutes old.
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

// statePurging is the state of a session whose purge began.
const statePurging = "purging"

// finishPurges goes on with what a purge left behind that was interrupted.
func (a *app) finishPurges(cmd *cobra.Command, s *store.Store, c *cleaned) error {
	ids, err := s.Purging(cmd.Context())
	if err != nil {
		return err
	}
	for _, id := range ids {
		i, err := s.Session(cmd.Context(), id)
		if err == nil && i.State != statePurging || errors.Is(err, tidemark.ErrNotFound) {
			continue
		}
		// A session that cannot be read is not known to be unwanted.
		if err == nil && !c.DryRun {
			a.progress("finishing the purge of %.8s", id)
			err = s.Purge(cmd.Context(), id, a.holder(cmd))
		}
		switch {
		case errors.Is(err, context.Canceled):
			return err
		case err != nil:
			c.skipped++
			a.complain(err)
		default:
			c.Purged = append(c.Purged, id)
		}
	}
	return nil
}

func (c *cleaned) print(a *app, w io.Writer) error {
	trashed, purged := "moved to the trash", "purged"
	if c.DryRun {
		trashed, purged = "would be moved to the trash", "would be purged"
	}
	for _, t := range c.Trashed {
		fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("%s\t%s\t%s", a.shortID(t.ID), trashed, render.CleanLine(t.Title)), "\t"))
	}
	for _, id := range c.Purged {
		fmt.Fprintf(w, "%s\t%s\n", a.shortID(id), purged)
	}
	if c.DryRun {
		return nil
	}
	_, err := fmt.Fprintf(w, "%d bytes given back\n", c.FreedBytes)
	return err
}

// parseAge reads a length of time like 180d or 36h.
func parseAge(s string) (time.Duration, error) {
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
