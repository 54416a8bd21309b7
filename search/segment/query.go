package segment

import (
	"context"
	"iter"
	"slices"

	"github.com/tidemark-sessions/tidemark"
)

// Query says which lines are asked for: those with one of the terms of each
// group of All, with none of the terms of None, and with every phrase. All and
// Phrases may not both be empty. Words by which lines are filtered are terms like
// any other.
type Query struct {
	All     [][]tidemark.Term
	None    []tidemark.Term
	Phrases [][]tidemark.Step

	Before *Line // only lines before it, in the order of Line.Compare
	Since  int64 // only lines of that time, as in Line.At, or later; 0: all
}

// Hit is a line that was found. Unless it is Sure, the places of some word of a
// phrase are not kept, and only the line itself can tell whether it has the phrase.
type Hit struct {
	Line
	Sure bool
}

// maxPhraseWords bounds the words with one beginning that a phrase is tried
// with. Beyond that the places of the others decide alone, and the hit is not sure.
const maxPhraseWords = 1000

// Search yields the lines of several segments that match, newest first. A line
// that is in several of them is yielded once. To go on later, ask for what is
// before the last hit.
func Search(ctx context.Context, segments []*Reader, q Query) iter.Seq2[Hit, error] {
	return func(yield func(Hit, error) bool) {
		var open []*stream
		for _, r := range segments {
			open = append(open, &stream{r: r, q: &q})
		}
		var last *Hit
		for {
			best, err := newest(ctx, open)
			if err != nil {
				yield(Hit{}, err)
				return
			}
			if best == nil {
				return
			}
			hit := best.ready[0]
			best.ready = best.ready[1:]
			if last != nil && last.Line == hit.Line {
				continue
			}
			if last = &hit; !yield(hit, nil) {
				return
			}
		}
	}
}

// newest returns the stream with the newest hit, nil when all are at their end. A
// segment is not asked before its newest line could be the answer.
func newest(ctx context.Context, open []*stream) (best *stream, err error) {
	for {
		best = nil
		var unread *stream
		for _, s := range open {
			switch {
			case len(s.ready) > 0:
				if best == nil || s.ready[0].Compare(best.ready[0].Line) > 0 {
					best = s
				}
			case !s.over && (unread == nil || s.bound() > unread.bound()):
				unread = s
			}
		}
		if unread == nil || best != nil && best.ready[0].At > unread.bound() {
			return best, nil
		}
		if err := unread.fill(ctx); err != nil {
			return nil, err
		}
	}
}

// Count returns how many lines of a segment match, and how many of these are not
// sure. It stops at a limit, where that is not 0.
func (r *Reader) Count(ctx context.Context, q Query, limit int) (lines, unsure int, err error) {
	s := &stream{r: r, q: &q}
	for err := s.begin(ctx); ; {
		if err != nil || limit > 0 && lines == limit {
			return lines, unsure, err
		}
		var n int64
		var sure bool
		if n, sure, err = s.number(ctx); err != nil || n < 0 {
			return lines, unsure, err
		}
		if lines++; !sure {
			unsure++
		}
	}
}

// stream is the hits of one segment, newest first.
type stream struct {
	r *Reader
	q *Query

	began bool
	over  bool
	ready []Hit
	last  int64 // time of the last hit
	batch int

	target  int64 // the largest number that may come next
	lowest  int64 // the smallest number that may come
	all     []source
	none    []source
	phrases []phrase
}

// bound is a time that no hit to come is newer than.
func (s *stream) bound() int64 {
	if s.began {
		return s.last
	}
	if b := s.q.Before; b != nil {
		return min(b.At, s.r.newest)
	}
	return s.r.newest
}

// The lines of hits are looked up together: few at first, for somebody who
// wants a page, then more.
const (
	firstBatch = 24
	maxBatch   = 256
)

// fill makes hits ready, or the stream over.
func (s *stream) fill(ctx context.Context) error {
	if !s.began {
		if err := s.begin(ctx); err != nil {
			return err
		}
	}
	s.batch = min(max(2*s.batch, firstBatch), maxBatch)
	var numbers []uint32
	var sure []bool
	for len(numbers) < s.batch {
		n, ok, err := s.number(ctx)
		if err != nil {
			return err
		}
		if n < 0 {
			s.over = true
			break
		}
		numbers, sure = append(numbers, uint32(n)), append(sure, ok)
	}
	lines, err := s.r.Lines(ctx, numbers)
	if err != nil {
		return err
	}
	s.ready = s.ready[:0]
	for i, l := range lines {
		s.ready = append(s.ready, Hit{l, sure[i]})
		s.last = l.At
	}
	return nil
}

