package serve

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/backend/cold"
	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/seal"
	"github.com/tidemark-sessions/tidemark/search"
	"github.com/tidemark-sessions/tidemark/server"
	"github.com/tidemark-sessions/tidemark/server/pages"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/transfer"
)

// Opener opens the stores that a server serves. It is safe for concurrent use.
type Opener struct {
	url     string // URL of the named store
	options func(open.Access) *open.Options
	single  bool               // one store for everybody, because there is one user
	db      *postgres.Database // nil: embedded stores
	scopes  *store.Scopes      // the indexes of what is shared in db
	places  *cold.Places       // where older lines of what is in db are
	coldURL string             // where they are moved to; "": nowhere
	own     *open.Opened       // the named store, when it is embedded
	lent    bool               // the caller closes db and own

	mu     sync.Mutex
	opened map[string]*open.Opened // embedded stores of principals, when there are many
	life   context.Context
	end    context.CancelFunc
	work   sync.WaitGroup
	unkept atomic.Int64 // how often an index could not be followed
}

// newOpener returns an Opener without a database and without a store.
func newOpener(ctx context.Context, url string, options func(open.Access) *open.Options) *Opener {
	t := &Opener{url: url, options: options, opened: make(map[string]*open.Opened)}
	t.places, t.coldURL = open.ColdPlaces(options(open.Write))
	t.life, t.end = context.WithCancel(context.WithoutCancel(ctx))
	return t
}

