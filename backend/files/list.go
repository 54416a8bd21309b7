package files

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// List reads the directory of a kind. It reads only files that changed since the
// last listing, and those of the records that it yields.
func (b *Backend) List(ctx context.Context, q tidemark.Query) iter.Seq2[tidemark.Record, error] {
	return func(yield func(tidemark.Record, error) bool) {
		if err := b.use(ctx); err != nil {
			yield(tidemark.Record{}, err)
			return
		}
		found, err := b.find(ctx, q)
		if err != nil {
			yield(tidemark.Record{}, b.readError(tidemark.Key{Kind: q.Kind}, err))
			return
		}
		yielded := 0
		for r, err := range b.read(ctx, q, inOrder(q, found)) {
			if err == nil && r.Version == 0 || errors.Is(err, tidemark.ErrNotFound) {
				continue // deleted meanwhile
			}
			if !yield(r, err) || err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
				return
			}
			if yielded++; yielded == q.Limit {
				return
			}
		}
	}
}

// readAtOnce is how many records are read before the first of them is handed on: enough
// that two processors share them, few enough to be held in memory whatever their size.
const readAtOnce = 16

// read yields the records of rows. It begins with one, since many callers want no more.
func (b *Backend) read(ctx context.Context, q tidemark.Query, rows iter.Seq[*listed]) iter.Seq2[tidemark.Record, error] {
	type answer struct {
		record tidemark.Record
		err    error
	}
	return func(yield func(tidemark.Record, error) bool) {
		next, stop := iter.Pull(rows)
		defer stop()
		var some []*listed
		for size := 1; ; size = min(2*size, readAtOnce) {
			some = some[:0]
			for l, ok := next(); ok; l, ok = next() {
				if some = append(some, l); len(some) == size {
					break
				}
			}
			if len(some) == 0 {
				return
			}
			if err := b.use(ctx); err != nil {
				yield(tidemark.Record{}, err)
				return
			}
			answers := make([]answer, len(some))
			get := func(from, to int) {
				for i, l := range some[from:to] {
					a := &answers[from+i]
					a.record, a.err = b.get(tidemark.Key{Kind: q.Kind, ID: l.id}, l.alone)
				}
			}
			if len(some) < readAtOnce {
				get(0, len(some))
			} else {
				var half sync.WaitGroup
				half.Go(func() { get(readAtOnce/2, readAtOnce) })
				get(0, readAtOnce/2)
				half.Wait()
			}
			for _, a := range answers {
				if !yield(a.record, a.err) {
					return
				}
			}
		}
	}
}

// find returns the records that the query includes, unordered, and every damaged
// record that might be one of them.
func (b *Backend) find(ctx context.Context, q tidemark.Query) (found []*listed, err error) {
	if (tidemark.Key{Kind: q.Kind, ID: "x"}).Check() != nil {
		return nil, nil
	}
	if q.Order == tidemark.ByID && q.Group == "" && q.State == "" && q.DueBy.IsZero() && q.After == nil {
		p, err := b.present(q.Kind, affix{prefix: q.Prefix})
		if err != nil {
			return nil, err
		}
		rows := make([]listed, len(p.ids)) // each is read when it is yielded, and need not be before
		for i, id := range p.ids {
			rows[i].id, rows[i].alone = id, p.files[id] == 0
			found = append(found, &rows[i])
		}
		return found, nil
	}
	var folder durable.Info
	remember := false
	if q.Order == tidemark.ByDue && !q.DueBy.IsZero() {
		var tells bool
		if folder, tells = b.folder(q.Kind); tells {
			if found, ok := b.due.find(q, folder); ok {
				return found, nil
			}
			remember = b.affixOf(q) == affix{}
		}
	}
	all, err := b.rows(ctx, q.Kind, b.affixOf(q))
	if err != nil {
		return nil, err
	}
	for _, l := range all {
		if l.in(q) {
			found = append(found, l)
		}
		remember = remember && l.damage == nil
	}
	if remember {
		b.due.keep(q.Kind, folder, all)
	}
	return found, nil
}

// in reports whether the listing of q contains l, or might: of a damaged record nothing
// is known.
func (l *listed) in(q tidemark.Query) bool {
	if l.damage == nil {
		return q.Includes(l.asRecord(q.Kind))
	}
	return q.After == nil || q.Compare(*q.After, l.asRecord(q.Kind)) < 0
}

