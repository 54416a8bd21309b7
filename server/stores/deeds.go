package stores

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/server/auth"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
)

// A change that a server makes and the line that says who made it are one
// commit, so that no kill comes between them (ADR 0022). What is no commit of a
// store, or changes who may do what, is recorded before it is done.

// deed is what a request does, in the terms of the audit log.
type deed struct {
	Action, thing string
	leases        bool        // taking or releasing a lease is its purpose
	carried       atomic.Bool // a commit contains its line
}

type deedKey struct{}

// DeedOf returns the deed of the request of ctx, nil if there is none.
func DeedOf(ctx context.Context) *deed {
	d, _ := ctx.Value(deedKey{}).(*deed)
	return d
}

// Doing returns a context for an action on a thing.
func Doing(ctx context.Context, action, thing string) context.Context {
	return context.WithValue(ctx, deedKey{}, &deed{Action: action, thing: thing, leases: strings.Contains(thing, "lease")})
}

// Carried reports whether a commit of the request already contains its line.
func Carried(ctx context.Context) bool {
	d := DeedOf(ctx)
	return d != nil && d.carried.Load()
}

// boots are those of this server, by the store that it writes to. A boot that
// was begun stays.
type boots struct {
	mu sync.Mutex
	of map[string]*tenant.Boot
}

// bootOf returns the boot for acts in the store of a principal.
func (s *Stores) bootOf(ctx context.Context, p tidemark.Principal, below bool) (*tenant.Boot, error) {
	users, err := s.Operators(ctx)
	if err != nil {
		return nil, err
	}
	name := p.Tenant
	if !s.o.Together {
		name += "." + p.User
	}
	if below {
		name += " below"
	}
	s.boots.mu.Lock()
	defer s.boots.mu.Unlock()
	if s.boots.of == nil {
		s.boots.of = make(map[string]*tenant.Boot)
	}
	b := s.boots.of[name]
	if b == nil {
		b = users.NewBoot(p.Tenant, s.o.Holder.Host, below)
		s.boots.of[name] = b
	}
	return b, nil
}

// Also adds to each commit in the store of a principal who made it, and refuses one
// that adds more than they may keep. Below the rules, where a client sends raw
// batches, it does so for each one; above them, except for housekeeping. What is
// adopted from elsewhere was not done here.
func (s *Stores) Also(p tidemark.Principal, below bool) records.Also {
	if p.Tenant == tidemark.Operator().Tenant {
		return nil
	}
	return func(ctx context.Context, b *tidemark.Batch) (func(error), error) {
		counted, err := s.admit(ctx, p, b)
		if err != nil {
			return nil, err
		}
		d := DeedOf(ctx)
		if s.o.NoAudit || b.Adopt && !below || !below && tenant.Housekeeping(*b) && (d == nil || !d.leases) {
			return counted, nil
		}
		told, err := s.recorded(ctx, p, b, d, below)
		if err != nil {
			counted(err)
			return nil, err
		}
		return func(err error) {
			counted(err)
			told(err)
		}, nil
	}
}

// recorded adds to a batch who commits it.
func (s *Stores) recorded(ctx context.Context, p tidemark.Principal, b *tidemark.Batch, d *deed, below bool) (func(error), error) {
	boot, err := s.bootOf(ctx, p, below)
	if err != nil {
		return nil, err
	}
	did := s.auditedBy(ctx, "server", "", tenant.AuditDone)
	if did.Who == "" {
		did.Who = p.User
	}
	if d != nil {
		did.Action, did.Thing = d.Action, d.thing
	}
	act, ended, err := boot.Add(ctx, b, did)
	if err != nil {
		return nil, err
	}
	return func(err error) {
		if err == nil {
			if d != nil {
				d.carried.Store(true)
			}
			s.chainLater(p.Tenant, boot, act)
		}
		ended(err)
	}, nil
}

// acts are what waits to be chained, by boot.
type acts map[*tenant.Boot][]tenant.Act

// chainLater queues recorded acts for chaining. What does not fit into the
// queue is chained by whoever looks for leftovers.
func (s *Stores) chainLater(tenant string, boot *tenant.Boot, act tenant.Act) {
	s.queueAudit(tenant, func(w *waitingAudits) bool {
		if w.n >= maxAuditQueue {
			return false
		}
		if w.acts == nil {
			w.acts = make(acts)
		}
		w.acts[boot] = append(w.acts[boot], act)
		return true
	})
}

