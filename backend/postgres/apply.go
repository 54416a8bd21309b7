package postgres

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-sessions/tidemark"
)

// window is the precision of the column touched, which holds the end of the
// window that a record was touched in. So a session that is appended to all the
// time moves in the indexes once in a while, and not with every line.
const window = 10 * time.Second

// windowEnd returns the last microsecond of the window that holds t.
func windowEnd(t time.Time) time.Time {
	const w = int64(window / time.Microsecond)
	us := t.UnixMicro()
	return time.UnixMicro(us - (us%w+w)%w + w - 1).UTC()
}

// sqlWindowEnd is windowEnd of %s.
const sqlWindowEnd = `date_bin('10 seconds', %s, timestamptz '0001-01-01 00:00:00+00') + interval '9.999999 seconds'`

// longAgo is when a log that does not exist last changed.
var longAgo = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)

// applying is one transaction for a group of batches, in two round trips: the
// first locks what the batches mention and reads its state; the second writes
// the batches whose preconditions hold, and commits.
//
// Two transactions that overlap lock what they share in the same order: first
// the names of what is to be created, then records, then logs, each by name. So
// they wait for each other but never deadlock.
type applying struct {
	db     *Database
	who    who
	group  []*pending
	stand  map[tidemark.Key]*standing
	shares map[id]id // the scope of sessions that others may read
	plain  bool      // the tenant's own store is not sealed, so that others can read its sessions
	known  map[tidemark.Key]map[string]int64
}

// standing is the state of the record and the log of a key.
type standing struct {
	version int64 // 0: there is none
	log     id
	exists  bool // the log does
	head    tidemark.Head
	// untouched: the record's column touched differs from what the batch makes
	// it.
	untouched bool
}

func newApplying(db *Database, who who, group []*pending) *applying {
	return &applying{db: db, who: who, group: group}
}

// The settings of a transaction that writes. A client that stalls in the middle
// is disconnected, and one that waits does not wait for ever. synchronous_commit
// is never off, whatever the server's default, because that would lose commits.
const sqlBeginWriting = `select set_config('tidemark.tenant', $1, true), set_config('tidemark.user', $2, true),
  set_config('lock_timeout', '10s', true), set_config('idle_in_transaction_session_timeout', '30s', true),
  set_config('synchronous_commit', case current_setting('synchronous_commit') when 'off' then 'on' else current_setting('synchronous_commit') end, true)`

const sqlReserve = `select pg_advisory_xact_lock(k) from unnest($1::bigint[]) k`

// A list of names descends the primary key name by name: a lateral select with a
// limit is not turned into another kind of join, whatever the planner believes
// of tables that it has no statistics of yet. Locks are taken in the order of
// the list.
//
// Of the records whose logs grow, only those that will be touched are locked.
var sqlTakeRecords = `select u.kind, u.id, r.version from unnest($3::text[], $4::text[], $5::boolean[], $6::timestamptz[]) u(kind, id, must, at)
  cross join lateral (select r.version from tidemark.record r where r.tenant = $1 and r.owner = $2 and r.kind = u.kind and r.id = u.id
    and (u.must or r.touched <> ` + fmt.Sprintf(sqlWindowEnd, "greatest(r.updated, u.at)") + `) limit 1 for no key update) r`

const sqlTakeLogs = `select u.kind, u.id, l.log, l.length, l.updated, l.trimmed from unnest($3::text[], $4::text[]) u(kind, id)
  cross join lateral (select l.log, l.length, l.updated, l.trimmed from tidemark.log l
    where l.tenant = $1 and l.owner = $2 and l.kind = u.kind and l.id = u.id limit 1 for no key update) l`

// sqlUntouched finds which records of changing logs are to be touched. It runs
// after the logs were locked: whoever puts such a record locks its log.
var sqlUntouched = `select u.kind, u.id from unnest($3::text[], $4::text[], $5::timestamptz[]) u(kind, id, at)
  cross join lateral (select from tidemark.record r where r.tenant = $1 and r.owner = $2 and r.kind = u.kind and r.id = u.id
    and r.touched <> ` + fmt.Sprintf(sqlWindowEnd, "greatest(r.updated, u.at)") + ` limit 1) r`

const sqlKnown = `select u.kind, u.id, u.key, n.seq from unnest($3::text[], $4::text[], $5::text[]) u(kind, id, key)
  cross join lateral (select l.log from tidemark.log l where l.tenant = $1 and l.owner = $2 and l.kind = u.kind and l.id = u.id limit 1) l
  cross join lateral (select n.seq from tidemark.line n where n.tenant = $1 and n.owner = $2 and n.log = l.log and n.key = u.key limit 1) n`

const sqlShares = `select s.session, s.scope from tidemark.share s where s.tenant = $1 and s.owner = $2 and s.session = any($3::uuid[])`

// wanted is what the first round trip reads.
type wanted struct {
	reserve  []int64
	records  map[tidemark.Key]*touching
	logs     map[tidemark.Key]bool
	keyed    [3][]string // kinds, ids and keys of lines that carry one
	sessions []id        // of keys that may be created
	grow     logTimes
}

