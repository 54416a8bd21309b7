package prices

import (
	"errors"
	"math"
	"testing"

	"github.com/tidemark-sessions/tidemark"
)

func TestAnAnswerCostsWhatItsTokensCost(t *testing.T) {
	u := tidemark.Usage{InputTokens: 1_000_000, OutputTokens: 100_000, CacheReadTokens: 2_000_000, CacheWriteTokens: 400_000}
	for _, model := range []string{"claude-sonnet-4-5", "claude-sonnet-4-5-20250929", "anthropic/claude-sonnet-4-5", "Claude-Sonnet-4-5",
		"us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5@20250929", "anthropic/claude-sonnet-4.5", "claude-sonnet-4-5[1m]"} {
		usd, known := BuiltIn().Cost(model, day("2025-12-01"), u)
		if want := 3 + 1.5 + 0.6 + 1.5; !known || math.Abs(usd-want) > 1e-9 {
			t.Errorf("%s: %v, %v; want %v", model, usd, known, want)
		}
	}
}

func TestAModelThatNobodyPricedHasNoPrice(t *testing.T) {
	for _, model := range []string{"", "claude-opus-99", "my-own-model", "claude", "gpt-5-mini-turbo", "-20250929"} {
		if usd, known := BuiltIn().Cost(model, day("2025-12-01"), tidemark.Usage{InputTokens: 1}); known || usd != 0 {
			t.Errorf("%q costs %v, want no price", model, usd)
		}
	}
}

func TestAnAnswerCostsWhatHeldOnItsDay(t *testing.T) {
	u := tidemark.Usage{InputTokens: 1_000_000}
	for on, want := range map[string]float64{"2025-01-01": 10, "2025-06-09": 10, "2025-06-10": 2, "2026-11-15": 2} {
		if usd, _ := BuiltIn().Cost("o3", day(on), u); usd != want {
			t.Errorf("o3 on %s: %v, want %v", on, usd, want)
		}
	}
}

func TestAFileSaysItBetter(t *testing.T) {
	quarter := 0.25
	table, err := BuiltIn().With(File{AsOf: "2026-11-01", Models: map[string][]Price{
		"my-model": {{Input: 4, Output: 20, CacheRead: &quarter}}, "openai/gpt-5": {{From: "2026-01-01", Input: 1}}}})
	if err != nil {
		t.Fatal(err)
	}
	u := tidemark.Usage{InputTokens: 1_000_000, CacheReadTokens: 1_000_000, CacheWriteTokens: 1_000_000}
	if usd, _ := table.Cost("my-model", day("2026-11-15"), u); usd != 8.25 {
		t.Errorf("my-model: %v, want 8.25", usd)
	}
	if usd, _ := table.Cost("gpt-5", day("2026-11-15"), tidemark.Usage{OutputTokens: 1_000_000}); usd != 0 {
		t.Errorf("gpt-5: %v, want what the file says, all of it", usd)
	}
	if at, ok := table.AsOf("my-model"); !ok || !at.Equal(day("2026-11-01")) {
		t.Errorf("my-model is as of %v", at)
	}
	if _, ok := BuiltIn().AsOf("my-model"); ok {
		t.Error("the table in the program was changed")
	}
	for name, f := range map[string]File{
		"no date":      {},
		"another date": {AsOf: "2026-11-01", Models: map[string][]Price{"m": {{From: "soon"}}}},
		"negative":     {AsOf: "2026-11-01", Models: map[string][]Price{"m": {{Input: -1}}}},
		"no number":    {AsOf: "2026-11-01", Models: map[string][]Price{"m": {{Output: math.NaN()}}}},
	} {
		if _, err := BuiltIn().With(f); !errors.Is(err, tidemark.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
}

func TestPricesAreOldAfterNinetyDays(t *testing.T) {
	for asOf, old := range map[string]bool{"2026-08-17": false, "2026-08-16": true, "2025-12-01": true, "": false, "soon": false} {
		if got := Old(asOf, day("2026-11-15")); got != old {
			t.Errorf("prices of %q on 2026-11-15: old %v, want %v", asOf, got, old)
		}
	}
}
