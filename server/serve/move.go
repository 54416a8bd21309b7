package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/open"
)

// TenantMove is a tenant that an operator moves to another database, or asks about.
type TenantMove struct {
	Tenant, Name string // its id and its name
	// Owners is the file with the URLs of the owners of the tables, by the name of the
	// database. The owner of main can also be named by the environment.
	Owners     string
	Environ    []string
	StopAtMost time.Duration // see postgres.Mover
	Progress   func(format string, args ...any)
}

// TenantMoved is what came of a move.
type TenantMoved struct{ postgres.Moved }

func (m TenantMoved) String() string {
	if m.From == "" {
		return fmt.Sprintf("The tenant is at the database %s.", m.To)
	}
	return fmt.Sprintf("The tenant is at the database %s now. %d rows were copied in %d passes; writers waited %d ms. What %s still has of it is deleted with: --finish",
		m.To, m.Rows, m.Passes, m.StoppedMilliseconds, m.From)
}

// TenantFinished is what came of deleting what was left behind.
type TenantFinished struct{ postgres.Moved }

func (m TenantFinished) String() string {
	return fmt.Sprintf("The tenant is at the database %s. %d rows were deleted in the others.", m.To, m.Rows)
}

// TenantHomes is what each database says of a tenant.
type TenantHomes []postgres.Home

func (all TenantHomes) String() (text string) {
	for i, h := range all {
		if i > 0 {
			text += "\n"
		}
		switch text += h.Database + ": " + h.State; h.State {
		case "leaving", "moved":
			text += " to " + h.Elsewhere
		case "arriving":
			text += " from " + h.Elsewhere
		}
	}
	return text
}

func (t *TenantMove) mover() (*postgres.Mover, error) {
	owners := make(map[string]string)
	if t.Owners != "" {
		var err error
		if owners, err = open.ReadDatabases(t.Owners); err != nil {
			return nil, err
		}
	}
	owners[postgres.MainName] = cmp.Or(owners[postgres.MainName], open.Getenv(t.Environ, open.DatabaseOwner))
	if owners[postgres.MainName] == "" {
		return nil, hint.With(tidemark.Invalidf("the owner of the store's own database is not known: tenants are moved by the owners of the tables"),
			"write main: postgres://OWNER:PASSWORD@HOST/DB into the file of --owners, or set $%s", open.DatabaseOwner)
	}
	return &postgres.Mover{Tenant: t.Tenant, Owners: owners, StopAtMost: t.StopAtMost, Progress: func(p postgres.MoveProgress) {
		switch p.Step {
		case postgres.MoveCopies:
			t.Progress("pass %d: %d rows copied", p.Pass, p.Rows)
		case postgres.MoveSwitches:
			t.Progress("writers wait: the last pass, and everything is compared")
		case postgres.MoveDeletes:
			t.Progress("%d rows deleted", p.Rows)
		}
	}}, nil
}

// Run moves the tenant to the database of a name.
func (t *TenantMove) Run(ctx context.Context, to string) (TenantMoved, error) {
	m, err := t.mover()
	if err != nil {
		return TenantMoved{}, err
	}
	done, err := m.Run(ctx, to)
	return TenantMoved{done}, t.hinted(err, to)
}

// Finish deletes what other databases still have of the tenant.
func (t *TenantMove) Finish(ctx context.Context) (TenantFinished, error) {
	m, err := t.mover()
	if err != nil {
		return TenantFinished{}, err
	}
	done, err := m.Finish(ctx)
	return TenantFinished{done}, t.hinted(err, "DATABASE")
}

// Homes returns what each database says of the tenant.
func (t *TenantMove) Homes(ctx context.Context) (TenantHomes, error) {
	m, err := t.mover()
	if err != nil {
		return nil, err
	}
	return m.Homes(ctx)
}

// hinted says how to go on.
func (t *TenantMove) hinted(err error, to string) error {
	switch {
	case err == nil, errors.Is(err, tidemark.ErrHeld):
		return err
	case errors.Is(err, tidemark.ErrInvalid):
		return hint.With(err, "see where it is with: tidemark tenant move %s --status; each database has a line NAME: postgres://OWNER@HOST/DB in the file of --owners", t.Name)
	}
	return hint.With(err, "the tenant is in one place; go on with the same command: tidemark tenant move %s --to %s", t.Name, to)
}
