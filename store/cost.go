package store

import (
	"cmp"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// Estimate is what an answer costs by a list of prices.
type Estimate struct {
	USD  float64
	AsOf time.Time // when the price was looked up
}

// AddCost adds what an entry of a session cost: what its tool recorded, else
// what Options.Price makes of its tokens, else it is one more that is not known.
func (s *Store) AddCost(c *tidemark.Cost, sess tidemark.Session, e tidemark.Entry) {
	u := e.Usage
	switch {
	case u == nil:
	case u.CostUSD > 0:
		c.Spend(u.CostUSD, tidemark.CostRecorded, "")
	case u.InputTokens <= 0 && u.OutputTokens <= 0 && u.CacheReadTokens <= 0 && u.CacheWriteTokens <= 0:
	default:
		if s.o.Price != nil {
			if p, ok := s.o.Price(cmp.Or(e.Model, sess.Model), e.At, *u); ok {
				c.Spend(p.USD, tidemark.CostEstimated, p.AsOf.Format(time.DateOnly))
				return
			}
		}
		c.UnpricedMessages++
	}
}
