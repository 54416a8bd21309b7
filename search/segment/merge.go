package segment

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/tidemark-sessions/tidemark"
)

// Without says which lines of which logs are left out: see Reader.Except.
type Without map[string][]Span

func (w Without) has(log string, seq int64) bool {
	return slices.ContainsFunc(w[log], func(s Span) bool { return s.From <= seq && seq <= s.To })
}

// from returns what is left of spans of a log.
func (w Without) from(log string, spans []Span) []Span { return Less(spans, w[log]) }

// Less returns what is left of spans without others.
func Less(spans, without []Span) []Span {
	for _, gone := range without {
		var left []Span
		for _, s := range spans {
			if s.To < gone.From || s.From > gone.To {
				left = append(left, s)
				continue
			}
			if s.From < gone.From {
				left = append(left, Span{s.From, gone.From - 1})
			}
			if s.To > gone.To {
				left = append(left, Span{gone.To + 1, s.To})
			}
		}
		spans = left
	}
	return spans
}

// Merge writes one segment with the lines of several, except those that are left
// out of a Reader. Of a line that is in several segments, the last of them counts.
// It reads each segment once, from its beginning to its end, and keeps four bytes
// for each line and each log in memory. It returns how many lines it wrote.
// ErrInvalid: more than MaxLines.
func Merge(ctx context.Context, segments []*Reader, emit Emit) (lines int, err error) {
	for _, r := range segments {
		lines += r.Len()
	}
	if lines > MaxLines {
		return 0, tidemark.Invalidf("%d lines in a segment: at most %d are allowed", lines, MaxLines)
	}
	m := &merger{w: &writer{emit: emit}, segments: segments}
	logRoot, err := m.mergeLogs(ctx)
	if err != nil {
		return 0, err
	}
	if err := m.mergeLines(ctx); err != nil {
		return 0, err
	}
	words, pairs := &treeWriter{w: m.w, kind: wordBlock}, newPairs(m.w, m.table.count)
	if err := m.mergeWords(ctx, words, pairs); err != nil {
		return 0, err
	}
	wordRoot, err := words.finish()
	if err != nil {
		return 0, err
	}
	if err := m.pair(ctx, pairs); err != nil {
		return 0, err
	}
	return m.table.count, m.w.footer(&m.table, words.keys, int64(len(m.names)), logRoot, wordRoot, pairs)
}

// Verify reads all blocks of a segment: ErrCorrupt when one of them cannot be read.
func (r *Reader) Verify(ctx context.Context) error {
	_, err := Merge(ctx, []*Reader{r}, func([]byte) error { return nil })
	if err == nil {
		err = r.verifyPairs(ctx)
	}
	return err
}

// gone stands for a log or line that is left out.
const gone = uint32(1<<32 - 1)

type merger struct {
	w        *writer
	segments []*Reader

	names   []string   // of the logs in the merged segment; only those that lose lines
	logs    [][]uint32 // of each segment: what its logs are in the merged one
	numbers [][]uint32 // of each segment: what its lines are in the merged one
	table   tableWriter
}

// scans opens a tree of each segment at its first key; those without keys are nil.
func (m *merger) scans(ctx context.Context, kind byte) ([]*treeScan, error) {
	scans := make([]*treeScan, len(m.segments))
	for i, r := range m.segments {
		root := r.logRoot
		if kind == wordBlock {
			root = r.wordRoot
		}
		t, err := r.scanTree(ctx, root, kind, keyRange{})
		if err != nil {
			return nil, err
		}
		if scans[i], err = t.advance(ctx); err != nil {
			return nil, err
		}
	}
	return scans, nil
}

// advance goes to the next key, and returns nil at the end.
func (t *treeScan) advance(ctx context.Context) (*treeScan, error) {
	if ok, err := t.next(ctx); err != nil || !ok {
		return nil, err
	}
	return t, nil
}

// least returns the first key that the scans are at, and which of them are.
func least(scans []*treeScan, at []int) (key []byte, of []int) {
	for i, t := range scans {
		if t == nil {
			continue
		}
		switch c := bytes.Compare(t.key, key); {
		case len(at) == 0 || c < 0:
			key, at = t.key, append(at[:0], i)
		case c == 0:
			at = append(at, i)
		}
	}
	return key, at
}

