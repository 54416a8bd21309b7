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
// the other, for many lines at a time.
type phrase struct {
	narrow []narrowStep
	wide   []wideStep
	places []uint32
	starts []int64
}

type narrowStep struct {
	at int64
	w  *walker
}

// begins finds out where the phrase may begin in a line, by its narrow steps:
// false when nowhere.
func (p *phrase) begins(ctx context.Context, c *candidate) (bool, error) {
	known := false
	for i := range p.narrow {
		step := &p.narrow[i]
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
	switch {
	case len(p.wide) == 0:
		c.starts = append(c.starts, nil)
	case known:
		c.starts = append(c.starts, slices.Clone(p.starts))
	default:
		c.starts = append(c.starts, nil)
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
	short []list    // beside their words
	long  []*walker // in rows

	found   [][]int64 // of each candidate of the window: where the phrase may begin
	unknown []bool    // of each candidate: not all places are kept
	places  []uint32
}

func (r *Reader) wideStep(at int64, lists []list) wideStep {
	s := wideStep{at: at}
	for _, l := range lists {
		if l.rows > 0 {
			s.long = append(s.long, r.walk(l))
		} else {
			s.short = append(s.short, l)
		}
	}
	return s
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
		for i := range window {
			n, err := w.seek(ctx, window[i].number)
			if err != nil {
				return err
			}
			if n != window[i].number {
				continue
			}
			var known bool
			if s.places, known, err = w.places(s.places[:0]); err != nil {
				return err
			}
			s.meet(window, i, p, known)
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
			// The window is newest first.
			at := sort.Search(len(window), func(k int) bool { return window[k].number <= int64(n) })
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
