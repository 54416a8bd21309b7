package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/search/index"
)

// newIndex returns the search index that is kept in the store itself.
func (s *Store) newIndex() *index.Index {
	k := records.New(s.backend, records.Options{Now: s.o.Now, Dead: s.o.Dead, Lease: s.o.Lease})
	return index.New(k, index.Options{Holder: process.Self("search index")})
}

// written are the logs that this Store appended to and has not indexed.
type written struct {
	mu   sync.Mutex
	logs map[tidemark.Key]bool
}

func (w *written) add(logs ...tidemark.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.logs == nil {
		w.logs = make(map[tidemark.Key]bool)
	}
	for _, log := range logs {
		w.logs[log] = true
	}
}

func (w *written) take() (logs []tidemark.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for log := range w.logs {
		logs = append(logs, log)
	}
	w.logs = nil
	return logs
}

// datedBack adds a note to a batch of an import.
func (s *Store) datedBack(b *tidemark.Batch) {
	if s.index == nil || errors.Is(s.mayIndex(context.Background()), tidemark.ErrUnsupported) {
		return
	}
	noted := make(map[tidemark.SessionID]bool)
	for _, a := range b.Appends {
		id, _ := sessionOf(a.Log)
		if noted[id] || !slices.Contains(searched, a.Log.Kind) {
			continue
		}
		noted[id] = true
		note := tidemark.Record{Key: keyOf(tidemark.KindUnindexed, id, tidemark.NewBatchID()), Version: 1, Body: []byte("{}")}
		note.Sum = note.Checksum()
		b.Puts = append(b.Puts, note)
	}
}

// source tells the index of sessions and their words.
type source struct{ s *Store }

// Touched implements index.Source.
func (x source) Touched(ctx context.Context, since time.Time) iter.Seq2[index.Log, error] {
	return func(yield func(index.Log, error) bool) {
		seen := make(map[tidemark.SessionID]bool)
		// session yields the logs that a session has beside those of its workers.
		session := func(id tidemark.SessionID) bool {
			if seen[id] {
				return true
			}
			seen[id] = true
			for _, kind := range []string{kindSession, kindNotes, kindPast} {
				if !x.log(ctx, keyOf(kind, id), yield) {
					return false
				}
			}
			return true
		}
		all := []struct {
			kind  string
			order tidemark.Order
			look  func(tidemark.Record) bool
		}{
			{tidemark.KindUnindexed, tidemark.ByID, func(r tidemark.Record) bool {
				id, _ := sessionOf(r.Key)
				return session(id) && x.workers(ctx, id, yield) &&
					yield(index.Log{Key: keyOf(kindSession, id), Note: tidemark.Precondition{Key: r.Key, Version: r.Version}}, nil)
			}},
			{kindSession, tidemark.Newest, func(r tidemark.Record) bool { return session(tidemark.SessionID(r.ID)) }},
			{kindWorker, tidemark.Newest, func(r tidemark.Record) bool {
				return yield(index.Log{Key: r.Key, Length: r.Head.Length}, nil)
			}},
			// A label touches nothing but its name.
			{kindName, tidemark.Newest, func(r tidemark.Record) bool { id, _ := sessionOf(r.Key); return session(id) }},
		}
		for _, of := range all {
			if of.kind == kindName && since.IsZero() {
				continue // all sessions were listed
			}
			for r, err := range x.s.backend.List(ctx, tidemark.Query{Kind: of.kind, Order: of.order}) {
				if err != nil {
					if !yield(index.Log{}, err) || !errors.Is(err, tidemark.ErrCorrupt) {
						return
					}
					continue
				}
				if of.order == tidemark.Newest && r.Touched().Before(since) {
					break
				}
				if !of.look(r) {
					return
				}
			}
		}
	}
}

// log yields a log, if there is one.
func (x source) log(ctx context.Context, key tidemark.Key, yield func(index.Log, error) bool) bool {
	r, err := x.s.backend.Get(ctx, key)
	if err != nil && !errors.Is(err, tidemark.ErrNotFound) {
		return yield(index.Log{}, err) && errors.Is(err, tidemark.ErrCorrupt)
	}
	return r.Head.Length == 0 || yield(index.Log{Key: key, Length: r.Head.Length}, nil)
}

// workers yields the logs of the workers of a session.
func (x source) workers(ctx context.Context, id tidemark.SessionID, yield func(index.Log, error) bool) bool {
	for r, err := range x.s.backend.List(ctx, tidemark.Query{Kind: kindWorker, Prefix: string(id) + ".", Order: tidemark.ByID}) {
		if !yield(index.Log{Key: r.Key, Length: r.Head.Length}, err) || err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return false
		}
	}
	return true
}

