package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/archive"
	"github.com/tidemark-sessions/tidemark/backend/cold"
	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/open"
)

// TenantArchive is the archive of one principal's data in a database.
type TenantArchive struct {
	Tenant  string `json:"tenant"`
	User    string `json:"user,omitempty"` // "": the tenant itself
	File    string `json:"file"`
	Records int64  `json:"records"`
	Lines   int64  `json:"lines"`
	Damaged int64  `json:"damaged"`
}

// TenantExport writes an archive for each tenant and user of a database into a
// folder. Nobody's key is needed: what is encrypted stays so.
type TenantExport struct {
	Database *postgres.Database // opened by Run
	Places   *cold.Places       // where older lines are
	URL      string             // of the database, which no archive may overwrite
	Users    *tenant.Directory
	Dir      string
	Program  string                        // the program that the archives name as their maker
	Progress func() func(archive.Progress) // called for each archive
	Damaged  func(error)
	Archives []TenantArchive
}

// Run writes the archives of the named tenants, or without names of all.
func (e *TenantExport) Run(ctx context.Context, names ...string) (err error) {
	if e.Database, err = postgres.Connect(ctx, e.URL, nil); err != nil {
		return open.DatabaseHint(err)
	}
	defer e.Database.Close()
	for _, name := range names {
		t, err := e.Users.EnsureTenant(ctx, name)
		if err != nil {
			return err
		}
		if err := e.Tenant(ctx, t); err != nil {
			return err
		}
	}
	if len(names) == 0 {
		return e.All(ctx)
	}
	return nil
}

// Faults returns ErrCorrupt when something could not be read.
func (e *TenantExport) Faults() (err error) {
	for _, r := range e.Archives {
		if r.Damaged > 0 {
			err = errors.Join(err, fmt.Errorf("%s: %d thing(s) could not be read: %w", r.File, r.Damaged, tidemark.ErrCorrupt))
		}
	}
	return err
}

// All writes the archives of all tenants, and one of the operator's records.
func (e *TenantExport) All(ctx context.Context) error {
	for t, err := range e.Users.Tenants(ctx, "") {
		if err != nil {
			return err
		}
		if err := e.Tenant(ctx, t); err != nil {
			return err
		}
	}
	return e.principal(ctx, tidemark.Operator(), TenantArchive{Tenant: "operator", File: "operator.tidemark"})
}

// Tenant writes the archives of a tenant and each of its users.
func (e *TenantExport) Tenant(ctx context.Context, t tenant.Tenant) error {
	own := tidemark.Principal{Tenant: t.ID, User: t.ID}
	if err := e.principal(ctx, own, TenantArchive{Tenant: t.Name, File: filepath.Join(t.Name, "tenant.tidemark")}); err != nil {
		return err
	}
	for u, err := range e.Users.Users(ctx, t.ID, "") {
		if err != nil {
			return err
		}
		row := TenantArchive{Tenant: t.Name, User: u.ID, File: filepath.Join(t.Name, u.ID+".tidemark")}
		if err := e.principal(ctx, tidemark.Principal{Tenant: t.ID, User: u.ID}, row); err != nil {
			return err
		}
	}
	return nil
}

// principal writes the archive of one principal, unless it would be empty.
func (e *TenantExport) principal(ctx context.Context, p tidemark.Principal, row TenantArchive) error {
	b := e.Places.Lend(e.Database.For(p), "")
	defer b.Close()
	if empty, err := open.IsEmpty(ctx, b); empty || err != nil {
		return err
	}
	file := filepath.Join(e.Dir, row.File)
	if err := durable.MakeDir(filepath.Dir(file)); err != nil {
		return tidemark.Storagef("%w", err)
	}
	return ToFile(file, e.URL, func(w io.Writer) error {
		m, err := archive.Write(ctx, w, b, &archive.WriteOptions{Describe: map[string]string{"program": e.Program}, Progress: e.Progress(),
			Damaged: e.Damaged})
		row.Records, row.Lines, row.Damaged = m.Records, m.Lines, m.Damaged
		e.Archives = append(e.Archives, row)
		return err
	})
}
