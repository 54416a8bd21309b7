package sqlite

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/tidemark-sessions/tidemark"
)

// searchVersion is the first schema that has an index.
const searchVersion = 2

// The index is walked from the newest id down; for each hit, three rows are
// looked up. A line that no longer exists is no hit.
const sqlSearch = `SELECT w.rowid, n.id, n.at, l.kind, l.id
  FROM word w CROSS JOIN hit h ON h.id = w.rowid CROSS JOIN line n ON n.id = h.line CROSS JOIN log l ON l.number = h.line >> 32
  WHERE w.word MATCH ?1 AND w.rowid <= ?2 AND l.kind <> '' ORDER BY w.rowid DESC`

// Search yields the newest lines first. It reads one page of hits at a time, and
// holds those back that a newer one may still follow: many only where much was
// written at about one time. Lines that are indexed while a caller's loop body
// runs may be missed. A prefix is compared with all words, and costs more the more
// lines match it; ErrInvalid: it is empty, or over a kilobyte.
func (b *Backend) Search(ctx context.Context, a tidemark.IndexQuery) iter.Seq2[tidemark.Hit, error] {
	return func(yield func(tidemark.Hit, error) bool) {
		match, err := matchOf(a)
		if err != nil {
			yield(tidemark.Hit{}, err)
			return
		}
		p := searching{match: match, upTo: math.MaxInt64, left: a.Limit}
		if a.Limit <= 0 {
			p.left = math.MaxInt
		}
		for !p.done {
			next := p
			err := b.snapshot(ctx, func(c *conn) error {
				next = p // it starts over when it is called again
				next.waiting = slices.Clone(p.waiting)
				return next.next(ctx, c)
			})
			if err != nil {
				yield(tidemark.Hit{}, err)
				return
			}
			p = next
			for _, h := range p.hits {
				if !yield(h, nil) {
					return
				}
			}
		}
	}
}

// firstHits is the size of the first page of a search.
const firstHits = 32

// searching carries a search from page to page.
type searching struct {
	match   string
	upTo    int64          // the newest id that was not examined
	left    int            // how many more may be yielded
	waiting []tidemark.Hit // newest first, found, but a newer one may still be found
	hits    []tidemark.Hit // a page, in order
	size    int            // of the page: most callers want a few, so it begins small
	done    bool
}

// next reads a page. A line never has an id before its time, so hits still to be
// found are no newer than the id that the search has reached.
func (p *searching) next(ctx context.Context, c *conn) error {
	if err := hasIndex(c); err != nil {
		return err
	}
	p.hits = nil
	if p.match == "" {
		p.done = true
		return nil
	}
	defer c.interruptOn(ctx)()
	err := p.page(c)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return asDamage(err, tidemark.Key{}, searchIndex)
}

func (p *searching) page(c *conn) error {
	s, err := c.prepare(sqlSearch)
	if err != nil {
		return err
	}
	defer s.reset()
	s.setText(1, p.match)
	s.setInt(2, p.upTo)
	p.size = min(max(2*p.size, firstHits), pageRows)
	for len(p.hits) < min(p.left, p.size) {
		more, err := s.step()
		if err != nil {
			return err
		}
		if !more {
			p.pass(math.MinInt64)
			p.done = true
			return nil
		}
		id := s.int(0)
		p.upTo = id - 1
		p.pass(id / bucketIDs)
		line := s.int(1)
		h := tidemark.Hit{Log: tidemark.Key{Kind: s.text(3), ID: s.text(4)}, Seq: line & maxSeq, At: timeOf(s.int(2))}
		i, _ := slices.BinarySearchFunc(p.waiting, h, compareHits)
		p.waiting = slices.Insert(p.waiting, i, h)
	}
	p.left -= len(p.hits)
	p.done = p.left == 0
	return nil
}

// pass moves on the hits that are newer than a stretch of ids.
func (p *searching) pass(bucket int64) {
	n := 0
	for n < len(p.waiting) && len(p.hits)+n < p.left && bucketAt(p.waiting[n].At.UnixMicro()) > bucket {
		n++
	}
	p.hits = append(p.hits, p.waiting[:n]...)
	p.waiting = p.waiting[n:]
}

func compareHits(a, b tidemark.Hit) int {
	return cmp.Or(b.At.Compare(a.At), compareKeys(a.Log, b.Log), cmp.Compare(b.Seq, a.Seq))
}

// hasIndex returns ErrUnsupported for a store that was opened for reading
// before a newer program upgraded it, or whose schema is damaged.
func hasIndex(c *conn) error {
	if c.standing {
		return fmt.Errorf("the schema is damaged, so that there is no search index: %w", tidemark.ErrUnsupported)
	}
	have, err := c.number("PRAGMA user_version")
	if err == nil && have < searchVersion {
		err = fmt.Errorf("schema version %d has no search index, opening the store once for writing adds it: %w", have, tidemark.ErrUnsupported)
	}
	return err
}

const sqlUnindexed = `SELECT ` + headColumns + `, id, indexed FROM log INDEXED BY log_behind
  WHERE behind = 1 AND kind = ?1 AND number > ?2 ORDER BY number LIMIT ?3`

// Unindexed walks the logs that are marked. One whose head is damaged is left
// out: its length cannot be trusted, and reading it reports the damage.
func (b *Backend) Unindexed(ctx context.Context, kinds ...string) iter.Seq2[tidemark.Lag, error] {
	return func(yield func(tidemark.Lag, error) bool) {
		for _, kind := range kinds {
			for from, more := int64(math.MinInt64), true; more; {
				var lags []tidemark.Lag
				var last int64
				err := b.snapshot(ctx, func(c *conn) (err error) {
					lags, last, more, err = lagsOf(c, kind, from)
					return err
				})
				if err != nil {
					yield(tidemark.Lag{}, err)
					return
				}
				from = last
				for _, lag := range lags {
					if !yield(lag, nil) {
						return
					}
				}
			}
		}
	}
}

// lagsOf reads a page of marked logs after a number, and returns the number of
// the last.
func lagsOf(c *conn, kind string, from int64) (lags []tidemark.Lag, last int64, more bool, err error) {
	if err := hasIndex(c); err != nil {
		return nil, 0, false, err
	}
	rows := 0
	err = c.do(sqlUnindexed, func(s *stmt) {
		s.setText(1, kind)
		s.setInt(2, from)
		s.setInt(3, pageRows)
	}, func(s *stmt) {
		rows++
		h, sum := scanHead(s)
		last = h.number
		lag := tidemark.Lag{Log: tidemark.Key{Kind: kind, ID: s.text(9)}, From: s.int(10) + 1, To: h.Length}
		if h.check(lag.Log, sum) == nil && lag.From <= lag.To {
			lags = append(lags, lag)
		}
	})
	return lags, last, rows == pageRows, err
}
