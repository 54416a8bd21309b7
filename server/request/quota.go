package request

import (
	"math"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"

	"golang.org/x/time/rate"
)

// Quotas keep one tenant, and one user of a tenant, from using up what
// is shared.
type Quotas struct {
	l       Limits
	process *budget
	limited Limited
	mu      sync.Mutex
	quotas  map[string]*quota
}

// NewQuotas returns the quotas of callers within limits.
func NewQuotas(l Limits) *Quotas {
	return &Quotas{l: l, process: &budget{free: l.Memory}, quotas: make(map[string]*quota)}
}

// quota is what one tenant or one user has.
type quota struct {
	rate              *rate.Limiter
	requests, streams chan struct{}
	memory            *budget
}

// Limited counts the requests that were refused, by the limit.
type Limited struct{ Rate, AtOnce, Streams atomic.Int64 }

func (t *Quotas) quota(name string, made func() *quota) *quota {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.quotas[name]
	if l == nil {
		l = made()
		t.quotas[name] = l
	}
	return l
}

// of returns the quotas of a caller: the user's, and the tenant's. Tokens of
// the tenant itself are independent programs: each counts as a user.
func (t *Quotas) of(c Caller) []*quota {
	user := c.Tenant + "/" + c.User
	if c.User == c.Tenant {
		user += "/" + c.Token
	}
	return []*quota{
		t.quota(user, func() *quota {
			u := t.l.User
			return newQuota(u.Rate, u.Burst, u.Concurrent, u.Streams, t.l.Memory/2)
		}),
		t.quota(c.Tenant, func() *quota {
			return newQuota(t.l.Rate, t.l.Burst, t.l.Concurrent, t.l.Streams, t.l.Memory/4*3)
		}),
	}
}

func newQuota(each float64, burst, concurrent, streams int, memory int64) *quota {
	return &quota{rate: rate.NewLimiter(rate.Limit(each), burst), requests: make(chan struct{}, concurrent), streams: make(chan struct{}, streams), memory: &budget{free: memory}}
}

// Enter takes a slot for a request. The user's quota is checked first: a
// refusal there takes nothing from the tenant.
func (t *Quotas) Enter(c Caller, stream bool) (leave func(), err error) {
	var taken []chan struct{}
	leave = func() {
		for _, slots := range taken {
			<-slots
		}
	}
	for _, l := range t.of(c) {
		slots := l.requests
		if stream {
			slots = l.streams
		}
		if !l.rate.Allow() {
			leave()
			t.limited.Rate.Add(1)
			return nil, TooMany("too many requests", 1)
		}
		select {
		case slots <- struct{}{}:
			taken = append(taken, slots)
		default:
			leave()
			if stream {
				t.limited.Streams.Add(1)
			} else {
				t.limited.AtOnce.Add(1)
			}
			return nil, TooMany("too many requests at the same time", 1)
		}
	}
	return leave, nil
}

// Limited returns the counters of what Enter refused.
func (t *Quotas) Limited() *Limited { return &t.limited }

// Tell writes into headers how many requests a caller may still make at once, and
// how many there are at most: of the user or the tenant, whichever has fewer left.
func (t *Quotas) Tell(h http.Header, c Caller) {
	left, most := math.MaxInt, 0
	for _, l := range t.of(c) {
		if n := max(0, int(l.rate.Tokens())); n < left {
			left, most = n, l.rate.Burst()
		}
	}
	h.Set("RateLimit-Limit", strconv.Itoa(most))
	h.Set("RateLimit-Remaining", strconv.Itoa(left))
}

// Holding returns the memory account of a caller's request.
func (t *Quotas) Holding(c Caller) *Holding {
	h := &Holding{most: t.l.Memory / 2}
	for _, l := range t.of(c) {
		h.of = append(h.of, l.memory)
	}
	h.of = append(h.of, t.process)
	return h
}
