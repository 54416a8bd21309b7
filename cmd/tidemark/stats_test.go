package main

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/store"
)

func TestNoPlotIsWiderThanTheTerminal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var out bytes.Buffer
		c := chart{w: &out, width: rapid.IntRange(1, 200).Draw(t, "width"), ascii: rapid.Bool().Draw(t, "ascii")}
		n := rapid.IntRange(1, 30).Draw(t, "n")
		var bars, days []bar
		for i := range n {
			value := rapid.Int64Range(0, math.MaxInt64).Draw(t, "value")
			bars = append(bars, bar{rapid.String().Draw(t, "name"), value})
			days = append(days, bar{fmt.Sprintf("%04d-%02d-01", rapid.IntRange(0, 9999).Draw(t, "year"), i%12+1), value})
		}
		if err := c.bars(bars, "tokens by model"); err != nil {
			t.Fatal(err)
		}
		if err := c.days(days, "tokens"); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if w := render.Width(strings.TrimRight(line, "\n")); w > c.width {
				t.Fatalf("%d columns of %d: %q", w, c.width, line)
			}
		}
	})
}

func TestDaysWithoutAnythingAreDrawnEmpty(t *testing.T) {
	var out bytes.Buffer
	c := chart{w: &out, width: 40}
	if err := c.days([]bar{{"2026-10-24", 80}, {"2026-10-26", 40}}, "tokens"); err != nil {
		t.Fatal(err)
	}
	want := `tokens by day
 80 │█████
    │█████
    │█████
    │█████
    │█████
    │█████       █████
    │█████       █████
    │█████       █████
    │█████       █████
    │█████       █████
  0 └──────────────────
     2026-10-24 2026-10-26
`
	if out.String() != want {
		t.Errorf("it draws\n%swant\n%s", out.String(), want)
	}
}

func TestManyDaysShareAColumn(t *testing.T) {
	var out bytes.Buffer
	c := chart{w: &out, width: 30, ascii: true}
	if err := c.days([]bar{{"2020-01-01", 1}, {"2020-01-02", 2}, {"2026-12-31", 1}}, "messages"); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.String(), "messages, 99 days a column\n 3 |#") {
		t.Errorf("it draws\n%s", out.String())
	}
}

func TestBarsEndInEighths(t *testing.T) {
	c := chart{}
	for value, want := range map[int64]string{0: "", 1: "▏", 8: "█", 12: "█▌", 64: "████████"} {
		if got := c.filled(value, 64, 8); got != want {
			t.Errorf("filled(%d of 64) = %q, want %q", value, got, want)
		}
	}
	if got := (chart{ascii: true}).filled(12, 64, 8); got != "##" {
		t.Errorf("in ASCII %q", got)
	}
}

func TestNumbersGetShortOnATerminal(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 9999: "9999", 10_000: "10.0k", 123_456: "123k", 999_499: "999k", 999_500: "1.0M",
		99_949_999: "99.9M", 99_950_000: "100M", math.MaxInt64: "9.2E"} {
		if got := short(n); got != want {
			t.Errorf("short(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestHostileUsageDoesNotBreakTheSums(t *testing.T) {
	var sum store.Tally
	s := store.New(memory.New(), nil)
	for range 3 {
		s.Tally(&sum, store.Owned{Session: &store.Info{}, Entry: tidemark.Entry{Usage: &tidemark.Usage{
			InputTokens: math.MaxInt64, OutputTokens: -5, CostUSD: math.MaxFloat64}}})
	}
	store.SortTallies([]*store.Tally{&sum}, "model")
	if sum.InputTokens != math.MaxInt64 || sum.OutputTokens != 0 || sum.Tokens() != math.MaxInt64 || math.IsInf(sum.USD(), 0) {
		t.Errorf("%+v", sum)
	}
	if _, err := marshal(sum); err != nil {
		t.Error(err)
	}
}
