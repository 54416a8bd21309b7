package segment

import (
	"context"
	"iter"
	"math"
	"slices"
	"sync"

	"github.com/tidemark-sessions/tidemark"
)

// Reader reads one segment. It is safe for concurrent use, and keeps the inner
// nodes of its trees, which are about a hundredth of the segment; other blocks it
// asks for again, so that a cache is the business of who gives them.
type Reader struct {
	fetch Fetch
	last  int64 // number of the footer

	lines, words, logs int64
	logRoot, wordRoot  int64
	tableFirst         int64
	oldest, newest     int64
	pairRoot           int64 // 0: there are no pairs
	often, slabs       int64 // lines of a paired word, slabs of the pairs
	without            Without

	mu    sync.Mutex
	kept  map[int64][]child
	roots map[int64][]byte
	names map[int64]string
}

// footer is the last block of a segment:
//
//	F, version, lines, words, logs, root of the logs, first block of the table,
//	root of the words, time of the oldest line, how much newer the newest is;
//
// and, where there are pairs, in version 2:
//
//	root of the pairs, how many lines a paired word has at least, how many slabs there are
func (w *writer) footer(t *tableWriter, words, logs int64, logRoot, wordRoot int64, p *pairs) error {
	pairRoot, often, slabs, err := p.finish()
	if err == nil {
		err = w.endRows()
	}
	if err != nil {
		return err
	}
	b := []byte{footerBlock, 1}
	for _, v := range []int64{int64(t.count), words, logs, logRoot, t.first, wordRoot} {
		b = appendUint(b, uint64(v))
	}
	b = appendInt(b, t.oldest)
	b = appendUint(b, uint64(t.newest-t.oldest))
	if pairRoot > 0 {
		b[1] = 2
		for _, v := range []int64{pairRoot, often, slabs} {
			b = appendUint(b, uint64(v))
		}
	}
	_, err = w.put(b)
	return err
}

// Open reads the last block of a segment that has so many: ErrCorrupt when it
// is none, ErrUnsupported when a newer version has written it.
func Open(ctx context.Context, fetch Fetch, blocks int64) (*Reader, error) {
	r := (&Reader{fetch: fetch, last: blocks}).Except(nil)
	got, err := r.blocks(ctx, []int64{blocks})
	if err != nil {
		return nil, err
	}
	s := scan{rest: got[0]}
	if s.byte() != footerBlock {
		return nil, corrupt(blocks, "not the end of a segment")
	}
	version := s.byte()
	if version == 0 || version > Version {
		return nil, newer(blocks, version)
	}
	below := uint64(blocks - 1)
	r.lines, r.words, r.logs = s.upTo(MaxLines), s.upTo(math.MaxInt32), s.upTo(math.MaxInt32)
	r.logRoot, r.tableFirst, r.wordRoot = s.upTo(below), s.upTo(below), s.upTo(below)
	r.oldest = s.int()
	r.newest = r.oldest + s.upTo(math.MaxInt64)
	if version > 1 {
		r.pairRoot, r.often, r.slabs = s.upTo(below), s.upTo(MaxLines), s.upTo(maxSlabs)
	}
	tables := (r.lines + tableLines - 1) / tableLines
	if s.bad || !s.done() || r.newest < r.oldest || r.lines > 0 && (r.tableFirst == 0 || r.tableFirst+tables > blocks) {
		return nil, corrupt(blocks, "an end of a segment that cannot be read")
	}
	return r, nil
}

// Except returns a Reader of the same segment to which some lines are as if they
// had never been indexed: it neither finds nor covers them, and Merge leaves them
// out. The blocks still have them.
func (r *Reader) Except(w Without) *Reader {
	return &Reader{
		fetch: r.fetch, last: r.last, lines: r.lines, words: r.words, logs: r.logs, logRoot: r.logRoot, wordRoot: r.wordRoot,
		tableFirst: r.tableFirst, oldest: r.oldest, newest: r.newest, pairRoot: r.pairRoot, often: r.often, slabs: r.slabs, without: w,
		kept: make(map[int64][]child), roots: make(map[int64][]byte), names: make(map[int64]string),
	}
}

// Len is how many lines the segment has, those that are left out included.
func (r *Reader) Len() int { return int(r.lines) }

// blocks asks for blocks, and refuses what no segment has.
func (r *Reader) blocks(ctx context.Context, numbers []int64) ([][]byte, error) {
	if len(numbers) == 0 {
		return nil, nil
	}
	for _, n := range numbers {
		if n < 1 || n > r.last {
			return nil, corrupt(n, "the segment has %d", r.last)
		}
	}
	got, err := r.fetch(ctx, numbers)
	if err != nil {
		return nil, err
	}
	if len(got) != len(numbers) {
		return nil, corrupt(numbers[0], "%d blocks instead of %d", len(got), len(numbers))
	}
	for i, b := range got {
		if len(b) == 0 || len(b) > MaxBlockBytes {
			return nil, corrupt(numbers[i], "%d bytes", len(b))
		}
	}
	return got, nil
}

// node returns the root of a tree, which is kept.
func (r *Reader) node(ctx context.Context, number int64) ([]byte, error) {
	r.mu.Lock()
	block := r.roots[number]
	r.mu.Unlock()
	if block != nil {
		return block, nil
	}
	got, err := r.blocks(ctx, []int64{number})
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.roots[number] = got[0]
	return got[0], nil
}

// nodes returns the children of inner nodes of one level.
func (r *Reader) nodes(ctx context.Context, at [][]int64, level int) (map[int64][]child, error) {
	found := make(map[int64][]child)
	var missing []int64
	r.mu.Lock()
	for _, numbers := range at {
		for _, n := range numbers {
			if c, ok := r.kept[n]; ok {
				found[n] = c
			} else {
				missing = append(missing, n)
			}
		}
	}
	r.mu.Unlock()
	slices.Sort(missing)
	missing = slices.Compact(missing)
	got, err := r.blocks(ctx, missing)
	if err != nil {
		return nil, err
	}
	for i, n := range missing {
		if found[n], err = parseNode(n, got[i], level); err != nil {
			return nil, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range missing {
		r.kept[n] = found[n]
	}
	return found, nil
}

// Spans returns which lines of a log the segment covers, in order.
func (r *Reader) Spans(ctx context.Context, log string) ([]Span, error) {
	for l, err := range r.logsIn(ctx, oneKey([]byte(log))) {
		return l.Spans, err
	}
	return nil, nil
}

// Covered is a log with the lines of it that a segment covers.
type Covered struct {
	Log   string
	Spans []Span
}

// Logs yields the logs of the segment, by name.
func (r *Reader) Logs(ctx context.Context) iter.Seq2[Covered, error] {
	return r.logsIn(ctx, keyRange{})
}

func (r *Reader) logsIn(ctx context.Context, within keyRange) iter.Seq2[Covered, error] {
	return func(yield func(Covered, error) bool) {
		t, err := r.scanTree(ctx, r.logRoot, logBlock, within)
		for err == nil {
			var ok bool
			if ok, err = t.next(ctx); !ok {
				break
			}
			var spans []Span
			if spans, err = parseSpans(t.number, t.value); err != nil {
				break
			}
			log := string(t.key)
			if spans = r.without.from(log, spans); len(spans) > 0 && !yield(Covered{log, spans}, nil) {
				return
			}
		}
		if err != nil {
			yield(Covered{}, err)
		}
	}
}

func newer(block int64, version byte) error {
	return tidemark.Unsupportedf("block %d of the index: written by a newer version (format %d)", block, version)
}
