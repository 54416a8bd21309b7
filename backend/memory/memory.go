// Package memory is a Backend that keeps everything in memory and loses it when
// the process ends: the model that the others are compared with, and the fake
// for tests of everything above.
//
//	s := store.New(memory.New(), nil)
package memory

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"sync"

	"github.com/tidemark-sessions/tidemark"
)

var errClosed = errors.New("memory: closed")

// Backend is one handle on a state that handles share. The zero value is not
// usable.
type Backend struct {
	kept   *kept
	mu     sync.Mutex
	closed bool
}

// kept is the state that several handles share.
type kept struct {
	mu      sync.Mutex
	records map[tidemark.Key]tidemark.Record
	logs    map[tidemark.Key]*log
	grown   chan struct{} // closed and replaced by each commit
}

type log struct {
	head  tidemark.Head
	lines []tidemark.Line
	keys  map[string]int64
}

// New returns an empty Backend.
func New() *Backend {
	return &Backend{kept: &kept{
		records: make(map[tidemark.Key]tidemark.Record),
		logs:    make(map[tidemark.Key]*log),
		grown:   make(chan struct{}),
	}}
}

// Again returns a second handle on the same state, as opening a store twice
// would.
func (b *Backend) Again() *Backend { return &Backend{kept: b.kept} }

// Close ends this handle; others on the same state go on.
func (b *Backend) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	return nil
}

// use returns an error when the handle is closed or ctx is done.
func (b *Backend) use(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return errClosed
	}
	return ctx.Err()
}

func (b *Backend) Get(ctx context.Context, key tidemark.Key) (tidemark.Record, error) {
	if err := b.use(ctx); err != nil {
		return tidemark.Record{}, err
	}
	b.kept.mu.Lock()
	defer b.kept.mu.Unlock()
	r, ok := b.kept.records[key]
	l := b.kept.logs[key]
	if !ok && l == nil {
		return r, tidemark.NotFoundf("%s: not found", key)
	}
	r.Key = key
	return b.kept.withHead(r), nil
}

func (k *kept) withHead(r tidemark.Record) tidemark.Record {
	if l := k.logs[r.Key]; l != nil {
		r.Head = l.head
	}
	return r
}

