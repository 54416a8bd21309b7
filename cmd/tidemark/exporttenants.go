package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/archive"
	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/open"
)

// tenantArchive is the archive of what one principal has in a database.
type tenantArchive struct {
	Tenant  string `json:"tenant"`
	User    string `json:"user,omitempty"` // "": the tenant itself
	File    string `json:"file"`
	Records int64  `json:"records"`
	Lines   int64  `json:"lines"`
	Damaged int64  `json:"damaged"`
}

// exportTenants writes an archive for each tenant and user that the operator
// knows, and one of what the operator has, into a folder. Nobody's key is
// needed: what is encrypted stays so.
func (a *app) exportTenants(cmd *cobra.Command, only []string, dir string) error {
	if dir == "-" {
		return withHint(tidemark.Invalidf("several archives go into a folder"), "name it: -o DIR")
	}
	place, err := a.databaseURL()
	if err != nil {
		return err
	}
	users, err := a.directory(cmd.Context(), reads)
	if err != nil {
		return err
	}
	db, err := postgres.Connect(cmd.Context(), place, nil)
	if err != nil {
		return open.DatabaseHint(err)
	}
	defer db.Close()
	e := &tenantExport{app: a, ctx: cmd.Context(), db: db, dir: dir, rows: []tenantArchive{}}
	for _, name := range only {
		t, err := users.NeedTenant(cmd.Context(), name)
		if err != nil {
			return err
		}
		if err := e.tenant(users, t); err != nil {
			return err
		}
	}
	if len(only) == 0 {
		for t, err := range users.Tenants(cmd.Context(), "") {
			if err != nil {
				return err
			}
			if err := e.tenant(users, t); err != nil {
				return err
			}
		}
		if err := e.principal(tidemark.Operator(), tenantArchive{Tenant: "operator", File: "operator.tidemark"}); err != nil {
			return err
		}
	}
	a.progressDone()
	err = a.print(e.rows, func(w io.Writer) error {
		t := a.table("FILE", "RECORDS", "ENTRIES")
		for _, r := range e.rows {
			t.row(r.File, fmt.Sprint(r.Records), fmt.Sprint(r.Lines))
		}
		return t.print(w)
	})
	for _, r := range e.rows {
		if r.Damaged > 0 {
			err = errors.Join(err, fmt.Errorf("%s: %d thing(s) could not be read: %w", r.File, r.Damaged, tidemark.ErrCorrupt))
		}
	}
	return err
}

type tenantExport struct {
	*app
	ctx  context.Context
	db   *postgres.Database
	dir  string
	rows []tenantArchive
}

// tenant writes what a tenant and each of its users have.
func (e *tenantExport) tenant(users *tenant.Directory, t tenant.Tenant) error {
	own := tidemark.Principal{Tenant: t.ID, User: t.ID}
	if err := e.principal(own, tenantArchive{Tenant: t.Name, File: filepath.Join(t.Name, "tenant.tidemark")}); err != nil {
		return err
	}
	for u, err := range users.Users(e.ctx, t.ID, "") {
		if err != nil {
			return err
		}
		row := tenantArchive{Tenant: t.Name, User: u.ID, File: filepath.Join(t.Name, u.ID+".tidemark")}
		if err := e.principal(tidemark.Principal{Tenant: t.ID, User: u.ID}, row); err != nil {
			return err
		}
	}
	return nil
}

// principal writes what one principal has, and nothing when that is nothing.
func (e *tenantExport) principal(p tidemark.Principal, row tenantArchive) error {
	b := e.db.For(p)
	defer b.Close()
	if empty, err := open.IsEmpty(e.ctx, b); empty || err != nil {
		return err
	}
	file := filepath.Join(e.dir, row.File)
	if err := durable.MakeDir(filepath.Dir(file)); err != nil {
		return tidemark.Storagef("%w", err)
	}
	return e.toFile(file, func(w io.Writer) error {
		m, err := archive.Write(e.ctx, w, b, &archive.WriteOptions{Describe: map[string]string{"program": "tidemark " + version}, Progress: e.stages("Written", 0),
			Damaged: func(err error) { e.say("tidemark: %s: left out", err) }})
		row.Records, row.Lines, row.Damaged = m.Records, m.Lines, m.Damaged
		e.rows = append(e.rows, row)
		return err
	})
}
