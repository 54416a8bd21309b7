package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/internal/vault"
)

// purging is the state of a session that is being destroyed. It can no longer be
// forked, and an interrupted purge can be finished later.
const purging = "purging"

// Trash moves a session to the trash: ErrNotFound, ErrHeld while somebody
// writes to it. Its forks are not affected.
func (s *Store) Trash(ctx context.Context, id tidemark.SessionID) error {
	return s.setState(ctx, id, Trash, Live, Trash)
}

// notHeld adds the precondition to b that nobody starts to write to the session
// before b is committed: ErrHeld when somebody writes to it now.
func (s *Store) notHeld(ctx context.Context, id tidemark.SessionID, b *tidemark.Batch) error {
	l, err := s.Lease(ctx, id)
	if err != nil {
		return err
	}
	if l.Living() {
		return &HeldError{Lease: l, Now: s.k.Clock()}
	}
	b.Require = append(b.Require, l.Need())
	return nil
}

// onHold is the error of removing a session that is on hold.
func onHold(id tidemark.SessionID) error {
	return tidemark.Errorf(tidemark.ErrOnHold, "session %s is on hold: %w", id, tidemark.ErrDenied)
}

// Restore takes a session out of the trash: ErrNotFound. Its files are read again
// by the next import, which passed it over in the trash.
func (s *Store) Restore(ctx context.Context, id tidemark.SessionID) error {
	return s.setState(ctx, id, Live, Live, Trash)
}

// setState moves a session to the state to: ErrNotFound unless it is in one of
// the from states.
func (s *Store) setState(ctx context.Context, id tidemark.SessionID, to string, from ...string) error {
	return s.update(ctx, id, func(i *Info, b *tidemark.Batch) error {
		if i.OnHold && to != Live {
			return onHold(id)
		}
		b.Frees = to != Live
		if to == Trash {
			if err := s.notHeld(ctx, id, b); err != nil {
				return err
			}
		}
		for _, f := range from {
			if i.State != f {
				continue
			}
			i.State = to
			if f == Trash && to == Live {
				return s.forgetSources(ctx, b, id)
			}
			return nil
		}
		return tidemark.NotFoundf("session %s: is %s", id, i.State)
	})
}

// Purge destroys a session: its entries, notes, workers, checkpoints, files,
// snapshots, secrets and names. Before that, each fork gets its own copy of the past that it
// shares, and of nothing else. ErrNotFound; ErrHeld while somebody writes to it.
// After an interruption, another call finishes the purge. Of a session that came
// from another tool a tombstone stays; see Purged.
func (s *Store) Purge(ctx context.Context, id tidemark.SessionID, who tidemark.Holder) error {
	if err := s.Destroy(ctx, id, who); err != nil {
		return err
	}
	return s.RewriteIndex(ctx)
}

// Destroy is Purge for one of several sessions: nobody finds it by its words from
// then on, but the search index may hold them until RewriteIndex is called, once
// for all.
func (s *Store) Destroy(ctx context.Context, id tidemark.SessionID, who tidemark.Holder) error {
	return s.destroy(ctx, id, who, false)
}

// Discard is Purge for a session that could not be imported whole: the next import
// may bring it, so there is no tombstone.
func (s *Store) Discard(ctx context.Context, id tidemark.SessionID, who tidemark.Holder) error {
	if err := s.destroy(ctx, id, who, true); err != nil {
		return err
	}
	return s.RewriteIndex(ctx)
}

// destroy removes a session. One that nobody asked to remove is no longer called
// as in its tool from the first step on, so that whoever finishes the purge leaves
// no tombstone either.
func (s *Store) destroy(ctx context.Context, id tidemark.SessionID, who tidemark.Holder, unasked bool) error {
	l, err := s.takeForPurge(ctx, id, who)
	if err != nil {
		return err
	}
	if unasked {
		err = s.update(ctx, id, func(i *Info, b *tidemark.Batch) error {
			b.Frees = true
			i.State, i.ForeignID = purging, ""
			return nil
		})
	} else {
		err = s.setState(ctx, id, purging, Live, Trash, purging)
	}
	if err != nil {
		return err
	}
	forks := tidemark.Query{Kind: kindFork, Prefix: string(id) + ".", Order: tidemark.ByID}
	for r, err := range s.backend.List(ctx, forks) {
		if err != nil {
			return err
		}
		fork := tidemark.SessionID(r.ID[len(id)+1:])
		if err := s.ownPast(ctx, fork, r); err != nil {
			return fmt.Errorf("fork %s: %w", fork, err)
		}
	}
	return s.removeAll(ctx, id, l)
}

