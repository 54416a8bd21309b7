package segment

import (
	"cmp"
	"maps"
	"slices"

	"github.com/tidemark-sessions/tidemark"
)

// Builder gathers lines and their words in memory, and writes them as one
// segment. Size says how much it holds; who wants less memory writes earlier,
// and merges. It is not safe for concurrent use.
type Builder struct {
	words *vocabulary
	uses  []uint32 // word << 8 | code of the place, and what the code says follows
	lines []built
	logs  map[string]int64 // ordinals in the order of arrival
	names []string
	spans map[string][]Span
	place int   // of the word before
	err   error // what was added and cannot be
}

// built is a line and where its words begin.
type built struct {
	ref
	from int
}

// The codes beside a word: up to placeFar, how far its place is behind that of
// the word before.
const (
	placeFar  = 253
	placeAway = 254 // the place is in the next number
	placeNone = 255
)

// maxWords is how many different words a segment has at most.
const maxWords = 1 << 24

// NewBuilder returns an empty Builder.
func NewBuilder() *Builder {
	return &Builder{words: newVocabulary(), logs: make(map[string]int64), spans: make(map[string][]Span)}
}

// Reset empties a Builder, also a spent one, and keeps its memory for what comes next.
func (b *Builder) Reset() {
	b.words.reset()
	clear(b.logs)
	clear(b.names)
	clear(b.spans)
	b.uses, b.lines, b.names, b.place, b.err = b.uses[:0], b.lines[:0], b.names[:0], 0, nil
}

// Line begins a line, whose words follow. It counts as indexed.
func (b *Builder) Line(l Line) {
	log, ok := b.logs[l.Log]
	if !ok {
		log = int64(len(b.names))
		b.logs[l.Log], b.names = log, append(b.names, l.Log)
	}
	b.place = 0
	b.lines = append(b.lines, built{ref{log, l.Seq, l.At}, len(b.uses)})
	b.Cover(l.Log, Span{l.Seq, l.Seq})
}

// Cover says that lines of a log are indexed, also where they have no words.
func (b *Builder) Cover(log string, s Span) {
	if len(log) == 0 || len(log) > MaxKeyBytes || s.From < 1 || s.To < s.From {
		b.fail("log %.40q, lines %d to %d: no lines of a log", log, s.From, s.To)
		return
	}
	spans := b.spans[log]
	if n := len(spans); n > 0 && s.From >= spans[n-1].From && s.From <= spans[n-1].To+1 {
		spans[n-1].To = max(spans[n-1].To, s.To)
		return
	}
	b.spans[log] = append(spans, s)
}

// Word adds a word of the line that was begun last, with its place in it; a
// negative place is none.
func (b *Builder) Word(word []byte, place int) {
	if len(word) == 0 || len(word) > MaxKeyBytes || len(b.lines) == 0 {
		b.fail("word %.40q: empty, too long, or of no line", word)
		return
	}
	if len(b.uses)+2 > cap(b.uses) {
		b.uses = slices.Grow(b.uses, max(len(b.uses)/4, 1<<14))
	}
	n := b.words.number(word)
	switch d := place - b.place; {
	case n >= maxWords:
		b.fail("more than %d words", maxWords)
	case place < 0:
		b.uses = append(b.uses, n<<8|placeNone)
		return
	case uint64(place) >= uint64(noPlace):
		b.fail("word %.40q: place %d", word, place)
	case d >= 0 && d <= placeFar:
		b.uses = append(b.uses, n<<8|uint32(d))
	default:
		b.uses = append(b.uses, n<<8|placeAway, uint32(place))
	}
	b.place = place
}

func (b *Builder) fail(format string, args ...any) {
	if b.err == nil {
		b.err = tidemark.Invalidf(format, args...)
	}
}

// Len is how many lines were added.
func (b *Builder) Len() int { return len(b.lines) }

// Size is about how many bytes of memory the lines take. Writing them takes some
// 8 MB more at most.
func (b *Builder) Size() int {
	return 4*len(b.uses) + 40*len(b.lines) + b.words.size() + 100*len(b.spans)
}

