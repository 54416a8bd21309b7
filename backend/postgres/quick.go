package postgres

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-sessions/tidemark"
)

// quick carries out, in one round trip that is one transaction, a group of the
// most common batches: lines appended to logs while required records keep their
// versions. If any condition does not hold, nothing is changed, and the long way
// finds out which batch it was.
type quick struct {
	needs map[tidemark.Key]int64
	logs  []*growing
	acts  actsOut
	many  bool // of several users
}

// growing is a log that lines are appended to.
type growing struct {
	*tidemark.Append
	who   who
	batch *tidemark.Batch
	under fence
	// checked means that the records of the fence are looked up among the needs,
	// and not in the row of the log.
	checked bool
}

// quickLines bounds a group that takes the quick way: the SQL function searches
// its lists linearly.
const quickLines = 256

// codeOtherwise is what the function raises when a condition does not hold.
const codeOtherwise = "TM001"

// codeTrimmed is what the database raises for a log that lacks lines whose keys matter.
const codeTrimmed = "TM002"

const sqlAppend = `select tidemark.append_leased($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22,
  $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33)`

// sqlAppendOne is for one line of a log that knows what is required.
const sqlAppendOne = `select tidemark.append_one($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20,
  $21, $22, $23, $24, $25, $26)`

// sqlAppendMany is for logs of several users, each of which knows its lease.
const sqlAppendMany = `select tidemark.append_many($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28)`

// newQuick returns nil when the group has to take the long way: something is
// created, put or deleted, there is more than one statement can carry, or of
// several users' logs one has to have something looked up.
func newQuick(group []*pending, known *fences) *quick {
	q := &quick{needs: make(map[tidemark.Key]int64), many: ofSeveral(group)}
	lines, weight := 0, 0
	for _, p := range group {
		b := p.batch
		if b.Adopt || len(b.Puts)+len(b.Deletes)+len(b.Drops)+len(b.Trims)+len(b.Fills) > 0 {
			return nil
		}
		first := len(q.logs)
		for i := range b.Appends {
			ap := &b.Appends[i]
			if ap.Lines[0].Seq == 1 {
				return nil
			}
			g := &growing{Append: ap, who: p.who, batch: b, under: fenceOf(ap.Log, b.Require)}
			g.checked = !known.has(g.who, ap.Log, g.under)
			q.logs = append(q.logs, g)
			lines += len(ap.Lines)
		}
		for _, n := range b.Require {
			v, again := q.needs[n.Key]
			switch {
			case n.Version == 0 || again && v != n.Version:
				return nil
			case !slices.ContainsFunc(q.logs[first:], func(g *growing) bool { return !g.checked && fencedBy(g.Log, n.Key) }):
				q.needs[n.Key] = n.Version
			}
		}
		for i := range p.acts {
			q.acts.add(&p.acts[i])
		}
		weight += size(b)
	}
	if len(q.logs) == 0 || lines > quickLines || weight > statementBytes {
		return nil
	}
	if q.many && (len(q.needs) > 0 || slices.ContainsFunc(q.logs, func(g *growing) bool { return g.checked || g.under.lease == 0 })) {
		return nil
	}
	slices.SortFunc(q.logs, func(a, b *growing) int {
		return cmp.Or(bytes.Compare(a.who.user[:], b.who.user[:]), compareKeys(a.Log, b.Log))
	})
	return q
}

// statement returns what is sent, and its parameters.
func (q *quick) statement() (sql string, args []any) {
	switch {
	case q.many:
		return sqlAppendMany, q.argsOfMany()
	case len(q.logs) == 1 && len(q.logs[0].Lines) == 1 && len(q.needs) == 0 && len(q.acts.ns) <= 1:
		return sqlAppendOne, q.argsOfOne()
	}
	return sqlAppend, q.args()
}

// argsOfOne are those of sqlAppendOne.
func (q *quick) argsOfOne() []any {
	g := q.logs[0]
	l := &g.Lines[0]
	args := []any{g.who.tenant, g.who.user, g.Log.Kind, g.Log.ID, l.Seq - 1, g.batch.HeadAt(*g.Append), versionOut(g.under.lease), versionOut(g.under.record),
		l.Seq, toText(l.Kind), keyOut(l.Key), l.At, l.Position.Parent, l.Position.Depth, l.Position.Nodes, l.Position.Turn, chainOut(l.Chain), g.batch.ID, int64(l.Sum), bodyOut(l.Body)}
	if a := &q.acts; len(a.ns) > 0 {
		return append(args, a.nodes[0], a.boots[0], a.ns[0], a.ats[0], a.sums[0], a.bodies[0])
	}
	return append(args, nil, nil, nil, nil, nil, nil)
}

