package postgres

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Lines of a log never change, and are deleted with the log, which has another id when it
// is made again, or moved to a cold place and back, which the head says (trimmed). So of a
// log that both databases have from the same line on, what is missing are the lines after
// those that are there. The head at the destination says how many: it is written by the
// transaction that copies them.

// span is a part of a log that is copied by one transaction: lines from+1 to to. The
// head goes with it.
type span struct {
	kind, id string
	log      id
	from, to int64
}

// headAt is the head of a log in one database.
type headAt struct {
	log     id
	length  int64
	trimmed int64
	print   int64
}

// logsOf makes the logs of an owner the same in both databases.
func (p *pass) logsOf(ctx context.Context, owner id) error {
	sql := `select r.kind, r.id, r.log, r.length, r.trimmed, ` + movedLogs.print() + ` from tidemark.log r where r.tenant = $1 and r.owner = $2`
	here, there, err := both(ctx, p, func(tx pgx.Tx) (map[[2]string]headAt, error) {
		heads := make(map[[2]string]headAt)
		rows, err := tx.Query(ctx, sql, p.m.id, owner)
		if err != nil {
			return nil, err
		}
		var key [2]string
		var h headAt
		_, err = pgx.ForEachRow(rows, []any{&key[0], &key[1], &h.log, &h.length, &h.trimmed, &h.print}, func() error {
			heads[key] = h
			return nil
		})
		return heads, err
	})
	if err != nil {
		return err
	}
	var drops []id
	var spans []span
	for key, h := range here {
		old, ok := there[key]
		delete(there, key)
		if ok && old == h {
			continue
		}
		// A log that is longer there was dropped and made again with the same id, which
		// nobody does; it is copied anew.
		if ok && (old.log != h.log || old.length > h.length || old.trimmed != h.trimmed) {
			drops, ok = append(drops, old.log), false
		}
		if !ok {
			old = headAt{length: h.trimmed}
		}
		for from := old.length; ; from += moveSpan {
			spans = append(spans, span{key[0], key[1], h.log, from, min(h.length, from+moveSpan)})
			if from+moveSpan >= h.length {
				break
			}
		}
	}
	for old := range maps.Values(there) {
		drops = append(drops, old.log)
	}
	for part := range slices.Chunk(drops, moveLogs) {
		if err := p.dropLogs(ctx, owner, part); err != nil {
			return err
		}
	}
	for len(spans) > 0 {
		n, lines := 0, int64(0)
		// One span of each log at a time: its head is written once by a transaction.
		for n < len(spans) && n < moveLogs && lines < moveSpan && (n == 0 || spans[n].log != spans[n-1].log) {
			lines += spans[n].to - spans[n].from
			n++
		}
		if err := p.copySpans(ctx, owner, spans[:n]); err != nil {
			return err
		}
		p.copied(lines + int64(n))
		spans = spans[n:]
	}
	return nil
}

// dropLogs takes logs away at the destination, with their lines.
func (p *pass) dropLogs(ctx context.Context, owner id, logs []id) error {
	return p.atDestination(ctx, func(tx pgx.Tx) error {
		for _, sql := range []string{sqlDropLines, sqlDropLogs} {
			if _, err := tx.Exec(ctx, sql, p.m.id, owner, logs); err != nil {
				return err
			}
		}
		return nil
	})
}

// copySpans copies lines of some logs, and their heads as they are with these lines.
func (p *pass) copySpans(ctx context.Context, owner id, spans []span) error {
	var kinds, ids []string
	var logs []id
	var froms, tos []int64
	for _, s := range spans {
		kinds, ids, logs = append(kinds, s.kind), append(ids, s.id), append(logs, s.log)
		froms, tos = append(froms, s.from), append(tos, s.to)
	}
	// The lengths that the heads have with these lines. All else is as at the end.
	heads := `from (select ` + strings.Replace(movedLogs.all("l."), "l.length", "u.upto as length", 1) + ` from tidemark.log l,
    unnest($3::text[], $4::text[], $5::bigint[]) u(kind, id, upto) where l.tenant = $1 and l.owner = $2 and l.kind = u.kind and l.id = u.id) r`
	return p.atDestination(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sqlDropLogs, p.m.id, owner, logs); err != nil {
			return err
		}
		if err := p.copy(ctx, tx, &movedLogs, heads, p.m.id, owner, kinds, ids, tos); err != nil {
			return err
		}
		return p.copy(ctx, tx, &movedLines, `from tidemark.line r, unnest($3::uuid[], $4::bigint[], $5::bigint[]) u(log, after, upto)
  where r.tenant = $1 and r.owner = $2 and r.log = u.log and r.seq > u.after and r.seq <= u.upto`, p.m.id, owner, logs, froms, tos)
	})
}

