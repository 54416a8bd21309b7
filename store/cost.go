package store

import (
	"cmp"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// Estimate is the cost of an answer according to a price list.
type Estimate struct {
	USD  float64
	AsOf time.Time // when the price was looked up
}

// AddCost adds the cost of an entry to c: what its tool recorded, or else what
// Options.Price returns for its tokens. Without either, the entry is counted in
// c.UnpricedMessages.
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
