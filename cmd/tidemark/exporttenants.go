package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/archive"
	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/transfer"
)

// exportTenants writes an archive for each tenant and user, and one for the
// operator, into a folder. It needs no keys: what is encrypted stays encrypted.
func (a *app) exportTenants(cmd *cobra.Command, only []string, dir string) error {
	if dir == "-" {
		return hint.With(tidemark.Invalidf("several archives go into a folder"), "name it: -o DIR")
	}
	place, err := a.databaseURL()
	if err != nil {
		return err
	}
	users, err := a.directory(cmd.Context(), open.Read)
	if err != nil {
		return err
	}
	db, err := postgres.Connect(cmd.Context(), place, nil)
	if err != nil {
		return open.DatabaseHint(err)
	}
	defer db.Close()
	e := &transfer.TenantExport{Database: db, URL: place, Users: users, Dir: dir, Program: "tidemark " + version, Archives: []transfer.TenantArchive{},
		Progress: func() func(archive.Progress) { return a.archiveProgress("Written", 0) }, Damaged: func(err error) { a.say("tidemark: %s: left out", err) }}
	for _, name := range only {
		t, err := users.EnsureTenant(cmd.Context(), name)
		if err != nil {
			return err
		}
		if err := e.Tenant(cmd.Context(), t); err != nil {
			return err
		}
	}
	if len(only) == 0 {
		if err := e.All(cmd.Context()); err != nil {
			return err
		}
	}
	a.progressDone()
	err = printTable(a, e.Archives, []string{"FILE", "RECORDS", "ENTRIES"}, func(r transfer.TenantArchive) []string {
		return []string{r.File, fmt.Sprint(r.Records), fmt.Sprint(r.Lines)}
	})
	for _, r := range e.Archives {
		if r.Damaged > 0 {
			err = errors.Join(err, fmt.Errorf("%s: %d thing(s) could not be read: %w", r.File, r.Damaged, tidemark.ErrCorrupt))
		}
	}
	return err
}
