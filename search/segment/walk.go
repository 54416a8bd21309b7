package segment

import (
	"context"
	"slices"
	"sort"
)

// A query goes through lists from the newest line to the oldest. source is what
// it goes through: the list of one word, or the lines of several words together.
type source interface {
	// seek returns the largest number that is at most the target, −1 when there
	// is none. Targets never ascend.
	seek(ctx context.Context, target int64) (int64, error)
	// size is about how many lines there are.
	size() int
	// coming returns numbers below the last answer of seek that are known without reading,
	// the lowest first: some of those that come next.
	coming() []uint32
}

// rowsAhead is the most rows that are asked for at once where a list is read
// row by row.
const rowsAhead = 16

// walker goes through the list of one word.
type walker struct {
	r *Reader
	l list

	row     int64 // index of the row that is here; 0 for a list beside its word
	loaded  bool
	before  int64 // last number before the row
	chunks  []chunk
	at      int // index of the decoded chunk, −1: none
	numbers [chunkLines]uint32
	i       int // index of the current number

	ends  []int64 // last number of each row, once they are needed
	ahead map[int64][]byte
	run   int    // rows that were read one behind the other
	lead  source // whose numbers are the targets, if anybody knows
	leaps int    // rows that were read at once for these

	splitAt int // the chunk whose places are found, −1: none
	starts  [chunkLines + 1]uint16
}

func (r *Reader) walk(l list) *walker { return &walker{r: r, l: l, at: -1, splitAt: -1} }

func (w *walker) size() int { return w.l.count }

func (w *walker) coming() []uint32 {
	if w.at < 0 {
		return nil
	}
	return w.numbers[:w.i]
}

// follow says whose numbers the targets will be.
func (w *walker) follow(lead source) {
	if lead != source(w) {
		w.lead = lead
	}
}

// begin loads the newest part of the list.
func (w *walker) begin(ctx context.Context) error {
	if w.l.rows > 0 {
		return w.load(ctx, w.l.rows-1)
	}
	w.loaded, w.before = true, -1
	var err error
	w.chunks, err = w.l.parseChunks(w.chunks[:0], 0, w.l.inline, -1, w.r.lines)
	return err
}

// load reads a row. When rows are read one behind the other, more and more of
// them are asked for at once, and so are those that the lead will ask for.
func (w *walker) load(ctx context.Context, row int64) error {
	if w.loaded && row == w.row-1 {
		w.run = min(max(2*w.run, 1), rowsAhead)
	} else {
		w.run = 1
	}
	block, ok := w.ahead[row]
	if !ok {
		rows := w.next(row)
		numbers := make([]int64, len(rows))
		for i, row := range rows {
			numbers[i] = w.l.block(row)
		}
		got, err := w.r.blocks(ctx, numbers)
		if err != nil {
			return err
		}
		w.ahead = make(map[int64][]byte, len(got))
		for i, row := range rows {
			w.ahead[row] = got[i]
		}
		block = got[0]
	}
	return w.open(row, block)
}

// next returns which rows to read with one, newest first.
func (w *walker) next(row int64) []int64 {
	rows := []int64{row}
	if w.run == 1 && w.lead != nil && w.ends != nil {
		w.leaps = min(max(2*w.leaps, 1), rowsAhead)
		for _, n := range slices.Backward(w.lead.coming()) {
			last := rows[len(rows)-1]
			if len(rows) == w.leaps || last == 0 {
				break
			}
			if int64(n) > w.ends[last-1] {
				continue // in the same row
			}
			rows = append(rows, int64(sort.Search(int(last-1), func(i int) bool { return w.ends[i] >= int64(n) })))
		}
		return rows
	}
	for len(rows) < w.run && rows[len(rows)-1] > 0 {
		rows = append(rows, rows[len(rows)-1]-1)
	}
	return rows
}

// open makes a row the current one.
func (w *walker) open(row int64, block []byte) error {
	number := w.l.block(row)
	before, chunks, err := w.l.parseRow(row, block, w.r.lines)
	if err != nil {
		return err
	}
	if w.loaded && before >= w.before && row < w.row {
		return corrupt(number, "a row that cannot be read")
	}
	w.row, w.loaded, w.before, w.at, w.splitAt = row, true, before, -1, -1
	w.chunks, err = w.l.parseChunks(w.chunks[:0], number, chunks, before, w.r.lines)
	return err
}

// seek implements source.
func (w *walker) seek(ctx context.Context, target int64) (int64, error) {
	if !w.loaded {
		if err := w.begin(ctx); err != nil {
			return -1, err
		}
	}
	for w.before >= 0 && target <= w.before {
		row, err := w.rowOf(ctx, target)
		if err != nil {
			return -1, err
		}
		if err := w.load(ctx, row); err != nil {
			return -1, err
		}
	}
	if n, err := w.within(target); n >= 0 || err != nil {
		return n, err
	}
	// The row has only higher numbers: the one before it ends with the answer.
	if w.row == 0 {
		return -1, nil
	}
	last := w.before
	if err := w.load(ctx, w.row-1); err != nil {
		return -1, err
	}
	return w.within(last)
}

