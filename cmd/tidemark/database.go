package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/server/serve"
)

func databaseCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "database",
		Short: "Prepare and check a PostgreSQL database",
		Long: `A store on PostgreSQL has two roles: one owns the tables and changes them, the
other is what servers and nodes log in as, and can see only what the policies
let it see. --store names the database with the second role; the URL of the
owner is in $` + open.DatabaseOwner + `, because it holds a password.`,
		Args: usage(cobra.NoArgs), RunE: help,
	}
	cmd.AddCommand(databaseMigrateCommand(a), databaseCheckCommand(a))
	return cmd
}

func databaseMigrateCommand(a *app) *cobra.Command {
	m, backedUp, auditKeep := postgres.Migration{}, false, ""
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Make the tables, or bring them up to date",
		Long: `Makes the tables, policies and grants that the store needs, and those of the queue
that hands out jobs. It can be run again, and by several at once; nothing that
is kept is changed or lost.

The tables of an older version are changed only with --backed-up: an older
program cannot use them afterwards. Servers of an older version are stopped
before: while programs are connected it says who, and changes nothing. Each step
is a transaction, so what is interrupted can be run again.`,
		Example: `  export ` + open.DatabaseOwner + `=postgres://owner@db/tidemark
  tidemark --store postgres://tidemark@db/tidemark database migrate
  pg_dump -Fc -f before.dump postgres://postgres@db/tidemark
  tidemark --store postgres://tidemark@db/tidemark database migrate --backed-up
  tidemark --store postgres://tidemark@db/tidemark database migrate --audit-keep 400d`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			place, err := a.databaseURL()
			if err != nil {
				return err
			}
			if !backedUp {
				m.Upgrading = serve.OnlyWithABackup
			}
			if m.KeepActs, err = serve.ParseActsKept(auditKeep); err != nil {
				return err
			}
			role, err := serve.MigrateDatabase(cmd.Context(), place, os.Environ(), m)
			if err != nil {
				return err
			}
			return a.printf(map[string]any{"role": role, "partitions": m.Partitions}, "The database is ready for the role %s.\n", role)
		},
	}
	cmd.Flags().IntVar(&m.Partitions, "partitions", 0, "when the tables are made: cut the largest one into `N` parts")
	cmd.Flags().BoolVar(&backedUp, "backed-up", false, "there is a backup: change the tables of an older version")
	cmd.Flags().StringVar(&auditKeep, "audit-keep", "", "drop the rows that changes bring along for the audit log after `TIME`, such as 400d, by the month; forever: keep them")
	cmd.Flags().BoolVar(&m.Force, "force", false, "with --backed-up: although programs are connected")
	return cmd
}

func databaseCheckCommand(a *app) *cobra.Command {
	var replicas []string
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check that no tenant can see another's rows",
		Long: `Logs in as a server would and looks whether the policies, grants and roles are as
they have to be: what serve does before it answers anybody. It also says whether
the database is a standby, which takes no writes, and of each --replica whether it
is one, whether it keeps tenants apart, and how far behind it is.`,
		Example: `  tidemark --store postgres://tidemark@db/tidemark database check
  tidemark --store postgres://tidemark@db/tidemark database check --replica postgres://tidemark@db2/tidemark`,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			place, err := a.databaseURL()
			if err != nil {
				return err
			}
			is, err := serve.CheckDatabase(cmd.Context(), place, replicas...)
			if err != nil {
				return err
			}
			return a.printf(is, "%s\n", is)
		},
	}
	cmd.Flags().StringArrayVar(&replicas, "replica", nil, "`URL` of a standby that answers reads; again for more")
	return cmd
}

// databaseURL returns the URL of the store, which has to be on PostgreSQL.
func (a *app) databaseURL() (string, error) {
	place, _, err := a.location()
	if err == nil && !open.IsPostgres(place) {
		err = hint.With(tidemark.Invalidf("the store is no database"), "name one with --store postgres://ROLE@HOST/DATABASE")
	}
	return place, err
}