// begin looks up the words of the query.
func (s *stream) begin(ctx context.Context) error {
	s.began, s.last = true, s.r.newest
	if len(s.q.All) == 0 && len(s.q.Phrases) == 0 {
		return tidemark.Invalidf("nothing to look for")
	}
	s.target = s.r.lines - 1
	if s.r.lines == 0 {
		return nil
	}
	found, err := s.r.lookup(ctx, s.q)
	if err != nil || !s.plan(found) {
		s.target = -1
		return err
	}
	if err := s.r.prefetch(ctx, s.all); err != nil {
		return err
	}
	return s.bounds(ctx)
}

// bounds turns the times of the query into numbers.
func (s *stream) bounds(ctx context.Context) error {
	if b := s.q.Before; b != nil && b.At <= s.r.newest {
		n, err := s.r.below(ctx, *b)
		if err != nil {
			return err
		}
		s.target = n - 1
	}
	if s.q.Since > s.r.oldest {
		n, err := s.r.below(ctx, Line{At: s.q.Since})
		if err != nil {
			return err
		}
		s.lowest = n
	}
	return nil
}

// plan makes sources of the words: false when some word that is needed is
// nowhere.
func (s *stream) plan(found map[tidemark.Term]*meaning) bool {
	inPhrase := make(map[tidemark.Term]bool)
	for _, steps := range s.q.Phrases {
		p := phrase{}
		for _, st := range steps {
			m := found[st.Term]
			if m.empty() {
				return false
			}
			step := phraseStep{at: int64(st.Place), unknown: m.marks != nil}
			var sources []source
			if m.marks != nil {
				sources = append(sources, m.marks)
			}
			for _, l := range m.lists {
				w := s.r.walk(l)
				step.walkers = append(step.walkers, w)
				sources = append(sources, w)
			}
			p.steps = append(p.steps, step)
			inPhrase[st.Term] = true
			// Many words with one beginning are quicker looked for in the few
			// lines where the rest of the phrase is.
			if len(sources) == 1 || len(steps) == 1 {
				s.all = append(s.all, join(sources))
			}
		}
		s.phrases = append(s.phrases, p)
	}
	for _, group := range s.q.All {
		if len(group) == 1 && inPhrase[group[0]] {
			continue
		}
		sources := s.r.sources(group, found)
		if len(sources) == 0 {
			return false
		}
		s.all = append(s.all, join(sources))
	}
	if none := s.r.sources(s.q.None, found); len(none) > 0 {
		s.none = none
	}
	slices.SortStableFunc(s.all, func(a, b source) int { return a.size() - b.size() })
	return true
}

func join(sources []source) source {
	if len(sources) == 1 {
		return sources[0]
	}
	return newUnion(sources)
}

// sources returns what the terms of a group mean.
func (r *Reader) sources(group []tidemark.Term, found map[tidemark.Term]*meaning) (of []source) {
	for _, t := range group {
		m := found[t]
		if m.marks != nil {
			of = append(of, m.marks)
		}
		for _, l := range m.lists {
			of = append(of, r.walk(l))
		}
	}
	return of
}

// number returns the next number that matches, −1 at the end.
func (s *stream) number(ctx context.Context) (n int64, sure bool, err error) {
	for s.target >= s.lowest {
		n, err := s.agreed(ctx)
		if err != nil || n < s.lowest {
			s.target = -1
			return -1, false, err
		}
		s.target = n - 1
		if n&0xff == 0 && ctx.Err() != nil {
			return -1, false, ctx.Err()
		}
		excluded, err := hasNumber(ctx, s.none, n)
		if err != nil {
			return -1, false, err
		}
		if excluded {
			continue
		}
		sure, match := true, true
		for i := range s.phrases {
			found, known, err := s.phrases[i].in(ctx, n)
			if err != nil {
				return -1, false, err
			}
			match, sure = match && found, sure && known
		}
		if match {
			return n, sure, nil
		}
	}
	return -1, false, nil
}

// agreed returns the largest number that all sources have, −1 when there is none.
func (s *stream) agreed(ctx context.Context) (int64, error) {
	n := s.target
	for i := 0; i < len(s.all); {
		m, err := s.all[i].seek(ctx, n)
		if err != nil || m < 0 {
			return -1, err
		}
		if m < n && i > 0 {
			n, i = m, 0
			continue
		}
		n = m
		i++
	}
	return n, nil
}

func hasNumber(ctx context.Context, sources []source, n int64) (bool, error) {
	for _, s := range sources {
		if m, err := s.seek(ctx, n); err != nil || m == n {
			return err == nil, err
		}
	}
	return false, nil
}

// phrase is words that stand at certain places.
type phrase struct {
	steps  []phraseStep
	starts []int64
	room   []uint32
}

