package main

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"os"
	"strings"
	"sync"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/postgres"
	"github.com/tidemark-sessions/tidemark/dispatch"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/seal"
	"github.com/tidemark-sessions/tidemark/server/pages"
	"github.com/tidemark-sessions/tidemark/store"
)

// team is the stores that a server answers from.
type team struct {
	app      *app
	db       *postgres.Database // nil: embedded stores
	database bool
	single   bool   // one store for everybody, because there is one user
	url      string // of the store that was named

	mu     sync.Mutex
	opened map[string]*open.Opened // embedded stores of principals, when there are many
	life   context.Context
	end    context.CancelFunc
	work   sync.WaitGroup
}

// openTeam opens what the server answers from.
func (v *serving) openTeam(ctx context.Context) (*team, error) {
	place, _, err := v.location()
	if err != nil {
		return nil, err
	}
	t := &team{app: v.app, url: place, single: v.auth == authLocal, opened: make(map[string]*open.Opened)}
	t.life, t.end = context.WithCancel(context.WithoutCancel(ctx))
	if !open.IsPostgres(place) {
		_, err := v.open(ctx, creates)
		return t, err
	}
	if v.migrate {
		if _, err := migrateDatabase(ctx, place, postgres.Migration{Upgrading: onlyWithABackup}); err != nil {
			return nil, err
		}
	}
	t.database = true
	if t.db, err = postgres.Connect(ctx, place, nil); err != nil {
		return nil, open.DatabaseHint(err)
	}
	return t, nil
}

// principal is who the local user of the server is.
func (t *team) principal() (tidemark.Principal, error) {
	if t.db != nil {
		return postgres.PrincipalIn(t.url)
	}
	return tidemark.TenantOf("default", ""), nil
}

// ready reports whether the store can be reached.
func (t *team) ready(ctx context.Context) error {
	if t.db != nil {
		return t.db.Ping(ctx)
	}
	_, err := t.app.opened.Backend.Get(ctx, tidemark.Key{Kind: "fleet", ID: "fleet"})
	if errors.Is(err, tidemark.ErrNotFound) {
		return nil
	}
	return err
}

// backend returns what is kept for a principal, as it is kept: what a client
// sealed stays sealed.
func (t *team) backend(ctx context.Context, p tidemark.Principal) (tidemark.Backend, error) {
	if t.db != nil {
		return t.db.For(p), nil
	}
	o, err := t.embedded(ctx, p)
	if err != nil {
		return nil, err
	}
	return o.Inner, nil
}

// store returns the store of a principal, with its index kept up.
func (t *team) store(ctx context.Context, p tidemark.Principal) (*store.Store, error) {
	if t.db == nil {
		o, err := t.embedded(ctx, p)
		if err != nil {
			return nil, err
		}
		return o.Store, nil
	}
	how := t.app.opening(open.Write)
	how.Plain = false
	b := tidemark.Backend(t.db.For(p))
	sealed, err := seal.IsSealed(ctx, b)
	if err != nil {
		return nil, err
	}
	if sealed {
		if b, err = open.Unseal(ctx, b, how); err != nil {
			return nil, withHint(err, "this store was encrypted by its user: only tidemark --store https://… with the key can read it")
		}
	}
	o, err := open.Rules(b, how)
	if err != nil {
		return nil, err
	}
	// What a client says of its folders is not looked for on this machine.
	o.Marks, o.There = nil, nil
	s := store.New(b, o)
	t.work.Go(func() { s.KeepIndexed(t.life) })
	return s, nil
}

// operator returns what who runs the server keeps of its tenants.
func (t *team) operator(ctx context.Context) (*tenant.Directory, error) {
	s, err := t.store(ctx, tidemark.Operator())
	if err != nil {
		return nil, err
	}
	return tenant.NewDirectory(s.Records()), nil
}

