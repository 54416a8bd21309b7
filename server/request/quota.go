package request

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/tidemark-sessions/tidemark/internal/tenant"
)

// Quotas keep one tenant, and one user of a tenant, from using up what
// is shared.
type Quotas struct {
	l       Limits
	named   func(context.Context) tenant.NamedLimits
	process *budget
	limited Limited
	mu      sync.Mutex
	quotas  map[string]*quota
}

// NewQuotas returns the quotas of callers within limits. named returns what is said
// for some of them by name, and is asked at each request; nil: nothing is.
func NewQuotas(l Limits, named func(context.Context) tenant.NamedLimits) *Quotas {
	if named == nil {
		named = func(context.Context) tenant.NamedLimits { return nil }
	}
	return &Quotas{l: l, named: named, process: &budget{free: l.Memory}, quotas: make(map[string]*quota)}
}

// Allowed returns what a user and the tenant may have.
func (t *Quotas) Allowed(ctx context.Context, of, user string) (forUser, forTenant tenant.UsageLimits) {
	named := t.named(ctx)
	return t.l.allowed(named.Of(of, user), named.Of(of, ""))
}

// quota is what one tenant or one user has taken.
type quota struct {
	whose  string // for people
	memory *budget

	mu                sync.Mutex
	rate              *rate.Limiter
	requests, streams int // under way
	bytes             bucket
}

// bounds are what one tenant or one user may take.
type bounds struct {
	rate                       float64
	burst, concurrent, streams int
	bytes                      int64
}

// boundsOf are the bounds of limits at a server that lets concurrent requests in at the
// same time. Where the rate is not the one of the settings, twice as many requests as
// in a second may come at once, as by default.
func boundsOf(l tenant.UsageLimits, rate float64, burst, concurrent int) bounds {
	b := bounds{rate: rate, burst: burst, concurrent: concurrent, streams: unbounded(l.Streams), bytes: l.Bytes}
	if l.Requests != int64(math.Ceil(rate)) {
		b.rate, b.burst = float64(l.Requests), unbounded(min(l.Requests, math.MaxInt32)*2)
	}
	if l.Requests < 0 {
		b.rate = math.Inf(1)
	}
	return b
}

func unbounded(n int64) int {
	if n < 0 || n > math.MaxInt32 {
		return math.MaxInt32
	}
	return int(n)
}

// bucket is how many bytes may still go through: a minute's worth after a pause, and
// less than none when an answer was longer than that, which is then waited for.
type bucket struct {
	left float64
	at   time.Time // when left was so much
}

// fill adds what time brought, at a rate of n bytes a minute.
func (b *bucket) fill(n int64, now time.Time) {
	switch {
	case b.at.IsZero():
		b.left = float64(n)
	default:
		b.left = min(b.left+now.Sub(b.at).Minutes()*float64(n), float64(n))
	}
	b.at = now
}

// wait returns after how many seconds there is something left.
func (b *bucket) wait(n int64) int {
	if b.left > 0 {
		return 0
	}
	return 1 + int(math.Ceil(-b.left/float64(n)*60))
}

// Limited counts the requests that were refused, by the limit.
type Limited struct{ Rate, AtOnce, Streams, Bytes, Sessions, Storage atomic.Int64 }

// held is the quota of somebody, with its bounds now.
type held struct {
	*quota
	bounds
}

// of returns the quotas of a caller: the user's, and the tenant's. Tokens of
// the tenant itself are independent programs: each counts as a user.
func (t *Quotas) of(ctx context.Context, c Caller) [2]held {
	user := c.Tenant + "/" + c.User
	if c.User == c.Tenant {
		user += "/" + c.Token
	}
	forUser, forTenant := t.Allowed(ctx, c.Tenant, c.User)
	u := t.l.User
	return [2]held{
		{t.quota(user, "this user", t.l.Memory/2), boundsOf(forUser, u.Rate, u.Burst, u.Concurrent)},
		{t.quota(c.Tenant, "the tenant", t.l.Memory/4*3), boundsOf(forTenant, t.l.Rate, t.l.Burst, t.l.Concurrent)},
	}
}

func (t *Quotas) quota(name, whose string, memory int64) *quota {
	t.mu.Lock()
	defer t.mu.Unlock()
	q := t.quotas[name]
	if q == nil {
		q = &quota{whose: whose, rate: rate.NewLimiter(0, 0), memory: &budget{free: memory}}
		t.quotas[name] = q
	}
	return q
}

// follow has the limiter go by the bounds, which may have changed.
func (h held) follow() {
	h.quota.mu.Lock()
	defer h.quota.mu.Unlock()
	if l := h.quota.rate; l.Burst() != h.burst || l.Limit() != rate.Limit(h.bounds.rate) {
		if l.Burst() == 0 { // it is new, and full
			h.quota.rate = rate.NewLimiter(rate.Limit(h.bounds.rate), h.burst)
			return
		}
		l.SetLimit(rate.Limit(h.bounds.rate))
		l.SetBurst(h.burst)
	}
}

