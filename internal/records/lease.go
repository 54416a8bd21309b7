package records

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// A lease consists of two records. The lease record names the holder and changes
// only when the holder does. So every append can require its version, and renewals
// never make an append conflict. The pulse record says when the holder was last
// heard from. A takeover replaces both records at the versions that it read, so
// that a holder who renews in the meantime keeps its lease. The version of the
// lease record is the fencing token: a writer that slept through a takeover still
// requires the old version.

// The kinds of the records of a lease. They have the id of what is held.
const (
	KindLease    = "lease" // who may write
	KindPulse    = "pulse" // when the holder was last heard from
	KindHandover = "ask"   // who wants the lease
)

// The states of a lease.
const (
	held = "held"
	Free = "free" // nobody holds it
)

// Lease says who may write to something.
type Lease struct {
	Holder tidemark.Holder
	// TokenHash is the hash of the token by which the holder is known; "": the
	// holder is a process.
	TokenHash string
	Since     time.Time

	Of      tidemark.Key // what is held: a session, a job
	HeardAt time.Time    // when the holder was last heard from
	Held    bool
	Dead    bool // the holder is proven dead
	Expired bool // the holder has been silent for too long

	Version int64 // of the lease record: the fencing token; 0: nobody ever held it
	pulse   int64 // the version of the pulse record
}

// keptLease is the body of the lease record.
type keptLease struct {
	Holder tidemark.Holder `json:"holder"`
	Since  time.Time       `json:"since"`
}

// tokenNamespace is a process namespace that no host has. A holder with a token is
// kept as a process in it, with the hash as its StartedAt: so an older program,
// which does not know of tokens, can never prove such a holder dead.
const tokenNamespace = "token"

// kept returns the body of the lease record.
func (l Lease) kept() keptLease {
	h := l.Holder
	if l.TokenHash != "" {
		h = tidemark.Holder{Program: h.Program, Host: h.Host, Namespace: tokenNamespace, StartedAt: l.TokenHash}
	}
	return keptLease{Holder: h, Since: l.Since}
}

// lease is the reverse of Lease.kept.
func (kept keptLease) lease() Lease {
	l := Lease{Holder: kept.Holder, Since: kept.Since}
	if l.Holder.Namespace == tokenNamespace {
		l.TokenHash, l.Holder.Namespace, l.Holder.StartedAt = l.Holder.StartedAt, "", ""
	}
	return l
}

// Session is the id of the session that is held.
func (l Lease) Session() tidemark.SessionID { return tidemark.SessionID(l.Of.ID) }

// Living reports whether the lease is held by somebody who cannot be replaced.
func (l Lease) Living() bool { return l.Held && !l.Dead && !l.Expired }

// Need is the precondition that the lease record has not changed.
func (l Lease) Need() tidemark.Precondition {
	return tidemark.Precondition{Key: leaseKey(l.Of), Version: l.Version}
}

func leaseKey(of tidemark.Key) tidemark.Key    { return tidemark.Key{Kind: KindLease, ID: of.ID} }
func pulseKey(of tidemark.Key) tidemark.Key    { return tidemark.Key{Kind: KindPulse, ID: of.ID} }
func handoverKey(of tidemark.Key) tidemark.Key { return tidemark.Key{Kind: KindHandover, ID: of.ID} }

// HeldError says who holds something. It is ErrHeld under errors.Is.
type HeldError struct {
	Lease Lease
	Now   time.Time
}

func (e *HeldError) Error() string {
	ago := e.Now.Sub(e.Lease.HeardAt).Round(time.Second)
	return fmt.Sprintf("%s %s is open in %s, last active %s ago", e.Lease.Of.Kind, e.Lease.Of.ID, e.Lease.Holder, ago)
}

// Is makes a HeldError answer to ErrHeld.
func (e *HeldError) Is(target error) bool { return target == tidemark.ErrHeld }

// pulse is the body of the pulse record. The time of the pulse is the record's
// UpdatedAt, except in an import, where UpdatedAt may be in the past: see At.
type pulse struct {
	At time.Time `json:"at,omitzero"`
}

// beat returns the pulse for a renewal at this time.
func (k *Kernel) beat() pulse {
	if k.o.ChangedAt == nil {
		return pulse{}
	}
	return pulse{At: k.Clock()}
}

// LeaseTime is how long a holder may be silent before it can be replaced.
func (k *Kernel) LeaseTime() time.Duration { return k.o.Lease }

// Lease returns who holds something. When nobody ever held it, or its last holder
// has closed it, the Lease is not Held.
func (k *Kernel) Lease(ctx context.Context, of tidemark.Key) (Lease, error) {
	var kept keptLease
	r, err := k.Get(ctx, leaseKey(of), &kept)
	l := kept.lease()
	if err != nil {
		return l, err
	}
	var beat pulse
	p, err := k.Get(ctx, pulseKey(of), &beat)
	if err != nil {
		return l, err
	}
	l.Of, l.Version, l.pulse = of, r.Version, p.Version
	l.Held = r.State == held
	l.HeardAt = p.UpdatedAt
	if !beat.At.IsZero() {
		l.HeardAt = beat.At
	}
	if l.Held {
		l.Dead = l.TokenHash == "" && k.o.Dead(l.Holder)
		l.Expired = k.Clock().Sub(l.HeardAt) > k.o.Lease
	}
	return l, nil
}

