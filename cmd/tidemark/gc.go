package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/store/upkeep"
)

// cleaned is what gc did, or with --dry-run would do.
type cleaned struct {
	DryRun    bool   `json:"dry_run"`
	Retention string `json:"retention"` // "off" unless it is configured
	upkeep.Cleaned
	FreedBytes int64 `json:"freed_bytes"`

	skipped int
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

Deletes at cold places (tidemark cold) what nothing needs any more.

Notes how the paths of long sessions run that a version before this one wrote, so
that their pages are found without reading them whole.

Gives back space that nothing needs any more.`,
		Example: "  tidemark gc --dry-run\n  tidemark gc\n  tidemark restore 7f3a",
		Args:    usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			how := open.Write
			if dryRun {
				how = open.Read
			}
			s, err := a.open(cmd.Context(), how)
			if err != nil {
				return err
			}
			c := &cleaned{DryRun: dryRun, Retention: a.config.RetentionText()}
			err = a.clean(cmd, s, c)
			a.progressDone()
			// Print what was done even if the rest failed.
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

func (a *app) clean(cmd *cobra.Command, s *store.Store, c *cleaned) (err error) {
	o := upkeep.CleanOptions{DryRun: c.DryRun, Holder: a.holder(cmd), Progress: a.progress, Skipped: func(err error) {
		c.skipped++
		a.complain(err)
	}}
	if a.config.Retention != "" {
		if o.Retention, err = upkeep.ParseAge(a.config.Retention); err != nil {
			return err
		}
	}
	if c.Cleaned, err = upkeep.Clean(cmd.Context(), s, o); err != nil || c.DryRun {
		return err
	}
	if _, err := a.opened.SweepCold(cmd.Context()); err != nil {
		c.skipped++
		a.complain(err) // a place that does not answer keeps nothing here from being done
	}
	if err := s.NoteJumps(cmd.Context(), o.Holder, func(i store.Info) { a.progress("noted the path of %.8s", i.ID) }); err != nil {
		return err
	}
	a.progress("giving back space")
	c.FreedBytes, err = s.Compact(cmd.Context())
	return a.ignoreUncompacted(err)
}

// ignoreUncompacted returns err, or nil if the store cannot be compacted, or has no
// room for it now: what had to be removed is removed all the same.
func (a *app) ignoreUncompacted(err error) error {
	var room *sqlite.NoSpaceError
	if errors.As(err, &room) {
		a.progressDone()
		a.say("tidemark: %v", room)
		return nil
	}
	if errors.Is(err, tidemark.ErrUnsupported) {
		return nil
	}
	return err
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
