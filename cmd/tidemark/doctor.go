package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/transfer"
	"github.com/tidemark-sessions/tidemark/transfer/sync"
)

func doctorCommand(a *app) *cobra.Command {
	var fix bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look the store over, and repair what can be repaired",
		Long: `Looks at the store, its keys, its search index, its leases and purges that were
interrupted, and says what a sandbox on this machine can enforce, which
sessions other tools will soon delete, with how to change that, and how many are at
no remote as they are here. With --fix it repairs what can be repaired without losing anything
that can still be read: it completes what was cut off, makes the index anew,
narrows modes, lets go of what dead writers hold. What it cannot keep in place
it sets aside; it deletes nothing. A store on sqlite whose schema or whose first
bytes are damaged is repaired after a copy of it was kept beside it.

The exit code is 13 while something is broken.`,
		Example: "  tidemark doctor\n  tidemark doctor --fix",
		Args:    usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c := &open.Checkup{Fix: fix, Environ: os.Environ(), Holder: a.holder(cmd), Progress: a.progress}
			err := a.examine(cmd.Context(), c)
			a.progressDone()
			return errors.Join(a.printDiagnoses(c.Found), err, c.Err())
		},
	}
	cmd.Flags().BoolVar(&fix, "fix", false, "repair what can be repaired")
	return cmd
}

func (a *app) examine(ctx context.Context, c *open.Checkup) error {
	url, origin, err := a.location()
	if err != nil {
		return err
	}
	how := open.Read
	if c.Fix {
		how = open.Write
		if err := c.Recover(ctx, url); err != nil {
			return err
		}
	}
	s, err := a.open(ctx, how)
	if err != nil {
		return err
	}
	c.Add("store", open.Healthy, "%s (%s)", url, origin)
	if err := errors.Join(c.Upgrade(ctx, a.opened, url), c.Keys(ctx, a.opened)); err != nil {
		return err
	}
	mode, origin := a.config.SandboxMode(os.Getenv)
	if mode != agent.SandboxOff {
		origin = ""
	}
	c.Sandbox(origin)
	if home, err := os.UserHomeDir(); err == nil {
		transfer.CheckRetention(ctx, c, s, home, time.Now())
	}
	return errors.Join(c.Store(ctx, s), c.Cold(ctx, a.opened), sync.CheckElsewhere(ctx, c, s))
}

func (a *app) printDiagnoses(found []open.Diagnosis) error {
	return printTable(a, found, []string{"STATE", "WHAT", "SAYS"}, func(f open.Diagnosis) []string {
		says := f.Says
		if f.Fix != "" {
			says += " (" + f.Fix + ")"
		}
		return []string{f.State, f.What, says}
	})
}
