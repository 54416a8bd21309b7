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
	var sure []bool
	for len(numbers) < s.batch {
		c, ok, err := s.next(ctx)
		if err != nil {
			return err
		}
		if !ok {
			s.over = true
			break
		}
		numbers, sure = append(numbers, uint32(c.number)), append(sure, c.sure)
	}
	lines, err := s.r.Lines(ctx, numbers)
	if err != nil {
		return err
	}
	s.ready = s.ready[:0]
	for i, l := range lines {
		if s.last = l.At; !s.r.without.has(l.Log, l.Seq) {
			s.ready = append(s.ready, Hit{l, sure[i]})
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

// plan makes sources of the words: false when some word that is needed is
// nowhere.
func (s *stream) plan(found map[tidemark.Term][]list, leads [][]lead) (bool, error) {
	inPhrase := make(map[tidemark.Term]bool)
	for i, steps := range s.q.Phrases {
		p := &phrase{}
		fewest := math.MaxInt // lines of a word that leads
		led := make([]bool, len(steps)+1)
		for _, st := range steps {
			lists := found[st.Term]
			if len(lists) == 0 {
				return false, nil
			}
			inPhrase[st.Term] = true
			if len(lists) == 1 {
				fewest = min(fewest, lists[0].count)
			} else {
				p.wide = append(p.wide, s.r.wideStep(int64(st.Place), lists))
			}
		}
		// What stands one behind the other, and words with one beginning, lead to lines
		// only where the others would lead to more.
		var more []lead
		for _, l := range leads[i] {
			if l.known && len(l.lists) == 0 {
				return false, nil
			}
			if l.known {
				more = append(more, l)
			}
		}
		for _, st := range steps {
			if lists := found[st.Term]; len(lists) > 1 {
				more = append(more, lead{lists: lists})
			}
		}
		slices.SortStableFunc(more, func(a, b lead) int { return countOf(a.lists) - countOf(b.lists) })
		for _, l := range more {
			if countOf(l.lists) > min(fewest, leadsAlong*countOf(more[0].lists)) {
				break
			}
			src, err := s.r.sources(l.lists)
			if err != nil {
				return false, err
			}
			s.all = append(s.all, join(src))
			if l.known {
				led[l.step], led[l.step+1] = true, true
			}
		}
		// The words of a pair that leads are in its lines: where they stand is looked up
		// last, the most frequent one in the fewest lines.
		for j, st := range steps {
			if lists := found[st.Term]; len(lists) == 1 {
				w := s.r.walk(lists[0])
				p.narrow = append(p.narrow, narrowStep{int64(st.Place), w})
				if !led[j] {
					s.all = append(s.all, w)
				}
			}
		}
		slices.SortStableFunc(p.narrow, func(a, b narrowStep) int { return a.w.size() - b.w.size() })
		s.phrases = append(s.phrases, p)
	}
	for _, group := range s.q.All {
		if len(group) == 1 && inPhrase[group[0]] {
			continue
		}
		var lists []list
		for _, t := range group {
			lists = append(lists, found[t]...)
		}
		if len(lists) == 0 {
			return false, nil
		}
		src, err := s.r.sources(lists)
		if err != nil {
			return false, err
		}
		s.all = append(s.all, join(src))
	}
	for _, t := range s.q.None {
		src, err := s.r.sources(found[t])
		if err != nil {
			return false, err
		}
		s.none = append(s.none, src...)
	}
	slices.SortStableFunc(s.all, func(a, b source) int { return a.size() - b.size() })
	for _, led := range s.all {
		if w, ok := led.(*walker); ok {
			w.follow(s.all[0])
		}
	}
	for _, p := range s.phrases {
		for _, step := range p.narrow {
			step.w.follow(s.all[0])
		}
	}
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
	maxWindow   = 1024
)

// next returns the next line that matches: false at the end.
func (s *stream) next(ctx context.Context) (candidate, bool, error) {
	for {
		if len(s.decided) > 0 {
			c := s.decided[0]
			s.decided = s.decided[1:]
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
		c := candidate{number: n, sure: true}
		match := true
		for _, p := range s.phrases {
			if match, err = p.begins(ctx, &c); err != nil {
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

func hasNumber(ctx context.Context, sources []source, n int64) (bool, error) {
	for _, s := range sources {
		if m, err := s.seek(ctx, n); err != nil || m == n {
			return err == nil, err
		}
	}
	return false, nil
}
