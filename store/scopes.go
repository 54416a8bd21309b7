package store

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/search/index"
)

// What is shared with a workspace or a tenant is searched by all who are in it, so it
// has an index of its own beside those of its owners: a family of segments that
// belongs to the scope itself. Whoever may act for the scope, which is a server, keeps
// it up to date; whoever is in the scope may read it. What it finds is opened with
// the rights of whoever searches, so what is not shared any more is not found from
// that commit on, whatever the index still says.

// familyShared is the family of what is shared with a scope.
const familyShared = index.Own + ".shared"

// How often the index of a scope is looked at: soon after somebody in it wrote
// something, and now and then for what other processes left. Unsharing promises
// that the words are gone within a minute.
const (
	scopeSoon   = 5 * time.Second
	scopeLater  = 40 * time.Second
	scopeUnused = 10 * time.Minute // nobody in it was here for so long: it is forgotten
	scopesLook  = time.Second
	scopesBusy  = 2 // how many are indexed at once
)

// scopeKeeper is a Backend from which that of a scope itself can be had: one of a
// process that may act for everybody.
type scopeKeeper interface {
	// Keeper returns the Backend of a scope: it sees what is shared with the scope,
	// and writes its index.
	Keeper(scope string) (tidemark.Backend, error)
}

// Scopes keeps the search indexes of what is shared, for all stores of a process. A
// nil *Scopes keeps none. It may be used concurrently.
type Scopes struct {
	o     Options
	cache *index.Cache
	mu    sync.Mutex
	known map[string]*scope
}

// scope is a workspace or a tenant.
type scope struct {
	s  *Store // of the scope itself, with its index
	id string

	stepping sync.Mutex
	grown    bool // this and what follows is guarded by Scopes.mu
	used     time.Time
	stepped  time.Time
}

// NewScopes returns Scopes that make words as stores with these Options do.
func NewScopes(o *Options) *Scopes {
	return &Scopes{o: Options{Now: o.Now, Dead: o.Dead, Lease: o.Lease, Places: o.Places},
		cache: index.NewCache(index.DefaultCacheBytes), known: make(map[string]*scope)}
}

// audience returns who the principal is and which scopes it is in; nothing, where
// there is one user.
func (s *Store) audience() (me string, scopes []string) {
	sharer, err := tidemark.Ability[tidemark.Sharer](s.backend)
	if err != nil {
		return "", nil
	}
	return sharer.Audience()
}

// of returns the scopes that the principal of a Backend is in, if they can be kept.
func (x *Scopes) of(b tidemark.Backend) (all []*scope) {
	if x == nil || x.o.Places == nil {
		return nil
	}
	sharer, ok := b.(tidemark.Sharer)
	keeper, may := b.(scopeKeeper)
	if !ok || !may {
		return nil
	}
	_, ids := sharer.Audience()
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, id := range ids {
		of := x.known[id]
		if of == nil {
			kept, err := keeper.Keeper(id)
			if err != nil {
				continue
			}
			o := x.o
			of = &scope{s: New(kept, &o), id: id}
			of.s.index = of.s.newIndex(kept, index.Options{Family: familyShared, Owned: true, Cache: x.cache})
			x.known[id] = of
		}
		of.used = time.Now()
		all = append(all, of)
	}
	return all
}

// Uses says that the principal of a Backend is here, so that the indexes of its scopes
// are kept up to date for a while.
func (x *Scopes) Uses(b tidemark.Backend) { x.of(b) }

// Grew says that somebody wrote something: what is shared of it is indexed soon.
func (x *Scopes) Grew(b tidemark.Backend) { x.grew(b) }

