package store

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/internal/vault"
)

// Writer appends to one session while it holds the session's lease. Its methods
// may be called concurrently; appends are kept in the order in which they return.
type Writer struct {
	s    *Store
	id   tidemark.SessionID
	held *records.Holding // its mutex guards what follows

	session tidemark.Session // what the first append creates
	main    *tail
	workers map[string]*tail
	shared  *View // reads a fork's shared past

	followsSource bool // see AttachSource
}

// writer returns the Writer of an existing session under a committed lease. Its
// tail is not loaded yet.
func (s *Store) writer(i Info, l Lease) *Writer {
	w := &Writer{s: s, id: i.ID, held: s.k.Hold(l), session: i.Session, main: newTail(keyOf(kindSession, i.ID), 0)}
	if i.Base != nil {
		w.main.offset = i.Base.Seq
		w.shared = &View{s: s, Info: i}
	}
	return w
}

// Create returns a Writer of a session that does not exist yet: the first
// append creates it, so that a conversation without a message leaves nothing
// behind. Where sess has no ID it gets one; see Writer.ID.
func (s *Store) Create(sess tidemark.Session, who tidemark.Holder) *Writer {
	sess.Draft, sess.Gone = nil, time.Time{} // those of another store
	if sess.ID == "" {
		sess.ID = tidemark.NewSessionID()
	}
	if sess.Mode == "" {
		sess.Mode = tidemark.ModeLocal
	}
	key := keyOf(kindSession, sess.ID)
	return &Writer{s: s, id: sess.ID, held: s.k.Hold(Lease{Of: key, Holder: who}), session: sess, main: newTail(key, 0)}
}

// Attach returns the Writer of a session: ErrNotFound when there is none or it
// is in the trash, ErrHeld (a *HeldError) when somebody else writes to it. A
// holder that is proven dead, or that was silent for longer than its lease, is
// replaced, and anything that it still tries to append is refused. What another
// tool was writing is appended, as interrupted: who goes on with a session goes on
// with all that was shown of it.
func (s *Store) Attach(ctx context.Context, id tidemark.SessionID, who tidemark.Holder) (*Writer, error) {
	w, err := s.attach(ctx, id, who, "")
	if err != nil || !followed(w.session) {
		return w, err
	}
	if _, err := w.Append(ctx); err != nil {
		return nil, errors.Join(err, w.Close(context.WithoutCancel(ctx)))
	}
	return w, nil
}

// AttachSource is Attach for an import of what another tool writes: the Writer
// leaves the drafts of the session alone, and its KeepDraft replaces them.
func (s *Store) AttachSource(ctx context.Context, id tidemark.SessionID, who tidemark.Holder) (*Writer, error) {
	w, err := s.attach(ctx, id, who, "")
	if err == nil {
		w.followsSource = true
	}
	return w, err
}

// AttachMerge is AttachSource for what other machines added: also to a session in
// the trash, since it may come out of it again.
func (s *Store) AttachMerge(ctx context.Context, id tidemark.SessionID, who tidemark.Holder) (*Writer, error) {
	w, err := s.attachIn(ctx, id, who, "", Live, Trash)
	if err == nil {
		w.followsSource = true
	}
	return w, err
}

// attach is Attach, for a process or, with a tokenHash, for a holder that is known
// by a token of that hash.
func (s *Store) attach(ctx context.Context, id tidemark.SessionID, who tidemark.Holder, tokenHash string) (*Writer, error) {
	return s.attachIn(ctx, id, who, tokenHash, Live)
}