// Write writes the segment. The Builder is spent then, until it is Reset. ErrInvalid: too many
// lines, or something was added that no segment can have.
func (b *Builder) Write(emit Emit) error {
	if b.err != nil {
		return b.err
	}
	if len(b.lines) > MaxLines {
		return tidemark.Invalidf("%d lines in a segment: at most %d are allowed", len(b.lines), MaxLines)
	}
	w := &writer{emit: emit}
	logs := &treeWriter{w: w, kind: logBlock}
	ordinals := make([]int64, len(b.names)) // in the order of names, by that of arrival
	for i, name := range slices.Sorted(maps.Keys(b.spans)) {
		if err := logs.add([]byte(name), appendSpans(nil, unite(b.spans[name]))); err != nil {
			return err
		}
		if o, ok := b.logs[name]; ok {
			ordinals[o] = int64(i)
		}
	}
	logRoot, err := logs.finish()
	if err != nil {
		return err
	}
	order, err := b.order(ordinals)
	if err != nil {
		return err
	}
	table := &tableWriter{w: w}
	for _, i := range order {
		l := b.lines[i].ref
		l.log = ordinals[l.log]
		if err := table.add(l); err != nil {
			return err
		}
	}
	if err := table.flush(); err != nil {
		return err
	}
	words, pairs := &treeWriter{w: w, kind: wordBlock}, newPairs(w, len(order))
	if err := b.writeWords(w, words, pairs, order); err != nil {
		return err
	}
	wordRoot, err := words.finish()
	if err != nil {
		return err
	}
	if err := b.pair(pairs, order); err != nil {
		return err
	}
	return w.footer(table, words.keys, logs.keys, logRoot, wordRoot, pairs)
}

// order returns the lines by time, log and seq: their ranks are their numbers.
func (b *Builder) order(ordinals []int64) ([]uint32, error) {
	order := make([]uint32, len(b.lines))
	for i := range order {
		order[i] = uint32(i)
	}
	compare := func(x, y uint32) int {
		l, o := &b.lines[x], &b.lines[y]
		return cmp.Or(cmp.Compare(l.at, o.at), cmp.Compare(ordinals[l.log], ordinals[o.log]), cmp.Compare(l.seq, o.seq))
	}
	slices.SortFunc(order, compare)
	for i := 1; i < len(order); i++ {
		if l := &b.lines[order[i]]; compare(order[i-1], order[i]) == 0 {
			return nil, tidemark.Invalidf("%s: line %d was added twice", b.names[l.log], l.seq)
		}
	}
	return order, nil
}

// usesAtOnce is how many uses of words are sorted at a time, and with them the memory:
// a quarter of them, within bounds. More would be thrown out of the caches of a
// processor, fewer would have the lines gone through more often.
func (b *Builder) usesAtOnce() int { return min(max(len(b.uses)/4, 1<<18), 1<<20) }

// writeWords writes the words in their order: some at a time, whose uses are
// dealt out to them by going through all lines.
func (b *Builder) writeWords(w *writer, words *treeWriter, pairs *pairs, order []uint32) error {
	sorted := b.words.sorted()
	rank := make([]uint32, len(sorted))
	for i, n := range sorted {
		rank[n] = uint32(i)
	}
	count, atOnce := b.words.uses(), b.usesAtOnce()
	b.renumber(rank)
	encode := useEncoder{lists: &listWriter{w: w}, lines: len(order)}
	var uses []uint64
	var value []byte
	for from := 0; from < len(sorted); {
		to, total := from, 0
		for to < len(sorted) && (to == from || total+int(count[sorted[to]]) <= atOnce) {
			total += int(count[sorted[to]])
			to++
		}
		ends := make([]int, to-from) // where the next use of each word goes
		at := 0
		for i := range ends {
			ends[i] = at
			at += int(count[sorted[from+i]])
		}
		uses = slices.Grow(uses[:0], total)[:total]
		b.deal(order, uint32(from), uint32(to), ends, uses)
		at = 0
		for i, end := range ends {
			word := b.words.word(sorted[from+i])
			var err error
			if value, err = encode.word(value[:0], word, uses[at:end]); err != nil {
				return err
			}
			pairs.word(word, words.keys, encode.lists.count)
			if err = words.add(word, value); err != nil {
				return err
			}
			at = end
		}
		from = to
	}
	return nil
}

