package store

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// A draft is the end of a session that another tool is writing: entries that may
// still change, and a branch marker where the tool is not at its last entry. It
// is one record beside each log, which an import replaces; an entry goes to the
// log once it is final. A draft holds as long as its log has the length that it
// was made for, so that appending and replacing need not be one commit.

// draft is the record.
type draft struct {
	After   int64            `json:"after"` // how many lines its log has
	Entries []tidemark.Entry `json:"entries"`
}

// maxDraftBytes bounds the entries of a draft. What is beyond is at its source,
// and comes here when it is final.
const maxDraftBytes = 16 << 20

// followed reports whether another tool may write to a session.
func followed(s tidemark.Session) bool { return s.Tool != "" || s.Handed }

// draftKey names the draft of a log.
func draftKey(log tidemark.Key) tidemark.Key { return tidemark.Key{Kind: kindDraft, ID: log.ID} }

// draftOf reads the draft of a log that has a length, and its version. There are
// no entries when it is for another length, or damaged: an import replaces it.
func (s *Store) draftOf(ctx context.Context, log tidemark.Key, length int64) ([]tidemark.Entry, int64, error) {
	var d draft
	r, err := s.k.Get(ctx, draftKey(log), &d)
	switch {
	case errors.Is(err, tidemark.ErrCorrupt):
		return nil, r.Version, nil
	case err != nil || r.Version == 0 || d.After != length:
		return nil, r.Version, err
	}
	return d.Entries, r.Version, nil
}

// Draft returns the entries of the session, or of the worker, that may still
// change, with the seqs that they would have: none for a session that no other
// tool writes.
func (v *View) Draft(ctx context.Context) ([]tidemark.Entry, error) {
	if !followed(v.Session) {
		return nil, nil
	}
	r, err := v.s.k.Get(ctx, v.log(), &struct{}{})
	if err != nil {
		return nil, err
	}
	entries, _, err := v.s.draftOf(ctx, v.log(), r.Head.Length)
	for i := range entries {
		entries[i].Draft = true
	}
	return entries, err
}

// WithDraft returns a View that goes on with the draft behind the newest entry,
// and is at the head that the tool is at. Entries of the draft are marked as
// such. Where there is a draft the View is of now: only Follow yields what is
// appended later.
func (v *View) WithDraft(ctx context.Context) (*View, error) {
	with := *v
	with.showsDraft = true
	entries, err := v.Draft(ctx)
	if err != nil || len(entries) == 0 {
		return &with, err
	}
	offset := v.offset()
	with.draft = &draftLines{after: entries[0].Seq - offset - 1}
	for _, e := range entries {
		l, err := e.Line()
		if err != nil {
			with.draft = nil // as a damaged one
			return &with, nil
		}
		l.Seq -= offset
		with.draft.lines = append(with.draft.lines, l)
	}
	last := entries[len(entries)-1]
	with.Entries, with.Messages, with.Nodes, with.depth = last.Seq, last.Depth, last.Nodes, last.Depth
	return &with, nil
}

// offset is the difference between the seqs of entries and of the lines of the
// log that new ones are appended to.
func (v *View) offset() int64 {
	if v.worker != "" {
		return 0
	}
	return v.sharedUpTo()
}

// finalHead returns the newest entry that is no draft on the branch that the
// session is at, 0 when there is none. It may be a branch marker.
func (v *View) finalHead(ctx context.Context) (int64, error) {
	with, err := v.WithDraft(ctx)
	if err != nil {
		return 0, err
	}
	if with.draft == nil {
		head, err := v.head(ctx)
		return head.Seq, err
	}
	segments, err := with.trail(ctx)
	if err != nil {
		return 0, err
	}
	for l, err := range with.walk(ctx, segments, 0, 1) {
		if err != nil || l.Seq <= with.draft.after+with.offset() {
			return l.Seq, err
		}
	}
	return 0, nil
}

// draftLines are the lines of a draft behind those of a log.
type draftLines struct {
	after int64
	lines []tidemark.Line
}

