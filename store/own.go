package store

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// Owned is an entry with the session that it was written to.
type Owned struct {
	Session *Info  // the same pointer for all entries of a session
	Worker  string // whose log it is in, "" for the session's own
	tidemark.Entry
}

// Own yields what was written to the living sessions since a time, or ever
// when that is zero, session after session, all branches and workers. Of a
// fork it yields what is its own, and nothing of the past that it shares or
// was given a copy of: so each entry comes once, however many forks read it.
// The same holds of a session of another tool that was forked by copying it:
// what is in both comes with the one that was not copied, where that is known.
//
// What is damaged is yielded as far as it is known, with a *tidemark.Damage,
// and the reading goes on. Logs that did not change since that time are not
// read.
func (s *Store) Own(ctx context.Context, since time.Time) iter.Seq2[Owned, error] {
	return func(yield func(Owned, error) bool) {
		workers, err := s.workersSince(ctx, since)
		if err != nil {
			yield(Owned{}, err)
			return
		}
		once := newCopies()
		first := func(o Owned, err error) bool { return err == nil && once.known(o) || yield(o, err) }
		var copied []*Info // they come after what they may be copies of
		for i, err := range s.Sessions(ctx, Filter{Since: since}) {
			if err != nil {
				if !yield(Owned{Session: &i}, err) || !errors.Is(err, tidemark.ErrCorrupt) {
					return
				}
				continue
			}
			if copiedFrom(i.Session) != "" {
				copied = append(copied, &i)
				continue
			}
			if !s.own(ctx, &i, since, append([]string{""}, workers[i.ID]...), first) {
				return
			}
			delete(workers, i.ID)
		}
		// The oldest first: a copy of a copy is newer.
		slices.SortFunc(copied, func(a, b *Info) int { return a.CreatedAt.Compare(b.CreatedAt) })
		for _, i := range copied {
			if !s.own(ctx, i, since, append([]string{""}, workers[i.ID]...), first) {
				return
			}
			delete(workers, i.ID)
		}
		if since.IsZero() {
			return // the rest belongs to sessions in the trash
		}
		// A worker's log may have grown while its session's did not.
		for _, id := range slices.Sorted(maps.Keys(workers)) {
			i, err := s.Session(ctx, id)
			if err != nil || i.State != Live {
				continue // gone meanwhile, or met above
			}
			if !s.own(ctx, &i, since, workers[id], first) {
				return
			}
		}
	}
}

// workersSince lists the workers whose logs changed since a time, by session.
func (s *Store) workersSince(ctx context.Context, since time.Time) (map[tidemark.SessionID][]string, error) {
	workers := make(map[tidemark.SessionID][]string)
	for r, err := range s.backend.List(ctx, tidemark.Query{Kind: kindWorker}) {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return nil, err
		}
		// The log of a worker whose record is damaged can still be read.
		if err == nil && r.Touched().Before(since) {
			break // newest first: the rest is older still
		}
		id, name := sessionOf(r.Key)
		workers[id] = append(workers[id], name)
	}
	return workers, nil
}

// own yields the entries of some logs of one session. It reports whether to go
// on.
func (s *Store) own(ctx context.Context, i *Info, since time.Time, workers []string, yield func(Owned, error) bool) bool {
	s, err := s.of(i.Owner)
	if err != nil {
		return yield(Owned{Session: i}, err)
	}
	for _, worker := range workers {
		v := &View{Info: *i, s: s, worker: worker}
		m, err := s.marksOf(ctx, *i, worker)
		if err != nil {
			return yield(Owned{Session: i, Worker: worker}, err) && errors.Is(err, tidemark.ErrCorrupt)
		}
		seg := segment{log: v.log(), marks: m}
		if worker == "" {
			seg.offset = v.sharedUpTo()
		}
		for l, err := range s.backend.Lines(ctx, seg.log) {
			l.Seq += seg.offset
			if err == nil && l.At.Before(since) {
				continue
			}
			e, err := v.entryOf(seg, l, err)
			if !yield(Owned{Session: i, Worker: worker, Entry: e}, err) {
				return false
			}
			if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
				return false
			}
		}
	}
	return true
}

// Workers lists the workers of the sessions that a filter asks for, the one that
// wrote last first. It reads the records of workers, and the sessions they
// belong to.
func (s *Store) Workers(ctx context.Context, f Filter) iter.Seq2[WorkerInfo, error] {
	return func(yield func(WorkerInfo, error) bool) {
		labelled, err := s.labelled(ctx, f.Tag, false)
		var places []string
		if err == nil && f.Project != "" {
			places, err = s.placesOf(ctx, f.Project)
		}
		if err != nil {
			yield(WorkerInfo{}, err)
			return
		}
		wanted := make(map[string]bool)
		n := 0
		for r, err := range s.backend.List(ctx, tidemark.Query{Kind: kindWorker}) {
			w := workerOf(r)
			if err == nil && w.UpdatedAt.Before(f.Since) {
				return
			}
			name := tidemark.SessionName(w.Owner, w.Session)
			want, known := wanted[name]
			if err == nil && !known {
				var i Info
				if i, err = s.sessionOf(ctx, w.Owner, w.Session); err == nil {
					want = i.State == cmp.Or(f.State, Live) && f.wants(i, labelled) && (places == nil || slices.Contains(places, i.Project))
				} else if errors.Is(err, tidemark.ErrNotFound) {
					err = nil
				}
				wanted[name] = want
			}
			if err == nil && !want {
				continue
			}
			if !yield(w, err) {
				return
			}
			if n++; n == f.Limit {
				return
			}
		}
	}
}
