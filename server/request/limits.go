package request

import "time"

// Limits bound what callers may do. Zero fields are the defaults.
type Limits struct {
	Body       int64   // bytes of a request body; imports and backend calls may have Import
	Import     int64   // bytes of an import
	Page       int     // elements of a page
	Rate       float64 // requests a second of one tenant
	Burst      int     // how many may come at once
	Concurrent int     // requests of one tenant at the same time, streams not counted
	Streams    int     // streams of one tenant at the same time
	// User bounds one user of a tenant, or one token of the tenant itself, so
	// that nobody uses up what is shared. Its defaults are half of what the
	// tenant has.
	User struct {
		Rate                       float64
		Burst, Concurrent, Streams int
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
	if l.Memory == 0 {
		l.Memory = 512 << 20
	}
	return l
}
