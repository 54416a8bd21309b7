package segment

import (
	"context"
	"encoding/binary"
	"slices"
	"sort"
)

// The table of lines says which line each number stands for. Its blocks follow
// each other, tableLines to a block, so that a number tells its block:
//
//	L, where each group but the first begins (2 bytes each), groups
//
// A group is groupLines lines, so that one line is found without decoding the
// others. For each line: difference of time, difference of the log's ordinal, difference
// of the seq to the one after the line before; of the first of a group to 0.
// Numbers are ranks by time, so the newest line is the last.

// tableLines is how many lines a block of the table has; with the longest
// numbers they still fit.
const (
	tableLines = 128
	groupLines = 16
)

// ref is a line whose log is told by its ordinal.
type ref struct {
	log     int64
	seq, at int64
}

// tableWriter writes the table of lines, which come in order.
type tableWriter struct {
	w     *writer
	block []byte // groups of the block under way
	begin []byte // where they begin
	count int
	last  ref
	first int64 // number of the first block

	oldest, newest int64
}

func (t *tableWriter) add(l ref) error {
	if t.count%tableLines == 0 {
		if err := t.flush(); err != nil {
			return err
		}
	}
	if t.count%groupLines == 0 {
		if t.last = (ref{}); len(t.block) > 0 {
			t.begin = binary.LittleEndian.AppendUint16(t.begin, uint16(len(t.block)))
		}
	}
	t.block = appendInt(t.block, l.at-t.last.at)
	t.block = appendInt(t.block, l.log-t.last.log)
	t.block = appendInt(t.block, l.seq-t.last.seq-1)
	if t.last = l; t.count == 0 {
		t.oldest = l.at
	}
	t.newest = l.at
	t.count++
	return nil
}

func (t *tableWriter) flush() error {
	if len(t.block) == 0 {
		return nil
	}
	number, err := t.w.put(slices.Concat([]byte{lineBlock}, t.begin, t.block))
	if t.first == 0 {
		t.first = number
	}
	t.block, t.begin = t.block[:0], t.begin[:0]
	return err
}

// tableBlock returns the number of the block that has a line.
func (r *Reader) tableBlock(line uint32) int64 { return r.tableFirst + int64(line/tableLines) }

// parseGroup appends the lines of the group that has line i of a block of the
// table.
func (r *Reader) parseGroup(refs []ref, number int64, block []byte, i int) ([]ref, error) {
	lines := min(tableLines, int(r.lines-(number-r.tableFirst)*tableLines))
	groups := (lines + groupLines - 1) / groupLines
	at := i / groupLines
	s := scan{rest: block}
	if s.byte() != lineBlock {
		return nil, corrupt(number, "no block of lines")
	}
	begin := s.bytes(2 * (groups - 1))
	if at > 0 && !s.bad {
		s.bytes(int(binary.LittleEndian.Uint16(begin[2*(at-1):])))
	}
	var last ref
	for i := range min(groupLines, lines-at*groupLines) {
		l := ref{at: last.at + s.int(), log: last.log + s.int(), seq: last.seq + 1 + s.int()}
		if l.log < 0 || l.log >= r.logs || i > 0 && l.at < last.at {
			s.fail()
		}
		refs, last = append(refs, l), l
	}
	if s.bad {
		return nil, corrupt(number, "lines that cannot be read")
	}
	return refs, nil
}

// refs returns the lines of some numbers.
func (r *Reader) refs(ctx context.Context, numbers []uint32) ([]ref, error) {
	var blocks []int64
	for _, n := range numbers {
		blocks = append(blocks, r.tableBlock(n))
	}
	slices.Sort(blocks)
	blocks = slices.Compact(blocks)
	got, err := r.blocks(ctx, blocks)
	if err != nil {
		return nil, err
	}
	found := make([]ref, len(numbers))
	var room [groupLines]ref
	for i, n := range numbers {
		number := r.tableBlock(n)
		at, _ := slices.BinarySearch(blocks, number)
		group, err := r.parseGroup(room[:0], number, got[at], int(n%tableLines))
		if err != nil {
			return nil, err
		}
		found[i] = group[n%groupLines]
	}
	return found, nil
}

// Lines returns the lines that numbers stand for.
func (r *Reader) Lines(ctx context.Context, numbers []uint32) ([]Line, error) {
	refs, err := r.refs(ctx, numbers)
	if err != nil {
		return nil, err
	}
	var ordinals []int64
	for _, l := range refs {
		ordinals = append(ordinals, l.log)
	}
	names, err := r.logNames(ctx, ordinals)
	if err != nil {
		return nil, err
	}
	lines := make([]Line, len(refs))
	for i, l := range refs {
		lines[i] = Line{Log: names[l.log], Seq: l.seq, At: l.at}
	}
	return lines, nil
}