// A run of commits of one node is a log of its own in table act: its rows never change,
// and old ones may have been deleted by the owner.

type runName struct{ node, boot string }

type runRows struct{ first, last, n int64 }

// runs returns which rows of act each database has.
func (p *pass) runs(ctx context.Context) (here, there map[runName]runRows, err error) {
	return both(ctx, p, func(tx pgx.Tx) (map[runName]runRows, error) {
		all := make(map[runName]runRows)
		rows, err := tx.Query(ctx, `select r.node, r.boot, min(r.n), max(r.n), count(*) from tidemark.act r where r.tenant = $1 group by r.node, r.boot`, p.m.id)
		if err != nil {
			return nil, err
		}
		var name runName
		var is runRows
		_, err = pgx.ForEachRow(rows, []any{&name.node, &name.boot, &is.first, &is.last, &is.n}, func() error {
			all[name] = is
			return nil
		})
		return all, err
	})
}

// acts makes the rows of act the same in both databases.
func (p *pass) acts(ctx context.Context) error {
	here, there, err := p.runs(ctx)
	if err != nil {
		return err
	}
	for name := range there {
		if _, ok := here[name]; !ok {
			here[name] = runRows{}
		}
	}
	for name, is := range here {
		old := there[name]
		if old == is {
			continue
		}
		after := old.last
		// Where more differs than the end, the run is copied anew.
		if old.n > 0 && (is.n == 0 || old.first != is.first || old.last >= is.last || old.n != is.n-(is.last-old.last)) {
			after = is.first - 1
			err := p.atDestination(ctx, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, `delete from tidemark.act where tenant = $1 and node = $2 and boot = $3`, p.m.id, name.node, name.boot)
				return err
			})
			if err != nil {
				return err
			}
		} else if old.n == 0 {
			after = is.first - 1
		}
		for ; after < is.last; after += moveSpan {
			err := p.atDestination(ctx, func(tx pgx.Tx) error {
				return p.copy(ctx, tx, &movedActs, `from tidemark.act r where r.tenant = $1 and r.node = $2 and r.boot = $3 and r.n > $4 and r.n <= $5`,
					p.m.id, name.node, name.boot, after, after+moveSpan)
			})
			if err != nil {
				return err
			}
			p.copied(min(moveSpan, is.last-after))
		}
	}
	return nil
}

// deleteRows is how many rows one transaction deletes.
const deleteRows = 5000

// Finish deletes what databases still have of a tenant that has moved away from them. It
// looks first that the tenant is at home elsewhere. Killed, it goes on when it is called again.
func (m *Mover) Finish(ctx context.Context) (done Moved, err error) {
	done = Moved{Tenant: m.Tenant}
	defer m.close()
	if err := m.begin(ctx, MainName); err != nil {
		return done, err
	}
	h, err := m.home(ctx)
	if err != nil {
		return done, err
	}
	if h.State != homeHere {
		return done, stillMoving(h)
	}
	done.To = h.Database
	for _, name := range sortedNames(m.conns) {
		c := m.conns[name]
		if at, err := m.homeAt(ctx, c); err != nil {
			return done, err
		} else if at.State != homeMoved {
			continue
		}
		for _, t := range []*movedTable{&movedLines, &movedLogs, &movedRecords, &movedShares, &movedActs} {
			key := strings.Join(append([]string{t.owner()}, t.key...), ", ")
			for {
				if err := m.step(MoveDeletes); err != nil {
					return done, err
				}
				var n int64
				err := pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
					if err := m.enter(ctx, tx); err != nil {
						return err
					}
					tag, err := tx.Exec(ctx, `delete from tidemark.`+t.name+` where tenant = $1 and (`+key+`) in (select `+key+` from tidemark.`+t.name+` where tenant = $1 limit $2)`, m.id, deleteRows)
					n = tag.RowsAffected()
					return err
				})
				if err != nil {
					return done, c.named(err)
				}
				done.Rows += n
				m.tell(MoveProgress{Step: MoveDeletes, Rows: done.Rows})
				if n == 0 {
					break
				}
			}
		}
	}
	return done, nil
}