func (b *Backend) List(ctx context.Context, q tidemark.Query) iter.Seq2[tidemark.Record, error] {
	return func(yield func(tidemark.Record, error) bool) {
		if err := b.use(ctx); err != nil {
			yield(tidemark.Record{}, err)
			return
		}
		var found []tidemark.Record
		b.kept.mu.Lock()
		for _, r := range b.kept.records {
			if r = b.kept.withHead(r); q.Includes(r) {
				found = append(found, r)
			}
		}
		b.kept.mu.Unlock()
		slices.SortFunc(found, q.Compare)
		if q.Limit > 0 && len(found) > q.Limit {
			found = found[:q.Limit]
		}
		for _, r := range found {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func (b *Backend) Lines(ctx context.Context, key tidemark.Key, spans ...tidemark.Span) iter.Seq2[tidemark.Line, error] {
	if len(spans) == 0 {
		spans = []tidemark.Span{{}}
	}
	return func(yield func(tidemark.Line, error) bool) {
		for i, span := range spans {
			if err := b.use(ctx); err != nil {
				yield(tidemark.Line{}, err)
				return
			}
			b.kept.mu.Lock()
			var lines []tidemark.Line
			if l := b.kept.logs[key]; l != nil {
				first, last := span.Of(l.head.Length)
				if gone := l.head.Trimmed; first <= last && first <= gone {
					b.kept.mu.Unlock()
					yield(tidemark.Line{}, &tidemark.TrimmedError{Log: key, Upto: gone, Span: i, First: first, Last: last})
					return
				} else if first <= last {
					lines = l.lines[first-1-gone : last-gone : last-gone]
				}
			}
			b.kept.mu.Unlock()
			for i := range lines {
				l := lines[i]
				if span.Backwards {
					l = lines[len(lines)-1-i]
				}
				if !yield(l, nil) {
					return
				}
			}
		}
	}
}

func (b *Backend) Commit(ctx context.Context, batch tidemark.Batch) (tidemark.Receipt, error) {
	if err := b.use(ctx); err != nil {
		return tidemark.Receipt{}, err
	}
	if err := batch.Check(); err != nil {
		return tidemark.Receipt{}, err
	}
	k := b.kept
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, a := range batch.Appends {
		if h := k.head(a.Log); h.HidesKeys() {
			return tidemark.Receipt{}, h.Appends(a)
		}
	}
	if known := k.known(batch); len(known) > 0 {
		return tidemark.Receipt{Duplicates: known}, tidemark.ErrExists
	}
	if err := k.stands(batch); err != nil {
		return tidemark.Receipt{}, err
	}
	k.apply(batch)
	close(k.grown)
	k.grown = make(chan struct{})
	return tidemark.Receipt{}, nil
}

func (k *kept) known(b tidemark.Batch) (known []tidemark.Duplicate) {
	for _, a := range b.Appends {
		l := k.logs[a.Log]
		if l == nil {
			continue
		}
		for _, line := range a.Lines {
			if seq, ok := l.keys[line.Key]; ok && line.Key != "" {
				known = append(known, tidemark.Duplicate{Log: a.Log, Key: line.Key, Seq: seq})
			}
		}
	}
	return known
}

func (k *kept) stands(b tidemark.Batch) error {
	for n := range b.Preconditions() {
		if have := k.records[n.Key].Version; have != n.Version {
			return tidemark.Conflictf("%s: is at version %d, not %d", n.Key, have, n.Version)
		}
	}
	for _, a := range b.Appends {
		if err := k.head(a.Log).Appends(a); err != nil {
			return err
		}
	}
	for _, t := range b.Trims {
		if err := k.head(t.Log).Trims(t); err != nil {
			return err
		}
	}
	for _, a := range b.Fills {
		if err := k.head(a.Log).Fills(a); err != nil {
			return err
		}
	}
	return nil
}

func (k *kept) head(log tidemark.Key) (h tidemark.Head) {
	if l := k.logs[log]; l != nil {
		h = l.head
	}
	return h
}

func (k *kept) apply(b tidemark.Batch) {
	for _, r := range b.Puts {
		r = b.Stamp(r)
		r.Body = slices.Clone(r.Body)
		k.records[r.Key] = r
	}
	for _, n := range b.Deletes {
		delete(k.records, n.Key)
	}
	for _, a := range b.Appends {
		l := k.logs[a.Log]
		if l == nil {
			l = &log{keys: make(map[string]int64)}
			k.logs[a.Log] = l
		}
		for _, line := range a.Lines {
			line = b.StampLine(line)
			line.Body, line.Chain = slices.Clone(line.Body), slices.Clone(line.Chain)
			l.lines = append(l.lines, line)
			if line.Key != "" {
				l.keys[line.Key] = line.Seq
			}
			l.head = tidemark.Head{Length: line.Seq, UpdatedAt: b.HeadAt(a), Position: line.Position, Chain: line.Chain, Trimmed: l.head.Trimmed}
		}
	}
	for _, t := range b.Trims {
		l := k.logs[t.Log]
		n := t.Upto - l.head.Trimmed
		for _, line := range l.lines[:n] {
			delete(l.keys, line.Key)
		}
		l.lines, l.head.Trimmed = slices.Clone(l.lines[n:]), t.Upto
	}
	for _, a := range b.Fills {
		l := k.logs[a.Log]
		lines := make([]tidemark.Line, 0, len(a.Lines)+len(l.lines))
		for _, line := range a.Lines {
			line.Body, line.Chain = slices.Clone(line.Body), slices.Clone(line.Chain)
			lines = append(lines, line)
			if line.Key != "" {
				l.keys[line.Key] = line.Seq
			}
		}
		l.lines, l.head.Trimmed = append(lines, l.lines...), a.Lines[0].Seq-1
	}
	for _, key := range b.Drops {
		delete(k.logs, key)
	}
}

// Wait returns when any commit may have made log longer than after.
func (b *Backend) Wait(ctx context.Context, key tidemark.Key, after int64) error {
	for {
		if err := b.use(ctx); err != nil {
			return err
		}
		b.kept.mu.Lock()
		l, grown := b.kept.logs[key], b.kept.grown
		longer := l != nil && l.head.Length > after
		b.kept.mu.Unlock()
		if longer {
			return nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Walk yields every key.
func (b *Backend) Walk(ctx context.Context, after tidemark.Key) iter.Seq2[tidemark.Key, error] {
	return func(yield func(tidemark.Key, error) bool) {
		if err := b.use(ctx); err != nil {
			yield(tidemark.Key{}, err)
			return
		}
		seen := make(map[tidemark.Key]bool)
		b.kept.mu.Lock()
		for k := range b.kept.records {
			seen[k] = true
		}
		for k := range b.kept.logs {
			seen[k] = true
		}
		b.kept.mu.Unlock()
		keys := make([]tidemark.Key, 0, len(seen))
		for k := range seen {
			if compareKeys(k, after) > 0 {
				keys = append(keys, k)
			}
		}
		slices.SortFunc(keys, compareKeys)
		for _, k := range keys {
			if !yield(k, nil) {
				return
			}
		}
	}
}

func compareKeys(a, b tidemark.Key) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID))
}
