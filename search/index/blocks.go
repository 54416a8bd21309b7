package index

import (
	"container/list"
	"context"
	"slices"
	"sync"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/search/segment"
)

// DefaultCacheBytes is how much an Index keeps of blocks that it read: the table
// of lines of some two million entries, or what a person's searches need.
const DefaultCacheBytes = 16 << 20

// Cache keeps blocks that were read: those never change. It may be shared by
// several indexes. Blocks of the table of lines go last, since each hit of each
// search needs one.
type Cache struct {
	mu      sync.Mutex
	most    int
	blocks  map[place]*list.Element
	classes [2]class // the table of lines, everything else
}

// class is blocks from the one that was used last to the one that was not for the
// longest time.
type class struct {
	order list.List
	bytes int
}

type place struct {
	segment string
	number  int64
}

type block struct {
	place
	bytes []byte
}

// blockExtra is about what a block takes beside its bytes.
const blockExtra = 200

// NewCache returns an empty Cache for so many bytes.
func NewCache(bytes int) *Cache {
	return &Cache{most: bytes, blocks: make(map[place]*list.Element)}
}

func classOf(b []byte) int {
	if segment.IsTable(b) {
		return 0
	}
	return 1
}

func (c *Cache) get(p place) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.blocks[p]
	if e == nil {
		return nil
	}
	b := e.Value.(*block).bytes
	c.classes[classOf(b)].order.MoveToFront(e)
	return b
}

func (c *Cache) add(p place, b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.blocks[p] != nil || len(b) == 0 {
		return
	}
	of := &c.classes[classOf(b)]
	c.blocks[p] = of.order.PushFront(&block{p, b})
	of.bytes += len(b) + blockExtra
	table, rest := &c.classes[0], &c.classes[1]
	for table.bytes+rest.bytes > c.most {
		// A quarter is for the rest, however large the table is.
		from := rest
		if rest.bytes <= c.most/4 && table.order.Len() > 0 {
			from = table
		}
		c.remove(from.order.Back())
	}
}

func (c *Cache) remove(e *list.Element) {
	b := e.Value.(*block)
	of := &c.classes[classOf(b.bytes)]
	of.order.Remove(e)
	of.bytes -= len(b.bytes) + blockExtra
	delete(c.blocks, b.place)
}

// forget removes the blocks of a segment.
func (c *Cache) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for p, e := range c.blocks {
		if p.segment == id {
			c.remove(e)
		}
	}
}

// fetch returns how blocks of a segment are read: from the cache, with what other
// segments want in a round, and the others in one call. Who reads a segment from its
// beginning to its end does not keep what it read, or nothing else would be left in the
// cache.
func (ix *Index) fetch(id string, keep bool) segment.Fetch {
	return func(ctx context.Context, numbers []int64) ([][]byte, error) {
		got := make([][]byte, len(numbers))
		missing := make([]int64, 0, len(numbers))
		for i, n := range numbers {
			if got[i] = ix.o.Cache.get(place{id, n}); got[i] == nil {
				missing = append(missing, n)
			}
		}
		if len(missing) == 0 {
			return got, nil
		}
		read := make(map[int64][]byte, len(missing))
		for _, l := range gather(ctx, segmentKey(id), slices.Compact(slices.Sorted(slices.Values(missing)))) {
			read[l.Seq] = l.Body
		}
		missing = slices.DeleteFunc(missing, func(n int64) bool { return read[n] != nil })
		if err := ix.read(ctx, id, missing, read); err != nil {
			return nil, err
		}
		for i, n := range numbers {
			if got[i] != nil {
				continue
			}
			got[i] = read[n]
			if keep {
				ix.o.Cache.add(place{id, n}, got[i])
			}
		}
		return got, nil
	}
}

// read reads blocks of one segment.
func (ix *Index) read(ctx context.Context, id string, missing []int64, into map[int64][]byte) error {
	if len(missing) == 0 {
		return nil
	}
	var spans []tidemark.Span
	for i, n := range missing {
		if i > 0 && missing[i-1] == n-1 {
			spans[len(spans)-1].To = n
		} else {
			spans = append(spans, tidemark.Span{From: n, To: n})
		}
	}
	next := 0
	for l, err := range ix.k.Backend().Lines(ctx, segmentKey(id), spans...) {
		if err != nil {
			return err
		}
		if next == len(missing) || l.Seq != missing[next] {
			break
		}
		into[l.Seq] = l.Body
		next++
	}
	if next < len(missing) {
		if err := ctx.Err(); err != nil {
			return err
		}
		return &tidemark.Damage{Key: segmentKey(id), Seq: missing[next], What: "it is missing"}
	}
	return nil
}
