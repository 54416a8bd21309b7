package model

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"time"
)

// Attempt makes one request to a provider. It calls alive whenever a byte has
// arrived, and emit for each piece of the answer; an error of emit is returned
// unchanged. An error that a retry may cure is marked by Again.
type Attempt func(ctx context.Context, alive func(), emit func(Event) error) (*Answer, error)

// again marks an error that a retry may cure.
type again struct {
	err   error
	after time.Duration // what the server asked for, 0: nothing
}

func (a *again) Error() string { return a.err.Error() }
func (a *again) Unwrap() error { return a.err }

// Again marks err as one that a retry may cure, at the earliest after the time
// that the server asked for, 0 when it asked for none.
func Again(err error, after time.Duration) error { return &again{err, after} }

// errLeft is what emit returns when the caller takes no more events.
var errLeft = errors.New("nobody listens")

// errSilent is the cause for cancelling an attempt whose server sends nothing.
var errSilent = errors.New("the server fell silent")

// Stream retries until there is an answer, an error that no retry will cure, or
// no attempt left. Between two attempts it emits a Wait. When ctx is done it
// ends at once with ctx's error.
func (r Retry) Stream(ctx context.Context, ask Attempt) iter.Seq2[Event, error] {
	r = r.Or()
	return func(yield func(Event, error) bool) {
		emit := func(e Event) error {
			if !yield(e, nil) {
				return errLeft
			}
			return nil
		}
		for attempt := 1; ; attempt++ {
			answer, err := r.try(ctx, ask, emit)
			if err == nil {
				yield(Event{Done: answer}, nil)
				return
			}
			if errors.Is(err, errLeft) {
				return
			}
			if ctx.Err() != nil {
				yield(Event{}, ctx.Err())
				return
			}
			var curable *again
			if !errors.As(err, &curable) {
				yield(Event{}, err)
				return
			}
			if attempt >= r.Attempts {
				yield(Event{}, curable.err)
				return
			}
			wait := r.pause(attempt, curable.after)
			if emit(Event{Wait: &Wait{For: wait, Attempt: attempt, Why: curable.err}}) != nil {
				return
			}
			if err := Sleep(ctx, wait); err != nil {
				yield(Event{}, err)
				return
			}
		}
	}
}

// try makes one attempt, and cancels it when the server sends nothing for too
// long. Time that the caller spends on an event does not count.
func (r Retry) try(ctx context.Context, ask Attempt, emit func(Event) error) (*Answer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(r.Silence, func() { cancel(errSilent) })
	defer watch.Stop()
	alive := func() { watch.Reset(r.Silence) }
	answer, err := ask(ctx, alive, func(e Event) error {
		watch.Stop()
		defer alive()
		return emit(e)
	})
	if err != nil && !errors.Is(err, errLeft) && context.Cause(ctx) == errSilent {
		var told *Error
		if errors.As(err, &told) {
			return nil, Again(&Error{Provider: told.Provider, Message: "no word for " + r.Silence.String(), Cause: errSilent}, 0)
		}
		return nil, Again(errSilent, 0)
	}
	return answer, err
}

// pause returns how long to wait after a failed attempt: doubled each time,
// randomly shortened so that many clients do not come back at once, and never
// shorter than the server asks for unless that is more than Most.
func (r Retry) pause(attempt int, asked time.Duration) time.Duration {
	wait := r.First
	for i := 1; i < attempt && wait < r.Most; i++ {
		wait *= 2
	}
	wait = min(wait, r.Most)
	if half := wait / 2; half > 0 {
		wait = half + rand.N(half+1)
	}
	return min(max(wait, asked), r.Most)
}

// Sleep waits, and returns ctx's error as soon as ctx is done.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