// Leases lists the leases that are held. A lease record has only the id of what is
// held, so kind is set as the kind of each.
func (k *Kernel) Leases(ctx context.Context, kind string) iter.Seq2[Lease, error] {
	return func(yield func(Lease, error) bool) {
		for r, err := range k.backend.List(ctx, tidemark.Query{Kind: KindLease, State: held}) {
			if errors.Is(err, tidemark.ErrCorrupt) {
				continue // verify reports it
			}
			var l Lease
			if err == nil {
				l, err = k.Lease(ctx, tidemark.Key{Kind: kind, ID: r.ID})
			}
			if !yield(l, err) {
				return
			}
		}
	}
}

// Take returns the next lease of something, for a process, and the batch that takes
// it when it is committed: ErrHeld when somebody else holds it and cannot be
// replaced.
func (k *Kernel) Take(ctx context.Context, of tidemark.Key, who tidemark.Holder) (Lease, tidemark.Batch, error) {
	return k.TakeWithToken(ctx, of, who, "")
}

// TakeWithToken is Take for a holder that is known by a token of that hash; with
// "", for a process.
func (k *Kernel) TakeWithToken(ctx context.Context, of tidemark.Key, who tidemark.Holder, tokenHash string) (Lease, tidemark.Batch, error) {
	old, err := k.Lease(ctx, of)
	if err != nil {
		return old, tidemark.Batch{}, err
	}
	if old.Living() {
		return old, tidemark.Batch{}, &HeldError{Lease: old, Now: k.Clock()}
	}
	return k.LeaseAfter(old, who, tokenHash)
}

// LeaseAfter returns the lease that replaces old, and the batch that takes it when
// it is committed. The new holder is known by a token of that hash; with "", it is
// a process. If there was no lease before, only Of is set in old. The caller may
// put the records into another batch.
func (k *Kernel) LeaseAfter(old Lease, who tidemark.Holder, tokenHash string) (Lease, tidemark.Batch, error) {
	l := Lease{Holder: who, TokenHash: tokenHash, Since: k.Clock(), Of: old.Of, Held: true, Version: old.Version + 1, pulse: old.pulse + 1}
	l.HeardAt = l.Since
	lr, err := Put(leaseKey(l.Of), old.Version, l.kept())
	if err != nil {
		return l, tidemark.Batch{}, err
	}
	lr.State = held
	pr, err := Put(pulseKey(l.Of), old.pulse, k.beat())
	return l, tidemark.Batch{At: l.Since, Puts: []tidemark.Record{lr, pr}}, err
}

// Release ends a lease whose holder is dead or silent; with force, any. It
// returns ErrHeld for a living holder, and nil when nobody holds it.
func (k *Kernel) Release(ctx context.Context, of tidemark.Key, force bool) error {
	return Retry(ctx, func() error {
		l, err := k.Lease(ctx, of)
		if err != nil || !l.Held {
			return err
		}
		if l.Living() && !force {
			return &HeldError{Lease: l, Now: k.Clock()}
		}
		return k.Free(ctx, l)
	})
}

// Free commits that nobody holds the lease any more.
func (k *Kernel) Free(ctx context.Context, l Lease) error {
	r, err := Freed(l)
	if err != nil {
		return err
	}
	_, err = k.Commit(ctx, tidemark.Batch{Puts: []tidemark.Record{r}})
	return err
}

// Freed returns the lease record for a lease that nobody holds any more.
func Freed(l Lease) (tidemark.Record, error) {
	r, err := Put(leaseKey(l.Of), l.Version, l.kept())
	r.State = Free
	return r, err
}

// Forget returns the deletes that remove all records of a lease, on the condition
// that the lease and its pulse have not changed since l was read. A damaged
// handover request is not removed.
func (k *Kernel) Forget(ctx context.Context, l Lease) ([]tidemark.Precondition, error) {
	request, err := k.Get(ctx, handoverKey(l.Of), &HandoverRequest{})
	if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
		return nil, err
	}
	var deletes []tidemark.Precondition
	for _, n := range []tidemark.Precondition{l.Need(), {Key: pulseKey(l.Of), Version: l.pulse}, {Key: handoverKey(l.Of), Version: request.Version}} {
		if n.Version > 0 {
			deletes = append(deletes, n)
		}
	}
	return deletes, nil
}

// HandoverRequest asks the holder of a lease to hand it over to From.
type HandoverRequest struct {
	From  tidemark.Holder `json:"from"`
	Lease int64           `json:"lease,omitempty"` // the version of the lease that was there; 0: not known
}

// RequestHandover asks the holder of a lease to hand it over to from. The holder
// decides; see Holding.KeepAlive.
func (k *Kernel) RequestHandover(ctx context.Context, of tidemark.Key, from tidemark.Holder) error {
	return Retry(ctx, func() error {
		old, err := k.Get(ctx, handoverKey(of), &HandoverRequest{})
		if err != nil {
			return err
		}
		l, err := k.Lease(ctx, of)
		if err != nil {
			return err
		}
		r, err := Put(old.Key, old.Version, HandoverRequest{From: from, Lease: l.Version})
		if err != nil {
			return err
		}
		_, err = k.Commit(ctx, tidemark.Batch{Puts: []tidemark.Record{r}})
		return err
	})
}

// Handover returns the newest handover request for a lease, and its record, whose
// version is 0 when there is none.
func (k *Kernel) Handover(ctx context.Context, of tidemark.Key) (HandoverRequest, tidemark.Record, error) {
	var q HandoverRequest
	r, err := k.Get(ctx, handoverKey(of), &q)
	return q, r, err
}