// leftFor is how long recorded acts are left to their own server to chain:
// other servers look for older ones.
const leftFor = 10 * time.Second

// chainLeft chains what servers did in a tenant and did not live to chain.
func (s *Stores) chainLeft(ctx context.Context, users *tenant.Directory, tenant string) error {
	from, err := s.Acts(ctx, tenant)
	if err != nil {
		return err
	}
	_, err = users.ChainLeft(ctx, tenant, s.o.Now().Add(-leftFor), from...)
	return err
}

// Acts returns the places where it is recorded who did what in a tenant.
func (s *Stores) Acts(ctx context.Context, tenant string) ([]tidemark.Backend, error) {
	if s.o.Acts != nil {
		return s.o.Acts(ctx, tenant)
	}
	if _, err := s.Operators(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	known := make(map[*store.Store]bool) // one store may serve everybody
	var from []tidemark.Backend
	for name, o := range s.stores {
		st := o.given.Load()
		if st == nil || known[st] || !strings.HasPrefix(name, tenant+"/") && !strings.HasPrefix(name, tidemark.Operator().Tenant+"/") {
			continue
		}
		known[st] = true
		from = append(from, st.Records().Backend())
	}
	return from, nil
}

// Unchained returns the newest recorded lines of the audit log of a tenant
// that are not chained yet, newest first.
func (s *Stores) Unchained(ctx context.Context, users *tenant.Directory, of string, most int) ([]tenant.AuditLine, error) {
	lines := []tenant.AuditLine{}
	from, err := s.Acts(ctx, of)
	if err != nil {
		return nil, err
	}
	for l, err := range users.Unchained(ctx, of, from...) {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return nil, err
		}
		if err == nil {
			lines = append(lines, l)
		}
	}
	slices.SortStableFunc(lines, func(a, b tenant.AuditLine) int { return b.At.Compare(a.At) })
	return lines[:min(len(lines), most)], nil
}

// ErrNoAudit says why there is nothing to read.
func ErrNoAudit() error {
	return tidemark.Unsupportedf("a store of files has no audit log")
}

// isAhead reports whether a call is recorded before it is done: it changes who may
// do what, lets somebody else read, destroys, exports, or imports (an archive is
// adopted below the store, whose commits normally carry the lines). Reading the
// audit log itself is one of them.
func isAhead(r *http.Request, route string) bool {
	p, change := r.URL.Path, changes(r, route)
	switch {
	case strings.HasSuffix(route, "/{id}/export"), readsAudit(p):
		return true
	case slices.Contains([]string{"tokens", "tenants", "users", "workspaces", "links", "scim"}, auth.ScopeOf(p)), strings.HasPrefix(p, "/store/"):
		return change
	case strings.HasSuffix(p, "/share"), strings.HasSuffix(p, "/purge"), p == request.ImportPath:
		return change
	}
	return r.Method == http.MethodDelete && r.URL.Query().Has("purge")
}

func readsAudit(path string) bool {
	return auth.ScopeOf(path) == "audit" || path == "/store/audit" || strings.HasPrefix(path, "/store/audit.") || strings.HasPrefix(path, "/store/audit/")
}

// writeAhead records that something is about to be done. What cannot be
// recorded is not done.
func (s *Stores) writeAhead(ctx context.Context, d *deed, r *http.Request) error {
	c := request.CallerOf(ctx)
	if readsAudit(r.URL.Path) && r.Method == http.MethodGet && !s.reads.First(auth.Refusal{Tenant: c.Tenant, User: c.User, Token: c.Token, Why: d.Action}, s.o.Now()) {
		return nil // an open page asks all the time
	}
	ctx, stop := context.WithTimeout(ctx, auditTimeout)
	defer stop()
	return s.AuditIn(ctx, c.Tenant, d.Action, d.thing, tenant.AuditBegun)
}

// endBoots marks this server as finished. It comes after FlushAudit.
func (s *Stores) endBoots(ctx context.Context) error {
	s.boots.mu.Lock()
	defer s.boots.mu.Unlock()
	var errs []error
	for _, b := range s.boots.of {
		errs = append(errs, b.End(ctx))
	}
	return errors.Join(errs...)
}
