package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-sessions/tidemark"
)

// A tenant is at home in one database, and can be moved to another (see Mover). Each
// database says of a tenant whether it is here, and refuses writes where it is not; so
// what a process remembers of it is only where to ask first.

// MainName is the name of the database that the store's URL leads to: it has the
// operator's records, and every tenant that nobody moved.
const MainName = "main"

// The states of a tenant in table home.
const (
	homeHere     = "here"
	homeLeaving  = "leaving"  // it is here, and being copied to another database
	homeArriving = "arriving" // it is being copied from another, where it still is
	homeMoved    = "moved"
)

// What the trigger check_home raises.
const (
	codeElsewhere = "TM003"
	codeSwitching = "TM004"
)

// sqlHome says where a tenant is, in the statement that begins a transaction: "state
// elsewhere" of the tenant or, without a row, of tenants that have none. %s is the
// parameter with the tenant.
const sqlHome = `(select h.state || ' ' || h.elsewhere from tidemark.home h
    where h.tenant in (%s::text::uuid, '00000000-0000-0000-0000-000000000000') order by h.tenant desc limit 1)`

// ElsewhereError says that a tenant is at home in another database, and that nothing
// was done. It answers to ErrUnavailable: whoever knows that database can ask there.
type ElsewhereError struct {
	Place string // the database that was asked
	Name  string // of the other database; "": the tenant is just being switched
	Why   string // why it was not asked there; "": nobody tried
}

func (e *ElsewhereError) Error() string {
	if e.Name == "" {
		return fmt.Sprintf("database %s: the tenant is just being moved to another database: %s", e.Place, cmp.Or(e.Why, "try again"))
	}
	text := fmt.Sprintf("database %s: the tenant was moved to the database %q", e.Place, e.Name)
	if e.Why != "" {
		text += ": " + e.Why
	}
	return text
}

// Is makes an ElsewhereError answer to ErrUnavailable and ErrStorage.
func (e *ElsewhereError) Is(target error) bool {
	return target == ErrUnavailable || target == tidemark.ErrStorage
}

// elsewhereIn returns what the trigger said; nil: it said nothing.
func (db *Database) elsewhereIn(err error) *ElsewhereError {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return nil
	}
	switch pg.Code {
	case codeElsewhere:
		return &ElsewhereError{Place: db.place, Name: pg.Detail}
	case codeSwitching:
		return &ElsewhereError{Place: db.place}
	}
	return nil
}

// queueHome queues a statement that begins a transaction and whose last column, after n
// others, is sqlHome. The transaction fails where the tenant is not.
func (db *Database) queueHome(batch *pgx.Batch, n int, sql string, args ...any) {
	batch.Queue(sql, args...).QueryRow(func(row pgx.Row) error {
		var home *string
		to := make([]any, n, n+1)
		if err := row.Scan(append(to, &home)...); err != nil || home == nil {
			return err
		}
		if state, elsewhere, _ := strings.Cut(*home, " "); state == homeArriving || state == homeMoved {
			return &ElsewhereError{Place: db.place, Name: elsewhere}
		}
		return nil
	})
}

// homes are the databases of one store, and where tenants were last found.
type homes struct {
	main *Database
	look func() (map[string]string, error) // the URLs of all by name; nil: there is main alone
	o    Options                           // of the others

	mu    sync.Mutex
	named map[string]*Database
	at    map[id]*Database // not there: main
	// connecting holds others up only where they want the same database.
	connecting map[string]chan struct{}
}

// start makes db the main database.
func (h *homes) start(db *Database, o *Options) {
	h.main, h.look, h.o = db, o.Others, Options{MaxConns: o.MaxConns, Pooler: o.Pooler, Unchecked: o.Unchecked, connectWithin: o.connectWithin}
	h.named, h.at, h.connecting = map[string]*Database{MainName: db}, make(map[id]*Database), make(map[string]chan struct{})
}

func (h *homes) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, db := range h.named {
		if db != h.main {
			db.Close()
		}
	}
}

// all are the databases that are connected.
func (h *homes) all() []*Database {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Values(h.named))
}

// of returns where a tenant was last found.
func (h *homes) of(tenant id) *Database {
	h.mu.Lock()
	defer h.mu.Unlock()
	if db := h.at[tenant]; db != nil {
		return db
	}
	return h.main
}

// follow notes that a tenant, which was asked for at from, is at the database of a name.
func (h *homes) follow(ctx context.Context, tenant id, from *Database, name string) error {
	to, err := h.connected(ctx, name)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := h.at[tenant]; now != nil && now != from {
		return nil // somebody else has found out more
	}
	h.at[tenant] = to
	from.hints.mu.Lock()
	from.hints.wakeAll() // who waits for a log waits at the wrong place
	from.hints.mu.Unlock()
	return nil
}

// connected returns the database of a name, and connects to it the first time. URLs are
// looked up then: a database that was added is found without a restart.
func (h *homes) connected(ctx context.Context, name string) (*Database, error) {
	for {
		h.mu.Lock()
		if db := h.named[name]; db != nil {
			h.mu.Unlock()
			return db, nil
		}
		others := h.connecting[name]
		if others == nil {
			break
		}
		h.mu.Unlock()
		select {
		case <-others:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	done := make(chan struct{})
	h.connecting[name] = done
	h.mu.Unlock()
	db, err := h.connect(ctx, name)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		h.named[name] = db
	}
	delete(h.connecting, name)
	close(done)
	return db, err
}

func (h *homes) connect(ctx context.Context, name string) (*Database, error) {
	if h.look == nil {
		return nil, errors.New("this program was not told where that is")
	}
	urls, err := h.look()
	if err != nil {
		return nil, err
	}
	if urls[name] == "" {
		return nil, fmt.Errorf("this program knows only %s", strings.Join(slices.Sorted(maps.Keys(urls)), ", "))
	}
	o := h.o
	return Connect(context.WithoutCancel(ctx), urls[name], &o)
}

// How long somebody waits for a tenant that is being switched, and how often they ask.
const (
	switchWait  = time.Minute
	switchAgain = 10 * time.Millisecond
	switchPause = 250 * time.Millisecond
)

// atHome calls do with the database that the tenant is at. Where that turns out to be
// another, do is called again: it has changed nothing.
func (b *Backend) atHome(ctx context.Context, do func(*Database) error) error {
	h, end, pause := &b.db.homes, time.Now().Add(switchWait), switchAgain
	for hops := 1; ; hops++ {
		db := h.of(b.who.tenant)
		err := do(db)
		var away *ElsewhereError
		if !errors.As(err, &away) {
			return err
		}
		if away.Name != "" {
			if followed := h.follow(ctx, b.who.tenant, db, away.Name); followed != nil {
				away.Why = followed.Error()
				return away
			}
			if hops%4 != 0 { // two that point to each other: it is between them
				continue
			}
		}
		if time.Now().After(end) {
			away.Why = cmp.Or(away.Why, "it did not arrive for a minute")
			return away
		}
		select {
		case <-time.After(pause/2 + rand.N(pause)):
		case <-ctx.Done():
			return ctx.Err()
		}
		pause = min(2*pause, switchPause)
	}
}
