package segment

import (
	"context"
	"slices"
	"sort"
)

// candidate is a line that has the words of a query.
type candidate struct {
	number int64
	sure   bool
	starts [][]int64 // where each phrase may begin in it; nil: anywhere
}

// phrase is words that stand at certain places. A narrow step is one word, and
// looked at line by line. A wide step is one of several words, those with some
// beginning, and there may be thousands of them: these are looked at one after
// the other, for many lines at a time. What stands in the fewest lines comes first,
// since most of these do not have it at the right place.
type phrase struct {
	narrow []narrowStep
	wide   []wideStep
	late   []narrowStep // looked at behind the wide steps
	places []uint32
	starts []int64
}

type narrowStep struct {
	at int64
	w  *walker
}

// begins finds out where the phrase, which is number at of the query, may begin in a
// line, by some narrow steps: false when nowhere.
func (p *phrase) begins(ctx context.Context, c *candidate, at int, steps []narrowStep) (bool, error) {
	known := c.starts[at] != nil
	p.starts = append(p.starts[:0], c.starts[at]...)
	for i := range steps {
		step := &steps[i]
		n, err := step.w.seek(ctx, c.number)
		if err != nil || n != c.number {
			return false, err
		}
		var ok bool
		if p.places, ok, err = step.w.places(p.places[:0]); err != nil {
			return false, err
		}
		if !ok {
			c.sure = false
			continue
		}
		if !known {
			p.starts, known = p.starts[:0], true
			for _, place := range p.places {
				p.starts = append(p.starts, int64(place)-step.at)
			}
		} else {
			p.starts = keep(p.starts, p.places, step.at)
		}
		if len(p.starts) == 0 {
			return false, nil
		}
	}
	if known && len(p.wide) > 0 {
		c.starts[at] = slices.Clone(p.starts)
	}
	return true, nil
}

// keep leaves the starts behind which a word stands at the right place. Both
// ascend.
func keep(starts []int64, places []uint32, at int64) []int64 {
	kept, i := starts[:0], 0
	for _, start := range starts {
		for i < len(places) && int64(places[i]) < start+at {
			i++
		}
		if i < len(places) && int64(places[i]) == start+at {
			kept = append(kept, start)
		}
	}
	return kept
}

type wideStep struct {
	at    int64
	count int       // lines of all of them
	short []list    // beside their words
	long  []*walker // in rows

	found   [][]int64 // of each candidate of the window: where the phrase may begin
	unknown []bool    // of each candidate: not all places are kept
	places  []uint32
}

func (r *Reader) wideStep(at int64, lists []list) wideStep {
	s := wideStep{at: at, count: countOf(lists)}
	for _, l := range lists {
		if l.rows > 0 {
			s.long = append(s.long, r.walk(l))
		} else {
			s.short = append(s.short, l)
		}
	}
	return s
}

// lineCost is about how many blocks are read in the time in which somebody opens a line.
const lineCost = 16

// shortLists is about how many short lists are gone through in the time of reading a
// block.
const shortLists = 8

// costs returns about how many blocks it is worth to look at a window by the lists. Of
// thousands of words that begin alike it may be more than to open the lines.
func (s *wideStep) costs(window []candidate, lines int64) int {
	if len(window) == 0 {
		return 0
	}
	span := window[0].number - window[len(window)-1].number + 1
	cost := len(s.short) / shortLists
	for _, w := range s.long {
		cost += int(min(int64(len(window)), w.l.rows*span/lines+1))
	}
	return cost
}

// decide finds out in which lines of a window phrase number p has one of the
// words at the right place, and leaves where it may begin then.
func (s *wideStep) decide(ctx context.Context, r *Reader, window []candidate, p int, inside *marks) error {
	s.found = append(s.found[:0], make([][]int64, len(window))...)
	s.unknown = append(s.unknown[:0], make([]bool, len(window))...)
	for i := range s.short {
		if err := s.lookAt(r, &s.short[i], window, p, inside); err != nil {
			return err
		}
	}
	for _, w := range s.long {
		if err := s.lookAlong(ctx, r, w, window, p, inside); err != nil {
			return err
		}
	}
	for i := range window {
		if s.unknown[i] {
			window[i].sure = false
			continue
		}
		slices.Sort(s.found[i])
		window[i].starts[p] = append(make([]int64, 0, len(s.found[i])), slices.Compact(s.found[i])...)
	}
	return nil
}

// lookAlong goes through a long list and the window side by side, by the numbers of that
// which has fewer.
func (s *wideStep) lookAlong(ctx context.Context, r *Reader, w *walker, window []candidate, p int, inside *marks) error {
	at := func(i int) (err error) {
		var known bool
		if s.places, known, err = w.places(s.places[:0]); err == nil {
			s.meet(window, i, p, known)
		}
		return err
	}
	newest, oldest := window[0].number, window[len(window)-1].number
	if int64(w.size())*(newest-oldest+1)/r.lines < int64(len(window)) {
		for target := newest; target >= oldest; target-- {
			n, err := w.seek(ctx, target)
			if err != nil || n < oldest {
				return err
			}
			if target = n; !inside.has(uint32(n)) {
				continue
			}
			if err := at(indexIn(window, n)); err != nil {
				return err
			}
		}
		return nil
	}
	for i := range window {
		n, err := w.seek(ctx, window[i].number)
		if err != nil {
			return err
		}
		if n == window[i].number {
			if err := at(i); err != nil {
				return err
			}
		}
	}
	return nil
}

// indexIn returns where a number is in a window, which is newest first.
func indexIn(window []candidate, n int64) int {
	return sort.Search(len(window), func(k int) bool { return window[k].number <= n })
}

// lookAt goes through a short list.
func (s *wideStep) lookAt(r *Reader, l *list, window []candidate, p int, inside *marks) error {
	var room [8]chunk
	chunks, err := l.parseChunks(room[:0], 0, l.inline, -1, r.lines)
	if err != nil {
		return err
	}
	var numbers [chunkLines]uint32
	var starts [chunkLines + 1]uint16
	for i := range chunks {
		c := &chunks[i]
		if !c.decode(&numbers, r.lines) {
			return corrupt(0, "a list that cannot be read")
		}
		split := false
		for j, n := range numbers[:c.count] {
			if !inside.has(n) {
				continue
			}
			at := indexIn(window, int64(n))
			known := l.places
			if known && !split && !c.split(&starts) {
				return corrupt(0, "places that cannot be read")
			}
			split = true
			if known {
				s.places, known = readPlaces(s.places[:0], c.where[starts[j]:starts[j+1]], c.single(j))
			}
			s.meet(window, at, p, known)
		}
	}
	return nil
}

// meet takes the places of one of the words in one line.
func (s *wideStep) meet(window []candidate, i, p int, known bool) {
	if !known {
		s.unknown[i] = true
		return
	}
	if window[i].starts[p] == nil {
		for _, place := range s.places {
			s.found[i] = append(s.found[i], int64(place)-s.at)
		}
		return
	}
	k := 0
	for _, start := range window[i].starts[p] {
		for k < len(s.places) && int64(s.places[k]) < start+s.at {
			k++
		}
		if k < len(s.places) && int64(s.places[k]) == start+s.at {
			s.found[i] = append(s.found[i], start)
		}
	}
}