// logTimes are logs that change, and the time of the change.
type logTimes struct {
	kinds, ids []string
	ats        []time.Time
}

func (t *logTimes) add(k tidemark.Key, at time.Time) {
	t.kinds, t.ids, t.ats = append(t.kinds, k.Kind), append(t.ids, k.ID), append(t.ats, at)
}

type touching struct {
	must bool
	at   time.Time
}

func (a *applying) wants() *wanted {
	w := &wanted{records: make(map[tidemark.Key]*touching), logs: make(map[tidemark.Key]bool)}
	must := func(k tidemark.Key) {
		if t := w.records[k]; t != nil {
			t.must = true
		} else {
			w.records[k] = &touching{must: true, at: longAgo}
		}
	}
	for _, p := range a.group {
		b := p.batch
		for i := range b.Require {
			must(b.Require[i].Key)
			if b.Require[i].Version == 0 {
				w.reserve = append(w.reserve, a.slot(b.Require[i].Key))
			}
		}
		for i := range b.Puts {
			k := b.Puts[i].Key
			must(k)
			w.logs[k] = true
			w.fenced(k)
			if b.Replaces(b.Puts[i]) == 0 {
				a.noteCreation(w, k)
			}
			if s := notedSession(k); s != nil {
				w.sessions = append(w.sessions, *s)
			}
		}
		for i := range b.Deletes {
			must(b.Deletes[i].Key)
			w.fenced(b.Deletes[i].Key)
		}
		for i := range b.Appends {
			w.append(a, b, &b.Appends[i])
		}
		for _, k := range b.Drops {
			must(k)
			w.logs[k] = true
			w.grow.add(k, longAgo)
			if s := sessionOf(k); s != nil {
				w.sessions = append(w.sessions, *s)
			}
		}
		for _, t := range b.Trims {
			w.logs[t.Log] = true
		}
		for i := range b.Fills {
			w.logs[b.Fills[i].Log] = true
		}
	}
	slices.Sort(w.reserve)
	w.reserve = slices.Compact(w.reserve)
	return w
}

// fenced locks the log whose fence goes when a record changes: the database
// changes that row, too, and rows are locked in one order.
func (w *wanted) fenced(record tidemark.Key) {
	if log := (tidemark.Key{Kind: kindSession, ID: record.ID}); fencedBy(log, record) {
		w.logs[log] = true
	}
}

func (w *wanted) append(a *applying, b *tidemark.Batch, ap *tidemark.Append) {
	if w.records[ap.Log] == nil {
		w.records[ap.Log] = &touching{at: b.HeadAt(*ap)}
	}
	w.logs[ap.Log] = true
	w.grow.add(ap.Log, b.HeadAt(*ap))
	if ap.Lines[0].Seq == 1 {
		a.noteCreation(w, ap.Log)
	}
	for j := range ap.Lines {
		if key := ap.Lines[j].Key; key != "" {
			w.keyed[0] = append(w.keyed[0], ap.Log.Kind)
			w.keyed[1] = append(w.keyed[1], ap.Log.ID)
			w.keyed[2] = append(w.keyed[2], toText(key))
		}
	}
}

// noteCreation notes that a record or log may be created.
func (a *applying) noteCreation(w *wanted, k tidemark.Key) {
	w.reserve = append(w.reserve, a.slot(k))
	if s := sessionOf(k); s != nil {
		w.sessions = append(w.sessions, *s)
	}
}

// slots bounds how many locks a transaction takes for what does not exist and so
// cannot be locked itself.
const slots = 64

// slot returns the lock that stands for a key that may not exist, the same one
// for all that belongs to a session. Different owners use different locks.
func (a *applying) slot(k tidemark.Key) int64 { return slotOf(a.who, k) }

func slotOf(who who, k tidemark.Key) int64 {
	name := k.Kind + "/" + k.ID
	if s := sessionOf(k); s != nil {
		name = idText(*s)
	}
	bucket := fnv.New32a()
	bucket.Write([]byte(name))
	h := fnv.New64a()
	h.Write([]byte("tidemark"))
	h.Write(who.tenant[:])
	h.Write(who.user[:])
	h.Write(binary.BigEndian.AppendUint32(nil, bucket.Sum32()%slots))
	return int64(h.Sum64())
}

