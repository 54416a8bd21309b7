// Package stores has the store of each caller, and makes sure that each change
// in one comes with its line of the audit log. It has no routes: the context of
// a request says who does what.
//
//	all := stores.New(stores.Options{Open: open})
//	st, err := all.Mine(ctx) // the store of whoever makes the request
package stores

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/server/auth"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
)

// Options configure Stores. Open is required.
type Options struct {
	// Open returns the store of a principal. It may return the same one for
	// every call, and is called once for each active principal.
	Open func(context.Context, tidemark.Principal) (*store.Store, error)
	// Holder is this server as the holder of leases.
	Holder tidemark.Holder
	// Acts returns the places where it is recorded who did what in a tenant;
	// nil: the stores that were opened.
	Acts func(ctx context.Context, tenant string) ([]tidemark.Backend, error)
	// Together means that the acts of all principals of a tenant are recorded
	// in one place, and not in a store of each.
	Together bool
	// NoAudit means that the store cannot keep an audit log.
	NoAudit bool
	// Backend returns the raw storage of a principal; nil: that of the store.
	Backend func(context.Context, tidemark.Principal) (tidemark.Backend, error)
	// AuditKeep is how long lines of the audit log are kept; 0: for ever. Chained is
	// called when the log of a tenant has grown; nil: nobody wants to know.
	AuditKeep time.Duration
	Chained   func(tenant string)
	// Limits bound what callers may do, and keep.
	Limits request.Limits
	Log    *slog.Logger
	Now    func() time.Time
	// Access is notified when somebody may do more or less than before.
	Access   *auth.Access
	Shutdown *request.Shutdown
}

// Stores are those of all callers. It may be used concurrently.
type Stores struct {
	o        Options
	access   *auth.Access
	shutdown *request.Shutdown

	mu     sync.Mutex
	stores map[string]*opened

	audits auditQueue  // lines that are not in the audit log yet
	boots  boots       // what is recorded with each change
	reads  auth.Seldom // who read the audit log

	quotas  *request.Quotas
	keeping keeping // how much is kept
}

// New returns Stores, of which none is open yet.
func New(o Options) *Stores {
	if o.Chained == nil {
		o.Chained = func(string) {}
	}
	s := &Stores{o: o, access: o.Access, shutdown: o.Shutdown, stores: make(map[string]*opened)}
	s.quotas = request.NewQuotas(o.Limits.WithDefaults(), s.namedLimits)
	return s
}

// NameOf distinguishes principals, and what each of them may read.
func NameOf(p tidemark.Principal) string {
	return strings.Join(append([]string{p.Tenant, p.User}, p.Workspaces...), "/")
}

// Of returns the store of a principal.
func (s *Stores) Of(ctx context.Context, p tidemark.Principal) (*store.Store, error) {
	name := NameOf(p)
	s.mu.Lock()
	o := s.stores[name]
	if o == nil {
		o = new(opened)
		s.stores[name] = o
	}
	s.mu.Unlock()
	// A store that takes long to open makes nobody else wait.
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.store != nil {
		// Its owner may have sealed it since, from elsewhere.
		err := o.store.Standing(ctx)
		if !errors.Is(err, tidemark.ErrSealed) {
			return o.store, err
		}
		o.store = nil
	}
	st, err := s.o.Open(ctx, p)
	if err == nil {
		o.given.Store(st)
		st = st.With(s.Also(p, false))
		o.store = st
	}
	return st, err
}

// Figures is how the open stores are doing.
type Figures struct {
	Open     int
	Unread   int           // of those, with something that is not in the search index yet
	IndexLag time.Duration // how long the oldest of it has waited
	Writers  int           // that are kept for clients
	Audits   int           // lines that are not in the audit log yet
	Failed   int64         // how often those could not be written, and were put off
}

// Figures returns them. It asks nobody: a database that is away does not matter.
func (s *Stores) Figures() (f Figures) {
	s.mu.Lock()
	for _, o := range s.stores {
		st := o.given.Load()
		if st == nil {
			continue
		}
		f.Open++
		f.Writers += st.KeptWriters()
		if lag := st.IndexLag(); lag > 0 {
			f.Unread++
			f.IndexLag = max(f.IndexLag, lag)
		}
	}
	s.mu.Unlock()
	s.audits.mu.Lock()
	defer s.audits.mu.Unlock()
	for _, w := range s.audits.waiting {
		f.Audits += w.n
	}
	f.Failed = s.audits.failed.Load()
	return f
}

// opened is the store of a principal, once it is open.
type opened struct {
	mu    sync.Mutex
	store *store.Store
	given atomic.Pointer[store.Store] // the same, as it was opened
}

// Mine returns the caller's store.
func (s *Stores) Mine(ctx context.Context) (*store.Store, error) {
	return s.Of(ctx, request.CallerOf(ctx).Principal)
}

// Tenant returns the store of the caller's tenant, whose own the fleet is.
func (s *Stores) Tenant(ctx context.Context) (*store.Store, error) {
	p := request.CallerOf(ctx).Principal
	return s.Of(ctx, tidemark.Principal{Tenant: p.Tenant, User: p.Tenant})
}

// Fleet returns the fleet of the caller's tenant.
func (s *Stores) Fleet(ctx context.Context) (*fleet.Store, error) {
	st, err := s.Tenant(ctx)
	if err != nil {
		return nil, err
	}
	return fleet.Over(st), nil
}
