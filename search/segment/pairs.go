package segment

import (
	"cmp"
	"context"
	"encoding/binary"
	"slices"
)

// Nearly every line has the most frequent words, and the lines in which two of them
// stand one behind the other are few. A large segment says which those are, so that a
// phrase of such words does not go through the places of all lines. That only leads:
// whether a line has the phrase, the places tell, as of any other line.
//
// A word is paired when at least so many lines have it as the footer says. The pairs are
// a tree behind that of the words, whose values are lists without places, and whose keys
// are, all big-endian: the slab of lines that the list is of (1 byte), the ordinals of
// the first word and of the second (4 bytes each). Slabs follow each other: whoever makes
// a segment keeps the lists of one in memory. Where the places of a word in a line are
// not known, the line has all its pairs with the other paired words there.

const (
	// pairShare is the share of the lines that a paired word has at least: two words
	// below it that are no pair have one line in 64 together, or are about the same.
	pairShare = 8
	// maxPaired bounds the paired words, of which there could be as many as a line has.
	maxPaired = 128
	// maxSlabs is how many slabs there are at most.
	maxSlabs = 16
)

// What tests make smaller.
var (
	// pairedFrom is how many lines a segment with pairs has at least: in fewer, all lines
	// are looked at about as fast.
	pairedFrom = 1 << 14
	// slabLines is how many lines a slab has: lists of some 10 MB.
	slabLines = int64(MaxLines / maxSlabs)
)

// pairs gathers the pairs of a segment while its words are written, and writes them.
type pairs struct {
	lines int      // of the segment
	words []paired // by their ordinals
	often int      // how many lines each of them has at least

	lists []pairList // of the slab under way, by first and second
	slab  int64
	tree  *treeWriter
	out   *listWriter
	value []byte
}

// paired is a word that may be paired.
type paired struct {
	ordinal int64
	count   int
	word    []byte
}

// pairList is the lines of a pair, as differences.
type pairList struct {
	last  int64 // −1: none
	bytes []byte
}

func newPairs(w *writer, lines int) *pairs {
	return &pairs{lines: lines, tree: &treeWriter{w: w, kind: pairBlock}, out: &listWriter{w: w}}
}

// word is told of every word that is written, in order.
func (p *pairs) word(word []byte, ordinal int64, count int) {
	if p.lines >= pairedFrom && count >= p.lines/pairShare && !IsFilter(word) {
		p.words = append(p.words, paired{ordinal, count, slices.Clone(word)})
	}
}

// choose decides, when all words are written, which are paired: false when none is.
func (p *pairs) choose() bool {
	p.often = p.lines / pairShare
	if len(p.words) > maxPaired {
		counts := slices.SortedFunc(func(yield func(int) bool) {
			for _, w := range p.words {
				if !yield(w.count) {
					return
				}
			}
		}, func(a, b int) int { return cmp.Compare(b, a) })
		p.often = counts[maxPaired] + 1
		p.words = slices.DeleteFunc(p.words, func(w paired) bool { return w.count < p.often })
	}
	p.lists = make([]pairList, len(p.words)*len(p.words))
	for i := range p.lists {
		p.lists[i].last = -1
	}
	return len(p.words) > 0
}

// placed is a paired word at a place of a line: place << 16 | index of the word.
type placed uint64

func placedAt(place uint32, word int) placed { return placed(place)<<16 | placed(word) }

func (u placed) place() uint64 { return uint64(u >> 16) }
func (u placed) word() int     { return int(u & 0xffff) }

// line adds a line: lines come in order. Of the words of unknown it has the places are
// not known.
func (p *pairs) line(number int64, uses []placed, unknown []int) error {
	for p.slab < number/slabLines {
		if err := p.flush(); err != nil {
			return err
		}
	}
	slices.Sort(uses)
	for i, next := 0, 0; i < len(uses); i++ {
		place := uses[i].place() + 1
		for next < len(uses) && uses[next].place() < place {
			next++
		}
		for j := next; j < len(uses) && uses[j].place() == place; j++ {
			p.add(uses[i].word(), uses[j].word(), number)
		}
	}
	for i, a := range unknown {
		for _, b := range unknown[i:] {
			p.add(a, b, number)
			p.add(b, a, number)
		}
		for _, u := range uses {
			p.add(a, u.word(), number)
			p.add(u.word(), a, number)
		}
	}
	return nil
}