// lines yields a span of a log, with the draft of the View at its end.
func (v *View) lines(ctx context.Context, log tidemark.Key, span tidemark.Span) iter.Seq2[tidemark.Line, error] {
	if v.draft == nil || log != v.log() {
		return v.s.backend.Lines(ctx, log, span)
	}
	after, end := v.draft.after, v.draft.after+int64(len(v.draft.lines))
	from, to := max(span.From, 1), end
	if span.To > 0 {
		to = min(span.To, end)
	}
	if span.Newest > 0 {
		from = max(from, to-int64(span.Newest)+1)
	}
	var drafts []tidemark.Line
	if first := max(from, after+1); first <= to {
		drafts = slices.Clone(v.draft.lines[first-after-1 : to-after])
	}
	return func(yield func(tidemark.Line, error) bool) {
		if span.Backwards {
			for _, l := range slices.Backward(drafts) {
				if !yield(l, nil) {
					return
				}
			}
		}
		if from <= min(to, after) {
			for l, err := range v.s.backend.Lines(ctx, log, tidemark.Span{From: from, To: min(to, after), Backwards: span.Backwards}) {
				if !yield(l, err) {
					return
				}
			}
		}
		if span.Backwards {
			return
		}
		for _, l := range drafts {
			if !yield(l, nil) {
				return
			}
		}
	}
}

// KeepDraft makes entries the draft of the session or, if worker is not empty, of
// a worker, in place of an earlier draft; no entries remove it. It creates the
// session and the worker where they do not exist. From then on w leaves drafts
// alone when it appends, as one of AttachSource does. ErrConflict: the lease is
// lost.
func (w *Writer) KeepDraft(ctx context.Context, worker string, entries ...tidemark.Entry) error {
	w.held.Lock()
	defer w.held.Unlock()
	w.followsSource = true
	t := w.main
	if worker != "" {
		err := CheckWorker(worker)
		if err == nil {
			t, err = w.workerTail(ctx, worker)
		}
		if err != nil {
			return err
		}
	}
	err := records.Retry(ctx, func() error {
		err := w.keepDraft(ctx, t, entries)
		if errors.Is(err, tidemark.ErrConflict) && !w.held.Holds(ctx) {
			return records.Final(err)
		}
		return err // else somebody else renamed the session or the like
	})
	return w.held.Lost(ctx, err)
}

// keepDraft is one attempt of KeepDraft.
func (w *Writer) keepDraft(ctx context.Context, t *tail, entries []tidemark.Entry) error {
	old, err := w.s.k.Get(ctx, draftKey(t.log), &draft{})
	if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
		return err
	}
	b := tidemark.Batch{At: w.s.k.Now()}
	p, err := w.plan(ctx, t, entries, b.At)
	if err != nil || len(entries) == 0 && old.Version == 0 {
		return err
	}
	var d draft
	if len(entries) == 0 {
		b.Deletes = []tidemark.Precondition{{Key: old.Key, Version: old.Version}}
	} else {
		if d, err = draftFrom(t, p); err != nil {
			return err
		}
		r, err := records.Put(draftKey(t.log), old.Version, d)
		if err != nil {
			return err
		}
		b.Puts = []tidemark.Record{r}
	}
	if err := w.lookForWorker(ctx, t); err != nil {
		return err
	}
	if t == w.main {
		if err := w.addDraftSize(ctx, &b, d); err != nil {
			return err
		}
	}
	_, err = w.send(ctx, t, b, p.secrets)
	return err
}

// addDraftSize has the record of the session say how much its draft has. The
// session was changed then, as by an append.
func (w *Writer) addDraftSize(ctx context.Context, b *tidemark.Batch, d draft) error {
	var size *tidemark.DraftSize
	if n := len(d.Entries); n > 0 {
		size = &tidemark.DraftSize{After: d.After, Messages: d.Entries[n-1].Depth}
	}
	if !w.held.IsTaken() {
		w.session.Draft = size
		return nil
	}
	i, err := w.s.Session(ctx, w.id)
	if err != nil {
		return err
	}
	i.Draft = size
	r, err := w.s.record(i.Session, i.State, i.version)
	b.Puts = append(b.Puts, r)
	return err
}