// Words implements index.Source.
func (x source) Words(ctx context.Context, log tidemark.Key) (index.Words, error) {
	about, err := x.s.about(ctx, log)
	if err != nil {
		return nil, err
	}
	_, worker := sessionOf(log)
	m, err := x.s.marksOf(ctx, about, worker)
	if err != nil {
		return nil, err
	}
	offset := int64(0)
	if log.Kind == kindSession && about.Base != nil {
		offset = about.Base.Seq
	}
	return func(l tidemark.Line, put func([]byte, int)) {
		e, err := searchable(log, l)
		if err != nil || structural(e) && l.Seq != 1 {
			return
		}
		if log.Kind != kindNotes {
			e.Seq += offset
			e = m.apply(x.s, e)
		}
		x.s.placeWords(about.Session, log, l, e, put)
	}, nil
}

// filterOverflow is the class of the filter word of an entry of which not all words are
// indexed.
const filterOverflow = "o"

// placeWords puts the words of a line with their places. Those of a title stand
// behind those of the entry that it is found by.
func (s *Store) placeWords(about tidemark.Session, log tidemark.Key, l tidemark.Line, e tidemark.Entry, put func([]byte, int)) {
	next, behind := 0, 0
	words := func(e tidemark.Entry) {
		all := s.o.Places(e, func(word []byte, place int) {
			if place >= 0 {
				place += behind
				next = max(next, place+2)
			}
			put(word, place)
		})
		if behind = next; !all {
			put([]byte(filterWord(filterOverflow, "")), -1)
		}
	}
	filter := func(class, value string) {
		if value != "" {
			put([]byte(segmentWord(filterWord(class, value))), -1)
		}
	}
	words(e)
	filter(filterRole, l.Kind)
	if log.Kind == kindSession && l.Seq == 1 && about.Title != "" {
		words(titleEntry(about.Title))
		filter(filterRole, noteTitle)
	}
	filter(filterAgent, about.Agent)
	filter(filterProject, about.Project)
}

// segmentWord returns a filter word that is no longer than a segment allows: of a
// long one, such as the path of a project, the beginning and a hash.
func segmentWord(word string) string {
	if len(word) <= index.MaxWordBytes {
		return word
	}
	sum := sha256.Sum256([]byte(word))
	return word[:index.MaxWordBytes-32] + hex.EncodeToString(sum[:16])
}

func segmentTerms(terms []tidemark.Term) []tidemark.Term {
	terms = slices.Clone(terms)
	for i := range terms {
		terms[i].Word = segmentWord(terms[i].Word)
	}
	return terms
}

// segmentFinder asks the index that is kept in the store itself.
type segmentFinder struct {
	s    *Store
	view *index.View
}

func (f segmentFinder) behind(ctx context.Context) iter.Seq2[tidemark.Lag, error] {
	return func(yield func(tidemark.Lag, error) bool) {
		for l, err := range f.view.Behind(ctx, source{f.s}) {
			if !yield(tidemark.Lag{Log: l.Log, From: l.From, To: l.To}, err) || err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
				return
			}
		}
	}
}

func (f segmentFinder) find(ctx context.Context, l looking) iter.Seq2[spot, error] {
	q := index.Query{None: segmentTerms(l.None), Phrases: l.Phrases}
	for _, group := range l.All {
		q.All = append(q.All, segmentTerms(group))
	}
	if b := l.Before; b != nil {
		at := index.LineOf(b.Log, tidemark.Line{Seq: b.Seq, At: b.At})
		q.Before = &at
	}
	if !l.Since.IsZero() {
		q.Since = l.Since.UnixMicro()
	}
	// An entry with more words than are indexed may have any.
	rest := q
	rest.All, rest.None, rest.Phrases = nil, nil, nil
	for _, group := range append(slices.Clone(q.All), []tidemark.Term{{Word: filterWord(filterOverflow, "")}}) {
		if isFilterWord(group[0].Word) {
			rest.All = append(rest.All, group)
		}
	}
	for _, term := range q.None {
		if isFilterWord(term.Word) {
			rest.None = append(rest.None, term)
		}
	}
	return merge(f.lines(ctx, q), f.lines(ctx, rest))
}

func (f segmentFinder) lines(ctx context.Context, q index.Query) iter.Seq2[spot, error] {
	return func(yield func(spot, error) bool) {
		for hit, err := range f.view.Search(ctx, q) {
			if !yield(spot{At: time.UnixMicro(hit.At).UTC(), Log: index.LogOf(hit.Log), Seq: hit.Seq}, err) || err != nil {
				return
			}
		}
	}
}

// untilSometimes is how long the index may go on with what a process wrote itself,
// before it looks for what others left.
const untilSometimes = 10 * time.Minute

// behindBytes is how much is gathered behind a writer.
const behindBytes = 8 << 20

// smallMerge is how many lines are merged behind a writer: a fraction of a second.
const smallMerge = 20_000

