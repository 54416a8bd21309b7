package transfer

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/seal"
	"github.com/tidemark-sessions/tidemark/store"
)

// Offboarding erases what people and tenants have on a server, hands it over, and
// exports it. Of what is sealed it removes
// the wrapped keys first, so that from then on nobody can read the rest, wherever it
// still is. It may be interrupted at any point: the same call goes on.
type Offboarding struct {
	Users *tenant.Directory
	// Backend returns the storage of a principal as it is kept, and Store its
	// store, ErrSealed when there is no key for it here.
	Backend func(context.Context, tidemark.Principal) (tidemark.Backend, error)
	Store   func(context.Context, tidemark.Principal) (*store.Store, error)
	Holder  tidemark.Holder
	By      string // who erases
	// UnseenHolds erases what is sealed though nobody here can see whether
	// sessions in it are on hold.
	UnseenHolds bool
	// Linger is how long somebody who was let in may still be, at another server.
	Linger time.Duration
}

// maxEraseBatch is how many keys one commit erases.
const maxEraseBatch = 200

// What may still be somewhere after an erasure.
const (
	leftPlain  = "the write-ahead log, replicas and backups of the database, until they are gone by their own age: rows that were not sealed can be read there"
	leftSealed = "the write-ahead log, replicas and backups of the database have sealed rows, and wrapped keys from before: only whoever has a key of the person can read them"
	leftAudit  = "the audit log of the tenant says who did what, by ids and names, until its retention ends"
	leftCopies = "what others forked, exported or synchronised of what was shared with them is theirs"
)

// User erases everything that a user has, and what is known about them. Sessions on
// hold stay, and the user's name with them.
func (x *Offboarding) User(ctx context.Context, t tenant.Tenant, u tenant.User) (tenant.Erasure, error) {
	e, err := x.begin(ctx, t, u.ID)
	if err != nil {
		return e, err
	}
	tokens, err := x.Users.Depart(ctx, t.ID, u.ID, false)
	if err != nil {
		return e, err
	}
	e.Tokens += tokens
	if err := x.principal(ctx, &e, tidemark.Principal{Tenant: t.ID, User: u.ID, Workspaces: u.Workspaces}); err != nil {
		return e, err
	}
	if len(e.OnHold) == 0 {
		if _, err := x.Users.Depart(ctx, t.ID, u.ID, true); err != nil {
			return e, err
		}
	}
	return x.end(ctx, e)
}

// Tenant erases everything that a tenant and its users have, and the tenant. If
// anything in it is on hold, the tenant stays, suspended, with those who have it.
func (x *Offboarding) Tenant(ctx context.Context, t tenant.Tenant) (tenant.Erasure, error) {
	e, err := x.begin(ctx, t, "")
	if err != nil {
		return e, err
	}
	if _, err := x.Users.SetTenantState(ctx, t.ID, tenant.Suspended); err != nil {
		return e, err
	}
	var all []tidemark.Principal
	for u, err := range x.Users.Users(ctx, t.ID, "") {
		if err != nil {
			return e, err
		}
		all = append(all, tidemark.Principal{Tenant: t.ID, User: u.ID, Workspaces: u.Workspaces})
	}
	// A workspace, like the tenant itself, owns the index of what is shared with it.
	for w, err := range x.Users.Workspaces(ctx, t.ID, "") {
		if err != nil {
			return e, err
		}
		all = append(all, tidemark.Principal{Tenant: t.ID, User: w.ID})
	}
	for _, p := range append(all, tidemark.Principal{Tenant: t.ID, User: t.ID}) {
		if err := x.principal(ctx, &e, p); err != nil {
			return e, err
		}
	}
	if len(e.OnHold) == 0 {
		if err := x.Users.RemoveTenant(ctx, t); err != nil {
			return e, err
		}
	}
	return x.end(ctx, e)
}

