package stores

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/server/request"
)

// What somebody keeps is counted when a limit asks for it, and then what comes is
// added. It is counted again now and then, because other servers add to it, too, and
// because what is removed does not say how large it was.
const (
	// limitsFresh is how long limits are believed that are said by name: a change counts
	// at all servers within that time.
	limitsFresh = 3 * time.Second
	// countFresh is how long a count is believed, and countShare what part of the time
	// counting may take: the more there is, the more seldom it is counted.
	countFresh = time.Minute
	countShare = 50
	// sumFresh is how long the sum of a tenant is believed.
	sumFresh = 10 * time.Second
)

// keeping is what this server knows about limits, and about how much is kept.
type keeping struct {
	named    atomic.Pointer[tenant.NamedLimits]
	namedAt  atomic.Int64 // when it was read, in nanoseconds
	renewing sync.Mutex

	mu      sync.Mutex
	tenants map[string]*keepers
}

// keepers are the users of a tenant who keep something.
type keepers struct {
	mu    sync.Mutex
	users map[string]*count      // whom this server counted
	noted map[string]tenant.Kept // what servers noted of each
	at    time.Time              // when that was read
}

// count is how much one user keeps.
type count struct {
	mu      sync.Mutex
	kept    tenant.Kept
	took    time.Duration
	removed bool // something is gone that was counted
}

// Quotas are those of all callers.
func (s *Stores) Quotas() *request.Quotas { return s.quotas }

// LimitsChanged has a change count here at once.
func (s *Stores) LimitsChanged() { s.keeping.namedAt.Store(0) }

// namedLimits returns the limits that are said by name. While the store cannot say
// them, those that were known last count.
func (s *Stores) namedLimits(ctx context.Context) tenant.NamedLimits {
	k := &s.keeping
	known := k.named.Load()
	if fresh := s.o.Now().UnixNano()-k.namedAt.Load() < int64(limitsFresh); known != nil && (fresh || !k.renewing.TryLock()) {
		return *known
	}
	if known == nil {
		k.renewing.Lock()
	}
	defer k.renewing.Unlock()
	now := s.o.Now().UnixNano()
	users, err := s.Operators(ctx)
	var all tenant.NamedLimits
	if err == nil {
		all, err = users.NamedLimits(ctx)
	}
	if err != nil {
		request.Note(ctx, "limits", err.Error())
		if known != nil {
			all = *known
		}
	}
	k.named.Store(&all)
	k.namedAt.Store(now) // whoever asks next is not kept waiting, too
	return all
}

func (s *Stores) keepersOf(of string) *keepers {
	s.keeping.mu.Lock()
	defer s.keeping.mu.Unlock()
	if s.keeping.tenants == nil {
		s.keeping.tenants = make(map[string]*keepers)
	}
	t := s.keeping.tenants[of]
	if t == nil {
		t = &keepers{users: make(map[string]*count)}
		s.keeping.tenants[of] = t
	}
	return t
}

func (s *Stores) countOf(p tidemark.Principal) *count {
	t := s.keepersOf(p.Tenant)
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.users[p.User]
	if c == nil {
		c = new(count)
		t.users[p.User] = c
	}
	return c
}

// stale reports whether it is worth to count again.
func (c *count) stale(now time.Time) bool {
	age := now.Sub(c.kept.CountedAt)
	return c.kept.CountedAt.IsZero() || age > max(countFresh, countShare*c.took) || c.removed && age > countShare*c.took
}

// renew counts what a principal keeps. The caller has c.mu.
func (s *Stores) renew(ctx context.Context, p tidemark.Principal, c *count) error {
	b, err := s.rawOf(ctx, p)
	if err != nil {
		return err
	}
	began := s.o.Now()
	c.removed = false
	sessions, bytes, err := records.Kept(ctx, b)
	if err != nil {
		c.removed = true
		return err
	}
	c.kept, c.took = tenant.Kept{Sessions: sessions, Bytes: bytes, CountedAt: began}, s.o.Now().Sub(began)
	users, err := s.Operators(ctx)
	if err == nil {
		err = users.NoteKept(ctx, p.Tenant, p.User, c.kept)
	}
	return err
}

// rawOf returns what a principal keeps, below the rules.
func (s *Stores) rawOf(ctx context.Context, p tidemark.Principal) (tidemark.Backend, error) {
	if s.o.Backend != nil {
		return s.o.Backend(ctx, p)
	}
	st, err := s.Of(ctx, p)
	if err != nil {
		return nil, err
	}
	return st.Records().Backend(), nil
}

// KeptBy returns what the users of a tenant keep, as far as it was counted: of users
// whom this server counted what it knows, of others what servers noted.
func (s *Stores) KeptBy(ctx context.Context, of string) (map[string]tenant.Kept, error) {
	t := s.keepersOf(of)
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := s.o.Now(); t.noted == nil || now.Sub(t.at) > sumFresh {
		users, err := s.Operators(ctx)
		if err != nil {
			return nil, err
		}
		noted, err := users.KeptIn(ctx, of)
		if err != nil {
			return nil, err
		}
		t.noted, t.at = noted, now
	}
	all := maps.Clone(t.noted)
	for user, c := range t.users {
		if c.mu.TryLock() { // of whom somebody counts just now, what was noted is good enough
			if !c.kept.CountedAt.IsZero() && !c.kept.CountedAt.Before(all[user].CountedAt) {
				all[user] = c.kept
			}
			c.mu.Unlock()
		}
	}
	return all, nil
}

// keptIn returns what a tenant keeps, as far as it was counted.
func (s *Stores) keptIn(ctx context.Context, of string) (tenant.Kept, error) {
	by, err := s.KeptBy(ctx, of)
	return tenant.SumKept(by), err
}