// enter takes a slot of one quota.
func (t *Quotas) enter(h held, stream bool) (leave func(), err error) {
	h.follow()
	q := h.quota
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.rate.Allow() {
		t.limited.Rate.Add(1)
		return nil, TooMany(fmt.Sprintf("too many requests: %s may make %.0f a second", q.whose, h.bounds.rate), 1)
	}
	if h.bounds.bytes > 0 {
		q.bytes.fill(h.bounds.bytes, time.Now())
		if after := q.bytes.wait(h.bounds.bytes); after > 0 {
			t.limited.Bytes.Add(1)
			return nil, TooMany(fmt.Sprintf("too many bytes: %s may send and be answered %s a minute", q.whose, bytesText(h.bounds.bytes)), after)
		}
	}
	slots, most, what, refused := &q.requests, h.concurrent, "requests", &t.limited.AtOnce
	if stream {
		slots, most, what, refused = &q.streams, h.bounds.streams, "streams", &t.limited.Streams
	}
	if *slots >= most {
		refused.Add(1)
		return nil, TooMany(fmt.Sprintf("too many requests at the same time: %s may have %d %s open", q.whose, most, what), 1)
	}
	*slots++
	return func() {
		q.mu.Lock()
		*slots--
		q.mu.Unlock()
	}, nil
}

// Enter takes a slot for a request. The user's quota is checked first: a
// refusal there takes nothing from the tenant.
func (t *Quotas) Enter(ctx context.Context, c Caller, stream bool) (leave func(), err error) {
	of := t.of(ctx, c)
	user, err := t.enter(of[0], stream)
	if err != nil {
		return nil, err
	}
	all, err := t.enter(of[1], stream)
	if err != nil {
		user()
		return nil, err
	}
	return func() { all(); user() }, nil
}

// Count returns what counts the bytes that a request of a caller brings and is
// answered with, as they go by; nil when nobody bounds them. They are let through: the
// next request waits.
func (t *Quotas) Count(ctx context.Context, c Caller) func(n int) {
	of := t.of(ctx, c)
	if of[0].bounds.bytes <= 0 && of[1].bounds.bytes <= 0 {
		return nil
	}
	return func(n int) {
		for _, h := range of {
			h.quota.mu.Lock()
			h.quota.bytes.left -= float64(n)
			h.quota.mu.Unlock()
		}
	}
}

// Limited returns the counters of what Enter refused.
func (t *Quotas) Limited() *Limited { return &t.limited }

// LimitsHeader says how much of each limit is used that somebody set beside the
// requests: NAME;used=N;most=N, with commas.
const LimitsHeader = "Tidemark-Limits"

// Tell writes into headers how many requests a caller may still make at once, and
// how many there are at most: of the user or the tenant, whichever has fewer left. kept
// is what the user and the tenant keep, where that is limited.
func (t *Quotas) Tell(ctx context.Context, h http.Header, c Caller, kept []Use) {
	left, most := math.MaxInt, 0
	uses := kept
	for i, q := range t.of(ctx, c) {
		q.quota.mu.Lock()
		if n := max(0, int(min(q.quota.rate.Tokens(), math.MaxInt32))); n < left {
			left, most = n, q.burst
		}
		if n := q.bounds.bytes; n > 0 {
			q.quota.bytes.fill(n, time.Now())
			uses = append(uses, Use{Name: []string{"bytes", "tenant-bytes"}[i], Used: n - int64(q.quota.bytes.left), Most: n})
		}
		q.quota.mu.Unlock()
	}
	h.Set("RateLimit-Limit", strconv.Itoa(most))
	h.Set("RateLimit-Remaining", strconv.Itoa(left))
	if len(uses) > 0 {
		said := make([]string, len(uses))
		for i, u := range uses {
			said[i] = fmt.Sprintf("%s;used=%d;most=%d", u.Name, u.Used, u.Most)
		}
		h.Set(LimitsHeader, strings.Join(said, ", "))
	}
}

// Use is how much of a limit is used. Names of the tenant's begin with tenant-.
type Use struct {
	Name string `json:"name" doc:"streams, bytes, sessions, storage; with tenant- before it for that of the whole tenant"`
	Used int64  `json:"used"`
	Most int64  `json:"most"`
}

// Uses returns how much of their limits of streams and bytes a caller and the tenant
// use at this server.
func (t *Quotas) Uses(ctx context.Context, c Caller) (all []Use) {
	for i, q := range t.of(ctx, c) {
		before := []string{"", "tenant-"}[i]
		q.quota.mu.Lock()
		if q.bounds.streams < math.MaxInt32 {
			all = append(all, Use{before + "streams", int64(q.quota.streams), int64(q.bounds.streams)})
		}
		if n := q.bounds.bytes; n > 0 {
			q.quota.bytes.fill(n, time.Now())
			all = append(all, Use{before + "bytes", n - int64(q.quota.bytes.left), n})
		}
		q.quota.mu.Unlock()
	}
	return all
}

// Holding returns the memory account of a caller's request.
func (t *Quotas) Holding(ctx context.Context, c Caller) *Holding {
	h := &Holding{most: t.l.Memory / 2}
	for _, q := range t.of(ctx, c) {
		h.of = append(h.of, q.memory)
	}
	h.of = append(h.of, t.process)
	return h
}
