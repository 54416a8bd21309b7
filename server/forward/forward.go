// Package forward sends the audit logs of a server to where others watch over them: to
// a syslog, or to a webhook. It works behind the server: a place that is down keeps
// nobody from anything, and gets what it missed when it is back. It never changes a log.
//
//	f := forward.New(forward.Options{Users: users, Tenants: tenants}, sink)
//	defer f.Run(ctx)()
package forward

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark/internal/tenant"
)

// Sink is a place that gets lines of audit logs. Send returns nil when the place has
// them, as far as can be known.
type Sink interface {
	// Name tells places apart, and contains no secret.
	Name() string
	Send(ctx context.Context, tenant string, lines []tenant.AuditLine) error
}

// Options configure a Forwarder. All are required.
type Options struct {
	// Users is the operator's store, and Tenants lists the ids of all tenants.
	Users   func(context.Context) (*tenant.Directory, error)
	Tenants func(context.Context) ([]string, error)
	// By names this server among those that share the store.
	By string
	// Complain gets what went wrong, once for each time that a place goes away.
	Complain func(error)
}

const (
	// sweepEvery is how often all logs are looked at, for what other servers wrote.
	sweepEvery = time.Minute
	// soon is how long lines wait for others.
	soon = time.Second
	// The pauses after which a place is tried again that was away.
	firstPause = time.Second
	longPause  = 5 * time.Minute
	// sendTimeout bounds one try.
	sendTimeout = 30 * time.Second
)

// Forwarder sends audit logs to places.
type Forwarder struct {
	o     Options
	sinks []*sending
}

// sending is what is sent to one place.
type sending struct {
	Sink
	wake  chan struct{}
	mu    sync.Mutex
	grown map[string]bool // tenants whose log grew here
}

// New returns a Forwarder to places.
func New(o Options, to ...Sink) *Forwarder {
	f := &Forwarder{o: o}
	for _, s := range to {
		f.sinks = append(f.sinks, &sending{Sink: s, wake: make(chan struct{}, 1), grown: make(map[string]bool)})
	}
	return f
}

// Grew says that the log of a tenant grew. It never waits.
func (f *Forwarder) Grew(tenant string) {
	for _, s := range f.sinks {
		s.mu.Lock()
		s.grown[tenant] = true
		s.mu.Unlock()
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// Run sends until the function that it returns is called.
func (f *Forwarder) Run(ctx context.Context) (end func()) {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	var all sync.WaitGroup
	for _, s := range f.sinks {
		all.Go(func() { f.run(ctx, s) })
	}
	return func() {
		stop()
		all.Wait()
	}
}

func (f *Forwarder) run(ctx context.Context, s *sending) {
	pause, away := firstPause, false
	var swept time.Time
	for ctx.Err() == nil {
		sweep := time.Since(swept) >= sweepEvery
		err := f.Once(ctx, s.Sink, sweep, s.taken()...)
		wait := sweepEvery
		switch {
		case err == nil:
			if pause, away = firstPause, false; sweep {
				swept = time.Now()
			}
		case ctx.Err() == nil:
			if !away {
				f.o.Complain(err)
			}
			away, swept = true, time.Time{} // what was missed is found by looking at all
			wait, pause = pause, min(2*pause, longPause)
		}
		wake := s.wake
		if away {
			wake = nil // the pause is for the place
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		case <-wake:
			select {
			case <-ctx.Done():
			case <-time.After(soon):
			}
		}
	}
}

// taken returns the tenants whose logs grew since it was asked last.
func (s *sending) taken() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Sorted(maps.Keys(s.grown))
	clear(s.grown)
	return all
}

// Once sends what a place does not have yet: of the tenants that are named or, with
// sweep, of all.
func (f *Forwarder) Once(ctx context.Context, to Sink, sweep bool, tenants ...string) error {
	users, err := f.o.Users(ctx)
	if err != nil {
		return err
	}
	if sweep {
		if tenants, err = f.o.Tenants(ctx); err != nil {
			return err
		}
	}
	for _, of := range tenants {
		for {
			n, err := users.ForwardAudit(ctx, to.Name(), of, f.o.By, func(lines []tenant.AuditLine) error {
				within, stop := context.WithTimeout(ctx, sendTimeout)
				defer stop()
				return to.Send(within, of, lines)
			})
			if err != nil {
				return err
			}
			if n == 0 {
				break
			}
		}
	}
	return nil
}