// growth is what a batch adds to what somebody keeps; removes means that it also
// takes something away, and is let through.
func growth(b *tidemark.Batch) (g tenant.Kept, removes bool) {
	for i := range b.Puts {
		r := &b.Puts[i]
		if r.Derived() {
			continue
		}
		if g.Bytes += int64(len(r.Body)); r.Kind == "session" && (r.Version == 1 || b.Adopt) {
			g.Sessions++
		}
	}
	lines := false
	for i := range b.Appends {
		if a := &b.Appends[i]; !a.Log.Derived() && a.Log.Kind != tidemark.ActKind && a.Log.Kind != tidemark.SealedActKind {
			for j := range a.Lines {
				lines = true
				g.Bytes += int64(len(a.Lines[j].Body))
			}
		}
	}
	removes = b.Frees
	for _, k := range b.Drops {
		removes = removes || !k.Derived()
	}
	for _, k := range b.Deletes {
		removes = removes || !k.Derived()
	}
	// Whoever has used up everything can still rename, tag, and throw away: records that
	// replace others are counted, and not refused.
	grows := lines || g.Sessions > 0
	for i := range b.Puts {
		grows = grows || records.IsBlob(b.Puts[i].Kind)
	}
	if !grows && !removes {
		g = tenant.Kept{}
	}
	return g, removes
}

// admit refuses a batch of a principal that adds more than they, or the tenant, may
// keep. ended is called with the outcome of the commit.
func (s *Stores) admit(ctx context.Context, p tidemark.Principal, b *tidemark.Batch) (ended func(error), err error) {
	nothing := func(error) {}
	forUser, forTenant := s.quotas.Allowed(ctx, p.Tenant, p.User)
	if forUser.Sessions <= 0 && forUser.Storage <= 0 && forTenant.Sessions <= 0 && forTenant.Storage <= 0 || tenant.Housekeeping(*b) {
		return nothing, nil
	}
	g, removes := growth(b)
	c := s.countOf(p)
	if removes {
		return func(error) {
			c.mu.Lock()
			c.removed = true
			c.mu.Unlock()
		}, nil
	}
	if g.Bytes == 0 && g.Sessions == 0 {
		return nothing, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stale(s.o.Now()) {
		if err := s.renew(ctx, p, c); err != nil {
			return nil, err
		}
	}
	if err := s.fits("this user keeps", forUser, c.kept, g); err != nil {
		return nil, err
	}
	if forTenant.Sessions > 0 || forTenant.Storage > 0 {
		c.mu.Unlock()
		all, err := s.keptIn(ctx, p.Tenant)
		c.mu.Lock()
		if err == nil {
			err = s.fits("the tenant keeps", forTenant, all, g)
		}
		if err != nil {
			return nil, err
		}
	}
	c.kept.Sessions += g.Sessions
	c.kept.Bytes += g.Bytes
	return func(err error) {
		if err != nil {
			c.mu.Lock()
			c.kept.Sessions -= g.Sessions
			c.kept.Bytes -= g.Bytes
			c.mu.Unlock()
		}
	}, nil
}

// fits returns the problem of whoever would keep more than their limits.
func (s *Stores) fits(whose string, l tenant.UsageLimits, have, more tenant.Kept) error {
	limited := s.quotas.Limited()
	full := func(what string, counter *atomic.Int64) error {
		counter.Add(1)
		return &api.Problem{Status: http.StatusInsufficientStorage, Title: http.StatusText(http.StatusInsufficientStorage), Code: tidemark.CodeOf(tidemark.ErrStorage).Name, Detail: what,
			Hint: "purge what nobody needs (it counts within a minute), or ask the operator of the server for more"}
	}
	switch {
	case l.Sessions > 0 && more.Sessions > 0 && have.Sessions+more.Sessions > l.Sessions:
		return full(fmt.Sprintf("there is no room for another session: %s %d, and may keep %d", whose, have.Sessions, l.Sessions), &limited.Sessions)
	case l.Storage > 0 && have.Bytes+more.Bytes > l.Storage:
		return full(fmt.Sprintf("there is no room: %s %d bytes, and may keep %d", whose, have.Bytes, l.Storage), &limited.Storage)
	}
	return nil
}

// Kept returns how much of their limits of what is kept a principal and the tenant
// use; nothing for what is not limited. Without wait it says what is known.
func (s *Stores) Kept(ctx context.Context, p tidemark.Principal, wait bool) ([]request.Use, error) {
	forUser, forTenant := s.quotas.Allowed(ctx, p.Tenant, p.User)
	var uses []request.Use
	add := func(before string, l tenant.UsageLimits, have tenant.Kept) {
		if l.Sessions > 0 {
			uses = append(uses, request.Use{Name: before + "sessions", Used: have.Sessions, Most: l.Sessions})
		}
		if l.Storage > 0 {
			uses = append(uses, request.Use{Name: before + "storage", Used: have.Bytes, Most: l.Storage})
		}
	}
	if forUser.Sessions > 0 || forUser.Storage > 0 {
		c := s.countOf(p)
		if !wait && !c.mu.TryLock() {
			return uses, nil
		} else if wait {
			c.mu.Lock()
		}
		if wait && c.stale(s.o.Now()) {
			if err := s.renew(ctx, p, c); err != nil {
				c.mu.Unlock()
				return nil, err
			}
		}
		have := c.kept
		c.mu.Unlock()
		if !have.CountedAt.IsZero() {
			add("", forUser, have)
		}
	}
	if wait && (forTenant.Sessions > 0 || forTenant.Storage > 0) {
		all, err := s.keptIn(ctx, p.Tenant)
		if err != nil {
			return nil, err
		}
		add("tenant-", forTenant, all)
	}
	return uses, nil
}