// draftFrom returns the draft of planned lines, as many as fit.
func draftFrom(t *tail, p plan) (draft, error) {
	d, size := draft{After: t.length()}, 0
	for _, l := range p.lines {
		if size += len(l.Body); size > maxDraftBytes {
			break
		}
		l.Seq += t.offset
		e, err := tidemark.EntryOf(l)
		if err != nil {
			return d, err
		}
		d.Entries = append(d.Entries, e)
	}
	return d, nil
}

// lookForWorker looks whether a worker without lines exists: one that has only a
// draft does.
func (w *Writer) lookForWorker(ctx context.Context, t *tail) error {
	if t == w.main || t.named || t.newest.Seq > 0 || !w.held.IsTaken() {
		return nil
	}
	r, err := w.s.k.Get(ctx, t.log, &struct{}{})
	t.named = r.Version > 0
	return err
}

// settle puts the draft of a log before entries that are appended to it, and
// returns how many that are.
func (w *Writer) settle(ctx context.Context, t *tail, entries []tidemark.Entry) ([]tidemark.Entry, int, error) {
	if t.settled || !followed(w.session) || !w.held.IsTaken() {
		return entries, 0, nil
	}
	if err := w.lookForWorker(ctx, t); err != nil {
		return nil, 0, err
	}
	if w.followsSource {
		return entries, 0, nil
	}
	kept, version, err := w.s.draftOf(ctx, t.log, t.length())
	if err != nil {
		return nil, 0, err
	}
	t.settled, t.draft = true, version
	if len(kept) == 0 {
		return entries, 0, nil
	}
	for i := range kept {
		if kept[i].Parent == 0 {
			kept[i].Parent = Root // 0 would be the newest entry
		}
	}
	kept = interrupted(kept)
	return slices.Concat(kept, entries), len(kept), nil
}

// interrupted returns the entries of a draft as they are appended when nothing
// more of them is expected: with a note that they ended early, before the marker
// that says where the tool was.
func interrupted(kept []tidemark.Entry) []tidemark.Entry {
	end := len(kept)
	if kept[end-1].Kind == tidemark.KindBranch {
		end--
	}
	if end == 0 {
		return kept
	}
	last := kept[end-1]
	note := tidemark.Entry{Kind: tidemark.KindInterrupted, At: last.At, Position: tidemark.Position{Parent: last.Seq}}
	return slices.Insert(kept, end, note)
}

// Settle appends the draft of a session and of its workers, as interrupted: nothing
// more of them is expected, because their source is gone. ErrHeld while somebody
// writes to the session.
func (s *Store) Settle(ctx context.Context, id tidemark.SessionID, who tidemark.Holder) error {
	var logs []tidemark.Key
	for r, err := range s.backend.List(ctx, tidemark.Query{Kind: kindDraft, Prefix: string(id), Order: tidemark.ByID}) {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return err
		}
		logs = append(logs, r.Key)
	}
	if len(logs) == 0 {
		return nil
	}
	w, err := s.Attach(ctx, id, who)
	if err != nil {
		return err
	}
	for _, log := range logs {
		if of, worker := sessionOf(log); err == nil && of == id && worker != "" {
			_, err = w.AppendTo(ctx, worker)
		}
	}
	return errors.Join(err, w.Close(context.WithoutCancel(ctx)))
}

// MaskDraft masks the secrets in the draft of the View. It needs no lease.
func (v *View) MaskDraft(ctx context.Context) error {
	if !followed(v.Session) {
		return nil
	}
	return records.Retry(ctx, func() error {
		var d draft
		r, err := v.s.k.Get(ctx, draftKey(v.log()), &d)
		if errors.Is(err, tidemark.ErrCorrupt) || err == nil && r.Version == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		found := false
		for i, e := range d.Entries {
			if len(v.s.vault.Find(e)) > 0 {
				d.Entries[i], found = v.s.Mask(e), true
			}
		}
		if !found {
			return nil
		}
		put, err := records.Put(r.Key, r.Version, d)
		if err == nil {
			_, err = v.s.k.Commit(ctx, tidemark.Batch{Puts: []tidemark.Record{put}})
		}
		return err
	})
}
