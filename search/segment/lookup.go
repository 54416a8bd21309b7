package segment

import (
	"context"
	"slices"

	"github.com/tidemark-sessions/tidemark"
)

// leavesAtOnce is how many leaves are asked for in one call.
const leavesAtOnce = 64

// lookup finds the words of a query, all of them together: of a word its list, of
// a beginning the lists of all words that begin so.
func (r *Reader) lookup(ctx context.Context, q *Query) (map[tidemark.Term][]list, error) {
	found := make(map[tidemark.Term][]list)
	var terms []tidemark.Term
	add := func(t tidemark.Term) {
		if _, ok := found[t]; !ok {
			found[t] = nil
			terms = append(terms, t)
		}
	}
	for _, steps := range q.Phrases {
		for _, s := range steps {
			add(s.Term)
		}
	}
	for _, group := range append(slices.Clone(q.All), q.None, q.Mark) {
		for _, t := range group {
			add(t)
		}
	}
	ranges := make([]keyRange, len(terms))
	for i, t := range terms {
		if ranges[i] = oneKey([]byte(t.Word)); t.Prefix {
			ranges[i] = prefixed([]byte(t.Word))
		}
	}
	lists, err := r.lists(ctx, r.wordRoot, wordBlock, ranges)
	if err != nil {
		return nil, err
	}
	for i, t := range terms {
		found[t] = lists[i]
	}
	return found, nil
}

// lists returns the lists of each of some ranges of a tree.
func (r *Reader) lists(ctx context.Context, root int64, kind byte, ranges []keyRange) ([][]list, error) {
	found := make([][]list, len(ranges))
	leaves, err := r.leaves(ctx, root, kind, ranges)
	if err != nil {
		return nil, err
	}
	blocks := slices.Concat(leaves...)
	slices.Sort(blocks)
	blocks = slices.Compact(blocks)
	for len(blocks) > 0 {
		n := min(len(blocks), leavesAtOnce)
		got, err := r.blocks(ctx, blocks[:n])
		if err != nil {
			return nil, err
		}
		for i := range ranges {
			for _, number := range leaves[i] {
				if at, ok := slices.BinarySearch(blocks[:n], number); ok {
					if found[i], err = r.listsIn(found[i], number, got[at], kind, ranges[i]); err != nil {
						return nil, err
					}
				}
			}
		}
		blocks = blocks[n:]
	}
	return found, nil
}

// listsIn appends the lists of the keys of a leaf that are in a range.
func (r *Reader) listsIn(lists []list, number int64, block []byte, kind byte, within keyRange) ([]list, error) {
	var l leaf
	if err := l.open(number, block, kind); err != nil {
		return lists, err
	}
	for {
		ok, err := l.next()
		if err != nil || !ok || within.before(l.key) {
			return lists, err
		}
		if !within.has(l.key) {
			continue
		}
		list, err := r.parseList(number, l.value)
		if err != nil {
			return lists, err
		}
		list.ordinal = l.ordinal
		lists = append(lists, list)
	}
}

// fewWords is up to how many short lists are walked through apart.
const fewWords = 4

// sources makes sources of lists: of many short ones marks.
func (r *Reader) sources(lists []list) (of []source, err error) {
	short := 0
	for i := range lists {
		if lists[i].rows == 0 {
			short++
		}
	}
	var together *marks
	if short > fewWords {
		together = newMarks(r.lines)
		of = append(of, together)
	}
	for i := range lists {
		if together == nil || lists[i].rows > 0 {
			of = append(of, r.walk(lists[i]))
		} else if err := r.mark(together, &lists[i]); err != nil {
			return nil, err
		}
	}
	return of, nil
}

// mark adds the lines of a short list.
func (r *Reader) mark(to *marks, l *list) error {
	var room [8]chunk
	chunks, err := l.parseChunks(room[:0], 0, l.inline, -1, r.lines)
	if err != nil {
		return err
	}
	var numbers [chunkLines]uint32
	for i := range chunks {
		if !chunks[i].decode(&numbers, r.lines) {
			return corrupt(0, "a list that cannot be read")
		}
		for _, n := range numbers[:chunks[i].count] {
			to.add(n)
		}
	}
	return nil
}

// rowsAtOnce is how many rows are asked for before a query begins.
const rowsAtOnce = 64

// prefetch asks for the newest rows of all long lists at once.
func (r *Reader) prefetch(ctx context.Context, all []source) error {
	var walkers []*walker
	var numbers []int64
	var gather func(s source)
	gather = func(s source) {
		switch s := s.(type) {
		case *walker:
			if s.l.rows > 0 && len(walkers) < rowsAtOnce {
				walkers = append(walkers, s)
				numbers = append(numbers, s.l.block(s.l.rows-1))
			}
		case *union:
			for _, of := range s.of {
				gather(of)
			}
		}
	}
	for _, s := range all {
		gather(s)
	}
	got, err := r.blocks(ctx, numbers)
	if err != nil {
		return err
	}
	for i, w := range walkers {
		if err := w.open(w.l.rows-1, got[i]); err != nil {
			return err
		}
	}
	return nil
}
