package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/server/serve"
)

func tenantMoveCommand(a *app) *cobra.Command {
	var to, owners string
	var finish, status bool
	var stop time.Duration
	cmd := &cobra.Command{
		Use: "move NAME --to DATABASE", Short: "Move a tenant to another database, while it is used",
		Long: `Copies everything that a tenant has to another PostgreSQL database, again and again
until little is missing, has its writers wait for the rest, compares all of it, and
switches. Nobody has to sign in again, and sessions that are open stay open: a write
waits for a moment. At no time do two databases take writes of the tenant.

The database of --store is called main; the others have the names that the servers
know them by (serve --databases). --owners names a file with a line for each,
NAME: postgres://OWNER:PASSWORD@HOST/DB, since tenants are moved by the owner of the
tables; that of main can be in $` + open.DatabaseOwner + `. The tables of the other
database are made before, with tidemark database migrate.

Killed at any moment, the same command goes on; --to the database that the tenant is
leaving gives the move up. What was left behind stays until --finish deletes it.`,
		Example: `  tidemark tenant move acme --to b --owners owners.yaml
  tidemark tenant move acme --status --owners owners.yaml
  tidemark tenant move acme --finish --owners owners.yaml`,
		Args: usage(cobra.ExactArgs(1)),
	}
	cmd.RunE = a.onDirectory(open.Write, func(cmd *cobra.Command, d *tenant.Directory, args []string) error {
		if _, err := a.databaseURL(); err != nil {
			return err
		}
		if chosen := map[bool]int{true: 1}; chosen[to != ""]+chosen[finish]+chosen[status] != 1 {
			return hint.With(tidemark.Invalidf("want one of --to, --finish and --status"), "tidemark tenant move %s --to DATABASE", args[0])
		}
		t, err := d.TenantNamed(cmd.Context(), args[0])
		if err != nil {
			return hint.With(err, "see them with: tidemark tenant ls")
		}
		m := &serve.TenantMove{Tenant: t.ID, Name: t.Name, Owners: owners, Environ: os.Environ(), StopAtMost: stop, Progress: a.progress}
		var said fmt.Stringer
		switch {
		case status:
			said, err = m.Homes(cmd.Context())
		case finish:
			err = a.auditAround(cmd, d, t.ID, "tenant.move.finish", t.ID, func() (_ string, err error) {
				said, err = m.Finish(cmd.Context())
				return t.ID, err
			})
		default:
			err = a.auditAround(cmd, d, t.ID, "tenant.move.to."+to, t.ID, func() (_ string, err error) {
				said, err = m.Run(cmd.Context(), to)
				return t.ID, err
			})
		}
		if err != nil {
			return err
		}
		return a.printf(said, "%s\n", said)
	})
	cmd.Flags().StringVar(&to, "to", "", "the `DATABASE` to move it to")
	cmd.Flags().StringVar(&owners, "owners", "", "`FILE` with the owners of the databases, a line NAME: URL each")
	cmd.Flags().DurationVar(&stop, "stop-at-most", 30*time.Second, "how long writers may wait for the switch; it is given up then, and tried again")
	cmd.Flags().BoolVar(&finish, "finish", false, "delete what the other databases still have of it")
	cmd.Flags().BoolVar(&status, "status", false, "say where it is, and change nothing")
	return cmd
}