func (p *pairs) add(first, second int, number int64) {
	l := &p.lists[first*len(p.words)+second]
	if l.last != number {
		l.bytes = appendUint(l.bytes, uint64(number-l.last))
		l.last = number
	}
}

// flush writes the slab under way.
func (p *pairs) flush() error {
	for i := range p.lists {
		l := &p.lists[i]
		if len(l.bytes) == 0 {
			continue
		}
		p.out.begin(false)
		s, number := scan{rest: l.bytes}, int64(-1)
		for !s.done() {
			number += int64(s.uint())
			if err := p.out.add(number, false, nil); err != nil {
				return err
			}
		}
		var err error
		if p.value, err = p.out.finish(p.value[:0]); err != nil {
			return err
		}
		key := pairKey(p.slab, p.words[i/len(p.words)].ordinal, p.words[i%len(p.words)].ordinal)
		if err := p.tree.add(key[:], p.value); err != nil {
			return err
		}
		l.last, l.bytes = -1, l.bytes[:0]
	}
	p.slab++
	return nil
}

// finish returns what the footer says of the pairs.
func (p *pairs) finish() (root int64, often, slabs int64, err error) {
	if len(p.words) == 0 {
		return 0, 0, 0, nil
	}
	if err := p.flush(); err != nil {
		return 0, 0, 0, err
	}
	root, err = p.tree.finish()
	return root, int64(p.often), p.slab, err
}

const pairKeyBytes = 9

func pairKey(slab, first, second int64) (key [pairKeyBytes]byte) {
	key[0] = byte(slab)
	binary.BigEndian.PutUint32(key[1:], uint32(first))
	binary.BigEndian.PutUint32(key[5:], uint32(second))
	return key
}

// isPaired reports whether the pairs of a word are kept.
func (r *Reader) isPaired(l *list) bool { return r.pairRoot > 0 && int64(l.count) >= r.often }

// neighbours are a word of a phrase and what stands behind it.
type neighbours struct {
	step   int // of the phrase, that of the first
	first  list
	second []list
}

// lead is lists that have every line in which neighbours stand one behind the other:
// their pairs, and the lines of what is not paired.
type lead struct {
	step  int  // of the phrase, that of the first of them
	known bool // else they tell nothing
	lists []list
}

// leads returns what leads to each of some neighbours.
func (r *Reader) leads(ctx context.Context, of []neighbours) ([]lead, error) {
	var ranges []keyRange
	var whose []int
	found := make([]lead, len(of))
	for i, n := range of {
		var rest []list
		from, to := int64(-1), int64(-1)
		for _, l := range n.second {
			if !r.isPaired(&l) {
				rest = append(rest, l)
				continue
			}
			if from < 0 {
				from = l.ordinal
			}
			to = l.ordinal
		}
		if from < 0 || !r.isPaired(&n.first) {
			continue
		}
		found[i] = lead{n.step, true, rest}
		for slab := range r.slabs {
			first, last := pairKey(slab, n.first.ordinal, from), pairKey(slab, n.first.ordinal, to+1)
			ranges, whose = append(ranges, keyRange{from: first[:], below: last[:]}), append(whose, i)
		}
	}
	lists, err := r.lists(ctx, r.pairRoot, pairBlock, ranges)
	for i, l := range lists {
		found[whose[i]].lists = append(found[whose[i]].lists, l...)
	}
	return found, err
}

// verifyPairs reads all pairs.
func (r *Reader) verifyPairs(ctx context.Context) error {
	t, err := r.scanTree(ctx, r.pairRoot, pairBlock, keyRange{})
	if err != nil {
		return err
	}
	for {
		ok, err := t.next(ctx)
		if err != nil || !ok {
			return err
		}
		l, err := r.parseList(t.number, t.value)
		if err != nil {
			return err
		}
		w := r.walk(l)
		for n := r.lines; n >= 0; {
			if n, err = w.seek(ctx, n-1); err != nil {
				return err
			}
		}
	}
}
