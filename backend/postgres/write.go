package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-sessions/tidemark"
)

// What one statement carries at most; a larger body is sent alone.
const (
	statementRows  = 2048
	statementBytes = 4 << 20
)

const (
	// Whether a row exists or not, the key alone decides between insert and
	// update.
	sqlGrow = `insert into tidemark.log (tenant, owner, kind, id, log, session, scope, length, updated, parent, depth, nodes, turn, chain)
  select $1, $2, u.* from unnest($3::text[], $4::text[], $5::uuid[], $6::uuid[], $7::uuid[], $8::bigint[], $9::timestamptz[],
    $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bytea[]) u
  on conflict (tenant, owner, kind, id) do update set length = excluded.length, updated = excluded.updated, parent = excluded.parent,
    depth = excluded.depth, nodes = excluded.nodes, turn = excluded.turn, chain = excluded.chain`
	sqlNewLines = `insert into tidemark.line (tenant, owner, log, seq, kind, key, at, parent, depth, nodes, turn, chain, batch, sum, body)
  select $1, $2, u.* from unnest($3::uuid[], $4::bigint[], $5::text[], $6::text[], $7::timestamptz[],
    $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bytea[], $13::text[], $14::bigint[], $15::bytea[]) u`
	sqlPut = `insert into tidemark.record (tenant, owner, kind, id, session, scope, version, "group", state, due, updated, touched, batch, sum, body)
  select $1, $2, u.* from unnest($3::text[], $4::text[], $5::uuid[], $6::uuid[], $7::bigint[], $8::text[], $9::text[],
    $10::timestamptz[], $11::timestamptz[], $12::timestamptz[], $13::text[], $14::bigint[], $15::bytea[]) u
  on conflict (tenant, owner, kind, id) do update set version = excluded.version, "group" = excluded."group", state = excluded.state, due = excluded.due,
    updated = excluded.updated, touched = excluded.touched, batch = excluded.batch, sum = excluded.sum, body = excluded.body`
	sqlDelete    = `delete from tidemark.record r where r.tenant = $1 and r.owner = $2 and r.kind = $3 and r.id = $4`
	sqlDropLines = `delete from tidemark.line n where n.tenant = $1 and n.owner = $2 and n.log = any($3::uuid[])`
	sqlTrimLines = `delete from tidemark.line n where n.tenant = $1 and n.owner = $2 and n.log = $3 and n.seq <= $4`
	sqlTrimLog   = `update tidemark.log l set trimmed = $5 where l.tenant = $1 and l.owner = $2 and l.kind = $3 and l.id = $4`
	sqlDropLogs  = `delete from tidemark.log l where l.tenant = $1 and l.owner = $2 and l.log = any($3::uuid[])`
)

// sqlTouch updates the column touched of the record of a log whose lines
// changed.
var sqlTouch = `update tidemark.record r set touched = ` + fmt.Sprintf(sqlWindowEnd, "greatest(r.updated, $5::timestamptz)") + `
  where r.tenant = $1 and r.owner = $2 and r.kind = $3 and r.id = $4`

// errNotCommitted says that COMMIT rolled the transaction back, which it does
// after an error that went unnoticed.
var errNotCommitted = errors.New("the server undid the transaction")

// writing collects what the batches of a group change.
type writing struct {
	who   who
	batch *pgx.Batch

	lines linesOut
	logs  logsOut
	puts  recordsOut
	gone  []tidemark.Key
	drops []id
	touch logTimes
	acts  actsOut
	notes notesOut
}

// write is the second round trip: the changes of the batches whose preconditions
// hold, and COMMIT.
func (a *applying) write(ctx context.Context, c *pgxpool.Conn) error {
	w := &writing{who: a.who, batch: &pgx.Batch{}}
	for _, p := range a.group {
		if p.err == nil {
			a.collect(w, p.batch)
			for i := range p.acts {
				w.acts.add(&p.acts[i])
			}
		}
	}
	w.flushAll()
	committed := false
	w.batch.Queue("commit").Exec(func(tag pgconn.CommandTag) error {
		committed = tag.String() == "COMMIT"
		return nil
	})
	err := c.SendBatch(ctx, w.batch).Close()
	if err == nil && !committed {
		return errNotCommitted
	}
	return err
}