// embedded returns the store on this machine that belongs to a principal. With
// one user it is the one that was named; with several each has a place of
// their own beside it, so that no rule has to keep them apart.
func (t *team) embedded(ctx context.Context, p tidemark.Principal) (*open.Opened, error) {
	if t.single || p.Tenant == tidemark.Operator().Tenant {
		return t.app.opened, nil
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
	o, err := open.Open(context.WithoutCancel(ctx), url, t.app.opening(open.Create))
	if err != nil {
		return nil, err
	}
	t.opened[name] = o
	return o, nil
}

// acts returns the places where it is written down who did what in a tenant:
// in a database one, on this machine the store that was named and those of the
// tenant's users beside it.
func (t *team) acts(ctx context.Context, tenant string) ([]tidemark.Backend, error) {
	if t.db != nil {
		return []tidemark.Backend{t.db.For(tidemark.AuditorOf(tenant))}, nil
	}
	from := []tidemark.Backend{t.app.opened.Backend}
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

// inspect says what is known of the place where a principal's things are kept.
func (t *team) inspect(ctx context.Context, p tidemark.Principal) (pages.Inspection, error) {
	b, err := t.backend(ctx, p)
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
	header, err := seal.Inspect(ctx, b)
	for _, s := range header.Slots {
		is.Keys = append(is.Keys, pages.KeyInfo{ID: s.ID, Type: string(s.Type), Label: s.Label, CreatedAt: s.CreatedAt})
	}
	return is, err
}

// close lets go of everything.
func (t *team) close() error {
	t.end()
	t.work.Wait()
	var errs []error
	for _, o := range t.opened {
		errs = append(errs, o.Close())
	}
	if t.db != nil {
		t.db.Close()
	}
	return errors.Join(errs...)
}

// migrateDatabase brings the tables up to date, as their owner, for the role
// that the store's URL logs in with.
func migrateDatabase(ctx context.Context, place string, m postgres.Migration) (role string, err error) {
	owner := os.Getenv(open.DatabaseOwner)
	if owner == "" {
		return "", withHint(tidemark.Invalidf("%s is not set: tables are made by their owner, who is not the one that servers log in as", open.DatabaseOwner),
			"%s=postgres://OWNER:PASSWORD@HOST/DB tidemark …", open.DatabaseOwner)
	}
	u, err := url.Parse(place)
	if err != nil {
		return "", tidemark.Invalidf("the store's URL cannot be read")
	}
	if role = cmp.Or(u.User.Username(), u.Query().Get("user"), os.Getenv("PGUSER")); role == "" {
		return "", withHint(tidemark.Invalidf("the store's URL names no role"), "write postgres://ROLE@HOST/DB")
	}
	m.Role = role
	if err := m.Run(ctx, owner); err != nil {
		return role, err
	}
	return role, dispatch.Migrate(ctx, owner, dispatch.DefaultSchema, role)
}

// onlyWithABackup refuses to change the tables of an older program. The owner
// cannot copy them, because row security is forced, so whoever runs the database
// has to say that there is a backup.
func onlyWithABackup(from, to int64) error {
	return withHint(tidemark.Invalidf("the tables have version %d, and bringing them to version %d cannot be taken back", from, to),
		"back the database up, with pg_dump as a superuser or a snapshot, then run: tidemark database migrate --backed-up")
}

// directory opens what who runs the server keeps of its tenants.
func (a *app) directory(ctx context.Context, how open.Access) (*tenant.Directory, error) {
	s, err := a.operatorStore(ctx, how)
	if err != nil {
		return nil, err
	}
	return tenant.NewDirectory(s.Records()), nil
}

// operatorStore opens the store of who runs the server. Where one store serves
// everybody it is that one; in a database it is a place of its own.
func (a *app) operatorStore(ctx context.Context, how open.Access) (*store.Store, error) {
	place, _, err := a.location()
	if err != nil {
		return nil, err
	}
	switch {
	case strings.HasPrefix(place, "http"):
		return nil, withHint(tidemark.Unsupportedf("who may use a server is said where its store is"), "run this on the machine of the server, with the --store that it serves, or use the API of the server")
	case !open.IsPostgres(place):
		return a.open(ctx, how)
	case a.opened != nil:
		return a.opened.Store, nil
	}
	db, err := postgres.Connect(ctx, place, nil)
	if err != nil {
		return nil, open.DatabaseHint(err)
	}
	b := operatorBackend{db.For(tidemark.Operator()), db}
	if a.opened, err = open.Over(b, b, a.opening(how)); err != nil {
		a.opened = nil
		return nil, errors.Join(err, b.Close())
	}
	return a.opened.Store, nil
}

// operatorBackend lets go of the database when it is closed.
type operatorBackend struct {
	*postgres.Backend
	db *postgres.Database
}

func (b operatorBackend) Close() error {
	err := b.Backend.Close()
	b.db.Close()
	return err
}