// attachIn is attach for a session that may be in any of these states; one that is
// being purged is its purger's.
func (s *Store) attachIn(ctx context.Context, id tidemark.SessionID, who tidemark.Holder, tokenHash string, states ...string) (*Writer, error) {
	i, err := s.Session(ctx, id)
	if err != nil {
		return nil, err
	}
	if i.State == Trash && !slices.Contains(states, Trash) {
		return nil, tidemark.Errorf(tidemark.ErrTrashed, "session %s is in the trash", id)
	}
	var l Lease
	err = records.Retry(ctx, func() error {
		var b tidemark.Batch
		if l, b, err = s.k.TakeWithToken(ctx, keyOf(kindSession, id), who, tokenHash); err != nil {
			return err
		}
		b.Require = append(b.Require, tidemark.Precondition{Key: keyOf(kindSession, id), Version: i.version})
		_, err := s.k.Commit(ctx, b)
		if errors.Is(err, tidemark.ErrConflict) {
			if again, lookErr := s.Session(ctx, id); lookErr != nil || again.State == Trash && !slices.Contains(states, Trash) {
				return errors.Join(tidemark.NotFoundf("session %s: not found", id), lookErr)
			} else if again.version != i.version {
				i = again
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	w := s.writer(i, l)
	if err := w.main.load(ctx, s); err != nil {
		return nil, errors.Join(err, w.Close(ctx))
	}
	return w, nil
}

// ID returns the id of the session, also before it exists.
func (w *Writer) ID() tidemark.SessionID { return w.id }

// Began reports whether the session exists, by this Writer or before it.
func (w *Writer) Began() bool {
	w.held.Lock()
	defer w.held.Unlock()
	return w.held.IsTaken()
}

// Head returns the seq of the newest entry, 0 when there is none.
func (w *Writer) Head() int64 {
	w.held.Lock()
	defer w.held.Unlock()
	return w.main.newest.Seq
}

// Append adds entries to the session, all of them or none, and returns their
// seqs when they are durable. An entry without a Parent follows the newest
// one; Root makes it a root. An entry whose Key is already in the log is not
// added again: its old seq is returned in its place.
//
// ErrInvalid: an entry that could not be kept, or a Parent that is not there.
// ErrConflict: the lease is lost. Nothing was kept then.
func (w *Writer) Append(ctx context.Context, entries ...tidemark.Entry) ([]int64, error) {
	w.held.Lock()
	defer w.held.Unlock()
	return w.append(ctx, w.main, entries)
}

// AppendTo is Append to the log of a worker, which it creates if there is none.
func (w *Writer) AppendTo(ctx context.Context, worker string, entries ...tidemark.Entry) ([]int64, error) {
	if err := CheckWorker(worker); err != nil {
		return nil, err
	}
	w.held.Lock()
	defer w.held.Unlock()
	t, err := w.workerTail(ctx, worker)
	if err != nil {
		return nil, err
	}
	return w.append(ctx, t, entries)
}

// workerTail returns the end of the log of a worker.
func (w *Writer) workerTail(ctx context.Context, worker string) (*tail, error) {
	t := w.workers[worker]
	if t != nil {
		return t, nil
	}
	t = newTail(keyOf(kindWorker, w.id, worker), 0)
	if err := t.load(ctx, w.s); err != nil {
		return nil, err
	}
	if w.workers == nil {
		w.workers = make(map[string]*tail)
	}
	w.workers[worker] = t
	return t, nil
}

// CheckWorker returns ErrInvalid for a name that no worker can have. The name is
// part of a key, after the session's id.
func CheckWorker(name string) error {
	if len(name) > 64 {
		return tidemark.Invalidf("worker %.20q…: at most 64 bytes are allowed", name)
	}
	if err := tidemark.CheckID(name); err != nil {
		return tidemark.Invalidf("worker: %w", err)
	}
	return nil
}

func (w *Writer) append(ctx context.Context, t *tail, entries []tidemark.Entry) ([]int64, error) {
	if w.held.Ended() {
		return nil, tidemark.Conflictf("session %s: the writer is closed", w.id)
	}
	entries, settled, err := w.settle(ctx, t, entries)
	if err != nil {
		return nil, err
	}
	seqs := make([]int64, len(entries))
	todo, left := entries, []int(nil) // left: the indexes of those in todo; nil: it is all of them
	for range records.Tries {
		if len(todo) == 0 {
			return seqs[settled:], nil
		}
		now := w.s.k.Now()
		planned, err := w.plan(ctx, t, todo, now)
		if err != nil {
			return nil, err
		}
		b := tidemark.Batch{At: now, Appends: []tidemark.Append{{Log: t.log, Lines: planned.lines}}}
		if t.draft > 0 {
			b.Deletes = []tidemark.Precondition{{Key: draftKey(t.log), Version: t.draft}}
		}
		receipt, err := w.send(ctx, t, b, planned.secrets)
		switch {
		case err == nil:
			t.newest, t.draft = planned.newest, 0
			if t.jumps = append(t.jumps, planned.jumps...); t.newest.Seq-t.noted >= jumpsOften {
				w.noteJumps(ctx, t)
			}
			for i := range planned.lines {
				at := i
				if left != nil {
					at = left[i]
				}
				seqs[at] = planned.lines[i].Seq + t.offset
			}
			return seqs[settled:], nil
		case errors.Is(err, tidemark.ErrExists):
			todo, left = takeDuplicates(receipt, entries, left, seqs, t.offset)
		case errors.Is(err, tidemark.ErrConflict):
			// While the lease is ours nobody else appends, so the tail can only
			// be out of date because of an append of our own whose outcome
			// stayed unknown.
			was, pulse := t.newest.Seq, w.held.Renewals()
			if !w.held.Holds(ctx) {
				return nil, w.held.Lost(ctx, err)
			}
			if err := t.load(ctx, w.s); err != nil {
				return nil, err
			}
			if t.newest.Seq == was && w.held.Renewals() == pulse {
				return nil, err
			}
		default:
			return nil, err
		}
	}
	return nil, tidemark.Conflictf("session %s: lost the race %d times", w.id, records.Tries)
}

// takeDuplicates sets the seqs of the entries that are in the log already, and
// returns those that are still left, with their indexes. So far the ones of left were, all
// where that is nil.
func takeDuplicates(r tidemark.Receipt, entries []tidemark.Entry, left []int, seqs []int64, offset int64) (todo []tidemark.Entry, still []int) {
	known := make(map[string]int64, len(r.Duplicates))
	for _, k := range r.Duplicates {
		known[k.Key] = k.Seq + offset
	}
	if left == nil {
		left = make([]int, len(entries))
		for i := range left {
			left[i] = i
		}
	}
	still = make([]int, 0, len(left))
	for _, at := range left {
		if seq, ok := known[entries[at].Key]; ok && entries[at].Key != "" {
			seqs[at] = seq
		} else {
			todo, still = append(todo, entries[at]), append(still, at)
		}
	}
	return todo, still
}

// send commits what was planned for a log, together with the creation of the
// session or the worker where there is none, and with a renewal of the lease if
// one is due.
func (w *Writer) send(ctx context.Context, t *tail, b tidemark.Batch, secrets vault.Values) (tidemark.Receipt, error) {
	attached, lease := w.held.IsTaken(), w.held.Lease()
	renew := attached && w.held.IsOld()
	var err error
	if attached {
		err = w.held.Guard(&b, renew)
	} else {
		lease, err = w.addCreation(ctx, &b)
	}
	if err != nil {
		return tidemark.Receipt{}, err
	}
	if t != w.main && t.newest.Seq == 0 && !t.named {
		r, err := records.Put(t.log, 0, struct{}{})
		if err != nil {
			return tidemark.Receipt{}, err
		}
		r.Group = string(w.id)
		b.Puts = append(b.Puts, r)
	}
	if err := w.s.vault.Add(ctx, &b, string(w.id), secrets); err != nil {
		return tidemark.Receipt{}, err
	}
	receipt, err := w.s.k.Commit(ctx, b)
	if err != nil {
		return receipt, err
	}
	if !attached {
		w.s.recordProject(ctx, w.session.Project)
	}
	w.held.Taken(lease)
	if renew {
		w.held.Renewed()
	}
	t.named = true
	return receipt, nil
}

// addCreation adds the records of a new session to b: its own, its lease, and the
// names that lead to it.
func (w *Writer) addCreation(ctx context.Context, b *tidemark.Batch) (Lease, error) {
	if w.session.CreatedAt.IsZero() {
		w.session.CreatedAt = b.At
	}
	w.session.CreatedAt = records.Keepable(w.session.CreatedAt)
	if w.s.vault.Redaction().Masks() {
		said := append([]string{w.session.Title, w.session.Agent, w.session.Model}, w.session.Tags...)
		kept := w.s.vault.ValuesIn(said...)
		extra := slices.Clone(w.session.Extra)
		maps.Copy(kept, w.s.vault.Redact(string(w.id), nil, &extra))
		if err := w.s.vault.Keep(ctx, string(w.id), kept); err != nil {
			return Lease{}, err
		}
		w.session = w.s.MaskSession(w.session)
	}
	r, err := w.s.record(w.session, Live, 0)
	if err != nil {
		return Lease{}, err
	}
	l, lb, err := w.s.k.LeaseAfter(Lease{Of: keyOf(kindSession, w.id)}, w.held.Lease().Holder, "")
	if err != nil {
		return l, err
	}
	b.Puts = append(b.Puts, lb.Puts...)
	if err := w.s.addNames(b, w.session); err != nil {
		return l, err
	}
	b.Puts = append(b.Puts, r) // last: once it is written, the session exists
	return l, nil
}

// addNames adds the names that lead to a session.
func (s *Store) addNames(b *tidemark.Batch, sess tidemark.Session) error {
	return errors.Join(
		s.addName(b, name{Class: classTitle, Text: sess.Title, Session: sess.ID}),
		s.addForeign(b, sess))
}

// Branch moves the head to an earlier entry, which the next append then follows.
// Nothing is removed: the entries after it stay as a branch of their own.
func (w *Writer) Branch(ctx context.Context, seq int64) error {
	_, err := w.Append(ctx, tidemark.Entry{Kind: tidemark.KindBranch, Position: tidemark.Position{Parent: seq}})
	return err
}

// Close releases the lease. It is no error to close a Writer that lost its lease
// or never appended, or to close it twice.
func (w *Writer) Close(ctx context.Context) error {
	w.finishJumps(ctx)
	return w.held.Close(ctx)
}
