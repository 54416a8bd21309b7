package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/workshop/nodes"
)

// flatAtMost is by how much longer something may take in a large database, or of a long
// session, that is to take the same in any.
const flatAtMost = 1.3

// crowdGoal is how many sessions of one owner, and tenants, the goal speaks of.
const crowdGoal = 20_000

// aheadAtMost is what an append may write ahead, in bytes beyond the body of its entry.
const aheadAtMost = 1000

// teamGrowing measures what is to cost the same however much else there is: appends and tails
// of somebody who has many sessions, among many tenants, and pages of long sessions.
func (r *run) teamGrowing(ctx context.Context, t *teamPlace) error {
	if err := r.teamAhead(ctx, t); err != nil {
		return err
	}
	if err := r.teamCrowded(ctx, t); err != nil {
		return err
	}
	return r.teamPaging(ctx, t)
}

// unindexed returns a store of a user without an index, whose writes are those of appends alone.
func unindexed(db *postgres.Database, user string) *place {
	return &place{Store: store.New(db.For(tidemark.TenantOf("bench", user)), nil), backend: inPostgres, who: process.Self("bench")}
}

// teamAhead measures what an append writes to the write-ahead log.
func (r *run) teamAhead(ctx context.Context, t *teamPlace) error {
	r.say("what appends to PostgreSQL write ahead")
	db, err := postgres.Connect(ctx, t.db.Server, nil)
	if err != nil {
		return err
	}
	defer db.Close()
	own, err := unindexed(db, "ahead").writers(ctx, 1)
	if err != nil {
		return err
	}
	defer closeAll(ctx, own)
	super, err := pgx.Connect(ctx, t.db.Super)
	if err != nil {
		return err
	}
	defer super.Close(ctx)
	// As it is kept.
	body, err := json.Marshal(placed(100_000))
	if err != nil {
		return err
	}
	const written = `select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint`
	var from, to int64
	n := t.appends * t.reps
	if _, err := own[0].Append(ctx, say(1)); err != nil { // the first of a writer looks more up
		return err
	}
	// A page that is changed for the first time since a checkpoint is written whole, which
	// says how often there are checkpoints and nothing of an append.
	if _, err := super.Exec(ctx, "checkpoint"); err != nil {
		return err
	}
	for range n / 2 {
		if _, err := own[0].Append(ctx, say(1)); err != nil {
			return err
		}
	}
	if err := super.QueryRow(ctx, written).Scan(&from); err != nil {
		return err
	}
	for range n {
		if _, err := own[0].Append(ctx, say(1)); err != nil {
			return err
		}
	}
	if err := super.QueryRow(ctx, written).Scan(&to); err != nil {
		return err
	}
	each := float64(to-from) / float64(n)
	met := each <= aheadAtMost+float64(len(body))
	r.table.add(row{goal: "P12", what: "append, 1 at once: written ahead, without an index", value: number(each) + " B an entry", want: want{met: &met, text: fmt.Sprintf("≤ %s B and the body of %d", group(aheadAtMost), len(body))}})
	return nil
}

// crowd fills a database with the sessions of one owner and with tenants of one session each, past the
// policies: rows that only stand around, and that nobody reads.
const crowd = `with who as (
  select $1::uuid as tenant, $2::uuid as owner, md5('m' || n)::uuid as session, n from generate_series(1, $3) n
  union all select md5('t' || n)::uuid, md5('o' || n)::uuid, md5('s' || n)::uuid, n from generate_series(1, $3) n),
 at as (select *, timestamptz '2026-01-01' + n * interval '1 second' as at from who),
 records as (insert into tidemark.record (tenant, owner, kind, id, session, version, "group", state, due, updated, touched, batch, sum, body)
  select tenant, owner, kind, session::text, case kind when 'session' then session end, 1, '', case kind when 'session' then 'live' else 'held' end, null, at, at, 'b', 0, '{}'
  from at cross join unnest(array['session', 'lease']) kind),
 logs as (insert into tidemark.log (tenant, owner, kind, id, log, session, length, updated, parent, depth, nodes, turn)
  select tenant, owner, 'session', session::text, session, session, 1, at, 1, 2, 0, 0 from at)
insert into tidemark.line (tenant, owner, log, seq, kind, at, parent, depth, nodes, turn, batch, sum, body)
  select tenant, owner, session, 1, 'user', at, 0, 1, 0, 0, 'b', 0, '{}' from at`

