package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-sessions/tidemark"
)

// scopeIn returns the value of the column scope for a Scope, nil for private.
func (b *Backend) scopeIn(with tidemark.Scope) (*id, error) {
	switch with.With {
	case tidemark.Private:
		return nil, nil
	case tidemark.InTenant:
		return &b.who.tenant, nil
	case tidemark.InWorkspace:
		w, err := parseID("workspace", with.Workspace)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(b.also, w) {
			return nil, &denied{b.db.place, errors.New("workspace " + with.Workspace + ": not one of yours")}
		}
		return &w, nil
	}
	return nil, tidemark.Invalidf("a session is shared with %s, %s or %s, not with %q", tidemark.Private, tidemark.InWorkspace, tidemark.InTenant, with.With)
}

const (
	// A walk for each kind: as one condition the kinds may become a filter.
	sqlOfSession = `exists (select from unnest(%[3]s::text[]) k(kind) cross join lateral (select from tidemark.%[1]s r
    where r.tenant = $1 and r.owner = %[2]s and r.kind = k.kind and r.id >= %[4]s and r.id < %[4]s || '/' and r.session = %[5]s limit 1) r)`
	sqlTakeSession = `select from tidemark.record r where r.tenant = $1 and r.owner = $2 and r.kind = any($3) and r.id >= $4 and r.id < $4 || '/' and r.session = $5
  order by r.kind, r.id for no key update`
	sqlTakeSessionLogs = `select l.kind, l.id from tidemark.log l where l.tenant = $1 and l.owner = $2 and l.kind = any($3) and l.id >= $4 and l.id < $4 || '/' and l.session = $5
  order by l.kind, l.id for no key update`
	sqlShare = `insert into tidemark.share (tenant, owner, session, scope) values ($1, $2, $3, $4)
  on conflict (tenant, owner, session) do update set scope = excluded.scope, since = excluded.since where share.scope <> excluded.scope`
	sqlUnshare      = `delete from tidemark.share s where s.tenant = $1 and s.owner = $2 and s.session = $3`
	sqlScopeRecords = `update tidemark.record r set scope = $6 where r.tenant = $1 and r.owner = $2 and r.kind = any($3) and r.id >= $4 and r.id < $4 || '/'
  and r.session = $5 and r.scope is distinct from $6`
	sqlScopeLogs = `update tidemark.log l set scope = $6 where l.tenant = $1 and l.owner = $2 and l.kind = any($3) and l.id >= $4 and l.id < $4 || '/'
  and l.session = $5 and l.scope is distinct from $6`
	sqlOldScope = `select s.scope from tidemark.share s where s.tenant = $1 and s.owner = $2 and s.session = $3`
)

// Of returns a Backend for what one owner keeps, as far as the principal may
// read it: the policies of the tables decide, as they do without a named owner.
func (b *Backend) Of(owner string) (tidemark.Backend, error) {
	if b.wrong != nil {
		return nil, b.wrong
	}
	whose := b.who.user
	if owner != "" {
		var err error
		if whose, err = parseID("owner", owner); err != nil {
			return nil, err
		}
	}
	from := b
	if b.from != nil {
		from = b.from
	}
	return &Backend{db: b.db, who: b.who, also: b.also, set: b.set, of: &whose, keeps: b.keeps, from: from}, nil
}

// scoped reports whether only what another owner shares with a workspace is read: its
// index has nothing else, although whoever is in it may read what the tenant shares.
func (b *Backend) scoped() bool { return b.keeps != nil && b.of != nil && *b.of != b.who.user }

// audience are the scopes in which others share with the principal.
func (b *Backend) audience() []id { return append(slices.Clone(b.also), b.who.tenant) }

// Audience returns the principal, its workspaces and its tenant.
func (b *Backend) Audience() (me string, scopes []string) {
	if b.wrong != nil || b.auditor() {
		return "", nil
	}
	for _, s := range b.audience() {
		scopes = append(scopes, idText(s))
	}
	return idText(b.who.user), scopes
}

// Keeper returns the Backend of a scope that the principal is in: it reads what is
// shared with the scope, and writes the index of that. No caller of a server gets it.
func (b *Backend) Keeper(scope string) (tidemark.Backend, error) {
	s, err := parseID("scope", scope)
	if err != nil || b.of != nil || !slices.Contains(b.audience(), s) {
		return nil, &denied{b.db.place, errors.New("scope " + scope + ": not one of yours")}
	}
	p := tidemark.Principal{Tenant: idText(b.who.tenant), User: scope}
	if s != b.who.tenant {
		p.Workspaces = []string{scope}
	}
	keeper := b.db.For(p)
	if s != b.who.tenant {
		keeper.keeps = &s
	}
	return keeper, nil
}

// whose is the owner whose rows are read first.
func (b *Backend) whose() id {
	if b.of != nil {
		return *b.of
	}
	return b.who.user
}

// nameOf is the name of an owner for callers: "" for the principal.
func (b *Backend) nameOf(owner id) string {
	if owner == b.who.user {
		return ""
	}
	return idText(owner)
}

// mayChange refuses to change what another owner keeps.
func (b *Backend) mayChange() error {
	if b.wrong == nil && b.whose() != b.who.user {
		return &denied{b.db.place, errors.New("what is another's can only be read")}
	}
	return nil
}

