package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/search"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/workshop/machine"
	"github.com/tidemark-sessions/tidemark/workshop/pgtest"
)

// The names of what a team's store is compared with, and its own.
const (
	inPostgres = "postgres"
	eachUser   = "postgres, a user each"
	policyFree = "postgres, as a superuser without row-level security"
	bareInsert = "a bare INSERT per transaction"
	bareByOne  = bareInsert + ", on one connection"
	pgBench    = "pgbench, the same INSERT"
)

// teamed is the size of the team part.
type teamed struct {
	reps      int
	appends   int   // by one writer, per repetition
	writers   int   // at once
	shared    int   // appends of all of them together, per repetition
	tails     int   // per repetition
	logs      []int // entries of the sessions that are read
	followers int
	imported  int // entries of a session that is imported meanwhile
	events    int // events that all followers of a session wait for, per repetition
	flushed   int // entries that are indexed ten at a time
	indexed   int // entries that are searched
	crowd     int // sessions of one owner, and as many tenants beside
}

// teamed derives it from the size of the rest.
func (s size) teamed() teamed {
	switch {
	case s.reps >= full.reps:
		return teamed{reps: 9, appends: 200, writers: 64, shared: 2048, tails: 100, logs: []int{1_000, 100_000, 1_000_000, 10_000_000}, followers: 1000, events: 50, imported: 2000, flushed: 3000, indexed: 1_000_000, crowd: crowdGoal}
	case s.reps >= small.reps:
		return teamed{reps: 5, appends: 60, writers: 64, shared: 640, tails: 40, logs: []int{1_000, 50_000}, followers: 1000, events: 10, imported: 2000, flushed: 1000, indexed: 40_000, crowd: 2_000}
	}
	return teamed{reps: 1, appends: 2, writers: 3, shared: 6, tails: 2, logs: []int{200, 400}, followers: 6, events: 2, imported: 20, flushed: 20, indexed: 40, crowd: 20}
}

// teamPlace is a database that syncs, and stores in it.
type teamPlace struct {
	teamed
	cluster *pgtest.Cluster
	db      *pgtest.Database
	with    *place // under the policies
	without *place // as a superuser, to whom no policy applies
}

// inTeam is a part that measures what a team uses, the store on PostgreSQL or servers
// in front of it, in a database of its own.
func inTeam(work func(*run, context.Context, *teamPlace) error) func(*run, context.Context) error {
	return func(r *run, ctx context.Context) error {
		t, err := r.openTeam(ctx)
		if pgtest.IsMissing(err) {
			r.table.skip("%s", err)
			return nil
		}
		if err != nil {
			return err
		}
		defer t.cluster.End()
		defer func() {
			t.with.close()
			t.without.close()
		}()
		return work(r, ctx, t)
	}
}

// teamAppending measures appends, by one and by many, and beside an import.
func (r *run) teamAppending(ctx context.Context, t *teamPlace) error {
	for _, writers := range []int{1, t.writers} {
		if err := r.teamAppends(ctx, t, writers); err != nil {
			return err
		}
	}
	return r.teamBeside(ctx, t)
}

func (r *run) openTeam(ctx context.Context) (t *teamPlace, err error) {
	t = &teamPlace{teamed: r.size.teamed()}
	if t.cluster, err = pgtest.Run(pgtest.Options{Synced: true, Settings: map[string]string{"max_connections": "300", "shared_buffers": "256MB"}}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			t.cluster.End()
		}
	}()
	if t.db, err = t.cluster.Make(ctx); err != nil {
		return nil, err
	}
	if err := postgres.Migrate(ctx, t.db.Owner, t.db.Role); err != nil {
		return nil, err
	}
	if t.with, err = openDatabase(ctx, inPostgres, t.db.Server, nil); err != nil {
		return nil, err
	}
	t.without, err = openDatabase(ctx, policyFree, t.db.Super, &postgres.Options{Unchecked: true})
	return t, err
}

// teamURL is a URL of the database for the user whose sessions are measured.
func teamURL(url string) string { return url + "&tenant=bench&as=ada" }

func openDatabase(ctx context.Context, name, url string, o *postgres.Options) (*place, error) {
	b, err := postgres.Open(ctx, teamURL(url), o)
	if err != nil {
		return nil, err
	}
	return &place{Store: store.New(b, &store.Options{Places: search.EachWord}), backend: name, who: process.Self("bench")}, nil
}