// OpenStores opens what a server serves: the database that a URL names, or the
// store on this machine, which is created if it does not exist. With single,
// there is one user, who owns that store. The last is how the database is used.
func OpenStores(ctx context.Context, url string, single bool, options func(open.Access) *open.Options, how *postgres.Options) (*Opener, error) {
	t := newOpener(ctx, url, options)
	t.single = single
	var err error
	if open.IsPostgres(url) {
		if t.db, err = postgres.Connect(ctx, url, how); err == nil {
			t.scopes = store.NewScopes(&store.Options{Places: search.EachWord})
			t.work.Go(func() { t.scopes.Keep(postgres.Background(t.life)) })
		}
		err = open.DatabaseHint(err)
	} else {
		t.own, err = open.Open(ctx, url, options(open.Create))
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// StoresBeside finds what a server keeps beside the operator's store, which
// OpenOperator returned and its caller closes.
func StoresBeside(ctx context.Context, own *open.Opened, url string, options func(open.Access) *open.Options) *Opener {
	t := newOpener(ctx, url, options)
	t.own, t.lent = own, true
	if b, ok := own.Inner.(OperatorBackend); ok {
		t.db = b.db
		t.scopes = store.NewScopes(&store.Options{Places: search.EachWord})
	}
	return t
}

// Principal is the local user of the server.
func (t *Opener) Principal() (tidemark.Principal, error) {
	if t.db != nil {
		return postgres.PrincipalIn(t.url)
	}
	return tidemark.TenantOf(tenant.DefaultTenant, ""), nil
}

// Ready reports whether the store can be reached, and takes writes.
func (t *Opener) Ready(ctx context.Context) error {
	if t.db != nil {
		err := t.db.Writable(ctx)
		if errors.Is(err, postgres.ErrReadOnly) {
			return request.Unavailable("the database takes no writes, as a standby does")
		}
		return err
	}
	_, err := t.own.Backend.Get(ctx, tidemark.Key{Kind: "fleet", ID: "fleet"})
	if errors.Is(err, tidemark.ErrNotFound) {
		return nil
	}
	return err
}

// Reading begins what one request reads and changes; see server.Options. A position that
// cannot be read is none.
func (t *Opener) Reading(ctx context.Context, at string, changes bool) (context.Context, func(context.Context) string) {
	from := postgres.ReadFrom{Primary: changes, Any: at == api.AnyPosition}
	from.At, _ = tidemark.ParseCommitPosition(at)
	ctx, reading := t.db.Reading(ctx, from)
	return ctx, func(ctx context.Context) string {
		if at, ok := reading.Position(ctx); ok {
			return at.String()
		}
		return ""
	}
}

// Measure returns how the connections to the database are used.
func (t *Opener) Measure() []server.Measure {
	if t.db == nil {
		return nil
	}
	p := t.db.Pool()
	trips := func(of func(postgres.Trips) float64) []server.Value {
		return []server.Value{{Labels: `{what="read"}`, Value: of(p.Reads)}, {Labels: `{what="commit"}`, Value: of(p.Commits)}}
	}
	return append(append(measureReplicas(t.db.Replicas()), measureCold(t.places.Counts())...), []server.Measure{
		{Name: "tidemark_database_statements_total", Kind: "counter", Help: "Round trips to the database.", Values: trips(func(t postgres.Trips) float64 { return float64(t.N) })},
		{Name: "tidemark_database_statement_failures_total", Kind: "counter", Help: "Round trips that failed. Most are tried again.",
			Values: trips(func(t postgres.Trips) float64 { return float64(t.Failed) })},
		{Name: "tidemark_database_statement_seconds_total", Kind: "counter", Help: "How long all took together.", Values: trips(func(t postgres.Trips) float64 { return t.Took.Seconds() })},
		server.One("tidemark_index_failures_total", "counter", "How often the search index could not be kept, and was taken up again.", float64(t.unkept.Load())),
		{Name: "tidemark_database_connections", Kind: "gauge", Help: "Connections to the database.", Values: []server.Value{
			{Labels: `{state="busy"}`, Value: float64(p.Busy)}, {Labels: `{state="idle"}`, Value: float64(p.Idle)}}},
		server.One("tidemark_database_connections_max", "gauge", "Connections to the database that this server may have.", float64(p.Most)),
		server.One("tidemark_database_acquires_total", "counter", "How often a connection was needed.", float64(p.Asked)),
		server.One("tidemark_database_waits_total", "counter", "How often there was none free.", float64(p.Waited)),
		server.One("tidemark_database_wait_seconds_total", "counter", "How long was waited for one, by all together.", p.Waiting.Seconds()),
	}...)
}

// measureReplicas returns how the replicas are doing; nothing when there are none.
func measureReplicas(all []postgres.Replica) []server.Measure {
	if len(all) == 0 {
		return nil
	}
	each := func(of func(postgres.Replica) float64) (values []server.Value) {
		for _, r := range all {
			values = append(values, server.Value{Labels: fmt.Sprintf("{replica=%q}", r.Name), Value: of(r)})
		}
		return values
	}
	state := server.Measure{Name: "tidemark_replica_state", Kind: "gauge", Help: "1 for the state that a replica is in: it answers reads, is behind, does not answer, or is no replica of this database."}
	for _, r := range all {
		for _, s := range postgres.ReplicaStates {
			v := server.Value{Labels: fmt.Sprintf("{replica=%q,state=%q}", r.Name, s)}
			if r.State == s {
				v.Value = 1
			}
			state.Values = append(state.Values, v)
		}
	}
	return []server.Measure{state,
		{Name: "tidemark_replica_reads_total", Kind: "counter", Help: "Round trips that a replica answered.", Values: each(func(r postgres.Replica) float64 { return float64(r.Reads) })},
		{Name: "tidemark_replica_fallbacks_total", Kind: "counter", Help: "How often a replica was asked, and the primary had to answer.",
			Values: each(func(r postgres.Replica) float64 { return float64(r.GivenUp) })},
		{Name: "tidemark_replica_lag_seconds", Kind: "gauge", Help: "The age of the oldest change that a replica does not have.",
			Values: each(func(r postgres.Replica) float64 { return r.Lag.Seconds() })},
	}
}

// Backend returns the storage of a principal, as it is kept: what a client
// sealed stays sealed.
func (t *Opener) Backend(ctx context.Context, p tidemark.Principal) (tidemark.Backend, error) {
	if t.db != nil {
		b := t.tiered(p)
		t.scopes.Uses(b)
		return served{b, t.scopes}, nil
	}
	o, err := t.embedded(ctx, p)
	if err != nil {
		return nil, err
	}
	return o.Inner, nil
}

// tiered returns the rows of a principal, with the lines of theirs that are elsewhere.
func (t *Opener) tiered(p tidemark.Principal) *cold.Backend {
	return t.places.Lend(t.db.For(p), t.coldURL)
}

// served is the storage of a principal for clients that know the rules of sessions
// themselves, but not what others have indexed of what they share.
type served struct {
	*cold.Backend
	scopes *store.Scopes
}

// Commit also takes what a batch destroys or masks out of the indexes of what is
// shared, before it answers. If that fails, which the client cannot help, it is done
// within a minute.
func (b served) Commit(ctx context.Context, batch tidemark.Batch) (tidemark.Receipt, error) {
	receipt, err := b.Backend.Commit(ctx, batch)
	if err != nil {
		return receipt, err
	}
	b.scopes.Grew(b.Backend)
	notes := slices.ContainsFunc(batch.Puts, func(r tidemark.Record) bool { return r.Kind == tidemark.KindUnindexed })
	if drops := slices.ContainsFunc(batch.Drops, func(k tidemark.Key) bool { return !k.Derived() }); drops || notes {
		_ = b.scopes.Settle(ctx, b.Backend)
	}
	return receipt, nil
}

// Share also has the indexes of what is shared follow soon.
func (b served) Share(ctx context.Context, id tidemark.SessionID, with tidemark.Scope) error {
	err := b.Backend.Share(ctx, id, with)
	b.scopes.Grew(b.Backend)
	return err
}

// Store returns the store of a principal, with its index kept up to date.
func (t *Opener) Store(ctx context.Context, p tidemark.Principal) (*store.Store, error) {
	if t.db == nil {
		o, err := t.embedded(ctx, p)
		if err != nil {
			return nil, err
		}
		return o.Store, nil
	}
	how := t.options(open.Write)
	how.Plain = false
	b := tidemark.Backend(t.tiered(p))
	sealed, err := seal.IsSealed(ctx, b)
	if err != nil {
		return nil, err
	}
	if sealed {
		if b, err = open.Unseal(ctx, b, how); err != nil {
			return nil, hint.With(err, "this store was encrypted by its user: only tidemark --store https://… with the key can read it")
		}
	}
	o, err := open.Rules(b, how)
	if err != nil {
		return nil, err
	}
	// A client's folders are not looked up on this machine.
	o.Marks, o.There = nil, nil
	o.Scopes = t.scopes
	s := store.New(b, o)
	t.work.Go(func() { t.keepIndexed(s) })
	return s, nil
}

// keepIndexed has the index of a store follow it as long as this server runs. A
// database that was away is no reason to give up: then it is tried again, ever more
// seldom, and until then a search reads what the index does not have.
func (t *Opener) keepIndexed(s *store.Store) {
	for pause := firstPause; ; pause = min(2*pause, longPause) {
		began := time.Now()
		err := s.KeepIndexed(postgres.Background(t.life))
		if err == nil || errors.Is(err, tidemark.ErrSealed) { // whoever opens it again, with the key, follows it
			return
		}
		if t.unkept.Add(1); time.Since(began) > longPause {
			pause = firstPause
		}
		select {
		case <-t.life.Done():
			return
		case <-time.After(pause):
		}
	}
}

// The pauses after which the index is taken up again.
const (
	firstPause = time.Second
	longPause  = time.Minute
)

// Operator returns the operator's records of the tenants.
func (t *Opener) Operator(ctx context.Context) (*tenant.Directory, error) {
	s, err := t.Store(ctx, tidemark.Operator())
	if err != nil {
		return nil, err
	}
	return tenant.NewDirectory(s.Records()), nil
}

// lingering is how long somebody who was let in may still be at some server: what was
// known of them is cached, and open answers are checked now and then.
const lingering = 5 * time.Second

// Offboarding erases, hands over and exports what people have in these stores.
func (t *Opener) Offboarding(users *tenant.Directory, who tidemark.Holder) *transfer.Offboarding {
	return &transfer.Offboarding{Users: users, Backend: t.Backend, Store: t.Store, Holder: who, Linger: lingering}
}

// embedded returns the store on this machine that belongs to a principal. With
// one user it is the named one; with several each has a store of their own
// beside it, so that no rule has to separate them.
func (t *Opener) embedded(ctx context.Context, p tidemark.Principal) (*open.Opened, error) {
	if t.single || p.Tenant == tidemark.Operator().Tenant {
		return t.own, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	name := p.Tenant + "." + p.User
	if o := t.opened[name]; o != nil {
		return o, nil
	}
	url := t.url + ".tenants/" + name
	if strings.HasPrefix(t.url, "memory:") {
		url = t.url
	}
	o, err := open.Open(context.WithoutCancel(ctx), url, t.options(open.Create))
	if err != nil {
		return nil, err
	}
	t.opened[name] = o
	return o, nil
}

// Acts returns the places where it is recorded who did what in a tenant: in a
// database one, on this machine the named store and those of the tenant's
// users beside it.
func (t *Opener) Acts(ctx context.Context, tenant string) ([]tidemark.Backend, error) {
	if t.db != nil {
		return []tidemark.Backend{t.db.For(tidemark.AuditorOf(tenant))}, nil
	}
	from := []tidemark.Backend{t.own.Backend}
	if t.single {
		return from, nil
	}
	kind, path, _ := strings.Cut(t.url, ":")
	if kind != "memory" {
		beside, err := os.ReadDir(path + ".tenants")
		if err != nil && !os.IsNotExist(err) {
			return nil, tidemark.Storagef("%w", err)
		}
		for _, f := range beside {
			if user, ok := strings.CutPrefix(f.Name(), tenant+"."); ok && len(user) == len(tenant) {
				if _, err := t.embedded(ctx, tidemark.Principal{Tenant: tenant, User: user}); err != nil {
					return nil, err
				}
			}
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, o := range t.opened {
		if strings.HasPrefix(name, tenant+".") {
			from = append(from, o.Backend)
		}
	}
	return from, nil
}

// Inspect returns what is known about the storage of a principal.
func (t *Opener) Inspect(ctx context.Context, p tidemark.Principal) (pages.Inspection, error) {
	b, err := t.Backend(ctx, p)
	if err != nil {
		return pages.Inspection{}, err
	}
	kind, _, _ := strings.Cut(t.url, ":")
	is := pages.Inspection{Kind: kind, Place: open.WithoutPassword(t.url)}
	if t.db != nil {
		if is.Bytes, err = t.db.Size(ctx); err != nil {
			return is, err
		}
	} else if info, statErr := os.Stat(strings.TrimPrefix(t.url, kind+":")); statErr == nil && info.Mode().IsRegular() {
		is.Bytes = info.Size()
	}
	if is.Sealed, err = seal.IsSealed(ctx, b); err != nil || !is.Sealed {
		return is, err
	}
	header, err := t.header(ctx, p, b)
	for _, s := range header.Slots {
		is.Keys = append(is.Keys, pages.KeyInfo{ID: s.ID, Type: string(s.Type), Label: s.Label, CreatedAt: s.CreatedAt, Opened: s.Opened})
	}
	return is, err
}

// header is that of the keyring of a principal's storage b. Only a store that this
// server opened itself says with which key.
func (t *Opener) header(ctx context.Context, p tidemark.Principal, b tidemark.Backend) (seal.Header, error) {
	if t.db == nil {
		if o, err := t.embedded(ctx, p); err == nil && o.Sealed() != nil {
			return o.Sealed().Header(ctx)
		}
	}
	return seal.Inspect(ctx, b)
}

// Close closes everything that the Opener opened.
func (t *Opener) Close() error {
	t.end()
	t.work.Wait()
	var errs []error
	for _, o := range t.opened {
		errs = append(errs, o.Close())
	}
	if t.own != nil && !t.lent {
		errs = append(errs, t.own.Close())
	}
	if t.db != nil && !t.lent {
		t.db.Close()
	}
	errs = append(errs, t.places.Close())
	return errors.Join(errs...)
}