func (m *merger) mergeLogs(ctx context.Context) (root int64, err error) {
	scans, err := m.scans(ctx, logBlock)
	if err != nil {
		return 0, err
	}
	m.logs = make([][]uint32, len(m.segments))
	out := &treeWriter{w: m.w, kind: logBlock}
	for {
		key, of := least(scans, nil)
		if len(of) == 0 {
			break
		}
		log, ordinal, loses := string(key), gone, false
		var spans []Span
		for _, i := range of {
			own, err := parseSpans(scans[i].number, scans[i].value)
			if err != nil {
				return 0, err
			}
			without := m.segments[i].without
			spans, loses = append(spans, without.from(log, own)...), loses || len(without[log]) > 0
		}
		if spans = unite(spans); len(spans) > 0 {
			ordinal = uint32(out.keys)
			if err := out.add(key, appendSpans(nil, spans)); err != nil {
				return 0, err
			}
			if !loses {
				log = ""
			}
			m.names = append(m.names, log)
		}
		for _, i := range of {
			if scans[i].ordinal != int64(len(m.logs[i])) {
				return 0, corrupt(scans[i].number, "logs that are not counted right")
			}
			m.logs[i] = append(m.logs[i], ordinal)
			if scans[i], err = scans[i].advance(ctx); err != nil {
				return 0, err
			}
		}
	}
	return out.finish()
}

// tableScan reads the table of a segment from its beginning.
type tableScan struct {
	r     *Reader
	refs  []ref // of the blocks that are here
	next  int64 // number of the line behind them
	taken int   // of refs
}

// peek returns the line that is next, false at the end.
func (t *tableScan) peek(ctx context.Context) (ref, bool, error) {
	if t.taken == len(t.refs) {
		if t.next >= t.r.lines {
			return ref{}, false, nil
		}
		var numbers []int64
		for n := t.next; n < t.r.lines && len(numbers) < leafAhead; n += tableLines {
			numbers = append(numbers, t.r.tableBlock(uint32(n)))
		}
		got, err := t.r.blocks(ctx, numbers)
		if err != nil {
			return ref{}, false, err
		}
		t.refs, t.taken = t.refs[:0], 0
		for i, number := range numbers {
			for at := 0; at < tableLines && t.next < t.r.lines; at += groupLines {
				had := len(t.refs)
				if t.refs, err = t.r.parseGroup(t.refs, number, got[i], at); err != nil {
					return ref{}, false, err
				}
				t.next += int64(len(t.refs) - had)
			}
		}
	}
	return t.refs[t.taken], true, nil
}

func (m *merger) mergeLines(ctx context.Context) error {
	m.table.w = m.w
	m.numbers = make([][]uint32, len(m.segments))
	scans := make([]*tableScan, len(m.segments))
	for i, r := range m.segments {
		scans[i] = &tableScan{r: r}
		m.numbers[i] = make([]uint32, 0, r.lines)
	}
	for {
		best, least, err := m.leastLine(ctx, scans)
		if err != nil {
			return err
		}
		if best < 0 {
			return m.table.flush()
		}
		m.take(scans, best, uint32(m.table.count))
		if err := m.table.add(least); err != nil {
			return err
		}
	}
}

// take says what becomes of the line that is next in a segment.
func (m *merger) take(scans []*tableScan, i int, number uint32) {
	scans[i].taken++
	m.numbers[i] = append(m.numbers[i], number)
}

// nextLine returns the next line of a segment that is not left out, false at the
// end.
func (m *merger) nextLine(ctx context.Context, scans []*tableScan, i int) (ref, bool, error) {
	for {
		l, ok, err := scans[i].peek(ctx)
		if err != nil || !ok {
			return ref{}, false, err
		}
		if l.log >= int64(len(m.logs[i])) {
			return ref{}, false, corrupt(scans[i].r.tableFirst, "a line of no log")
		}
		log := m.logs[i][l.log]
		if log != gone && (m.names[log] == "" || !m.segments[i].without.has(m.names[log], l.seq)) {
			l.log = int64(log)
			return l, true, nil
		}
		m.take(scans, i, gone)
	}
}