// indexWritten indexes what this Store appended, and what others left if nobody
// looked within a time.
func (s *Store) indexWritten(ctx context.Context, within time.Duration) error {
	logs := s.written.take()
	_, err := s.index.CatchUp(ctx, source{s}, index.Pace{Bytes: behindBytes, Only: logs, Within: within})
	if err != nil {
		s.written.add(logs...)
		return err
	}
	return s.tend(ctx, smallMerge)
}

// tend merges segments, and takes out of them what is left out.
func (s *Store) tend(ctx context.Context, most int) error {
	if err := s.index.Rewrite(ctx); err != nil {
		return err
	}
	return s.mergeAll(ctx, most)
}

// mergeAll merges segments of at most so many lines together, 0: of however many,
// as long as there is something to merge.
func (s *Store) mergeAll(ctx context.Context, most int) error {
	for {
		merged, err := s.index.Merge(ctx, most)
		if err != nil || !merged {
			if index.IsBusy(err) {
				err = nil
			}
			return err
		}
	}
}

// mergeBeside starts a goroutine for merges that take long: nothing waits for
// them, neither who writes nor what is indexed meanwhile. It returns a function that
// has it look, and one that ends it.
func (s *Store) mergeBeside(ctx context.Context) (look, end func()) {
	if s.index == nil {
		return func() {}, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	asked := make(chan struct{}, 1)
	var merging sync.WaitGroup
	merging.Go(func() {
		for range asked {
			// What fails is tried again later. If something is wrong with the store,
			// whoever indexes meets it, too.
			_ = s.mergeAll(ctx, 0)
		}
	})
	look = func() {
		select {
		case asked <- struct{}{}:
		default:
		}
	}
	return look, func() {
		cancel()
		close(asked)
		merging.Wait()
	}
}

// RewriteIndex takes what was destroyed or masked out of the search index that is
// kept in the store, with the keys of the parts that held it. Nobody finds it
// before that either. On a full disk, which has no room for the rest of what these
// parts hold, the whole index goes, and is made anew when there is room. Without such
// an index there is nothing to do.
func (s *Store) RewriteIndex(ctx context.Context) error {
	if s.index == nil {
		return nil
	}
	err := s.index.Rewrite(ctx)
	if errors.Is(err, tidemark.ErrStorage) && s.index.Reset(ctx) == nil {
		err = nil
	}
	return err
}

// Adopting says that sessions are about to be copied into the store past its rules,
// as an archive is. The caller calls done in the end, whatever came of it: the search
// index has to be looked through, because what was copied looks as old as it is.
func (s *Store) Adopting(ctx context.Context) (done func(context.Context) error, err error) {
	if s.index == nil {
		return func(context.Context) error { return nil }, nil
	}
	id, err := s.index.Adopting(ctx)
	return func(ctx context.Context) error { return s.index.Adopted(ctx, id) }, err
}

// ResetIndex empties the search index that is kept in the store, for callers that
// take logs away past the rules of the store. Without such an index there is nothing
// to do.
func (s *Store) ResetIndex(ctx context.Context) error {
	if s.index == nil {
		return nil
	}
	return s.index.Reset(ctx)
}

// VerifyIndex reads the whole search index that is kept in the store, changes nothing,
// and returns what is wrong with it. ErrUnsupported: there is none.
func (s *Store) VerifyIndex(ctx context.Context) (wrong []error, err error) {
	if s.index == nil {
		return nil, tidemark.Unsupportedf("this store does not keep its search index itself")
	}
	if err := s.mayIndex(ctx); err != nil {
		return nil, err
	}
	wrong, err = s.index.Verify(ctx)
	if errors.Is(err, tidemark.ErrCorrupt) {
		wrong, err = append(wrong, err), nil
	}
	return wrong, err
}

// leave has a batch that removes logs of a session hide them from the index.
func (s *Store) leave(ctx context.Context, b *tidemark.Batch) error {
	if s.index == nil {
		return nil
	}
	var lines []index.Lines
	for _, log := range b.Drops {
		if slices.Contains(searched, log.Kind) {
			lines = append(lines, index.Lines{Log: log, From: 1})
		}
	}
	r, err := s.index.Leave(ctx, lines...)
	b.Puts = append(b.Puts, r)
	return err
}

// renew has a batch that masks an entry take its words out of the index.
func (v *View) renew(ctx context.Context, b *tidemark.Batch, seq int64) error {
	log := keyOf(kindSession, v.ID)
	switch {
	case v.s.index == nil:
		return nil
	case v.worker != "":
		log = keyOf(kindWorker, v.ID, v.worker)
	case v.Base != nil && seq > v.Base.Seq:
		seq -= v.Base.Seq
	case v.Base != nil && v.Base.Owned:
		log = keyOf(kindPast, v.ID)
	case v.Base != nil:
		return nil // the entry is another session's, which shows it as it is
	}
	r, err := v.s.index.Renew(ctx, index.Lines{Log: log, From: seq, To: seq})
	b.Puts = append(b.Puts, r)
	return err
}
