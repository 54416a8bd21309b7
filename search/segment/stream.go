package segment

import (
	"context"
	"math"
	"slices"

	"github.com/tidemark-sessions/tidemark"
)

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
	behind  []source // which lines with the phrases have to have, too
	mark    []source
	phrases []*phrase

	decided []candidate // whose phrases are looked at, the next first
	window  []candidate
	inside  *marks // numbers of the window
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
	var hits []Hit
	for len(numbers) < s.batch {
		c, ok, err := s.next(ctx)
		if err != nil {
			return err
		}
		if !ok {
			s.over = true
			break
		}
		marked, err := hasNumber(ctx, s.mark, c.number)
		if err != nil {
			return err
		}
		numbers, hits = append(numbers, uint32(c.number)), append(hits, Hit{Sure: c.sure, Marked: marked})
	}
	lines, err := s.r.Lines(ctx, numbers)
	if err != nil {
		return err
	}
	s.ready = s.ready[:0]
	for i, l := range lines {
		if s.last = l.At; !s.r.without.has(l.Log, l.Seq) {
			hits[i].Line = l
			s.ready = append(s.ready, hits[i])
		}
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
	if err != nil {
		return err
	}
	leads, err := s.leads(ctx, found)
	if err != nil {
		return err
	}
	ok, err := s.plan(found, leads)
	if err != nil || !ok {
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

// leads returns, for each phrase, what leads to each of its words and the one behind it.
func (s *stream) leads(ctx context.Context, found map[tidemark.Term][]list) ([][]lead, error) {
	var pairs []neighbours
	of := make([]int, len(s.q.Phrases)) // how many of each phrase
	for i, steps := range s.q.Phrases {
		for j := range len(steps) - 1 {
			if first := found[steps[j].Term]; len(first) == 1 && steps[j+1].Place == steps[j].Place+1 {
				pairs = append(pairs, neighbours{j, first[0], found[steps[j+1].Term]})
				of[i]++
			}
		}
	}
	all, err := s.r.leads(ctx, pairs)
	if err != nil {
		return nil, err
	}
	leads := make([][]lead, len(s.q.Phrases))
	for i, n := range of {
		leads[i], all = all[:n], all[n:]
	}
	return leads, nil
}

// often is how many lines a word has at most that leads a phrase: where so many have it
// that most of the others do, it is looked up in those that have the rest.
func (s *stream) often() int { return int(s.r.lines / 4) }

// plan makes sources of the words: false when some word that is needed is
// nowhere.
func (s *stream) plan(found map[tidemark.Term][]list, leads [][]lead) (bool, error) {
	inPhrase := make(map[tidemark.Term]bool)
	for i, steps := range s.q.Phrases {
		for _, st := range steps {
			if len(found[st.Term]) == 0 {
				return false, nil
			}
			inPhrase[st.Term] = true
		}
		if ok, err := s.planPhrase(steps, found, leads[i]); err != nil || !ok {
			return false, err
		}
	}
	for _, group := range s.q.All {
		if len(group) == 1 && inPhrase[group[0]] {
			continue
		}
		lists := listsOf(found, group)
		if len(lists) == 0 {
			return false, nil
		}
		src, err := s.r.sources(lists)
		if err != nil {
			return false, err
		}
		if len(s.phrases) > 0 && IsFilter([]byte(group[0].Word)) && countOf(lists) > s.often() {
			s.behind = append(s.behind, join(src))
		} else {
			s.all = append(s.all, join(src))
		}
	}
	var err error
	if s.none, err = s.r.sources(listsOf(found, s.q.None)); err != nil {
		return false, err
	}
	if s.mark, err = s.r.sources(listsOf(found, s.q.Mark)); err != nil {
		return false, err
	}
	slices.SortStableFunc(s.all, func(a, b source) int { return a.size() - b.size() })
	for _, led := range s.all {
		if w, ok := led.(*walker); ok {
			w.follow(s.all[0])
		}
	}
	for _, p := range s.phrases {
		for _, step := range slices.Concat(p.narrow, p.late) {
			step.w.follow(s.all[0])
		}
	}
	return true, nil
}

// listsOf returns the lists of some terms together.
func listsOf(found map[tidemark.Term][]list, terms []tidemark.Term) (lists []list) {
	for _, t := range terms {
		lists = append(lists, found[t]...)
	}
	return lists
}

// planPhrase makes sources of what leads to a phrase, and its steps.
func (s *stream) planPhrase(steps []tidemark.Step, found map[tidemark.Term][]list, leads []lead) (bool, error) {
	p := &phrase{}
	fewest := math.MaxInt // lines of a word
	var more []lead
	for _, l := range leads {
		if l.known && len(l.lists) == 0 {
			return false, nil
		}
		if l.known {
			more = append(more, l)
		}
	}
	for _, st := range steps {
		if lists := found[st.Term]; len(lists) == 1 {
			fewest = min(fewest, lists[0].count)
		} else {
			p.wide = append(p.wide, s.r.wideStep(int64(st.Place), lists))
			more = append(more, lead{lists: lists})
		}
	}
	// What stands one behind the other leads where the words would lead to more lines;
	// words with one beginning also where they are not many more, because to look at
	// them in a line takes longest.
	slices.SortStableFunc(more, func(a, b lead) int { return countOf(a.lists) - countOf(b.lists) })
	led, leading, wideFirst := make([]bool, len(steps)+1), fewest <= s.often(), false
	for _, l := range more {
		n := countOf(l.lists)
		if n > leadsAlong*countOf(more[0].lists) || n > fewest && (l.known || n > s.often() || n/leadsAlong > fewest) {
			continue
		}
		src, err := s.r.sources(l.lists)
		if err != nil {
			return false, err
		}
		s.all, leading = append(s.all, join(src)), true
		if l.known {
			led[l.step], led[l.step+1] = true, true
		} else {
			wideFirst = true
		}
	}
	// The words of a pair that leads are in its lines: where they stand is looked up
	// last, the most frequent one in the fewest lines.
	for i, st := range steps {
		lists := found[st.Term]
		if len(lists) != 1 {
			continue
		}
		w := s.r.walk(lists[0])
		first := !led[i] && (!leading || w.size() <= s.often())
		if first {
			s.all = append(s.all, w)
		}
		if !wideFirst || w.size() <= p.wide[0].count {
			p.narrow = append(p.narrow, narrowStep{int64(st.Place), w})
			continue
		}
		if first { // which goes ahead of the lines that are looked at
			w = s.r.walk(lists[0])
		}
		p.late = append(p.late, narrowStep{int64(st.Place), w})
	}
	for _, steps := range [][]narrowStep{p.narrow, p.late} {
		slices.SortStableFunc(steps, func(a, b narrowStep) int { return a.w.size() - b.w.size() })
	}
	s.phrases = append(s.phrases, p)
	return true, nil
}

// leadsAlong is how many times as many lines may be gone through to look at fewer.
const leadsAlong = 16

func countOf(lists []list) (n int) {
	for i := range lists {
		n += lists[i].count
	}
	return n
}

func join(sources []source) source {
	if len(sources) == 1 {
		return sources[0]
	}
	return newUnion(sources)
}

// firstWindow and maxWindow are how many candidates are gathered before the
// words that a phrase may end with are looked at.
const (
	firstWindow = 32
	maxWindow   = 4096
)

// next returns the next line that matches: false at the end.
func (s *stream) next(ctx context.Context) (candidate, bool, error) {
	for {
		if len(s.decided) > 0 {
			c := s.decided[0]
			s.decided = s.decided[1:]
			if ok, err := hasAll(ctx, s.behind, c.number); err != nil || !ok {
				if err != nil {
					return candidate{}, false, err
				}
				continue
			}
			return c, true, nil
		}
		size := 1
		if slices.ContainsFunc(s.phrases, func(p *phrase) bool { return len(p.wide) > 0 }) {
			size = min(max(2*cap(s.window), firstWindow), maxWindow)
		}
		s.window = slices.Grow(s.window[:0], size)
		for len(s.window) < size {
			c, ok, err := s.candidate(ctx)
			if err != nil {
				return candidate{}, false, err
			}
			if !ok {
				break
			}
			s.window = append(s.window, c)
		}
		if len(s.window) == 0 {
			return candidate{}, false, nil
		}
		if err := s.decide(ctx); err != nil {
			return candidate{}, false, err
		}
	}
}

// decide leaves the candidates of the window that have the phrases.
func (s *stream) decide(ctx context.Context) error {
	for i, p := range s.phrases {
		for j := range p.wide {
			if p.wide[j].costs(s.window, s.r.lines) > lineCost*len(s.window) {
				for k := range s.window {
					s.window[k].sure = false
				}
				continue
			}
			if s.inside == nil {
				s.inside = newMarks(s.r.lines)
			}
			for k := range s.window {
				s.inside.add(uint32(s.window[k].number))
			}
			err := p.wide[j].decide(ctx, s.r, s.window, i, s.inside)
			for k := range s.window {
				s.inside.remove(uint32(s.window[k].number))
			}
			if err != nil {
				return err
			}
			s.window = slices.DeleteFunc(s.window, func(c candidate) bool { return c.starts[i] != nil && len(c.starts[i]) == 0 })
		}
		if len(p.late) == 0 {
			continue
		}
		left := s.window[:0]
		for k := range s.window {
			match, err := p.begins(ctx, &s.window[k], i, p.late)
			if err != nil {
				return err
			}
			if match {
				left = append(left, s.window[k])
			}
		}
		s.window = left
	}
	s.decided = s.window
	return nil
}

// candidate returns the next line that has the words, and the phrases as far
// as their narrow steps tell.
func (s *stream) candidate(ctx context.Context) (candidate, bool, error) {
	for s.target >= s.lowest {
		n, err := s.agreed(ctx)
		if err != nil || n < s.lowest {
			s.target = -1
			return candidate{}, false, err
		}
		s.target = n - 1
		if n&0xff == 0 && ctx.Err() != nil {
			return candidate{}, false, ctx.Err()
		}
		excluded, err := hasNumber(ctx, s.none, n)
		if err != nil {
			return candidate{}, false, err
		}
		if excluded {
			continue
		}
		c := candidate{number: n, sure: true, starts: make([][]int64, len(s.phrases))}
		match := true
		for i, p := range s.phrases {
			if match, err = p.begins(ctx, &c, i, p.narrow); err != nil {
				return candidate{}, false, err
			}
			if !match {
				break
			}
		}
		if match {
			return c, true, nil
		}
	}
	return candidate{}, false, nil
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

// hasAll reports whether all sources have a number.
func hasAll(ctx context.Context, sources []source, n int64) (bool, error) {
	for _, s := range sources {
		if m, err := s.seek(ctx, n); err != nil || m != n {
			return false, err
		}
	}
	return true, nil
}

// hasNumber reports whether one of some sources has a number.
func hasNumber(ctx context.Context, sources []source, n int64) (bool, error) {
	for _, s := range sources {
		if m, err := s.seek(ctx, n); err != nil || m == n {
			return err == nil, err
		}
	}
	return false, nil
}