func (x *Scopes) grew(b tidemark.Backend) {
	all := x.of(b)
	if len(all) == 0 {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, of := range all {
		of.grown = true
	}
}

// each calls do with the scopes that the principal of a Backend is in.
func (x *Scopes) each(b tidemark.Backend, do func(*scope) error) error {
	for _, of := range x.of(b) {
		if err := do(of); err != nil && !errors.Is(err, tidemark.ErrSealed) {
			return err
		}
	}
	return nil
}

// Settle takes out of the indexes of the scopes that the principal of a Backend is in
// what was destroyed, masked or unshared: when it returns nil, the words are gone.
func (x *Scopes) Settle(ctx context.Context, b tidemark.Backend) error {
	return x.each(b, func(of *scope) error { _, err := of.settle(ctx); return err })
}

// Keep keeps the indexes up to date until ctx ends.
func (x *Scopes) Keep(ctx context.Context) {
	if x == nil {
		return
	}
	var stepping sync.WaitGroup
	defer stepping.Wait()
	busy := make(chan struct{}, scopesBusy)
	tick := time.NewTicker(scopesLook)
	defer tick.Stop()
	for {
		for _, of := range x.due() {
			select {
			case busy <- struct{}{}:
			case <-ctx.Done():
				return
			}
			stepping.Go(func() {
				// What fails is tried again: until then it is found by reading.
				_ = of.step(ctx)
				<-busy
			})
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// due returns the scopes that have to be looked at now, and forgets the ones that
// nobody uses.
func (x *Scopes) due() (all []*scope) {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := time.Now()
	for id, of := range x.known {
		since := now.Sub(of.stepped)
		switch {
		case of.grown && since >= scopeSoon || since >= scopeLater && now.Sub(of.used) < scopeUnused:
			of.grown, of.stepped = false, now
			all = append(all, of)
		case !of.grown && now.Sub(of.used) >= scopeUnused:
			delete(x.known, id)
		}
	}
	return all
}

// step brings the index of a scope up to date.
func (x *scope) step(ctx context.Context) error {
	x.stepping.Lock()
	defer x.stepping.Unlock()
	told, err := x.settle(ctx)
	if err != nil {
		return err
	}
	view, err := x.s.index.Look(ctx)
	if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
		return err
	}
	pace := index.Pace{Bytes: behindBytes, Alone: true, Stamp: untilSometimes}
	if err == nil {
		pace.Alone = !view.Made() // there may be much to do
	}
	_, err = x.s.index.CatchUp(ctx, source{s: x.s, others: true, me: x.id, told: told, noted: true}, pace)
	if err == nil {
		err = x.s.mergeAll(ctx, 0)
	}
	if index.IsBusy(err) {
		err = nil // another process does it
	}
	return err
}

// settle takes out of the index what notes say is gone, hidden or changed, and
// returns the notes. They are deleted when what there is now is indexed.
func (x *scope) settle(ctx context.Context) (told []tidemark.Record, err error) {
	if err := x.s.Standing(ctx); err != nil {
		return nil, err
	}
	var gone []index.Lines
	unread := false
	for r, err := range x.s.unindexed(ctx, true) {
		if err != nil {
			return nil, err
		}
		var note tidemark.Unindexed
		unread = records.Decode(r, &note) != nil || unread
		told = append(told, r)
		for _, l := range note.Changed {
			gone = append(gone, index.Lines{Log: index.WithOwner(l.Log, r.Group), From: l.From, To: l.To})
		}
	}
	if unread { // nobody knows what has to go
		return told, x.s.index.Reset(ctx)
	}
	if len(gone) > 0 {
		err = records.Retry(ctx, func() error {
			r, err := x.s.index.Renew(ctx, gone...)
			if err == nil {
				_, err = x.s.k.Commit(ctx, tidemark.Batch{Puts: []tidemark.Record{r}})
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if err := x.s.index.Rewrite(ctx); err != nil {
		return nil, err
	}
	if len(gone) > 0 {
		if err := x.s.index.DropUnfinished(ctx); err != nil {
			return nil, err
		}
	}
	return x.gone(ctx, told)
}

// gone deletes the notes of sessions of which there is nothing to index any more, and
// returns the others.
func (x *scope) gone(ctx context.Context, told []tidemark.Record) (left []tidemark.Record, err error) {
	var b tidemark.Batch
	for _, r := range told {
		id, _ := sessionOf(r.Key)
		of, err := x.s.of(r.Group)
		if err == nil {
			_, err = of.backend.Get(ctx, keyOf(kindSession, id))
		}
		if errors.Is(err, tidemark.ErrNotFound) {
			b.Deletes = append(b.Deletes, tidemark.Precondition{Key: r.Key, Version: r.Version})
		} else {
			left = append(left, r)
		}
	}
	if len(b.Deletes) > 0 {
		_, err = x.s.k.Commit(ctx, b)
	}
	if errors.Is(err, tidemark.ErrConflict) {
		err = nil // another process did it
	}
	return left, err
}

// lookAtScopes looks at the indexes of the scopes that the principal is in. Without a
// readable one, what is shared is read.
func (f *finder) lookAtScopes(ctx context.Context) error {
	me, ids := f.s.audience()
	f.me = me
	f.s.o.Scopes.Uses(f.s.backend)
	for _, id := range ids {
		ix, of, err := f.s.shared.of(f.s, id)
		if err != nil {
			return err
		}
		if err := f.hear(ctx, of, true); err != nil {
			return err
		}
		view, err := ix.Look(ctx)
		if errors.Is(err, tidemark.ErrCorrupt) || errors.Is(err, tidemark.ErrUnsupported) {
			view, err = ix.Nothing(), nil
		}
		if err != nil {
			return err
		}
		f.shared = append(f.shared, view)
	}
	return nil
}

// sharedIndexes are the indexes of scopes as a Store reads them.
type sharedIndexes struct {
	mu    sync.Mutex
	known map[string]*index.Index
}

// of returns the index of a scope, and the part of the store that it keeps.
func (x *sharedIndexes) of(s *Store, id string) (*index.Index, *Store, error) {
	of, err := s.Of(id)
	if err != nil {
		return nil, nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	ix := x.known[id]
	if ix == nil {
		o := index.Options{Family: familyShared, Owned: true}
		if s.o.Scopes != nil {
			o.Cache = s.o.Scopes.cache
		}
		if x.known == nil {
			x.known = make(map[string]*index.Index)
		}
		ix = s.newIndex(of.backend, o)
		x.known[id] = ix
	}
	return ix, of, nil
}