func (s *Store) takeForPurge(ctx context.Context, id tidemark.SessionID, who tidemark.Holder) (l Lease, err error) {
	i, err := s.Session(ctx, id)
	if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
		return l, err
	}
	if i.OnHold {
		return l, onHold(id)
	}
	err = records.Retry(ctx, func() error {
		var b tidemark.Batch
		if l, b, err = s.k.Take(ctx, keyOf(kindSession, id), who); err != nil {
			return err
		}
		b.Frees = true
		_, err := s.k.Commit(ctx, b)
		return err
	})
	return l, err
}

// copyLines is how many lines of a shared past are copied in one commit.
const copyLines = 1000

// ownPast gives a fork its own copy of the path that it shares, with the same
// seqs; gaps stand for the entries that are not on the path. The copy is made in
// several commits and is not used before the last one, which changes the fork's
// record and deletes link.
func (s *Store) ownPast(ctx context.Context, id tidemark.SessionID, link tidemark.Record) error {
	unlink := tidemark.Precondition{Key: link.Key, Version: link.Version}
	v, err := s.View(ctx, id)
	if errors.Is(err, tidemark.ErrNotFound) {
		_, err := s.k.Commit(ctx, tidemark.Batch{Deletes: []tidemark.Precondition{unlink}})
		return err
	}
	if err != nil {
		return err
	}
	if v.Base == nil || v.Base.Owned {
		_, err := s.k.Commit(ctx, tidemark.Batch{Deletes: []tidemark.Precondition{unlink}})
		return err
	}
	if err := v.copyPast(ctx); err != nil {
		return err
	}
	return s.update(ctx, id, func(i *Info, b *tidemark.Batch) error {
		base := *i.Base
		base.Owned = true
		i.Base = &base
		b.Deletes = append(b.Deletes, unlink)
		return nil
	})
}

// copyPast fills the log of the fork's own past, from where an interrupted copy
// ended.
func (v *View) copyPast(ctx context.Context) error {
	log := keyOf(kindPast, v.ID)
	have, err := v.s.k.Get(ctx, log, nil)
	if err != nil {
		return err
	}
	segments, err := v.trail(ctx)
	if err != nil {
		return err
	}
	runs, err := v.runs(ctx, segments, v.Base.Seq, 1)
	if err != nil {
		return err
	}
	c := &pastCopy{s: v.s, log: log, next: have.Head.Length + 1}
	for _, r := range runs {
		for e, err := range v.entries(ctx, segments, max(r.from, c.next), r.to) {
			if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
				return err
			}
			if err != nil {
				continue // a gap stands for the damaged entry
			}
			if err := c.add(ctx, e); err != nil {
				return err
			}
		}
	}
	if err := c.fill(ctx, v.Base.Seq+1); err != nil {
		return err
	}
	if err := c.flush(ctx); err != nil {
		return err
	}
	if err := v.ownContents(ctx, segments, runs); err != nil {
		return err
	}
	return v.ownSecrets(ctx, segments, runs)
}

// ownSecrets gives a fork its own copy of the secrets that are masked on the path
// that it shares, and of no others.
func (v *View) ownSecrets(ctx context.Context, segments []segment, runs []seqRun) error {
	masked := make(map[string]bool)
	for _, r := range runs {
		for e, err := range v.entries(ctx, segments, r.from, r.to) {
			if errors.Is(err, tidemark.ErrCorrupt) {
				continue
			}
			if err != nil {
				return err
			}
			e.EachText(func(_ int, text string, _ bool) string {
				for _, mark := range tidemark.Fingerprints(text) {
					masked[mark] = true
				}
				return text
			})
		}
	}
	for mark := range masked {
		value, ok, err := v.vaulted(ctx, mark)
		if err != nil {
			return err
		}
		var b tidemark.Batch
		if ok {
			err = v.s.vault.Add(ctx, &b, string(v.ID), vault.Values{mark: value})
		}
		if err != nil {
			return err
		}
		if len(b.Puts) == 0 {
			continue
		}
		if _, err := v.s.k.Commit(ctx, b); err != nil && !errors.Is(err, tidemark.ErrConflict) {
			return err
		}
	}
	return nil
}

// pastCopy appends lines in commits of copyLines.
type pastCopy struct {
	s     *Store
	log   tidemark.Key
	next  int64
	lines []tidemark.Line
}

