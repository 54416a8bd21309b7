package render

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestNoPlotIsWiderThanTheTerminal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var out bytes.Buffer
		c := Chart{Out: &out, Width: rapid.IntRange(1, 200).Draw(t, "width"), ASCII: rapid.Bool().Draw(t, "ascii")}
		n := rapid.IntRange(1, 30).Draw(t, "n")
		var bars, days []Bar
		for i := range n {
			value := rapid.Int64Range(0, math.MaxInt64).Draw(t, "value")
			bars = append(bars, Bar{rapid.String().Draw(t, "name"), value})
			days = append(days, Bar{fmt.Sprintf("%04d-%02d-01", rapid.IntRange(0, 9999).Draw(t, "year"), i%12+1), value})
		}
		if err := c.Bars(bars, "tokens by model"); err != nil {
			t.Fatal(err)
		}
		if err := c.Days(days, "tokens"); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if w := Width(strings.TrimRight(line, "\n")); w > c.Width {
				t.Fatalf("%d columns of %d: %q", w, c.Width, line)
			}
		}
	})
}

func TestDaysWithoutAnythingAreDrawnEmpty(t *testing.T) {
	var out bytes.Buffer
	c := Chart{Out: &out, Width: 40}
	if err := c.Days([]Bar{{"2026-10-24", 80}, {"2026-10-26", 40}}, "tokens"); err != nil {
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
	c := Chart{Out: &out, Width: 30, ASCII: true}
	if err := c.Days([]Bar{{"2020-01-01", 1}, {"2020-01-02", 2}, {"2026-12-31", 1}}, "messages"); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.String(), "messages, 99 days a column\n 3 |#") {
		t.Errorf("it draws\n%s", out.String())
	}
}

func TestBarsEndInEighths(t *testing.T) {
	c := Chart{}
	for value, want := range map[int64]string{0: "", 1: "▏", 8: "█", 12: "█▌", 64: "████████"} {
		if got := c.filled(value, 64, 8); got != want {
			t.Errorf("filled(%d of 64) = %q, want %q", value, got, want)
		}
	}
	if got := (Chart{ASCII: true}).filled(12, 64, 8); got != "##" {
		t.Errorf("in ASCII %q", got)
	}
}

func TestNumbersGetShortOnATerminal(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 9999: "9999", 10_000: "10.0k", 123_456: "123k", 999_499: "999k", 999_500: "1.0M",
		99_949_999: "99.9M", 99_950_000: "100M", math.MaxInt64: "9.2E"} {
		if got := Count(n); got != want {
			t.Errorf("Count(%d) = %q, want %q", n, got, want)
		}
	}
}