// renumber names words by their ranks, so that deal, which goes through all uses several
// times, need not look them up.
func (b *Builder) renumber(rank []uint32) {
	for i := 0; i < len(b.uses); i++ {
		use := b.uses[i]
		b.uses[i] = rank[use>>8]<<8 | use&0xff
		if use&0xff == placeAway {
			i++
		}
	}
}

// deal puts the uses of the words of ranks from to to into their places in uses,
// as number << 32 | place; no place is noPlace.
func (b *Builder) deal(order []uint32, from, to uint32, ends []int, uses []uint64) {
	for number, i := range order {
		end := b.endOf(i)
		place := uint32(0)
		for j := b.lines[i].from; j < end; j++ {
			use := b.uses[j]
			here := noPlace
			switch code := use & 0xff; code {
			case placeNone:
			case placeAway:
				j++
				place = b.uses[j]
				here = place
			default:
				place += code
				here = place
			}
			if r := use>>8 - from; r < to-from {
				uses[ends[r]] = uint64(number)<<32 | uint64(here)
				ends[r]++
			}
		}
	}
}

// endOf returns where the uses of a line end.
func (b *Builder) endOf(line uint32) int {
	if int(line)+1 < len(b.lines) {
		return b.lines[line+1].from
	}
	return len(b.uses)
}

// pair adds the pairs of all lines, whose words are named by their ranks by now.
func (b *Builder) pair(p *pairs, order []uint32) error {
	if !p.choose() {
		return nil
	}
	index := make([]uint16, len(b.words.ends)) // of each word among the paired ones, + 1
	for i, w := range p.words {
		index[w.ordinal] = uint16(i + 1)
	}
	var uses []placed
	for number, i := range order {
		uses = uses[:0]
		end := b.endOf(i)
		place := uint32(0)
		for j := b.lines[i].from; j < end; j++ {
			use := b.uses[j]
			switch code := use & 0xff; code {
			case placeNone:
				continue
			case placeAway:
				j++
				place = b.uses[j]
			default:
				place += code
			}
			if at := index[use>>8]; at > 0 {
				uses = append(uses, placedAt(place, int(at-1)))
			}
		}
		if err := p.line(int64(number), uses, nil); err != nil {
			return err
		}
	}
	return nil
}

// noPlace stands for a word without a place.
const noPlace = uint32(1<<32 - 1)

// useEncoder encodes the list of one word after the other.
type useEncoder struct {
	lists  *listWriter
	lines  int // of the segment
	places []uint32
	where  []byte
}

// word appends the list of a word to value.
func (e *useEncoder) word(value, word []byte, uses []uint64) ([]byte, error) {
	count := 0
	for i := range uses {
		if i == 0 || uses[i]>>32 != uses[i-1]>>32 {
			count++
		}
	}
	lists, places := e.lists, e.places
	lists.begin(!IsFilter(word) && keepsPlaces(count, e.lines))
	for i := 0; i < len(uses); {
		number := uses[i] >> 32
		places = places[:0]
		for ; i < len(uses) && uses[i]>>32 == number; i++ {
			if p := uint32(uses[i]); p != noPlace {
				places = append(places, p)
			}
		}
		if len(places) > 1 {
			slices.Sort(places)
			places = slices.Compact(places)
		}
		single := false
		if lists.places {
			e.where, single = appendPlaces(e.where[:0], places)
		}
		if err := lists.add(int64(number), single, e.where); err != nil {
			return value, err
		}
	}
	e.places = places
	return lists.finish(value)
}