func (a *applying) collect(w *writing, b *tidemark.Batch) {
	changed := make(map[tidemark.Key]time.Time) // logs
	for i := range b.Appends {
		ap := &b.Appends[i]
		changed[ap.Log] = b.HeadAt(*ap)
		a.append(w, b, ap)
	}
	for _, k := range b.Drops {
		changed[k] = longAgo
		if s := a.of(k); s.exists {
			w.drops = append(w.drops, s.log)
		}
	}
	a.collectTrims(w, b)
	a.tell(w, b)
	put := make(map[tidemark.Key]bool)
	for i := range b.Puts {
		r := b.Stamp(b.Puts[i])
		s := a.of(r.Key)
		put[r.Key] = true
		head, ok := changed[r.Key]
		if !ok {
			head = s.head.UpdatedAt
		}
		touched := r.UpdatedAt
		if (s.exists || ok) && head.After(touched) {
			touched = head
		}
		session, scope := a.scopeOf(r.Key)
		w.puts.add(w, &r, windowEnd(touched), session, scope)
	}
	for i := range b.Deletes {
		k := b.Deletes[i].Key
		put[k] = true
		w.gone = append(w.gone, k)
	}
	for k, at := range changed {
		if !put[k] && a.of(k).untouched {
			w.touch.add(k, at)
		}
	}
}

func (a *applying) append(w *writing, b *tidemark.Batch, ap *tidemark.Append) {
	s := a.of(ap.Log)
	out := &w.logs
	if !s.exists {
		s.log = newLogID()
	}
	last := &ap.Lines[len(ap.Lines)-1]
	out.kinds, out.ids, out.logs = append(out.kinds, ap.Log.Kind), append(out.ids, ap.Log.ID), append(out.logs, s.log)
	session, scope := a.scopeOf(ap.Log)
	out.sessions, out.scopes = append(out.sessions, session), append(out.scopes, scope)
	out.lengths, out.updated = append(out.lengths, last.Seq), append(out.updated, b.HeadAt(*ap))
	out.places.add(last.Position)
	out.chains = append(out.chains, chainOut(last.Chain))
	for i := range ap.Lines {
		w.lines.add(w, s.log, &ap.Lines[i], b.StampLine(ap.Lines[i]).Batch)
	}
}

// collectTrims is about lines that leave logs, and that come back.
func (a *applying) collectTrims(w *writing, b *tidemark.Batch) {
	for _, t := range b.Trims {
		w.batch.Queue(sqlTrimLines, w.who.tenant, w.who.user, a.of(t.Log).log, t.Upto)
		w.batch.Queue(sqlTrimLog, w.who.tenant, w.who.user, t.Log.Kind, t.Log.ID, t.Upto)
	}
	for i := range b.Fills {
		f := &b.Fills[i]
		for j := range f.Lines {
			w.lines.add(w, a.of(f.Log).log, &f.Lines[j], f.Lines[j].Batch)
		}
		w.batch.Queue(sqlTrimLog, w.who.tenant, w.who.user, f.Log.Kind, f.Log.ID, f.Lines[0].Seq-1)
	}
}

// keyOut is the key of a line on its way to the database; "" is none.
func keyOut(key string) *string {
	if key == "" {
		return nil
	}
	k := toText(key)
	return &k
}

func chainOut(chain []byte) []byte {
	if len(chain) == 0 {
		return nil
	}
	return chain
}

func bodyOut(body []byte) []byte {
	if body == nil {
		return []byte{}
	}
	return body
}

type placesOut struct{ parents, depths, nodes, turns []int64 }

func (o *placesOut) add(p tidemark.Position) {
	o.parents, o.depths = append(o.parents, p.Parent), append(o.depths, p.Depth)
	o.nodes, o.turns = append(o.nodes, p.Nodes), append(o.turns, p.Turn)
}

type logsOut struct {
	kinds, ids       []string
	logs             []id
	sessions, scopes []*id
	lengths          []int64
	updated          []time.Time
	places           placesOut
	chains           [][]byte
}

type linesOut struct {
	logs         []id
	seqs, sums   []int64
	kinds, batch []string
	keys         []*string
	ats          []time.Time
	places       placesOut
	chains       [][]byte
	bodies       [][]byte
	bytes        int
}

// grow makes room for n lines.
func (o *linesOut) grow(n int) {
	o.logs, o.seqs, o.sums = make([]id, 0, n), make([]int64, 0, n), make([]int64, 0, n)
	o.kinds, o.batch, o.keys = make([]string, 0, n), make([]string, 0, n), make([]*string, 0, n)
	o.ats, o.chains, o.bodies = make([]time.Time, 0, n), make([][]byte, 0, n), make([][]byte, 0, n)
	p := &o.places
	p.parents, p.depths, p.nodes, p.turns = make([]int64, 0, n), make([]int64, 0, n), make([]int64, 0, n), make([]int64, 0, n)
}