// within looks at the row that is here.
func (w *walker) within(target int64) (int64, error) {
	at := w.at
	if at < 0 {
		at = len(w.chunks) - 1
	}
	if w.l.bare {
		at = 0
	} else if target <= w.chunks[at].before {
		at = sort.Search(at, func(i int) bool { return w.chunks[i].before >= target }) - 1
		if at < 0 {
			return -1, nil
		}
	}
	if at != w.at {
		if err := w.decode(at); err != nil {
			return -1, err
		}
	}
	for {
		n := w.chunks[w.at].count
		if i := w.i; int64(w.numbers[0]) <= target {
			// Nearly always the number is close to the last one.
			for step := 1; int64(w.numbers[i]) > target; step *= 2 {
				i = max(0, i-step)
			}
			hi := min(w.i, n-1)
			w.i = i + sort.Search(hi-i, func(k int) bool { return int64(w.numbers[i+k+1]) > target })
			return int64(w.numbers[w.i]), nil
		}
		if w.at == 0 {
			return -1, nil
		}
		if err := w.decode(w.at - 1); err != nil {
			return -1, err
		}
	}
}

func (w *walker) decode(at int) error {
	c := &w.chunks[at]
	if !c.decode(&w.numbers, w.r.lines) {
		return corrupt(w.l.block(w.row), "a list that cannot be read")
	}
	w.at, w.i = at, c.count-1
	return nil
}

// rowOf returns the row that has a number, if any has.
func (w *walker) rowOf(ctx context.Context, target int64) (int64, error) {
	if w.ends == nil {
		if err := w.readEnds(ctx); err != nil {
			return 0, err
		}
	}
	row := int64(sort.Search(len(w.ends), func(i int) bool { return w.ends[i] >= target }))
	if row >= w.row {
		return 0, corrupt(w.l.block(w.row), "rows that do not end where the word says")
	}
	return row, nil
}

func (w *walker) readEnds(ctx context.Context) error {
	skips := w.l.skips
	if w.l.skipBlocks > 0 {
		var numbers []int64
		for i := range w.l.skipBlocks {
			numbers = append(numbers, w.l.firstSkip+i)
		}
		got, err := w.r.blocks(ctx, numbers)
		if err != nil {
			return err
		}
		skips = nil
		for i, b := range got {
			if b[0] != skipBlock {
				return corrupt(numbers[i], "no skips of a list")
			}
			skips = append(skips, b[1:]...)
		}
	}
	s := scan{rest: skips}
	last := int64(-1)
	w.ends = make([]int64, 0, min(w.l.rows, int64(len(skips))))
	for range w.l.rows {
		d := s.upTo(uint64(w.r.lines))
		if last += d; s.bad || d == 0 {
			return corrupt(w.l.first, "skips that cannot be read")
		}
		w.ends = append(w.ends, last)
	}
	return nil
}

// places appends the places of the current number: known is false where the
// segment does not have them.
func (w *walker) places(b []uint32) (places []uint32, known bool, err error) {
	if !w.l.places {
		return b, false, nil
	}
	c := &w.chunks[w.at]
	if w.splitAt != w.at {
		if !c.split(&w.starts) {
			return b, false, corrupt(w.l.block(w.row), "places that cannot be read")
		}
		w.splitAt = w.at
	}
	b, known = readPlaces(b, c.where[w.starts[w.i]:w.starts[w.i+1]], c.single(w.i))
	return b, known, nil
}

// union is the lines that are in one of several sources.
type union struct {
	of []source
	at []int64 // the last answer of each
}

func newUnion(of []source) *union {
	// One that has most is most likely to have a line.
	slices.SortStableFunc(of, func(a, b source) int { return b.size() - a.size() })
	u := &union{of: of, at: make([]int64, len(of))}
	for i := range u.at {
		u.at[i] = MaxLines
	}
	return u
}

func (u *union) size() (n int) {
	for _, s := range u.of {
		n += s.size()
	}
	return n
}

func (u *union) coming() []uint32 {
	best := 0
	for i := range u.at {
		if u.at[i] > u.at[best] {
			best = i
		}
	}
	return u.of[best].coming()
}

func (u *union) seek(ctx context.Context, target int64) (int64, error) {
	best := int64(-1)
	for i, s := range u.of {
		if u.at[i] > target {
			n, err := s.seek(ctx, target)
			if err != nil {
				return -1, err
			}
			u.at[i] = n
		}
		if best = max(best, u.at[i]); best == target {
			break // the others are asked when it matters
		}
	}
	return best, nil
}
