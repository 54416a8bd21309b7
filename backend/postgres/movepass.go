package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-sessions/tidemark"
)

// What one transaction at the destination copies: so many rows, or lines, of so many logs.
const (
	moveRows = 500
	moveLogs = 500
	moveSpan = 2000
)

// movedTable is a table whose rows are found to differ by a fingerprint. The names of
// columns are written as SQL wants them.
type movedTable struct {
	name    string
	key     []string // after tenant and owner
	columns []string // after the key
	heavy   string   // the last column, the body; "": there is none
}

var (
	movedRecords = movedTable{"record", []string{"kind", "id"}, []string{"session", "scope", "version", `"group"`, "state", "due", "updated", "touched", "batch", "sum"}, "body"}
	movedShares  = movedTable{"share", []string{"session"}, []string{"scope", "since"}, ""}
	movedLogs    = movedTable{"log", []string{"kind", "id"}, []string{"log", "session", "scope", "length", "updated", "parent", "depth", "nodes", "turn", "chain", "lease", "record", "moved", "trimmed"}, ""}
	movedLines   = movedTable{"line", []string{"log", "seq"}, []string{"kind", "key", "at", "parent", "depth", "nodes", "turn", "chain", "batch", "sum"}, "body"}
	// Rows of act have no owner: node stands in its place.
	movedActs = movedTable{"act", []string{"boot", "n"}, []string{"at", "batch", "sum"}, "body"}
)

func (t *movedTable) owner() string {
	if t.name == "act" {
		return "node"
	}
	return "owner"
}

// all are the columns, each after the name of a row, in the order that copies have them.
func (t *movedTable) all(of string) string {
	names := append([]string{"tenant", t.owner()}, append(slices.Clone(t.key), t.columns...)...)
	if t.heavy != "" {
		names = append(names, t.heavy)
	}
	return of + strings.Join(names, ", "+of)
}

// print is a number that stands for a row r: 64 bits of the MD5 of all that it has but
// its body. Whoever changes a body changes the version, the batch or the sum beside it.
func (t *movedTable) print() string { return t.printOf() }

// wholePrint stands for all that a row has. What is copied is compared by it.
func (t *movedTable) wholePrint() string {
	if t.heavy == "" {
		return t.printOf()
	}
	return t.printOf("md5(r." + t.heavy + ")")
}

func (t *movedTable) printOf(more ...string) string {
	columns := append(slices.Clone(t.key), t.columns...)
	for i := range columns {
		columns[i] = "r." + columns[i]
	}
	columns = append(columns, more...)
	return `('x' || left(md5(row(r.` + t.owner() + `, ` + strings.Join(columns, ", ") + `)::text), 16))::bit(64)::bigint`
}

// pass goes once through everything that a tenant has.
type pass struct {
	m      *Mover
	from   pgx.Tx // at the source
	to     *moving
	copied func(rows int64)
	found  map[*movedTable][]id // the owners whose rows differed
}

// all copies what differs. Logs come after records: changing the record of a session
// empties what its log keeps of it.
func (p *pass) all(ctx context.Context) (err error) {
	p.found = make(map[*movedTable][]id)
	for _, t := range []*movedTable{&movedShares, &movedRecords, &movedLogs} {
		if p.found[t], err = p.differing(ctx, t, nil); err != nil {
			return err
		}
		for _, owner := range p.found[t] {
			if t == &movedLogs {
				err = p.logsOf(ctx, owner)
			} else {
				err = p.rowsOf(ctx, t, owner)
			}
			if err != nil {
				return err
			}
		}
	}
	return p.acts(ctx)
}

// verify wants that nothing differs any more, after all has run while nobody writes:
// the owners whose rows did not differ are not compared a second time. Lines were
// compared with the commit that copied them, and cannot change.
func (p *pass) verify(ctx context.Context) error {
	for _, t := range []*movedTable{&movedShares, &movedRecords, &movedLogs} {
		if len(p.found[t]) == 0 {
			continue
		}
		owners, err := p.differing(ctx, t, p.found[t])
		if err != nil {
			return err
		}
		if len(owners) > 0 {
			return tidemark.Errorf(tidemark.ErrCorrupt, "table %s: rows of %d owners differ after they were copied: the tenant stays where it is", t.name, len(owners))
		}
	}
	here, there, err := p.runs(ctx)
	if err != nil {
		return err
	}
	if !maps.Equal(here, there) {
		return tidemark.Errorf(tidemark.ErrCorrupt, "table act: rows differ after they were copied: the tenant stays where it is")
	}
	return nil
}