// teamAppends measures durable appends against the least that the database
// can do with the same bytes.
func (r *run) teamAppends(ctx context.Context, t *teamPlace, writers int) error {
	r.say("append through PostgreSQL, %d at once", writers)
	n := t.appends
	if writers > 1 {
		n = max(t.shared/writers, 1)
	}
	line, err := json.Marshal(placed(100_000))
	if err != nil {
		return err
	}
	bare, done, err := t.bare(ctx, writers, writers, n, line)
	if err != nil {
		return err
	}
	defer done()
	contenders := []contender{{bareInsert, bare}}
	if writers > 1 {
		one, done, err := t.bare(ctx, writers, 1, max(n/8, 1), line)
		if err != nil {
			return err
		}
		defer done()
		contenders = append(contenders, contender{bareByOne, one})
	}
	limit, err := r.pgbench(ctx, t, writers, n, line)
	if err != nil {
		return err
	}
	if limit != nil {
		contenders = append(contenders, contender{pgBench, limit})
	}
	for _, p := range []*place{t.with, t.without} {
		all, err := p.writers(ctx, writers)
		if err != nil {
			return err
		}
		contenders = append(contenders, contender{p.backend, appendContender(ctx, all, n)})
		defer closeAll(ctx, all)
	}
	if writers > 1 {
		users, db, err := t.users(ctx, writers, "user")
		if err != nil {
			return err
		}
		defer db.Close()
		var all []*store.Writer
		for _, u := range users {
			own, err := u.writers(ctx, 1)
			if err != nil {
				return err
			}
			all = append(all, own...)
		}
		contenders = append(contenders, contender{eachUser, appendContender(ctx, all, n)})
		defer closeAll(ctx, all)
	}
	if err := t.settled(ctx); err != nil {
		return err
	}
	s, err := r.compareTimes(ctx, t.reps, contenders...)
	if err != nil {
		return err
	}
	r.teamAppended(s, writers)
	return nil
}

func closeAll(ctx context.Context, all []*store.Writer) {
	for _, w := range all {
		w.Close(ctx) // the database is thrown away
	}
}

func (r *run) teamAppended(s samples, writers int) {
	work := fmt.Sprintf("append, %d at once: ", writers)
	rate := func(name string) string { return fmt.Sprintf(" (%s a second)", number(1e9/s.time(name).median)) }
	r.table.add(row{what: work + bareInsert + rate(bareInsert), time: s.time(bareInsert)})
	if len(s[pgBench]) > 0 {
		r.table.add(row{what: work + pgBench + rate(pgBench), time: s.time(pgBench), against: bareInsert, ratio: s.ratio(pgBench, bareInsert)})
		r.table.add(row{what: work + inPostgres, time: s.time(inPostgres), against: pgBench, ratio: s.faster(inPostgres, pgBench), faster: true})
	}
	if len(s[bareByOne]) > 0 {
		r.table.add(row{what: work + inPostgres, time: s.time(inPostgres), against: bareByOne, ratio: s.faster(inPostgres, bareByOne), faster: true})
	}
	w := row{goal: "P12", what: work + inPostgres + rate(inPostgres), time: s.time(inPostgres), against: bareInsert}
	if writers == 1 {
		w.ratio, w.want = s.ratio(inPostgres, bareInsert), want{ratioAtMost: 1.9}
	} else {
		w.ratio, w.faster, w.want = s.faster(inPostgres, bareInsert), true, want{ratioAtLeast: 2}
	}
	r.table.add(w)
	if len(s[eachUser]) > 0 {
		r.table.add(row{goal: "P12", what: work + eachUser + rate(eachUser), time: s.time(eachUser), against: bareInsert, ratio: s.faster(eachUser, bareInsert), faster: true,
			want: want{ratioAtLeast: 1.4}})
	}
	r.table.add(row{goal: "P12", what: work + inPostgres, time: s.time(inPostgres), against: policyFree, ratio: s.ratio(inPostgres, policyFree), fine: true,
		want: want{ratioAtMost: 1.2}})
}

// tables are tables without any rule: one for this program, one for pgbench.
const tables = `create table if not exists bare (log int, seq bigserial, body bytea, primary key (log, seq));
create table if not exists bench (log int, seq bigserial, body bytea, primary key (log, seq))`

// bare inserts the same bytes into a table of its own, in one round trip and
// one transaction each, without any rule, over so many connections.
func (t *teamPlace) bare(ctx context.Context, writers, connections, n int, line []byte) (func() (sample, error), func(), error) {
	config, err := pgxpool.ParseConfig(t.db.Super)
	if err != nil {
		return nil, nil, err
	}
	config.MaxConns = int32(connections)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, nil, err
	}
	if _, err := pool.Exec(ctx, tables); err != nil {
		pool.Close()
		return nil, nil, err
	}
	return together(writers, n, nil, func(d int) error {
		_, err := pool.Exec(ctx, `insert into bare (log, body) values ($1, $2)`, d, line)
		return err
	}), pool.Close, nil
}

