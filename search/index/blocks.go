package index

import (
	"container/list"
	"context"
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

// fetch returns how blocks of a segment are read: from the cache, and the others
// in one call. Who reads a segment from its beginning to its end does not keep
// what it read, or nothing else would be left in the cache.
func (ix *Index) fetch(id string, keep bool) segment.Fetch {
	return func(ctx context.Context, numbers []int64) ([][]byte, error) {
		got := make([][]byte, len(numbers))
		var spans []tidemark.Span
		var missing []int // of numbers, in the order of spans
		for i, n := range numbers {
			if got[i] = ix.o.Cache.get(place{id, n}); got[i] != nil {
				continue
			}
			if m := len(missing); m > 0 && numbers[missing[m-1]] == n-1 {
				spans[len(spans)-1].To = n
			} else {
				spans = append(spans, tidemark.Span{From: n, To: n})
			}
			missing = append(missing, i)
		}
		if len(missing) == 0 {
			return got, nil
		}
		next := 0
		for l, err := range ix.k.Backend().Lines(ctx, segmentKey(id), spans...) {
			if err != nil {
				return nil, err
			}
			if next == len(missing) || l.Seq != numbers[missing[next]] {
				break
			}
			got[missing[next]] = l.Body
			if keep {
				ix.o.Cache.add(place{id, l.Seq}, l.Body)
			}
			next++
		}
		if next < len(missing) {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			return nil, &tidemark.Damage{Key: segmentKey(id), Seq: numbers[missing[next]], What: "it is missing"}
		}
		return got, nil
	}
}
