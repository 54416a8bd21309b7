package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-sessions/tidemark"
)

// Mover moves a tenant from the database that it is at to another, while it is used:
// ADR 0037. It may be killed at any moment: called again it goes on, and in each state
// at most one database takes writes of the tenant.
type Mover struct {
	// Tenant is the id of the tenant.
	Tenant string
	// Owners are the URLs of the owners of the tables, by the name of the database.
	// MainName is among them.
	Owners map[string]string
	// StopAtMost is how long writers wait for the last pass; 0: 30 seconds. It is given
	// up then, and tried again after another pass.
	StopAtMost time.Duration
	// Progress is told what was done. It may be nil.
	Progress func(MoveProgress)

	at    func(step string) error // before each step, for tests; may be nil
	id    id
	conns map[string]*moving
}

// MoveProgress is what a Mover has done so far.
type MoveProgress struct {
	Step string // what it does now: a MoveStep
	Pass int    // how often it has gone through everything
	Rows int64  // copied, compared and committed
}

// The steps of a move, in order.
const (
	MoveCopies   = "copy"
	MoveSwitches = "switch"
	MoveArrives  = "arrive"
	MoveDeletes  = "delete"
)

// Moved is what came of a move.
type Moved struct {
	Tenant string `json:"tenant"`
	From   string `json:"from"` // "": it was there
	To     string `json:"to"`
	Passes int    `json:"passes"`
	Rows   int64  `json:"rows"`
	// StoppedMilliseconds is how long writers had to wait.
	StoppedMilliseconds int64 `json:"stopped_ms"`
}

// Home is what one database says of a tenant.
type Home struct {
	Database  string `json:"database"`
	State     string `json:"state"` // here, leaving, arriving, moved
	Elsewhere string `json:"elsewhere,omitempty"`
}

// moving is a connection to one of the databases, as the owner.
type moving struct {
	name string
	db   *Database // for messages
	*pgx.Conn
}

// How a move is paced.
const (
	// quietRows is how little a pass may have found to copy for that the next is made
	// while writers wait, mostPasses how many are made at most before that.
	quietRows  = 2000
	mostPasses = 10
	// stopAtMost is what writers wait where nobody says otherwise, and switchTries how
	// often it is tried.
	stopAtMost  = 30 * time.Second
	switchTries = 5
)

// Run moves the tenant to the database of a name.
//
// ErrHeld: somebody else moves it. ErrInvalid: a database is not known, has tenants of
// its own or is another version; or the tenant is on its way to another one.
// ErrCorrupt: what was copied is not what is there; the tenant stays where it is.
func (m *Mover) Run(ctx context.Context, to string) (done Moved, err error) {
	done = Moved{Tenant: m.Tenant, To: to}
	defer m.close()
	if err := m.begin(ctx, to); err != nil {
		return done, err
	}
	from, err := m.home(ctx)
	if err != nil {
		return done, err
	}
	for name, c := range m.conns {
		if name != MainName {
			if err := m.reserve(ctx, c); err != nil {
				return done, c.named(err)
			}
		}
	}
	source, destination := m.conns[from.Database], m.conns[to]
	switch {
	case from.State == homeMoved && from.Elsewhere != to:
		return done, tidemark.Invalidf("the tenant is between the databases %q and %q: move it to %q first", from.Database, from.Elsewhere, from.Elsewhere)
	case from.State == homeMoved: // only its arrival was not noted
		done.From = from.Database
		return done, m.arrive(ctx, destination)
	case from.Database == to && from.State == homeLeaving:
		return done, m.stay(ctx, source, from.Elsewhere)
	case from.Database == to:
		return done, m.arrive(ctx, destination) // main may not know yet
	case from.State == homeLeaving && from.Elsewhere != to:
		return done, tidemark.Invalidf("the tenant is on its way from %q to %q: go on with that, or have it stay with: --to %s", from.Database, from.Elsewhere, from.Database)
	}
	done.From = from.Database
	if err := m.prepare(ctx, source, destination); err != nil {
		return done, err
	}
	if err := m.copyAndSwitch(ctx, source, destination, &done); err != nil {
		return done, err
	}
	return done, m.arrive(ctx, destination)
}

