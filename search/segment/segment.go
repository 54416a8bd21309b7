// Package segment keeps words and the lines that have them in small immutable
// blocks: one segment of a search index.
//
// A [Builder] takes lines with their words, in any order, and writes the blocks
// of a segment; [Open] reads them, a few for each query; [Search] asks several
// segments, newest line first; [Merge] makes one of several. The package knows
// neither languages nor stores: words are bytes, blocks come from a function,
// and nothing is read or written beside that. What it reads may be damaged or
// forged: that is an error which answers to tidemark.ErrCorrupt, never a panic
// or more memory than the blocks themselves are worth. docs/formats/segment.md
// is the format.
//
//	b := segment.NewBuilder()
//	b.Line(segment.Line{Log: "session 7f3a", Seq: 12, At: at})
//	b.Word([]byte("tide"), 0)
//	err := b.Write(func(block []byte) error { … })
package segment

import (
	"cmp"
	"context"

	"github.com/tidemark-sessions/tidemark"
)

// Version is the newest format. Segments without pairs are written in the first, so
// that earlier programs read them.
const Version = 2

// MaxBlockBytes bounds a block. A row of SQLite that holds one, sealed and with
// all that is kept beside it, stays within a page of 4 KB.
const MaxBlockBytes = 3900

// MaxLines bounds the lines of a segment: Merge keeps four bytes for each of
// them in memory.
const MaxLines = 1 << 22

// MaxKeyBytes bounds a word and the name of a log.
const MaxKeyBytes = 255

// The kinds of blocks: the first byte of each.
const (
	wordBlock   = 'W' // words with their lists: leaves of a tree
	logBlock    = 'G' // logs with the lines that are indexed of them: leaves of a tree
	nodeBlock   = 'N' // inner node of a tree
	pairBlock   = 'P' // pairs of frequent words with their lists: leaves of a tree
	rowBlock    = 'R' // a piece of a list that is too long to stand beside its word
	skipBlock   = 'S' // where the pieces of a very long list end
	lineBlock   = 'L' // which lines the numbers stand for
	footerBlock = 'F' // the last block
)

// Line is an entry of a log, as an index knows it.
type Line struct {
	Log string // opaque, at most MaxKeyBytes
	Seq int64
	At  int64 // microseconds since 1970
}

// Compare orders lines by time; lines of one instant by log and seq, so that
// the order is total.
func (l Line) Compare(o Line) int {
	return cmp.Or(cmp.Compare(l.At, o.At), cmp.Compare(l.Log, o.Log), cmp.Compare(l.Seq, o.Seq))
}

// Span is a run of lines of a log, both ends included.
type Span struct{ From, To int64 }

// Fetch returns blocks of a segment by their numbers, which begin at 1. Several
// are asked for at once where they are known, so that a store far away is called
// once. The blocks are not changed, and may be kept.
type Fetch func(ctx context.Context, blocks []int64) ([][]byte, error)

// Emit takes the next block of a segment that is being written, and owns it.
type Emit func(block []byte) error

// IsFilter reports whether a word is one that no text has, by which lines are
// filtered: it begins with a zero byte. Such words have no places.
func IsFilter(word []byte) bool { return len(word) > 0 && word[0] == 0 }

// corrupt says what is wrong with a block.
func corrupt(block int64, format string, args ...any) error {
	return tidemark.Errorf(tidemark.ErrCorrupt, "block %d of the index: "+format, append([]any{block}, args...)...)
}

// writer numbers the blocks that go out. One of them, the block of rows under
// way, may have its number before it is full; blocks behind it wait for it.
type writer struct {
	emit    Emit
	blocks  int64
	rows    []byte // the block of rows under way, nil: none
	rowsAt  int64  // its number
	waiting [][]byte
}

// maxWaiting bounds the blocks that wait for the block of rows, and so the
// memory.
const maxWaiting = 64

// put hands out a block of its own, a copy of what is given.
func (w *writer) put(block []byte) (number int64, err error) {
	w.blocks++
	block = append(make([]byte, 0, len(block)), block...)
	if w.rows == nil {
		return w.blocks, w.emit(block)
	}
	if w.waiting = append(w.waiting, block); len(w.waiting) < maxWaiting {
		return w.blocks, nil
	}
	return w.blocks, w.endRows()
}

// beginRows gives the next block of rows its number.
func (w *writer) beginRows() error {
	if err := w.endRows(); err != nil {
		return err
	}
	w.blocks++
	w.rows, w.rowsAt = append(make([]byte, 0, MaxBlockBytes), rowBlock), w.blocks
	return nil
}

// endRows hands out the block of rows under way, and what waits for it.
func (w *writer) endRows() error {
	if w.rows == nil {
		return nil
	}
	rows, waiting := w.rows, w.waiting
	w.rows, w.waiting = nil, nil
	for _, block := range append([][]byte{rows}, waiting...) {
		if err := w.emit(block); err != nil {
			return err
		}
	}
	return nil
}

// IsTable reports whether a block is one of the table of lines, of which every
// hit needs one: a cache does well to keep them longest.
func IsTable(block []byte) bool { return len(block) > 0 && block[0] == lineBlock }