// add appends an entry at its own seq, after gaps for the seqs in between.
func (c *pastCopy) add(ctx context.Context, e tidemark.Entry) error {
	if err := c.fill(ctx, e.Seq); err != nil {
		return err
	}
	l, err := e.Line()
	if err != nil {
		return err
	}
	return c.line(ctx, l)
}

func (c *pastCopy) fill(ctx context.Context, upTo int64) error {
	for c.next < upTo {
		if err := c.line(ctx, tidemark.Line{Seq: c.next, Kind: tidemark.KindGap, At: c.s.k.Now()}); err != nil {
			return err
		}
	}
	return nil
}

func (c *pastCopy) line(ctx context.Context, l tidemark.Line) error {
	l.Sum = l.Checksum(c.log)
	c.lines = append(c.lines, l)
	c.next++
	if len(c.lines) < copyLines {
		return nil
	}
	return c.flush(ctx)
}

func (c *pastCopy) flush(ctx context.Context) error {
	if len(c.lines) == 0 {
		return nil
	}
	_, err := c.s.k.Commit(ctx, tidemark.Batch{Appends: []tidemark.Append{{Log: c.log, Lines: c.lines}}})
	c.lines = nil
	return err
}

// removeAll removes everything that belongs to a session, in one commit. Whoever
// indexes or imports something at that moment may be quicker, so it is tried again
// while the lease stands.
func (s *Store) removeAll(ctx context.Context, id tidemark.SessionID, l Lease) error {
	return records.Retry(ctx, func() error {
		err := s.tryRemoveAll(ctx, id, l)
		if !errors.Is(err, tidemark.ErrConflict) {
			return err
		}
		if now, lookErr := s.k.Lease(ctx, l.Of); lookErr != nil || now.Version != l.Version {
			return records.Final(err)
		}
		return err
	})
}

func (s *Store) tryRemoveAll(ctx context.Context, id tidemark.SessionID, l Lease) error {
	b := tidemark.Batch{Drops: []tidemark.Key{keyOf(kindSession, id), keyOf(kindNotes, id), keyOf(kindPast, id)}}
	remove := func(r tidemark.Record) {
		b.Deletes = append(b.Deletes, tidemark.Precondition{Key: r.Key, Version: r.Version})
	}
	r, err := s.backend.Get(ctx, keyOf(kindSession, id))
	if err != nil {
		return err
	}
	remove(r)
	i, err := infoOf(r)
	if err == nil && i.Base != nil {
		if link, err := s.backend.Get(ctx, keyOf(kindFork, i.Base.Session, string(id))); err == nil {
			remove(link)
		}
	}
	for _, kind := range []string{records.KindLease, records.KindPulse, records.KindHandover} {
		if r, err := s.k.Get(ctx, keyOf(kind, id), &struct{}{}); err != nil {
			return err
		} else if r.Version > 0 {
			remove(r)
		}
	}
	// Other machines may have it, also if nothing here says so: the store may be a
	// backup from before it was shared.
	shared, err := s.k.Has(ctx, records.MachineKey)
	if err != nil {
		return err
	}
	for _, kind := range []string{kindName, kindWorker, kindCheckpoint, kindDraft, tidemark.KindJumps, kindHandover, records.KindOrigins, records.KindWake, vault.KindSecret, kindFile, tidemark.KindUnindexed} {
		for r, err := range s.backend.List(ctx, tidemark.Query{Kind: kind, Prefix: string(id), Order: tidemark.ByID}) {
			if err != nil {
				return err
			}
			if kind == tidemark.KindUnindexed && r.Group != "" {
				continue // of another owner's session, in the index of a scope
			}
			remove(r)
			if kind == kindWorker {
				b.Drops = append(b.Drops, r.Key)
			}
		}
	}
	contents, err := s.fileLogs(ctx, id)
	if err != nil {
		return err
	}
	b.Drops = append(b.Drops, contents...)
	if err := s.forgetSources(ctx, &b, id); err != nil {
		return err
	}
	if err := s.addTombstone(ctx, &b, purgedName(i.Session)); err != nil {
		return err
	}
	if shared && purgedName(i.Session) != string(id) {
		if err := s.addTombstone(ctx, &b, string(id)); err != nil {
			return err
		}
	}
	if err := s.addHandedTombstones(ctx, &b, i.Session); err != nil {
		return err
	}
	b.Require = append(b.Require, l.Need())
	if err := s.leave(ctx, &b); err != nil {
		return err
	}
	_, err = s.k.Commit(ctx, b)
	return err
}