// atDestination runs work there, in a transaction that sees the rows of the tenant.
func (p *pass) atDestination(ctx context.Context, work func(pgx.Tx) error) error {
	err := pgx.BeginFunc(ctx, p.to, func(tx pgx.Tx) error {
		if err := p.m.enter(ctx, tx); err != nil {
			return err
		}
		return work(tx)
	})
	return p.to.named(err)
}

// both asks a question at both databases at the same time.
func both[T any](ctx context.Context, p *pass, ask func(pgx.Tx) (T, error)) (here, there T, err error) {
	answered := make(chan error, 1)
	go func() {
		answered <- p.atDestination(ctx, func(tx pgx.Tx) (err error) {
			there, err = ask(tx)
			return err
		})
	}()
	here, err = ask(p.from)
	return here, there, errors.Join(err, <-answered)
}

// differing returns the owners whose rows of a table are not the same in both databases,
// of some owners or, without, of all.
func (p *pass) differing(ctx context.Context, t *movedTable, of []id) (owners []id, err error) {
	type print struct {
		n   int64
		sum string
	}
	sql := `select r.owner, count(*), sum(` + t.print() + `)::text from tidemark.` + t.name + ` r where r.tenant = $1 and ($2::uuid[] is null or r.owner = any($2)) group by r.owner`
	here, there, err := both(ctx, p, func(tx pgx.Tx) (map[id]print, error) {
		prints := make(map[id]print)
		rows, err := tx.Query(ctx, sql, p.m.id, of)
		if err != nil {
			return nil, err
		}
		var owner id
		var is print
		_, err = pgx.ForEachRow(rows, []any{&owner, &is.n, &is.sum}, func() error {
			prints[owner] = is
			return nil
		})
		return prints, err
	})
	for owner, is := range here {
		if there[owner] != is {
			owners = append(owners, owner)
		}
		delete(there, owner)
	}
	return append(owners, slices.Collect(maps.Keys(there))...), err
}

// printed is the key of a row, and what stands for it.
type printed struct {
	key   string // all parts as text, in the order of the table
	parts []string
	print int64
}

// printsOf lists the rows of an owner in the order of their keys.
func (p *pass) printsOf(ctx context.Context, t *movedTable, owner id) (here, there []printed, err error) {
	keys := make([]string, len(t.key))
	for i, k := range t.key {
		keys[i] = "r." + k + "::text"
	}
	sql := `select array[` + strings.Join(keys, ", ") + `], ` + t.print() + ` from tidemark.` + t.name + ` r where r.tenant = $1 and r.owner = $2`
	return both(ctx, p, func(tx pgx.Tx) ([]printed, error) {
		rows, err := tx.Query(ctx, sql, p.m.id, owner)
		if err != nil {
			return nil, err
		}
		all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (is printed, err error) {
			err = row.Scan(&is.parts, &is.print)
			is.key = strings.Join(is.parts, "\x00")
			return is, err
		})
		slices.SortFunc(all, func(a, b printed) int { return strings.Compare(a.key, b.key) })
		return all, err
	})
}