// begin returns the erasure that is under way, or begins one.
func (x *Offboarding) begin(ctx context.Context, t tenant.Tenant, user string) (tenant.Erasure, error) {
	e, err := x.Users.Erasure(ctx, t.ID, user)
	if err != nil && !errors.Is(err, tidemark.ErrNotFound) {
		return e, err
	}
	if e.State != tenant.Erasing {
		e = tenant.Erasure{Tenant: t.ID, User: user, State: tenant.Erasing, By: x.By, BegunAt: records.Keepable(time.Now())}
		err = x.Users.KeepErasure(ctx, e)
	} else {
		err = nil
	}
	e.OnHold = nil // looked for again
	return e, err
}

func (x *Offboarding) end(ctx context.Context, e tenant.Erasure) (tenant.Erasure, error) {
	e.State, e.EndedAt, e.Pending = tenant.ErasedAll, records.Keepable(time.Now()), nil
	if len(e.OnHold) > 0 {
		e.State = tenant.ErasedBut
	}
	e.Left = []string{leftPlain, leftAudit, leftCopies}
	if e.Sealed {
		e.Left[0] = leftSealed
	}
	return e, x.Users.KeepErasure(ctx, e)
}

// principal erases what one principal has. It looks again until nothing is left: who
// was let in before may have written meanwhile.
func (x *Offboarding) principal(ctx context.Context, e *tenant.Erasure, p tidemark.Principal) error {
	b, err := x.Backend(ctx, p)
	if err != nil {
		return err
	}
	w := &erasing{Offboarding: x, e: e, p: p, b: b}
	if err := w.settle(ctx); err != nil {
		return err
	}
	w.sealed, err = seal.IsSealed(ctx, b)
	keyless := errors.Is(err, tidemark.ErrCorrupt) && (e.Sealed || x.UnseenHolds) // it is what an interrupted erasure leaves
	if err != nil && !keyless {
		return err
	}
	if !keyless {
		if err := w.findHeld(ctx); err != nil {
			return err
		}
	}
	if w.sealed && !e.Sealed {
		e.Sealed = true
		if err := x.Users.KeepErasure(ctx, *e); err != nil {
			return err
		}
	}
	if err := w.unshare(ctx); err != nil {
		return err
	}
	if err := w.forgetLinks(ctx); err != nil {
		return err
	}
	for until := e.BegunAt.Add(x.Linger); ; {
		n, err := w.pass(ctx)
		if err != nil {
			return err
		}
		if wait := time.Until(until); n == 0 && wait <= 0 {
			break
		} else if n == 0 {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(wait):
			}
		}
	}
	if err := w.vanish(ctx); err != nil {
		return err
	}
	for _, id := range w.held {
		e.OnHold = append(e.OnHold, tidemark.SessionName(p.User, id))
	}
	return nil
}

// vanish deletes what is left at cold places. If one does not answer, the erasure goes
// on when it does.
func (w *erasing) vanish(ctx context.Context) error {
	c, ok := w.b.(interface {
		Vanish(context.Context) error
		Left(context.Context) error
	})
	if !ok {
		return nil
	}
	if err := errors.Join(c.Vanish(ctx), c.Left(ctx)); err != nil {
		return hint.With(err, "when the place can be reached again, the same command goes on")
	}
	return nil
}

// erasing is the erasure of what one principal has.
type erasing struct {
	*Offboarding
	e      *tenant.Erasure
	p      tidemark.Principal
	b      tidemark.Backend
	sealed bool
	held   []tidemark.SessionID
	s      *store.Store // when something is on hold
}