// leastLine returns the oldest line that is next in one of the segments, −1 at
// the end. Where several have it, all but the last are passed over.
func (m *merger) leastLine(ctx context.Context, scans []*tableScan) (best int, least ref, err error) {
	best = -1
	for i := range scans {
		l, ok, err := m.nextLine(ctx, scans, i)
		if err != nil {
			return -1, ref{}, err
		}
		if !ok {
			continue
		}
		c := -1
		if best >= 0 {
			c = cmp.Or(cmp.Compare(l.at, least.at), cmp.Compare(l.log, least.log), cmp.Compare(l.seq, least.seq))
		}
		if c == 0 {
			m.take(scans, best, gone)
		}
		if c <= 0 {
			best, least = i, l
		}
	}
	return best, least, nil
}

func (m *merger) mergeWords(ctx context.Context, out *treeWriter, pairs *pairs) error {
	scans, err := m.scans(ctx, wordBlock)
	if err != nil {
		return err
	}
	lists := &listWriter{w: m.w}
	var value []byte
	var at []int
	readings := make([]reading, len(m.segments))
	for i := range readings {
		readings[i].atOnce = rowsAhead
	}
	for {
		var key []byte
		if key, at = least(scans, at[:0]); len(at) == 0 {
			return nil
		}
		count := 0
		for _, i := range at {
			l, err := m.segments[i].parseList(scans[i].number, scans[i].value)
			if err != nil {
				return err
			}
			count += l.count
			readings[i].begin(m.segments[i], l, m.numbers[i])
		}
		lists.begin(!IsFilter(key) && keepsPlaces(count, m.table.count))
		if err := m.mergeLists(ctx, lists, readings, at); err != nil {
			return err
		}
		if lists.count > 0 {
			if value, err = lists.finish(value[:0]); err != nil {
				return err
			}
			pairs.word(key, out.keys, lists.count)
			if err := out.add(key, value); err != nil {
				return err
			}
		}
		for _, i := range at {
			if scans[i], err = scans[i].advance(ctx); err != nil {
				return err
			}
		}
	}
}

// pairedAtOnce is how many lines are gathered before their pairs are added: the lists
// of all paired words are gone through side by side.
const pairedAtOnce = 1024

// pair adds the pairs of all lines. Those of the segments that are merged are of no use,
// since other words may be paired in them: the places are read once more.
func (m *merger) pair(ctx context.Context, p *pairs) error {
	if !p.choose() {
		return nil
	}
	readings, words, err := m.readPaired(ctx, p)
	if err != nil {
		return err
	}
	var lines [pairedAtOnce]struct {
		uses    []placed
		unknown []int
	}
	var places []uint32
	for from := 0; from < m.table.count; from += pairedAtOnce {
		to := min(from+pairedAtOnce, m.table.count)
		for i := range lines {
			lines[i].uses, lines[i].unknown = lines[i].uses[:0], lines[i].unknown[:0]
		}
		for i, r := range readings {
			for !r.over && int(r.number) < to {
				l := &lines[int(r.number)-from]
				where, single, err := r.where()
				if err != nil {
					return err
				}
				known := false
				if places, known = readPlaces(places[:0], where, single); !known {
					l.unknown = append(l.unknown, words[i])
				}
				for _, place := range places {
					l.uses = append(l.uses, placedAt(place, words[i]))
				}
				if err := r.next(ctx); err != nil {
					return err
				}
			}
		}
		for i := range to - from {
			if err := p.line(int64(from+i), lines[i].uses, lines[i].unknown); err != nil {
				return err
			}
		}
	}
	return nil
}

// readPaired begins to read the lists of the paired words in each segment; words says
// which of them each list is of.
func (m *merger) readPaired(ctx context.Context, p *pairs) (readings []*reading, words []int, err error) {
	ranges := make([]keyRange, len(p.words))
	for i, w := range p.words {
		ranges[i] = oneKey(w.word)
	}
	for i, s := range m.segments {
		found, err := s.lists(ctx, s.wordRoot, wordBlock, ranges)
		if err != nil {
			return nil, nil, err
		}
		for word, lists := range found {
			for _, l := range lists {
				r := &reading{atOnce: pairedRowsAhead}
				r.begin(s, l, m.numbers[i])
				if err := r.next(ctx); err != nil {
					return nil, nil, err
				}
				readings, words = append(readings, r), append(words, word)
			}
		}
	}
	return readings, words, nil
}