// rowsOf makes the rows of an owner the same in both databases, some at a time.
func (p *pass) rowsOf(ctx context.Context, t *movedTable, owner id) error {
	here, there, err := p.printsOf(ctx, t, owner)
	if err != nil {
		return err
	}
	missing, gone := difference(here, there)
	for len(missing)+len(gone) > 0 {
		add, drop := missing[:min(len(missing), moveRows)], gone[:min(len(gone), moveRows)]
		missing, gone = missing[len(add):], gone[len(drop):]
		err := p.atDestination(ctx, func(tx pgx.Tx) error {
			old, args := t.named(p.m.id, owner, append(slices.Clone(add), drop...))
			if _, err := tx.Exec(ctx, `delete from tidemark.`+t.name+` r using `+old+` where r.tenant = $1 and r.owner = $2 and `+t.matches(), args...); err != nil {
				return err
			}
			if len(add) == 0 {
				return nil
			}
			these, args := t.named(p.m.id, owner, add)
			return p.copy(ctx, tx, t, `from tidemark.`+t.name+` r, `+these+` where r.tenant = $1 and r.owner = $2 and `+t.matches(), args...)
		})
		if err != nil {
			return err
		}
		p.copied(int64(len(add) + len(drop)))
	}
	return nil
}

// difference returns which rows are missing or other there, and which are not here any
// more. Both lists are in order.
func difference(here, there []printed) (missing, gone []printed) {
	for len(here)+len(there) > 0 {
		switch {
		case len(there) == 0 || len(here) > 0 && here[0].key < there[0].key:
			missing, here = append(missing, here[0]), here[1:]
		case len(here) == 0 || there[0].key < here[0].key:
			gone, there = append(gone, there[0]), there[1:]
		default:
			if here[0].print != there[0].print {
				missing = append(missing, here[0])
			}
			here, there = here[1:], there[1:]
		}
	}
	return missing, gone
}

// named is a list of keys u, to be joined by matches.
func (t *movedTable) named(tenant, owner id, rows []printed) (sql string, args []any) {
	args = []any{tenant, owner}
	var lists, names []string
	for i := range t.key {
		column := make([]string, len(rows))
		for j := range rows {
			column[j] = rows[j].parts[i]
		}
		args = append(args, column)
		lists, names = append(lists, fmt.Sprintf("$%d::text[]", len(args))), append(names, fmt.Sprint("k", i))
	}
	return `unnest(` + strings.Join(lists, ", ") + `) u(` + strings.Join(names, ", ") + `)`, args
}

func (t *movedTable) matches() string {
	all := make([]string, len(t.key))
	for i, k := range t.key {
		to := map[string]string{"session": "::uuid"}[k]
		all[i] = fmt.Sprintf("r.%s = u.k%d%s", k, i, to)
	}
	return strings.Join(all, " and ")
}

// copy sends rows r of a table from the source to tx. They go through a table of the
// transaction: COPY does not write where there is row security. What arrived is compared.
func (p *pass) copy(ctx context.Context, tx pgx.Tx, t *movedTable, from string, args ...any) error {
	into := "moved_" + t.name
	if _, err := tx.Exec(ctx, `create temp table if not exists `+into+` (like tidemark.`+t.name+`) on commit delete rows`); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `delete from `+into); err != nil {
		return err
	}
	rows, err := p.from.Query(ctx, `select `+t.all("r.")+` `+from, args...)
	if err != nil {
		return err
	}
	_, err = tx.CopyFrom(ctx, pgx.Identifier{into}, strings.Split(strings.ReplaceAll(t.all(""), `"`, ""), ", "), rowsIn{rows})
	rows.Close()
	if err := errors.Join(err, rows.Err()); err != nil {
		return err
	}
	var here, there string
	sum := `select count(*) || ' ' || coalesce(sum(` + t.wholePrint() + `), 0) `
	if err := p.from.QueryRow(ctx, sum+from, args...).Scan(&here); err != nil {
		return err
	}
	// As they are in the table, not as they were sent.
	if err := tx.QueryRow(ctx, `with r as (insert into tidemark.`+t.name+` (`+t.all("")+`) select `+t.all("")+` from `+into+` returning *) `+sum+`from r`).Scan(&there); err != nil {
		return err
	}
	if here != there {
		return tidemark.Errorf(tidemark.ErrCorrupt, "table %s: what was copied is not what is there (%s, %s): the tenant stays where it is", t.name, here, there)
	}
	return nil
}

// rowsIn are rows of one database on their way to another, one at a time.
type rowsIn struct{ pgx.Rows }

func (r rowsIn) Err() error { return r.Rows.Err() }