func (o *linesOut) add(w *writing, log id, l *tidemark.Line, batch string) {
	if len(o.seqs) > 0 && (len(o.seqs) >= statementRows || o.bytes+len(l.Body) > statementBytes) {
		o.flush(w)
	}
	o.logs, o.seqs, o.kinds, o.keys = append(o.logs, log), append(o.seqs, l.Seq), append(o.kinds, toText(l.Kind)), append(o.keys, keyOut(l.Key))
	o.ats, o.chains = append(o.ats, l.At), append(o.chains, chainOut(l.Chain))
	o.places.add(l.Position)
	o.batch, o.sums, o.bodies = append(o.batch, batch), append(o.sums, int64(l.Sum)), append(o.bodies, bodyOut(l.Body))
	o.bytes += len(l.Body)
}

func (o *linesOut) flush(w *writing) {
	if len(o.seqs) > 0 {
		p := &o.places
		w.batch.Queue(sqlNewLines, w.who.tenant, w.who.user, o.logs, o.seqs, o.kinds, o.keys, o.ats,
			p.parents, p.depths, p.nodes, p.turns, o.chains, o.batch, o.sums, o.bodies)
	}
	*o = linesOut{}
}

type recordsOut struct {
	kinds, ids, groups, states, batches []string
	sessions, scopes                    []*id
	versions, sums                      []int64
	dues                                []*time.Time
	updated, touched                    []time.Time
	bodies                              [][]byte
	bytes                               int
}

func (o *recordsOut) add(w *writing, r *tidemark.Record, touched time.Time, session, scope *id) {
	if len(o.ids) > 0 && (len(o.ids) >= statementRows || o.bytes+len(r.Body) > statementBytes) {
		o.flush(w)
	}
	var due *time.Time
	if !r.Due.IsZero() {
		due = &r.Due
	}
	o.kinds, o.ids, o.groups, o.states = append(o.kinds, r.Kind), append(o.ids, r.ID), append(o.groups, toText(r.Group)), append(o.states, toText(r.State))
	o.sessions, o.scopes = append(o.sessions, session), append(o.scopes, scope)
	o.versions, o.sums, o.dues = append(o.versions, r.Version), append(o.sums, int64(r.Sum)), append(o.dues, due)
	o.updated, o.touched = append(o.updated, r.UpdatedAt), append(o.touched, touched)
	o.batches, o.bodies = append(o.batches, r.Batch), append(o.bodies, bodyOut(r.Body))
	o.bytes += len(r.Body)
}

func (o *recordsOut) flush(w *writing) {
	if len(o.ids) > 0 {
		w.batch.Queue(sqlPut, w.who.tenant, w.who.user, o.kinds, o.ids, o.sessions, o.scopes, o.versions, o.groups, o.states,
			o.dues, o.updated, o.touched, o.batches, o.sums, o.bodies)
	}
	*o = recordsOut{}
}

// flushAll queues what is left. Lines that were queued earlier belong to logs
// that nobody sees until COMMIT, so the order does not matter.
func (w *writing) flushAll() {
	tenant, user := w.who.tenant, w.who.user
	if o := &w.logs; len(o.ids) > 0 {
		w.batch.Queue(sqlGrow, tenant, user, o.kinds, o.ids, o.logs, o.sessions, o.scopes, o.lengths, o.updated,
			o.places.parents, o.places.depths, o.places.nodes, o.places.turns, o.chains)
	}
	w.lines.flush(w)
	if len(w.acts.ns) > 0 {
		w.batch.Queue(sqlNewActs, append([]any{tenant}, w.acts.args()...)...)
	}
	if len(w.drops) > 0 {
		for _, sql := range []string{sqlDropLines, sqlDropLogs} {
			w.batch.Queue(sql, tenant, user, w.drops)
		}
	}
	w.notes.flush(w.batch, tenant)
	w.puts.flush(w)
	for _, k := range w.gone {
		w.batch.Queue(sqlDelete, tenant, user, k.Kind, k.ID)
	}
	for i, t := 0, &w.touch; i < len(t.ids); i++ {
		w.batch.Queue(sqlTouch, tenant, user, t.kinds[i], t.ids[i], t.ats[i])
	}
}