// look is the first round trip.
func (a *applying) look(ctx context.Context, c *pgxpool.Conn) error {
	a.stand = make(map[tidemark.Key]*standing)
	a.shares = make(map[id]id)
	a.known = make(map[tidemark.Key]map[string]int64)
	w := a.wants()
	tenant, user := a.who.tenant, a.who.user
	batch := &pgx.Batch{}
	batch.Queue("begin")
	a.db.planSettings(batch)
	batch.Queue(sqlBeginWriting, idText(tenant), idText(user))
	if len(w.reserve) > 0 {
		batch.Queue(sqlReserve, w.reserve)
	}
	if len(w.records) > 0 {
		var kinds, ids []string
		var musts []bool
		var ats []time.Time
		for _, k := range slices.SortedFunc(maps.Keys(w.records), compareKeys) {
			t := w.records[k]
			kinds, ids, musts, ats = append(kinds, k.Kind), append(ids, k.ID), append(musts, t.must), append(ats, t.at)
		}
		each(batch.Queue(sqlTakeRecords, tenant, user, kinds, ids, musts, ats), func(rows pgx.Rows) error {
			var k tidemark.Key
			var version int64
			err := rows.Scan(&k.Kind, &k.ID, &version)
			a.of(k).version = version
			return err
		})
	}
	if len(w.logs) > 0 {
		a.takeLogs(batch, w)
	}
	if len(w.keyed[0]) > 0 {
		each(batch.Queue(sqlKnown, tenant, user, w.keyed[0], w.keyed[1], w.keyed[2]), func(rows pgx.Rows) error {
			var k tidemark.Key
			var key string
			var seq int64
			err := rows.Scan(&k.Kind, &k.ID, &key, &seq)
			if a.known[k] == nil {
				a.known[k] = make(map[string]int64)
			}
			a.known[k][fromText(key)] = seq
			return err
		})
	}
	if len(w.sessions) > 0 && user == tenant {
		batch.Queue(sqlPlain, tenant, user, tidemark.PlainMark().Kind, tidemark.PlainMark().ID).QueryRow(func(row pgx.Row) error { return row.Scan(&a.plain) })
	}
	if len(w.sessions) > 0 {
		each(batch.Queue(sqlShares, tenant, user, w.sessions), func(rows pgx.Rows) error {
			var session, scope id
			err := rows.Scan(&session, &scope)
			a.shares[session] = scope
			return err
		})
	}
	return c.SendBatch(ctx, batch).Close()
}

func (a *applying) takeLogs(batch *pgx.Batch, w *wanted) {
	var kinds, ids []string
	for _, k := range slices.SortedFunc(maps.Keys(w.logs), compareKeys) {
		kinds, ids = append(kinds, k.Kind), append(ids, k.ID)
	}
	each(batch.Queue(sqlTakeLogs, a.who.tenant, a.who.user, kinds, ids), func(rows pgx.Rows) error {
		var k tidemark.Key
		var log id
		var h tidemark.Head
		err := rows.Scan(&k.Kind, &k.ID, &log, &h.Length, &h.UpdatedAt, &h.Trimmed)
		s := a.of(k)
		s.log, s.exists, s.head = log, true, h
		return err
	})
	if len(w.grow.ids) > 0 {
		each(batch.Queue(sqlUntouched, a.who.tenant, a.who.user, w.grow.kinds, w.grow.ids, w.grow.ats), func(rows pgx.Rows) error {
			var k tidemark.Key
			err := rows.Scan(&k.Kind, &k.ID)
			a.of(k).untouched = true
			return err
		})
	}
}

func (a *applying) of(k tidemark.Key) *standing {
	s := a.stand[k]
	if s == nil {
		s = new(standing)
		a.stand[k] = s
	}
	return s
}

// check answers the batches whose preconditions do not hold, and reports whether
// any batch is left.
func (a *applying) check() (any bool) {
	for _, p := range a.group {
		p.receipt, p.err = a.checkOne(p.batch)
		any = any || p.err == nil
	}
	return any
}

func (a *applying) checkOne(b *tidemark.Batch) (tidemark.Receipt, error) {
	var known []tidemark.Duplicate
	for i := range b.Appends {
		ap := &b.Appends[i]
		if h := a.of(ap.Log).head; h.HidesKeys() {
			return tidemark.Receipt{}, h.Appends(*ap)
		}
		for j := range ap.Lines {
			key := ap.Lines[j].Key
			if seq, ok := a.known[ap.Log][key]; ok && key != "" {
				known = append(known, tidemark.Duplicate{Log: ap.Log, Key: key, Seq: seq})
			}
		}
	}
	if len(known) > 0 {
		return tidemark.Receipt{Duplicates: known}, fmt.Errorf("%s: key %q: %w", known[0].Log, known[0].Key, tidemark.ErrExists)
	}
	return tidemark.Receipt{}, a.stands(b)
}

func (a *applying) stands(b *tidemark.Batch) error {
	for n := range b.Preconditions() {
		if have := a.of(n.Key).version; have != n.Version {
			return tidemark.Conflictf("%s: is at version %d, not %d", n.Key, have, n.Version)
		}
	}
	for i := range b.Appends {
		ap := &b.Appends[i]
		if err := a.of(ap.Log).head.Appends(*ap); err != nil {
			return err
		}
	}
	for _, t := range b.Trims {
		if err := a.of(t.Log).head.Trims(t); err != nil {
			return err
		}
	}
	for _, f := range b.Fills {
		if err := a.of(f.Log).head.Fills(f); err != nil {
			return err
		}
	}
	return nil
}

// scopeOf returns who else may read what is created under a key.
func (a *applying) scopeOf(k tidemark.Key) (session, scope *id) {
	if session = sessionOf(k); session != nil {
		if s, ok := a.shares[*session]; ok {
			scope = &s
		}
	}
	return session, scope
}

func newLogID() (u id) {
	rand.Read(u[:])
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	return u
}

func compareKeys(a, b tidemark.Key) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID))
}
