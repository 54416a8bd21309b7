package request

import (
	"math"
	"time"

	"github.com/tidemark-sessions/tidemark/internal/tenant"
)

// Limits bound what callers may do. Zero fields are the defaults.
type Limits struct {
	Body       int64   // bytes of a request body; imports and backend calls may have Import
	Import     int64   // bytes of an import
	Page       int     // elements of a page
	Rate       float64 // requests a second of one tenant
	Burst      int     // how many may come at once
	Concurrent int     // requests of one tenant at the same time, streams not counted
	Streams    int     // streams of one tenant at the same time
	Bytes      int64   // bytes a minute that one tenant sends and is answered; 0: no limit, as for the next two
	Sessions   int64   // sessions that one tenant keeps
	Storage    int64   // bytes that one tenant keeps
	// User bounds one user of a tenant, or one token of the tenant itself, so
	// that nobody uses up what is shared. Its defaults are half of what the
	// tenant has, and no limit for what it keeps.
	User struct {
		Rate                       float64
		Burst, Concurrent, Streams int
		Bytes, Sessions, Storage   int64
		Blobs                      int64 // bytes that remotes of the user keep here; 0: as many as there is room for
	}
	// Memory is how many bytes the requests of the process may need when
	// decoded; a tenant has three quarters of it, a user half.
	Memory      int64
	BodyTimeout time.Duration // how long a request may take to arrive
	Recheck     time.Duration // how often the caller of an open connection is checked again
}

// WithDefaults returns l with defaults in place of zeros.
func (l Limits) WithDefaults() Limits {
	set := func(v *int, def int) {
		if *v == 0 {
			*v = def
		}
	}
	if l.Body == 0 {
		l.Body = 8 << 20
	}
	if l.Import == 0 {
		l.Import = 1 << 30
	}
	if l.Rate == 0 {
		l.Rate = 10_000
	}
	if l.BodyTimeout == 0 {
		l.BodyTimeout = 30 * time.Second
	}
	if l.Recheck == 0 {
		l.Recheck = 2 * time.Second // and as long again until a cached answer expires: within 5 s
	}
	set(&l.Page, 1000)
	set(&l.Burst, 20_000)
	set(&l.Concurrent, 512)
	set(&l.Streams, 4096)
	if l.User.Rate == 0 {
		l.User.Rate = l.Rate / 2
	}
	set(&l.User.Burst, (l.Burst+1)/2)
	set(&l.User.Concurrent, (l.Concurrent+1)/2)
	set(&l.User.Streams, (l.Streams+1)/2)
	if l.User.Bytes == 0 {
		l.User.Bytes = (l.Bytes + 1) / 2
	}
	if l.Memory == 0 {
		l.Memory = 512 << 20
	}
	return l
}

// allowed returns what a user and the tenant may have, where named is said for them
// by name. A user of whom nothing is said has at most half of what is said for the
// tenant, so that nobody locks out the others; what is kept is not halved.
func (l Limits) allowed(user, of tenant.UsageLimits) (tenant.UsageLimits, tenant.UsageLimits) {
	half := tenant.UsageLimits{Requests: half(of.Requests), Streams: half(of.Streams), Bytes: half(of.Bytes)}
	all := of.Or(tenant.UsageLimits{Requests: int64(math.Ceil(l.Rate)), Streams: int64(l.Streams), Bytes: l.Bytes, Sessions: l.Sessions, Storage: l.Storage})
	u := tenant.UsageLimits{Requests: int64(math.Ceil(l.User.Rate)), Streams: int64(l.User.Streams), Bytes: l.User.Bytes, Sessions: l.User.Sessions, Storage: l.User.Storage}
	return user.Or(half).Or(u), all
}

func half(n int64) int64 {
	if n <= 0 {
		return 0
	}
	return (n + 1) / 2
}