// compare orders rows as q orders their records.
func compare(q tidemark.Query, a, b *listed) int {
	c := 0
	switch q.Order {
	case tidemark.Newest:
		c = cmp.Compare(b.touched, a.touched)
	case tidemark.ByDue:
		c = cmp.Compare(a.due, b.due)
	}
	return cmp.Or(c, strings.Compare(a.id, b.id))
}

// inOrder yields rows in the order of q. Where few are wanted of many, it sorts only
// those.
func inOrder(q tidemark.Query, rows []*listed) iter.Seq[*listed] {
	if q.Limit == 0 || q.Limit > len(rows)/8 {
		slices.SortFunc(rows, func(a, b *listed) int { return compare(q, a, b) })
		return slices.Values(rows)
	}
	return func(yield func(*listed) bool) {
		h := &first{q, rows}
		heap.Init(h)
		for h.Len() > 0 && yield(heap.Pop(h).(*listed)) {
		}
	}
}

// first is a heap whose top is the row that comes first.
type first struct {
	q    tidemark.Query
	rows []*listed
}

func (h *first) Len() int           { return len(h.rows) }
func (h *first) Less(i, j int) bool { return compare(h.q, h.rows[i], h.rows[j]) < 0 }
func (h *first) Swap(i, j int)      { h.rows[i], h.rows[j] = h.rows[j], h.rows[i] }
func (h *first) Push(any)           {}
func (h *first) Pop() any {
	last := len(h.rows) - 1
	l := h.rows[last]
	h.rows = h.rows[:last]
	return l
}

// present is which records of a kind there are.
type present struct {
	ids   []string
	names []string        // of their files
	files map[string]byte // by id: whether there are also a log and a head
}

const (
	hasLog byte = 1 << iota
	hasHead
)

// affix is what the ids of some records of a kind begin and end with.
type affix struct{ prefix, suffix string }

func (a affix) has(id string) bool {
	return strings.HasPrefix(id, a.prefix) && strings.HasSuffix(id, a.suffix)
}

// affixOf returns what all ids have that a query may include.
func (b *Backend) affixOf(q tidemark.Query) affix {
	a := affix{prefix: q.Prefix}
	if q.Group != "" && slices.Contains(b.grouped, q.Kind) {
		a.suffix = "." + q.Group
	}
	return a
}

func (b *Backend) present(kind string, of affix) (p present, err error) {
	if p.ids, p.names, err = b.namesOf(recordsDir, kind, ".json", of); err != nil || len(p.ids) == 0 {
		return p, err
	}
	logs, err := b.names(logsDir, kind, ".ndjson")
	if err != nil {
		return p, err
	}
	p.files = make(map[string]byte, len(logs))
	for _, id := range logs {
		p.files[id] = hasLog
	}
	return p, b.findHeads(kind, &p)
}

// fewHeads is up to how many heads are looked for one by one.
const fewHeads = 64

// findHeads finds the heads of records without a log: there was one, then.
func (b *Backend) findHeads(kind string, p *present) error {
	var without []string
	for _, id := range p.ids {
		if p.files[id] == 0 {
			without = append(without, id)
		}
	}
	if len(without) > fewHeads {
		heads, err := b.names(headsDir, kind, ".json")
		for _, id := range heads {
			p.files[id] |= hasHead
		}
		return err
	}
	names, infos := make([]string, len(without)), make([]durable.Info, len(without))
	for i, id := range without {
		names[i] = fileName(id) + ".json"
	}
	err := durable.StatAll(b.fs, headsDir+"/"+kind, names, infos)
	for i, id := range without {
		if infos[i] != (durable.Info{}) {
			p.files[id] |= hasHead
		}
	}
	return err
}

// names returns the ids that have a file in the folder of a kind.
func (b *Backend) names(folder, kind, ext string) ([]string, error) {
	ids, _, err := b.namesOf(folder, kind, ext, affix{})
	return ids, err
}

// namesOf is names of some ids that also returns the names of those files.
func (b *Backend) namesOf(folder, kind, ext string, of affix) (ids, names []string, err error) {
	all, err := b.fs.Names(folder + "/" + kind)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	names = all[:0]
	if of == (affix{}) {
		ids = make([]string, 0, len(all))
	}
	for _, n := range all {
		stem, ok := strings.CutSuffix(n, ext)
		if !ok || !strings.Contains(n, "%") && !of.has(stem) {
			continue
		}
		if id, ok := idOf(stem); ok && of.has(id) {
			ids, names = append(ids, id), append(names, n)
		}
	}
	return ids, names, nil
}