// copyAndSwitch ends when the source says that the tenant has moved.
func (m *Mover) copyAndSwitch(ctx context.Context, source, destination *moving, done *Moved) error {
	tell := func(step string) { m.tell(MoveProgress{Step: step, Pass: done.Passes, Rows: done.Rows}) }
	for try := 1; ; try++ {
		for pass := 1; ; pass++ {
			if err := m.step(MoveCopies); err != nil {
				return err
			}
			done.Passes++
			rows, err := m.passOver(ctx, source, destination, func(n int64) { done.Rows += n; tell(MoveCopies) })
			if err != nil {
				return err
			}
			if rows <= quietRows || pass == mostPasses {
				break
			}
		}
		if err := m.step(MoveSwitches); err != nil {
			return err
		}
		tell(MoveSwitches)
		done.Passes++
		began := time.Now()
		err := m.switchOver(ctx, source, destination, func(n int64) { done.Rows += n })
		done.StoppedMilliseconds = time.Since(began).Milliseconds()
		if err == nil || ctx.Err() != nil || try == switchTries || !errors.Is(err, context.DeadlineExceeded) && !inTheWay(err) {
			return source.named(err)
		}
		if err := m.reconnect(ctx); err != nil {
			return err
		}
		if h, err := m.homeAt(ctx, source); err != nil || h.State == homeMoved {
			return err // the answer to COMMIT came too late
		}
	}
}

// stay ends a move that was not finished: the tenant remains at the source.
func (m *Mover) stay(ctx context.Context, source *moving, elsewhere string) error {
	if err := m.setHome(ctx, source, homeHere, "", homeLeaving); err != nil {
		return source.named(err)
	}
	if other := m.conns[elsewhere]; other != nil {
		return other.named(m.setHome(ctx, other, homeMoved, source.name, homeArriving, homeMoved))
	}
	return nil
}

// reconnect makes new connections for those that a deadline has ended.
func (m *Mover) reconnect(ctx context.Context) error {
	for name, c := range m.conns {
		if c.IsClosed() {
			if err := c.connect(ctx, m.Owners[name]); err != nil {
				return err
			}
			if err := m.alone(ctx, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// switchOver has writers wait, makes the last pass, compares, and commits that the
// tenant has moved.
func (m *Mover) switchOver(ctx context.Context, source, destination *moving, copied func(int64)) error {
	stop := cmp.Or(m.StopAtMost, stopAtMost)
	ctx, cancel := context.WithTimeout(ctx, stop)
	defer cancel()
	return pgx.BeginTxFunc(ctx, source, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if err := m.enter(ctx, tx); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `select set_config('lock_timeout', '10s', true), set_config('idle_in_transaction_session_timeout', $1, true)`, fmt.Sprint(2*stop.Milliseconds())); err != nil {
			return err
		}
		// It waits for transactions that write, and nobody else gets in before it.
		if _, err := tx.Exec(ctx, `select pg_advisory_xact_lock(hashtextextended('tidemark.home ' || $1::uuid, 0))`, m.id); err != nil {
			return err
		}
		if err := m.step("last pass"); err != nil {
			return err
		}
		p := &pass{m: m, from: tx, to: destination, copied: copied}
		if err := p.all(ctx); err != nil {
			return err
		}
		if err := p.verify(ctx); err != nil {
			return err
		}
		if err := m.step("commit"); err != nil {
			return err
		}
		return changeHome(ctx, tx, m.id, homeMoved, destination.name, homeLeaving)
	})
}

// passOver copies what differs, as one snapshot of the source has it.
func (m *Mover) passOver(ctx context.Context, source, destination *moving, copied func(int64)) (rows int64, err error) {
	err = pgx.BeginTxFunc(ctx, source, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if err := m.enter(ctx, tx); err != nil {
			return err
		}
		p := &pass{m: m, from: tx, to: destination, copied: func(n int64) { rows += n; copied(n) }}
		return p.all(ctx)
	})
	return rows, source.named(err)
}

// enter says in a transaction of the owner that all rows of the tenant are meant.
func (m *Mover) enter(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, `select set_config('tidemark.tenant', $1, true), set_config('tidemark.moves', 'on', true),
  set_config('tidemark.user', '', true), set_config('tidemark.workspaces', '', true), set_config('tidemark.of', '', true), set_config('tidemark.logs', '', true),
  set_config('tidemark.users', '', true), set_config('timezone', 'UTC', true), set_config('datestyle', 'ISO', true), set_config('bytea_output', 'hex', true)`, m.Tenant)
	return err
}