// findHeld finds the sessions that are on hold.
func (w *erasing) findHeld(ctx context.Context) error {
	any := false
	for _, err := range w.b.List(ctx, tidemark.Query{Kind: "session", Limit: 1}) {
		if any = true; err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return err
		}
	}
	if !any {
		return nil
	}
	var err error
	s := store.New(w.b, nil)
	if w.sealed {
		s, err = w.Store(ctx, w.p)
	}
	switch {
	case errors.Is(err, tidemark.ErrSealed) && w.UnseenHolds:
		return nil
	case errors.Is(err, tidemark.ErrSealed):
		return hint.With(tidemark.Errorf(tidemark.ErrSealed, "what %s has is sealed: whether sessions in it are on hold cannot be seen here", w.p.User),
			"give the key, or erase without looking for holds")
	case err != nil:
		return err
	}
	for i, err := range ownSessions(ctx, s) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue
		}
		if err != nil {
			return err
		}
		if i.OnHold {
			w.held = append(w.held, i.ID)
		}
	}
	if len(w.held) > 0 {
		w.s, err = w.Store(ctx, w.p)
	}
	return err
}

// ownSessions lists the sessions of a store that are its principal's own, those in
// the trash, too.
func ownSessions(ctx context.Context, s *store.Store) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		for _, state := range []string{store.Live, store.Trash} {
			for i, err := range s.Sessions(ctx, store.Filter{State: state, Each: true}) {
				if (err != nil || i.Owner == "") && !yield(i, err) {
					return
				}
			}
		}
	}
}

// unshare ends what is shared, so that its words leave the indexes of workspaces and
// of the tenant.
func (w *erasing) unshare(ctx context.Context) error {
	sharer, ok := w.b.(tidemark.Sharer)
	if !ok {
		return nil
	}
	for r, err := range w.b.List(ctx, tidemark.Query{Kind: "session", Order: tidemark.ByID}) {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return err
		}
		id := tidemark.SessionID(r.ID)
		with, owner, err := sharer.Shared(ctx, id)
		if errors.Is(err, tidemark.ErrNotFound) || errors.Is(err, tidemark.ErrUnsupported) {
			continue
		}
		if err != nil {
			return err
		}
		if owner == "" || owner == w.p.User {
			if with.With != tidemark.Private && !slices.Contains(w.held, id) {
				if err := sharer.Share(ctx, id, tidemark.Scope{With: tidemark.Private}); err != nil && !errors.Is(err, tidemark.ErrNotFound) {
					return err
				}
			}
		}
	}
	return nil
}

// forgetLinks removes the links that lead to copies of sessions. A copy is none of what
// is on hold: the session is.
func (w *erasing) forgetLinks(ctx context.Context) error {
	n, err := w.Users.ForgetLinks(ctx, w.p.Tenant, w.p.User)
	if w.e.Links += n; n > 0 {
		err = errors.Join(err, w.Users.KeepErasure(ctx, *w.e))
	}
	return err
}

// pass erases what is there now, and returns how much that was.
func (w *erasing) pass(ctx context.Context) (n int64, err error) {
	if len(w.held) > 0 {
		n, err = w.destroy(ctx)
		if err != nil {
			return n, err
		}
	} else if w.sealed {
		// The keys go first. Without them the rest is noise already.
		n, err = w.remove(ctx, func(k tidemark.Key) bool { return !isKey(k) })
		if err != nil {
			return n, err
		}
	}
	more, err := w.remove(ctx, w.stays)
	return n + more, err
}

// isKey reports whether a record is one of the wrapped keys of a sealed store.
func isKey(k tidemark.Key) bool {
	return k == tidemark.Keyring() || k.Kind == "datakey"
}

// stays reports whether a key is none of the principal's, or needed by what is on
// hold.
func (w *erasing) stays(k tidemark.Key) bool {
	if tenant.IsOperators(k) {
		return true
	}
	if len(w.held) == 0 {
		return false
	}
	if len(k.ID) >= 36 && slices.Contains(w.held, tidemark.SessionID(k.ID[:36])) {
		return true
	}
	return isKey(k) || k.Derived() || k.Kind == "plain"
}