// teamCrowded measures one who has many sessions, among many tenants, beside the same in a database where nothing
// else is.
func (r *run) teamCrowded(ctx context.Context, t *teamPlace) error {
	many := short(t.crowd)
	r.say("%s sessions of one owner among %s tenants", many, many)
	made, err := t.cluster.Make(ctx)
	if err != nil {
		return err
	}
	if err := postgres.Migrate(ctx, made.Owner, made.Role); err != nil {
		return err
	}
	crowded := &teamPlace{teamed: t.teamed, cluster: t.cluster, db: made}
	super, err := pgx.Connect(ctx, made.Super)
	if err != nil {
		return err
	}
	defer super.Close(ctx)
	who := tidemark.TenantOf("bench", "crowd")
	if _, err := super.Exec(ctx, crowd, who.Tenant, who.User, t.crowd); err != nil {
		return err
	}
	const alone, among = "alone", "among many"
	var appends, tails []contender
	for _, one := range []struct {
		name string
		*teamPlace
	}{{alone, t}, {among, crowded}} {
		db, err := postgres.Connect(ctx, one.db.Server, nil)
		if err != nil {
			return err
		}
		defer db.Close()
		p := unindexed(db, "crowd")
		own, err := p.writers(ctx, 1)
		if err != nil {
			return err
		}
		defer closeAll(ctx, own)
		id, err := p.converse(ctx, t.logs[0])
		if err != nil {
			return err
		}
		if err := one.settled(ctx); err != nil {
			return err
		}
		appends = append(appends, contender{one.name, appendContender(ctx, own, t.appends)})
		tails = append(tails, contender{one.name, times(t.tails, func() error { return p.tailOf(ctx, id) })})
	}
	for _, c := range []struct {
		what string
		both []contender
	}{{"append, 1 at once", appends}, {fmt.Sprintf("tail of %d", shown), tails}} {
		s, err := r.compareTimes(ctx, t.reps, c.both...)
		if err != nil {
			return err
		}
		w := row{goal: "P12", what: fmt.Sprintf("%s, an owner of %s sessions among %s tenants: %s", c.what, many, many, inPostgres), time: s.time(among),
			against: "nobody else, " + duration(s.time(alone).median), ratio: s.ratio(among, alone)}
		if t.crowd >= crowdGoal {
			w.want.ratioAtMost = flatAtMost
		}
		r.table.add(w)
	}
	return nil
}

// teamPaging measures what pages and clients read of sessions of many lengths over HTTP.
func (r *run) teamPaging(ctx context.Context, t *teamPlace) error {
	if !r.hasProgram() {
		return nil
	}
	dir := filepath.Join(r.dir, "paging")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	at := &nodes.Place{Program: r.program, Dir: dir, Env: os.Environ(), Store: teamURL(t.db.Server), Flags: []string{"--quiet"}}
	node, err := at.Start(ctx)
	if node != nil {
		defer node.Kill()
	}
	if err != nil {
		return err
	}
	client, err := at.Client(1)
	if err != nil {
		return err
	}
	defer client.Close()
	reads := []struct {
		what  string
		query func(n int) string
	}{
		{"the newest entries", func(int) string { return fmt.Sprintf("/entries?tail=%d", shown) }},
		{"the first entries", func(int) string { return fmt.Sprintf("/entries?limit=%d", shown) }},
		{"entries of its midst", func(n int) string { return fmt.Sprintf("/entries?limit=%d&before=%d", shown, n/2) }},
		{"the newest turns", func(n int) string { return fmt.Sprintf("/turns?limit=%d&offset=%d", shown, n/2-shown) }},
		{"turns of its midst", func(n int) string { return fmt.Sprintf("/turns?limit=%d&offset=%d", shown, n/4) }},
		{"the first nodes of its tree", func(int) string { return fmt.Sprintf("/tree?limit=%d", shown) }},
	}
	contenders := make([][]contender, len(reads))
	lengths := t.logs[:min(3, len(t.logs))] // what is longer takes long to make
	for _, n := range lengths {
		r.say("making %s entries in PostgreSQL", short(n))
		id, err := t.with.converse(ctx, n)
		if err != nil {
			return err
		}
		for i, read := range reads {
			url := node.URL + "/api/v1/sessions/" + string(id) + read.query(n)
			contenders[i] = append(contenders[i], contender{short(n), oneByOne(t.tails, func() error {
				var page struct{ Items, Nodes []json.RawMessage }
				err := client.Get(ctx, url, &page)
				return errors.Join(err, count(max(len(page.Items), len(page.Nodes))))
			})})
		}
	}
	if err := t.settled(ctx); err != nil {
		return err
	}
	r.say("pages of long sessions over HTTP")
	for i, read := range reads {
		s, err := r.compareTimes(ctx, t.reps, contenders[i]...)
		if err != nil {
			return err
		}
		for j, n := range lengths {
			w := row{what: fmt.Sprintf("%s over HTTP, %d of a session of %s", read.what, shown, short(n)), time: s.time(short(n))}
			if j > 0 {
				w.goal, w.against, w.ratio = "P13", "the same of "+short(lengths[0]), s.ratio(short(n), short(lengths[0]))
			}
			if n >= 1_000_000 {
				w.want.ratioAtMost = flatAtMost
			}
			r.table.add(w)
		}
	}
	return nil
}