// args are those of sqlAppend.
func (q *quick) args() []any {
	var needs struct {
		kinds, ids []string
		versions   []int64
	}
	needs.ids = []string{} // an empty array, not null
	for _, k := range slices.SortedFunc(maps.Keys(q.needs), compareKeys) {
		needs.kinds, needs.ids, needs.versions = append(needs.kinds, k.Kind), append(needs.ids, k.ID), append(needs.versions, q.needs[k])
	}
	o := q.out()
	args := []any{q.logs[0].who.tenant, q.logs[0].who.user, needs.kinds, needs.ids, needs.versions,
		o.kinds, o.ids, o.befores, o.lasts, o.ats, o.leases, o.records, o.checked}
	return append(append(args, o.lines.args(o.of)...), q.acts.args()...)
}

// argsOfMany are those of sqlAppendMany.
func (q *quick) argsOfMany() []any {
	o := q.out()
	args := []any{q.logs[0].who.tenant, o.owners, o.ids, o.befores, o.lasts, o.ats, o.leases, o.records}
	return append(append(args, o.lines.args(o.of)...), q.acts.args()...)
}

// quickOut are the logs and their lines, as columns.
type quickOut struct {
	owners          []id
	kinds, ids      []string
	befores         []int64
	lasts           []int32 // the place of the log's last line
	ats             []time.Time
	leases, records []*int64
	checked         []bool
	of              []int32 // the place of the line's log
	lines           linesOut
}

func (q *quick) out() *quickOut {
	o := new(quickOut)
	lines := 0
	for _, g := range q.logs {
		lines += len(g.Lines)
	}
	o.grow(len(q.logs), lines)
	for i, g := range q.logs {
		for j := range g.Lines {
			o.lines.add(nil, id{}, &g.Lines[j], g.batch.ID)
			o.of = append(o.of, int32(i+1))
		}
		o.owners, o.kinds, o.ids = append(o.owners, g.who.user), append(o.kinds, g.Log.Kind), append(o.ids, g.Log.ID)
		o.befores, o.lasts, o.ats = append(o.befores, g.Lines[0].Seq-1), append(o.lasts, int32(len(o.of))), append(o.ats, g.batch.HeadAt(*g.Append))
		o.leases, o.records, o.checked = append(o.leases, versionOut(g.under.lease)), append(o.records, versionOut(g.under.record)), append(o.checked, g.checked)
	}
	return o
}

// grow makes room for logs and their lines.
func (o *quickOut) grow(logs, lines int) {
	o.owners, o.kinds, o.ids = make([]id, 0, logs), make([]string, 0, logs), make([]string, 0, logs)
	o.befores, o.lasts, o.ats = make([]int64, 0, logs), make([]int32, 0, logs), make([]time.Time, 0, logs)
	o.leases, o.records, o.checked = make([]*int64, 0, logs), make([]*int64, 0, logs), make([]bool, 0, logs)
	o.of = make([]int32, 0, lines)
	o.lines.grow(lines)
}

// args are the columns of lines, each of the log at that place of a list.
func (o *linesOut) args(of []int32) []any {
	p := &o.places
	return []any{of, o.seqs, o.kinds, o.keys, o.ats, p.parents, p.depths, p.nodes, p.turns, o.chains, o.batch, o.sums, o.bodies}
}

// versionOut is a version on its way to the database; 0 is none.
func versionOut(v int64) *int64 {
	if v == 0 {
		return nil
	}
	return &v
}

// send returns errOtherwise when nothing has changed and the long way is to be
// taken. sent reports whether after an error the outcome is unknown: the
// function's result comes before COMMIT, so when the function refuses, nothing
// was committed.
func (q *quick) send(ctx context.Context, db *Database, c *pgxpool.Conn) (sent bool, err error) {
	sql, args := q.statement()
	answered, err := db.sendAppend(ctx, c, sql, args)
	switch codeOf(err) {
	case codeOtherwise, codeTrimmed, codeUnique, codeLockTimeout:
		return false, errOtherwise
	case "":
		return err == nil || !pgconn.SafeToRetry(err), err
	default:
		return answered, err
	}
}

// errOtherwise says that the long way is to be taken.
var errOtherwise = errors.New("not as the batches say")