// settled updates the statistics of the database, as it does by itself
// some time after many writes.
func (t *teamPlace) settled(ctx context.Context) error {
	pool, err := pgxpool.New(ctx, t.db.Super)
	if err != nil {
		return err
	}
	defer pool.Close()
	_, err = pool.Exec(ctx, "vacuum analyze")
	return err
}

// leastBenched is the least number of inserts of each client of pgbench: it
// prepares its statements first.
const leastBenched = 50

// tps is what pgbench says of its speed.
var tps = regexp.MustCompile(`(?m)^tps = ([0-9.]+) \(without initial connection time\)`)

// pgbench lets PostgreSQL's own program insert the same bytes, nil where it is
// not installed.
func (r *run) pgbench(ctx context.Context, t *teamPlace, writers, n int, line []byte) (func() (sample, error), error) {
	program := t.cluster.Program("pgbench")
	if program == "" {
		r.table.skip("pgbench: it is not installed")
		return nil, nil
	}
	script := filepath.Join(r.dir, "insert.sql")
	sql := fmt.Sprintf("insert into bench (log, body) values (:client_id, '\\x%x');\n", line)
	if err := os.WriteFile(script, []byte(sql), 0o600); err != nil {
		return nil, err
	}
	args := []string{"-n", "-M", "prepared", "-c", strconv.Itoa(writers), "-j", strconv.Itoa(min(writers, 2)), "-t", strconv.Itoa(max(n, leastBenched)),
		"-f", script, "-h", t.cluster.Dir(), "-U", "postgres", t.db.Name}
	return func() (sample, error) {
		out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
		if err != nil {
			return sample{}, fmt.Errorf("%w\n%s", err, out)
		}
		found := tps.FindSubmatch(out)
		if found == nil {
			return sample{}, fmt.Errorf("pgbench says no speed:\n%s", out)
		}
		rate, err := strconv.ParseFloat(string(found[1]), 64)
		if err != nil || rate <= 0 {
			return sample{}, errors.Join(err, fmt.Errorf("pgbench says %s", found[0]))
		}
		return sample{each: float64(time.Second) / rate}, nil
	}, nil
}

// teamTails measures the newest entries of sessions of many lengths, all in one
// database.
func (r *run) teamTails(ctx context.Context, t *teamPlace) error {
	var contenders []contender
	var sizes []int
	for _, n := range t.logs {
		if free, err := machine.Free(r.dir); err != nil || free < int64(n)*bytesPerEntry {
			r.table.skip("tail of %s entries in %s: there is not enough room on the disk", short(n), inPostgres)
			break
		}
		r.say("making %s entries in PostgreSQL", short(n))
		id, err := t.with.converse(ctx, n)
		if err != nil {
			return err
		}
		sizes = append(sizes, n)
		for _, p := range []*place{t.with, t.without} {
			contenders = append(contenders, contender{p.backend + short(n), times(t.tails, func() error { return p.tailOf(ctx, id) })})
		}
		t.with.session = id // the longest
	}
	if err := t.settled(ctx); err != nil {
		return err
	}
	r.say("tail through PostgreSQL")
	s, err := r.compareTimes(ctx, t.reps, contenders...)
	if err != nil {
		return err
	}
	for i, n := range sizes {
		name, w := inPostgres+short(n), row{}
		if i > 0 {
			w = row{goal: "P12", against: "the same of " + short(sizes[0]), ratio: s.ratio(name, inPostgres+short(sizes[0]))}
		}
		if n >= 1_000_000 {
			w.want.ratioAtMost = 1.3
		}
		w.what, w.time = fmt.Sprintf("tail of %d of %s: %s", shown, short(n), inPostgres), s.time(name)
		r.table.add(w)
	}
	last := short(sizes[len(sizes)-1])
	r.table.add(row{goal: "P12", what: fmt.Sprintf("tail of %d of %s: %s", shown, last, inPostgres), time: s.time(inPostgres + last), against: policyFree,
		ratio: s.ratio(inPostgres+last, policyFree+last), fine: true, want: want{ratioAtMost: 1.2}})
	return nil
}

// tailOf is tail of a session that is named.
func (p *place) tailOf(ctx context.Context, id tidemark.SessionID) error {
	one := *p
	one.session = id
	return one.tail(ctx)
}
