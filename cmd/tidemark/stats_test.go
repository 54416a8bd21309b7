package main

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/store"
)

func TestHostileUsageDoesNotBreakTheSums(t *testing.T) {
	var sum store.Tally
	s := store.New(memory.New(), nil)
	for range 3 {
		s.Tally(&sum, store.Owned{Session: &store.Info{}, Entry: tidemark.Entry{Usage: &tidemark.Usage{
			InputTokens: math.MaxInt64, OutputTokens: -5, CostUSD: math.MaxFloat64}}})
	}
	if sum.InputTokens != math.MaxInt64 || sum.OutputTokens != 0 || sum.Tokens() != math.MaxInt64 || math.IsInf(sum.USD(), 0) {
		t.Errorf("%+v", sum)
	}
	if _, err := json.Marshal(sum); err != nil {
		t.Error(err)
	}
}
