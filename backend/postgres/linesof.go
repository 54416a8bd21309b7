package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-sessions/tidemark"
)

// gatheredLines is how many lines LinesOf reads in one round trip.
const gatheredLines = 1024

// sqlLinesOf reads lines of one's own logs that are named, a row each, with the place
// of the log in the list. Both the logs and the lines are looked for one by one, as in
// sqlSome. The running sum bounds what comes.
//
//	$3 and $4 the logs, $5 the place of the log of each line, $6 its seq, $7 bytes
const sqlLinesOf = `with h as materialized (select array(select (
    select l.log from tidemark.log l where l.tenant = $1 and l.owner = $2 and l.kind = a.kind and l.id = a.id)
    from unnest($3::text[], $4::text[]) with ordinality a(kind, id, n) order by a.n) as logs)
  select n.of, n.log, n.seq, n.kind, n.key, n.at, n.parent, n.depth, n.nodes, n.turn, n.chain, n.batch, n.sum, n.body
  from (select n.*, u.of, sum(octet_length(n.body)) over (order by u.place) - octet_length(n.body) as before
    from h cross join unnest($5::int[], $6::bigint[]) with ordinality u(of, seq, place) cross join lateral (
      select * from tidemark.line n where n.tenant = $1 and n.owner = $2 and n.log = h.logs[u.of] and n.seq = u.seq limit 1) n) n
  where n.before < $7`

// LinesOf reads lines of several of the principal's own logs; see tidemark.Gatherer. It
// leaves out what others share.
func (b *Backend) LinesOf(ctx context.Context, asked []tidemark.LogLines) ([][]tidemark.Line, error) {
	if b.of != nil || b.auditor() {
		return nil, tidemark.Unsupportedf("what is another's is read one log at a time")
	}
	found := make([][]tidemark.Line, len(asked))
	var kinds, ids []string
	var of []int32
	var seqs []int64
	for i, a := range asked {
		kinds, ids = append(kinds, toText(a.Log.Kind)), append(ids, toText(a.Log.ID))
		for _, seq := range a.Seqs {
			if len(seqs) < gatheredLines {
				of, seqs = append(of, int32(i+1)), append(seqs, seq)
			}
		}
	}
	if len(seqs) == 0 {
		return found, nil
	}
	err := b.query(ctx, namedLogs{}, func(batch *pgx.Batch) {
		clear(found)
		each(batch.Queue(sqlLinesOf, b.who.tenant, b.who.user, kinds, ids, of, seqs, int64(pageBytes)), func(rows pgx.Rows) error {
			var place int32
			f, err := scanLine(rows, func() tidemark.Key { return asked[place-1].Log }, &place)
			if err == nil && f.err == nil {
				found[place-1] = append(found[place-1], f.line)
			}
			return err
		})
	})
	return found, err
}