// Share sets who else may read a session. Its rows all change in one
// transaction, and nothing of the session is created meanwhile.
//
// ErrNotFound: the principal has no such session. ErrDenied: the workspace is
// not one of the principal's.
func (b *Backend) Share(ctx context.Context, session tidemark.SessionID, with tidemark.Scope) error {
	if b.wrong != nil {
		return b.wrong
	}
	s, err := parseID("session", string(session))
	if err != nil {
		return err
	}
	if b.mayChange() != nil {
		return tidemark.NotFoundf("session %s: not found", session)
	}
	scope, err := b.scopeIn(with)
	if err != nil {
		return err
	}
	key := tidemark.Key{Kind: "session", ID: idText(s)}
	mine := []any{b.who.tenant, b.who.user, sessionKinds, key.ID, s}
	return b.inTransaction(ctx, func(tx pgx.Tx) error {
		there := false
		var old *id
		var logs []tidemark.ChangedLines
		batch := &pgx.Batch{}
		batch.Queue(sqlReserve, []int64{slotOf(b.who, key)})
		batch.Queue(sqlMine, mine...).QueryRow(func(row pgx.Row) error { return row.Scan(&there) })
		batch.Queue(sqlTakeSession, mine...)
		each(batch.Queue(sqlTakeSessionLogs, mine...), func(rows pgx.Rows) error {
			l := tidemark.ChangedLines{From: 1}
			err := rows.Scan(&l.Log.Kind, &l.Log.ID)
			if slices.Contains(indexedKinds, l.Log.Kind) {
				logs = append(logs, l)
			}
			return err
		})
		each(batch.Queue(sqlOldScope, b.who.tenant, b.who.user, s), func(rows pgx.Rows) error { return rows.Scan(&old) })
		if err := tx.SendBatch(ctx, batch).Close(); err != nil {
			return err
		}
		if !there {
			return tidemark.NotFoundf("session %s: not found", session)
		}
		batch = &pgx.Batch{}
		// Who keeps the index of a scope is told in the same commit: of the old one
		// what is hidden now, of the new one to look.
		tell := func(scope id, gone ...tidemark.ChangedLines) {
			var n notesOut
			n.add(scope, b.who.user, tidemark.NoteUnindexed(session, gone...), time.Now().UTC().Truncate(time.Microsecond), tidemark.NewBatchID())
			n.flush(batch, b.who.tenant)
		}
		if changed := old != nil && (scope == nil || *scope != *old); changed {
			tell(*old, logs...)
		}
		if scope != nil {
			batch.Queue(sqlShare, b.who.tenant, b.who.user, s, *scope)
			if old == nil || *scope != *old {
				tell(*scope)
			}
		}
		for _, sql := range []string{sqlScopeRecords, sqlScopeLogs} {
			batch.Queue(sql, append(slices.Clone(mine), scope)...)
		}
		if scope == nil {
			batch.Queue(sqlUnshare, b.who.tenant, b.who.user, s)
		}
		return tx.SendBatch(ctx, batch).Close()
	})
}

const sqlShared = `select s.owner, s.scope from tidemark.share s where s.tenant = $1 and s.session = $2 and ($4::uuid is null or s.owner = $4) order by s.owner = $3 desc, s.since, s.owner limit 1`

// sqlMine finds out whether the principal has anything of a session, sqlHouse
// whether the tenant itself has.
var (
	sqlMine  = `select ` + fmt.Sprintf(sqlOfSession, "record", "$2", "$3", "$4", "$5") + ` or ` + fmt.Sprintf(sqlOfSession, "log", "$2", "$3", "$4", "$5")
	sqlHouse = `select ` + fmt.Sprintf(sqlOfSession, "record", "$1", "$2", "$3", "$4") + ` or ` + fmt.Sprintf(sqlOfSession, "log", "$1", "$2", "$3", "$4")
)

// Shared returns who else may read a session that the principal may read.
func (b *Backend) Shared(ctx context.Context, session tidemark.SessionID) (with tidemark.Scope, owner string, err error) {
	if b.wrong != nil {
		return with, "", b.wrong
	}
	s, err := parseID("session", string(session))
	if err != nil {
		return with, "", err
	}
	var whose, scope id
	var found, mine, house bool
	err = b.query(ctx, namedLogs{}, func(batch *pgx.Batch) {
		found = false
		text := idText(s)
		each(batch.Queue(sqlShared, b.who.tenant, s, b.who.user, b.of), func(rows pgx.Rows) error {
			found = true
			return rows.Scan(&whose, &scope)
		})
		batch.Queue(sqlMine, b.who.tenant, b.who.user, sessionKinds, text, s).QueryRow(func(row pgx.Row) error { return row.Scan(&mine) })
		batch.Queue(sqlHouse, b.who.tenant, sessionKinds, text, s).QueryRow(func(row pgx.Row) error { return row.Scan(&house) })
	})
	me := idText(b.who.user)
	mine, house = mine && b.whose() == b.who.user, house && (b.of == nil || *b.of == b.who.tenant)
	switch {
	case err != nil:
		return with, "", err
	case mine && (!found || whose != b.who.user):
		return tidemark.Scope{With: tidemark.Private}, me, nil
	case house && (!found || whose != b.who.user):
		return tidemark.Scope{With: tidemark.InTenant}, idText(b.who.tenant), nil
	case !found:
		return with, "", tidemark.NotFoundf("session %s: not found", session)
	case scope == b.who.tenant:
		return tidemark.Scope{With: tidemark.InTenant}, idText(whose), nil
	}
	return tidemark.Scope{With: tidemark.InWorkspace, Workspace: idText(scope)}, idText(whose), nil
}
