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
	Worker  string // the worker whose log it is in, "": the session's own
	tidemark.Entry
}

// Own yields the entries of all live sessions, session after session, with all
// branches and workers, and with the drafts behind them; those written since a
// time, or all when that is zero. Of
// a fork it yields only the fork's own entries, not the past that it shares or has
// a copy of, so each entry is yielded once, however many forks have it. The same
// holds for imported sessions that another tool forked by copying: an entry that
// is in both is yielded with the original, where it is known which one that is.
//
// Damaged entries are yielded as far as they are known, with a *tidemark.Damage,
// and the reading goes on. Logs that did not change since the time are not read.
func (s *Store) Own(ctx context.Context, since time.Time) iter.Seq2[Owned, error] {
	return func(yield func(Owned, error) bool) {
		workers, err := s.workersSince(ctx, since)
		var drafts map[string]bool
		if err == nil {
			drafts, err = s.addDrafts(ctx, since, workers)
		}
		if err != nil {
			yield(Owned{}, err)
			return
		}
		own := func(i *Info, workers []string, yield func(Owned, error) bool) bool {
			for _, worker := range workers {
				log := (&View{Info: *i, worker: worker}).log()
				if !s.own(ctx, i, since, worker, drafts[tidemark.SessionName(i.Owner, tidemark.SessionID(log.ID))], yield) {
					return false
				}
			}
			return true
		}
		seen := newCopies()
		yieldUnseen := func(o Owned, err error) bool { return err == nil && seen.known(o) || yield(o, err) }
		var copied []*Info // read after the sessions that they may be copies of
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
			if !own(&i, append([]string{""}, workers[i.ID]...), yieldUnseen) {
				return
			}
			delete(workers, i.ID)
		}
		// Oldest first, since a copy of a copy is newer than the copy.
		slices.SortFunc(copied, func(a, b *Info) int { return a.CreatedAt.Compare(b.CreatedAt) })
		for _, i := range copied {
			if !own(i, append([]string{""}, workers[i.ID]...), yieldUnseen) {
				return
			}
			delete(workers, i.ID)
		}
		if since.IsZero() {
			return // the workers that are left belong to sessions in the trash
		}
		// A worker's log may have grown while its session's did not.
		for _, id := range slices.Sorted(maps.Keys(workers)) {
			i, err := s.Session(ctx, id)
			if err != nil || i.State != Live {
				continue // the session is in the trash, or gone
			}
			if !own(&i, workers[id], yieldUnseen) {
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

// addDrafts returns which logs have a draft, by the name of their session with
// the worker behind it, and adds the workers of which only the draft was written
// since a time.
func (s *Store) addDrafts(ctx context.Context, since time.Time, workers map[tidemark.SessionID][]string) (map[string]bool, error) {
	drafts := make(map[string]bool)
	for r, err := range s.backend.List(ctx, tidemark.Query{Kind: kindDraft}) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue // an import replaces it
		}
		if err != nil {
			return nil, err
		}
		if r.UpdatedAt.Before(since) {
			break // newest first
		}
		drafts[tidemark.SessionName(r.Owner, tidemark.SessionID(r.ID))] = true
		id, worker := sessionOf(r.Key)
		if worker != "" && !slices.Contains(workers[id], worker) {
			workers[id] = append(workers[id], worker)
		}
	}
	return drafts, nil
}

// own yields the entries of one session's own log, for the worker "", or of a
// worker's, and those of its draft, if it has one. It reports whether to go on.
func (s *Store) own(ctx context.Context, i *Info, since time.Time, worker string, hasDraft bool, yield func(Owned, error) bool) bool {
	s, err := s.of(i.Owner)
	if err != nil {
		return yield(Owned{Session: i}, err)
	}
	v := &View{Info: *i, s: s, worker: worker}
	m, err := s.marksOf(ctx, *i, worker)
	if err != nil {
		return yield(Owned{Session: i, Worker: worker}, err) && errors.Is(err, tidemark.ErrCorrupt)
	}
	seg := segment{log: v.log(), marks: m}
	if worker == "" {
		seg.offset = v.sharedUpTo()
	}
	var d tidemark.Decoder
	for l, err := range s.backend.Lines(ctx, seg.log) {
		l.Seq += seg.offset
		if err == nil && l.At.Before(since) {
			continue
		}
		var e tidemark.Entry
		err = v.entryOf(&d, &seg, &l, err, &e)
		if !yield(Owned{Session: i, Worker: worker, Entry: e}, err) {
			return false
		}
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return false
		}
	}
	if !hasDraft {
		return true
	}
	entries, err := v.Draft(ctx)
	if err != nil {
		return yield(Owned{Session: i, Worker: worker}, err) && errors.Is(err, tidemark.ErrCorrupt)
	}
	for _, e := range entries {
		if !e.At.Before(since) && !yield(Owned{Session: i, Worker: worker, Entry: e}, nil) {
			return false
		}
	}
	return true
}

// WorkersByID lists all workers in the order of their sessions and names, also those of
// sessions in the trash.
func (s *Store) WorkersByID(ctx context.Context) iter.Seq2[WorkerInfo, error] {
	return func(yield func(WorkerInfo, error) bool) {
		for r, err := range s.backend.List(ctx, tidemark.Query{Kind: kindWorker, Order: tidemark.ByID}) {
			if !yield(workerOf(r), err) {
				return
			}
		}
	}
}

// Workers lists the workers of the sessions that match a filter, the most recently
// changed first. It reads the records of the workers and of their sessions, and no
// logs.
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
					want = i.State == cmp.Or(f.State, Live) && f.matches(i, labelled) && (places == nil || slices.Contains(places, i.Project))
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