// begin connects to all databases, and sees to it that nobody else moves the tenant.
func (m *Mover) begin(ctx context.Context, to string) (err error) {
	if m.id, err = parseID("tenant", m.Tenant); err != nil {
		return err
	}
	if m.Tenant == tidemark.Operator().Tenant {
		return tidemark.Invalidf("the operator's records stay in the database %q", MainName)
	}
	for _, name := range []string{MainName, to} {
		if m.Owners[name] == "" {
			return tidemark.Invalidf("the owner of the database %q is not known", name)
		}
	}
	m.conns = make(map[string]*moving)
	for name, url := range m.Owners {
		c := &moving{name: name}
		if err := c.connect(ctx, url); err != nil {
			return err
		}
		m.conns[name] = c
		if err := m.alone(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// alone takes a lock that belongs to a connection, at each database: a mover whose
// connection is lost can write nothing over what another one writes. Of two movers one
// is told.
func (m *Mover) alone(ctx context.Context, c *moving) error {
	var mine bool
	err := c.QueryRow(ctx, `select pg_try_advisory_lock(hashtextextended('tidemark.move ' || $1::uuid, 0))`, m.id).Scan(&mine)
	if err == nil && !mine {
		return fmt.Errorf("database %s: the tenant is being moved by somebody else: %w", c.db.place, tidemark.ErrHeld)
	}
	return c.named(err)
}

func (c *moving) connect(ctx context.Context, url string) error {
	config, err := configOf(url)
	if err != nil {
		return err
	}
	c.db = &Database{place: placeOf(config.ConnConfig)}
	own := config.ConnConfig
	showProgram(own.RuntimeParams)
	if c.Conn, err = pgx.ConnectConfig(ctx, own); err != nil {
		return c.db.named(err)
	}
	var pid uint32
	var version int64
	var mine bool
	err = c.QueryRow(ctx, `select pg_backend_pid(), (select coalesce(max(version_id), 0) from `+versionTable+` where is_applied),
  pg_has_role((select c.relowner from pg_class c where c.oid = 'tidemark.home'::regclass), 'usage')`).Scan(&pid, &version, &mine)
	switch {
	case err != nil:
		return c.named(fmt.Errorf("as its owner, with the tables of this program: %w", err))
	case pid != c.PgConn().PID():
		return tidemark.Invalidf("database %s: a pooler is in between: move with the address of the database itself", c.db.place)
	case version != Schema:
		return tidemark.Unsupportedf("database %s: its schema is version %d, and moving needs version %d in each; migrate it first", c.db.place, version, Schema)
	case !mine:
		return &denied{c.db.place, errors.New("only the owner of the tables moves tenants")}
	}
	_, err = c.Exec(ctx, `select set_config('synchronous_commit', case current_setting('synchronous_commit') when 'off' then 'on' else current_setting('synchronous_commit') end, false)`)
	return c.named(err)
}

func (c *moving) named(err error) error { return c.db.named(err) }

func (m *Mover) close() {
	for _, c := range m.conns {
		if c.Conn != nil {
			c.Close(context.Background())
		}
	}
}

func (m *Mover) step(name string) error {
	if m.at == nil {
		return nil
	}
	return m.at(name)
}

func (m *Mover) tell(p MoveProgress) {
	if m.Progress != nil {
		m.Progress(p)
	}
}

// homeAt returns what a database says of the tenant.
func (m *Mover) homeAt(ctx context.Context, c *moving) (h Home, err error) {
	h = Home{Database: c.name, State: homeHere}
	err = c.QueryRow(ctx, `select h.state, h.elsewhere from tidemark.home h where h.tenant in ($1, $2) order by h.tenant desc limit 1`, m.id, id{}).Scan(&h.State, &h.Elsewhere)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return h, c.named(err)
}

// home finds where the tenant is, from main on: the database that takes its writes or,
// where the switch was committed and the arrival was not, the one that it left.
func (m *Mover) home(ctx context.Context) (Home, error) {
	left := Home{}
	for name, hops := MainName, 0; hops <= 2*len(m.conns); hops++ {
		c := m.conns[name]
		if c == nil {
			return Home{}, tidemark.Invalidf("the tenant is at the database %q, whose owner is not known", name)
		}
		h, err := m.homeAt(ctx, c)
		if err != nil || h.State == homeHere || h.State == homeLeaving {
			return h, err
		}
		if h.State == homeMoved {
			left = h
		}
		if h.State == homeArriving && left.Database == h.Elsewhere && left.Elsewhere == h.Database {
			return left, nil
		}
		name = h.Elsewhere
	}
	return Home{}, tidemark.Errorf(tidemark.ErrCorrupt, "the databases point at each other, and none has the tenant")
}

// Homes returns what each database says of the tenant.
func (m *Mover) Homes(ctx context.Context) (all []Home, err error) {
	defer m.close()
	if err := m.begin(ctx, MainName); err != nil {
		return nil, err
	}
	for _, name := range sortedNames(m.conns) {
		h, err := m.homeAt(ctx, m.conns[name])
		if err != nil {
			return nil, err
		}
		all = append(all, h)
	}
	return all, nil
}

// prepare notes at both databases that the tenant is on its way: first where it takes
// nothing, then where it goes on.
func (m *Mover) prepare(ctx context.Context, source, destination *moving) error {
	if err := m.step("prepare"); err != nil {
		return err
	}
	if err := m.setHome(ctx, destination, homeArriving, source.name, homeMoved, homeArriving); err != nil {
		return destination.named(err)
	}
	if err := m.step("leave"); err != nil {
		return err
	}
	return source.named(m.setHome(ctx, source, homeLeaving, destination.name, homeHere, homeLeaving))
}

// reserve makes a database one that has only tenants which were moved to it.
func (m *Mover) reserve(ctx context.Context, c *moving) error {
	return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		operator := *m
		operator.Tenant = tidemark.Operator().Tenant
		if err := operator.enter(ctx, tx); err != nil {
			return err
		}
		var there, serves bool
		if err := tx.QueryRow(ctx, `select exists (select from tidemark.home where tenant = $1), exists (select from tidemark.record where tenant = $2::text::uuid)`,
			id{}, operator.Tenant).Scan(&there, &serves); err != nil || there {
			return err
		}
		if serves {
			return tidemark.Invalidf("database %s: it is one that a server has as its store, with tenants and users of its own", c.db.place)
		}
		_, err := tx.Exec(ctx, `insert into tidemark.home (tenant, state, elsewhere) values ($1, $2, $3)`, id{}, homeMoved, MainName)
		return err
	})
}

func (m *Mover) setHome(ctx context.Context, c *moving, state, elsewhere string, was ...string) error {
	return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error { return changeHome(ctx, tx, m.id, state, elsewhere, was...) })
}