// logNames returns the names of logs by their ordinals. Those that were asked
// for before are remembered: the logs of hits are few, and asked for again.
func (r *Reader) logNames(ctx context.Context, ordinals []int64) (map[int64]string, error) {
	r.mu.Lock()
	names := make(map[int64]string, len(ordinals))
	var unknown []int64
	for _, o := range ordinals {
		if name, ok := r.names[o]; ok {
			names[o] = name
		} else {
			unknown = append(unknown, o)
		}
	}
	r.mu.Unlock()
	slices.Sort(unknown)
	unknown = slices.Compact(unknown)
	leaves, err := r.leavesOf(ctx, r.logRoot, logBlock, unknown)
	if err != nil || len(unknown) == 0 {
		return names, err
	}
	var blocks []int64
	for _, l := range leaves {
		blocks = append(blocks, l...)
	}
	slices.Sort(blocks)
	blocks = slices.Compact(blocks)
	got, err := r.blocks(ctx, blocks)
	if err != nil {
		return nil, err
	}
	for i, number := range blocks {
		var l leaf
		if err := l.open(number, got[i], logBlock); err != nil {
			return nil, err
		}
		for {
			ok, err := l.next()
			if err != nil {
				return nil, err
			}
			if !ok {
				break
			}
			if _, ok := slices.BinarySearch(unknown, l.ordinal); ok {
				names[l.ordinal] = string(l.key)
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.names) > maxNames {
		clear(r.names)
	}
	for _, o := range unknown {
		name, ok := names[o]
		if !ok {
			return nil, corrupt(r.logRoot, "log %d is missing", o)
		}
		r.names[o] = name
	}
	return names, nil
}

// maxNames bounds how many names of logs a Reader remembers.
const maxNames = 1 << 14

// probes is how many blocks of the table are looked at in one call, to find a line
// by its time.
const probes = 16

// below returns the number of the first line that is not before a line: the
// lines that come before it are those with lower numbers.
func (r *Reader) below(ctx context.Context, line Line) (int64, error) {
	// The last block whose first line is before it, by halving with several
	// probes at once.
	from, to := int64(0), (r.lines+tableLines-1)/tableLines
	for to-from > 1 {
		var numbers []uint32
		step := max((to-from)/probes, 1)
		for at := from + step; at < to; at += step {
			numbers = append(numbers, uint32(at*tableLines))
		}
		lines, err := r.Lines(ctx, numbers)
		if err != nil {
			return 0, err
		}
		n := sort.Search(len(lines), func(i int) bool { return lines[i].Compare(line) >= 0 })
		if n < len(lines) {
			to = int64(numbers[n] / tableLines)
		}
		if n > 0 {
			from = int64(numbers[n-1] / tableLines)
		}
	}
	var numbers []uint32
	for n := from * tableLines; n < min((from+1)*tableLines, r.lines); n++ {
		numbers = append(numbers, uint32(n))
	}
	lines, err := r.Lines(ctx, numbers)
	if err != nil {
		return 0, err
	}
	n := sort.Search(len(lines), func(i int) bool { return lines[i].Compare(line) >= 0 })
	return from*tableLines + int64(n), nil
}

// The value of a log is which of its lines are indexed: how many spans, and for
// each the difference to the end of the span before and its length.

// maxSpans bounds the spans of one log in a segment, so that they fit into a
// block. What is left out counts as not indexed, and is indexed again.
const maxSpans = 150

func appendSpans(b []byte, spans []Span) []byte {
	spans = spans[max(0, len(spans)-maxSpans):]
	b = appendUint(b, uint64(len(spans)))
	last := int64(0)
	for _, s := range spans {
		b = appendUint(b, uint64(s.From-last))
		b = appendUint(b, uint64(s.To-s.From))
		last = s.To
	}
	return b
}

func parseSpans(number int64, value []byte) ([]Span, error) {
	const far = 1 << 62
	s := scan{rest: value}
	spans := make([]Span, 0, s.upTo(maxSpans))
	last := int64(0)
	for range cap(spans) {
		from := last + s.upTo(far)
		to := from + s.upTo(far)
		if from <= last || to < from || to > far {
			s.fail()
		}
		spans, last = append(spans, Span{from, to}), to
	}
	if s.bad || !s.done() {
		return nil, corrupt(number, "spans that cannot be read")
	}
	return spans, nil
}

// unite sorts spans and joins those that touch.
func unite(spans []Span) []Span {
	slices.SortFunc(spans, func(a, b Span) int { return int(a.From - b.From) })
	joined := spans[:0]
	for _, s := range spans {
		if n := len(joined); n > 0 && s.From <= joined[n-1].To+1 {
			joined[n-1].To = max(joined[n-1].To, s.To)
		} else {
			joined = append(joined, s)
		}
	}
	return joined
}