type phraseStep struct {
	at      int64
	walkers []*walker
	unknown bool // not all of its words are among the walkers
}

// in reports whether a line has the phrase, and whether its places are known well
// enough to say so.
func (p *phrase) in(ctx context.Context, n int64) (found, known bool, err error) {
	any := true // wherever it begins
	known = true
	for i := range p.steps {
		step := &p.steps[i]
		stepKnown := !step.unknown
		p.room = p.room[:0]
		for _, w := range step.walkers {
			m, err := w.seek(ctx, n)
			if err != nil {
				return false, false, err
			}
			if m != n {
				continue
			}
			var ok bool
			if p.room, ok, err = w.places(p.room); err != nil {
				return false, false, err
			}
			stepKnown = stepKnown && ok
		}
		if !stepKnown {
			known = false
			continue
		}
		if any {
			p.starts, any = p.starts[:0], false
			for _, place := range p.room {
				p.starts = append(p.starts, int64(place)-step.at)
			}
		} else {
			p.keep(step)
		}
		if len(p.starts) == 0 {
			return false, true, nil
		}
	}
	return true, known, nil
}

// keep leaves the beginnings that have the step where it should be.
func (p *phrase) keep(step *phraseStep) {
	if len(step.walkers) > 1 {
		slices.Sort(p.room)
	}
	kept, i := p.starts[:0], 0
	for _, start := range p.starts {
		want := start + step.at
		for i < len(p.room) && int64(p.room[i]) < want {
			i++
		}
		if i < len(p.room) && int64(p.room[i]) == want {
			kept = append(kept, start)
		}
	}
	p.starts = kept
}

// meaning is the words of a segment that a term stands for.
type meaning struct {
	lists []list
	marks *marks // the lines of words whose lists are not kept apart
}

func (m *meaning) empty() bool { return len(m.lists) == 0 && m.marks == nil }

// fewWords is up to how many words with one beginning are walked through apart.
const fewWords = 4

// leavesAtOnce is how many leaves are asked for in one call.
const leavesAtOnce = 64

// lookup finds the words of a query, all of them together.
func (r *Reader) lookup(ctx context.Context, q *Query) (map[tidemark.Term]*meaning, error) {
	found := make(map[tidemark.Term]*meaning)
	inPhrase := make(map[tidemark.Term]bool)
	var terms []tidemark.Term
	add := func(t tidemark.Term) {
		if found[t] == nil {
			found[t] = &meaning{}
			terms = append(terms, t)
		}
	}
	for _, steps := range q.Phrases {
		for _, s := range steps {
			add(s.Term)
			inPhrase[s.Term] = true
		}
	}
	for _, group := range append(slices.Clone(q.All), q.None) {
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
	leaves, err := r.leaves(ctx, r.wordRoot, wordBlock, ranges)
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
		for i, t := range terms {
			for _, number := range leaves[i] {
				at, ok := slices.BinarySearch(blocks[:n], number)
				if !ok {
					continue
				}
				keep := fewWords
				if inPhrase[t] {
					keep = maxPhraseWords
				}
				if err := r.match(found[t], number, got[at], ranges[i], keep); err != nil {
					return nil, err
				}
			}
		}
		blocks = blocks[n:]
	}
	return found, nil
}

// match adds the words of a leaf that are in a range to what a term means. More
// than keep of them become marks, unless their lists are long.
func (r *Reader) match(m *meaning, number int64, block []byte, within keyRange, keep int) error {
	var l leaf
	if err := l.open(number, block, wordBlock); err != nil {
		return err
	}
	for {
		ok, err := l.next()
		if err != nil || !ok || within.before(l.key) {
			return err
		}
		if !within.has(l.key) {
			continue
		}
		list, err := r.parseList(number, l.value)
		if err != nil {
			return err
		}
		if m.marks != nil && list.rows == 0 {
			err = r.mark(m.marks, &list)
		} else if m.lists = append(m.lists, list); len(m.lists) > keep && m.marks == nil {
			err = r.markShort(m)
		}
		if err != nil {
			return err
		}
	}
}

// markShort turns the short lists of a meaning into marks.
func (r *Reader) markShort(m *meaning) error {
	m.marks = newMarks(r.lines)
	long := m.lists[:0]
	for _, l := range m.lists {
		if l.rows > 0 {
			long = append(long, l)
		} else if err := r.mark(m.marks, &l); err != nil {
			return err
		}
	}
	m.lists = long
	return nil
}

// mark adds the lines of a short list.
func (r *Reader) mark(to *marks, l *list) error {
	var room [maxInline / chunkLines]chunk
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
				numbers = append(numbers, s.l.first+s.l.rows-1)
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