// destroy purges the sessions that are not on hold, where others are: a fork on hold
// gets its own copy of the past that it shares.
func (w *erasing) destroy(ctx context.Context) (n int64, err error) {
	for i, err := range ownSessions(ctx, w.s) {
		if err != nil {
			return n, err
		}
		if i.OnHold {
			continue
		}
		if err := w.s.Release(ctx, i.ID, true); err != nil && !errors.Is(err, tidemark.ErrNotFound) {
			return n, err
		}
		if err := w.s.Destroy(ctx, i.ID, w.Holder); err != nil && !errors.Is(err, tidemark.ErrNotFound) {
			return n, err
		}
		n++
		w.e.Sessions++
		w.e.Lines += i.Entries
	}
	if n == 0 {
		return 0, nil
	}
	return n, w.s.RewriteIndex(ctx)
}

// remove erases everything but what stays, a batch at a time. What a batch erases is
// kept before it, so that a report is exact after a kill.
func (w *erasing) remove(ctx context.Context, stays func(tidemark.Key) bool) (n int64, err error) {
	var keys []tidemark.Key
	for k, err := range w.b.Walk(ctx, tidemark.Key{}) {
		if err != nil {
			return n, err
		}
		if stays(k) {
			continue
		}
		keys = append(keys, k)
	}
	for part := range slices.Chunk(keys, maxEraseBatch) {
		m, err := w.removeSome(ctx, part)
		if n += m; err != nil {
			return n, err
		}
	}
	return n, nil
}

// removeSome erases the records and logs of some keys.
func (w *erasing) removeSome(ctx context.Context, keys []tidemark.Key) (n int64, err error) {
	err = records.Retry(ctx, func() error {
		batch := tidemark.Batch{ID: tidemark.NewBatchID(), At: records.Keepable(time.Now())}
		var counts tenant.ErasedCounts
		for _, k := range keys {
			r, err := w.b.Get(ctx, k)
			if errors.Is(err, tidemark.ErrNotFound) {
				continue
			}
			if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
				return err
			}
			counts.Lines += r.Head.Length
			if r.Version > 0 {
				batch.Deletes = append(batch.Deletes, tidemark.Precondition{Key: k, Version: r.Version})
				counts.Records++
			}
			if r.Head.Length > 0 || r.Version == 0 {
				batch.Drops = append(batch.Drops, k)
			}
			switch {
			case isKey(k):
				counts.Keys++
			case k.Kind == "session" && r.Version > 0:
				counts.Sessions++
			}
		}
		if len(batch.Deletes)+len(batch.Drops) == 0 {
			return nil
		}
		first := keys[slices.IndexFunc(keys, func(k tidemark.Key) bool {
			return slices.Contains(batch.Drops, k) || slices.ContainsFunc(batch.Deletes, func(d tidemark.Precondition) bool { return d.Key == k })
		})]
		w.e.Pending = &tenant.PendingErasure{Owner: w.p.User, Kind: first.Kind, ID: first.ID, ErasedCounts: counts}
		if err := w.Users.KeepErasure(ctx, *w.e); err != nil {
			return err
		}
		if _, err := w.b.Commit(ctx, batch); err != nil {
			return err
		}
		n = int64(len(keys))
		w.e.Add(counts)
		w.e.Pending = nil
		return nil
	})
	return n, err
}

// settle counts what was erased just before a kill.
func (w *erasing) settle(ctx context.Context) error {
	p := w.e.Pending
	if p == nil || p.Owner != w.p.User {
		return nil
	}
	r, err := w.b.Get(ctx, tidemark.Key{Kind: p.Kind, ID: p.ID})
	if errors.Is(err, tidemark.ErrNotFound) || err == nil && r.Version+r.Head.Length == 0 {
		w.e.Add(p.ErasedCounts)
		err = nil
	}
	if errors.Is(err, tidemark.ErrCorrupt) {
		err = nil // it is there
	}
	w.e.Pending = nil
	return err
}