// pairedRowsAhead is how many rows are read at once of each of many lists.
const pairedRowsAhead = 4

// mergeLists joins the lists of one word.
func (m *merger) mergeLists(ctx context.Context, out *listWriter, readings []reading, of []int) error {
	for _, i := range of {
		if err := readings[i].next(ctx); err != nil {
			return err
		}
	}
	for {
		best := -1
		for _, i := range of {
			if !readings[i].over && (best < 0 || readings[i].number < readings[best].number) {
				best = i
			}
		}
		if best < 0 {
			return nil
		}
		r := &readings[best]
		if int64(r.number) <= out.last {
			return corrupt(r.l.first, "a list that is not in order")
		}
		where, single, err := r.where()
		if err != nil {
			return err
		}
		if err := out.add(int64(r.number), single, where); err != nil {
			return err
		}
		if err := r.next(ctx); err != nil {
			return err
		}
	}
}

// reading goes through a list from its beginning, by the numbers that its lines
// have behind a merge.
type reading struct {
	r       *Reader
	l       list
	numbers []uint32 // what the numbers become
	atOnce  int      // rows that are read at once

	over   bool
	number uint32 // the current one, in the merged segment

	row     int64    // the next row
	ahead   [][]byte // rows that are here
	before  int64    // last number of the rows before
	chunks  []chunk
	at, i   int // of the current number
	decoded [chunkLines]uint32
	split   bool
	starts  [chunkLines + 1]uint16
}

func (d *reading) begin(r *Reader, l list, numbers []uint32) {
	d.r, d.l, d.numbers = r, l, numbers
	d.over, d.row, d.ahead, d.before, d.chunks, d.at, d.i = false, 0, nil, -1, d.chunks[:0], -1, 0
}

// next goes to the next number that is not gone.
func (d *reading) next(ctx context.Context) error {
	for {
		d.i++
		for d.at < 0 || d.at == len(d.chunks) || d.i >= d.chunks[d.at].count {
			if d.at++; d.at >= len(d.chunks) {
				if err := d.load(ctx); err != nil || d.over {
					return err
				}
			}
			if !d.chunks[d.at].decode(&d.decoded, d.r.lines) {
				return corrupt(d.l.first, "a list that cannot be read")
			}
			d.before = int64(d.decoded[d.chunks[d.at].count-1])
			d.i, d.split = 0, false
		}
		if n := d.numbers[d.decoded[d.i]]; n != gone {
			d.number = n
			return nil
		}
	}
}

// load reads the next row, or the list that stands beside its word.
func (d *reading) load(ctx context.Context) (err error) {
	d.at = 0
	if d.l.rows == 0 {
		if d.row++; d.row > 1 {
			d.over = true
			return nil
		}
		d.chunks, err = d.l.parseChunks(d.chunks[:0], 0, d.l.inline, -1, d.r.lines)
		return err
	}
	if d.row == d.l.rows {
		d.over = true
		return nil
	}
	if len(d.ahead) == 0 {
		var numbers []int64
		for i := d.row; i < d.l.rows && len(numbers) < d.atOnce; i++ {
			numbers = append(numbers, d.l.block(i))
		}
		if d.ahead, err = d.r.blocks(ctx, numbers); err != nil {
			return err
		}
	}
	row := d.row
	before, chunks, err := d.l.parseRow(row, d.ahead[0], d.r.lines)
	if err != nil {
		return err
	}
	d.ahead, d.row = d.ahead[1:], d.row+1
	if before != d.before {
		return corrupt(d.l.block(row), "no row of a list")
	}
	d.chunks, err = d.l.parseChunks(d.chunks[:0], d.l.block(row), chunks, before, d.r.lines)
	return err
}

// where returns the places of the current number as they are encoded.
func (d *reading) where() (where []byte, single bool, err error) {
	if !d.l.places {
		return unknownPlaces, false, nil
	}
	c := &d.chunks[d.at]
	if !d.split {
		if !c.split(&d.starts) {
			return nil, false, corrupt(d.l.first, "places that cannot be read")
		}
		d.split = true
	}
	return c.where[d.starts[d.i]:d.starts[d.i+1]], c.single(d.i), nil
}

var unknownPlaces = []byte{placesUnknown}