// changeHome writes a state in place of one that it can follow. Without a row, main
// has a tenant and others have not: the row of all others says so.
func changeHome(ctx context.Context, tx pgx.Tx, tenant id, state, elsewhere string, was ...string) error {
	tag, err := tx.Exec(ctx, `with before as (select coalesce((select h.state from tidemark.home h where h.tenant in ($1, $5) order by h.tenant desc limit 1), $6) as state)
  insert into tidemark.home as h (tenant, state, elsewhere) select $1, $2, $3 from before where before.state = any($4)
  on conflict (tenant) do update set state = excluded.state, elsewhere = excluded.elsewhere, since = excluded.since where h.state = any($4)`,
		tenant, state, elsewhere, was, id{}, homeHere)
	if err == nil && tag.RowsAffected() == 0 {
		err = tidemark.Conflictf("the tenant is not %v in this database any more", was)
	}
	return err
}

// arrive notes that the tenant is at home where it was moved to, and tells main.
func (m *Mover) arrive(ctx context.Context, destination *moving) error {
	if err := m.step(MoveArrives); err != nil {
		return err
	}
	h, err := m.homeAt(ctx, destination)
	if err != nil {
		return err
	}
	if h.State == homeArriving {
		if err := m.setHome(ctx, destination, homeHere, "", homeArriving); err != nil {
			return destination.named(err)
		}
	}
	if err := m.step("route"); err != nil || destination.name == MainName {
		return err
	}
	main := m.conns[MainName]
	return main.named(m.setHome(ctx, main, homeMoved, destination.name, homeMoved))
}

func stillMoving(h Home) error {
	return tidemark.Invalidf("the tenant is on its way from %q to %q: go on with that first", h.Database, h.Elsewhere)
}

func sortedNames(of map[string]*moving) []string { return slices.Sorted(maps.Keys(of)) }
