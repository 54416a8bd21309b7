package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tiny is enough to walk every path once.
var tiny = size{reps: 2, appends: 2, writers: []int{3}, shared: 6, logs: []int{200, 1_000}, peer: 1_000, tails: 2,
	trees: []int{1_000}, branches: 2, listed: [2]int{100, 100}, lists: 1, processes: 1}

func TestEveryPartFillsItsRowsAndLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	r := &run{size: tiny, log: io.Discard}
	if err := r.all(t.Context(), dir, ""); err != nil {
		t.Fatal(err)
	}
	page := r.table.markdown(r.machine)
	for _, goal := range []string{"P1", "P3", "P5", "P6"} {
		if !strings.Contains(page, "| "+goal+" |") {
			t.Errorf("no row for %s in\n%s", goal, page)
		}
	}
	for _, row := range r.table.rows {
		if row.value == "" && row.time.median <= 0 {
			t.Errorf("%s: took no time", row.what)
		}
		if row.against != "" && row.ratio.median <= 0 {
			t.Errorf("%s beside %s: no ratio", row.what, row.against)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestAPartThatIsNotThereIsAnError(t *testing.T) {
	r := &run{size: tiny, log: io.Discard}
	if err := r.all(t.Context(), t.TempDir(), "appent"); err == nil || !strings.Contains(err.Error(), "append") {
		t.Errorf("error = %v, want one that names the parts", err)
	}
}

func TestRewriteChangesOnlyWhatStandsBetweenTheMarks(t *testing.T) {
	name := filepath.Join(t.TempDir(), "page.md")
	before, after := "# Title\n\n", "\n## More\n"
	if err := os.WriteFile(name, []byte(before+markBegin+"old\n"+markEnd+after), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := rewrite(name, "new\n"); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(before+markBegin+"\nnew\n\n"+markEnd+after, string(got)); d != "" {
		t.Error(d)
	}
}

func TestRewriteRefusesAPageWithoutMarks(t *testing.T) {
	name := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(name, []byte("# Title\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := rewrite(name, "new\n"); err == nil {
		t.Error("a page without marks was rewritten")
	}
}

func TestRatiosAreTakenRepetitionByRepetition(t *testing.T) {
	s := samples{"a": {{each: 10}, {each: 40}, {each: 90}}, "b": {{each: 10}, {each: 20}, {each: 30}}}
	if d := cmp.Diff(spread{median: 2, low: 1.5, high: 2.5}, s.ratio("a", "b"), cmp.AllowUnexported(spread{})); d != "" {
		t.Error(d)
	}
}

func TestVerdictsFollowThePrintedFigures(t *testing.T) {
	for _, c := range []struct {
		row  row
		want string
	}{
		{row{ratio: spread{median: 1.34}, want: want{ratioAtMost: 1.3}}, "yes"}, // printed as 1.3
		{row{ratio: spread{median: 1.36}, want: want{ratioAtMost: 1.3}}, "no"},
		{row{ratio: spread{median: 8.1}, faster: true, want: want{ratioAtLeast: 8}}, "yes"},
		{row{time: spread{median: 51e3}, want: want{timeAtMost: 50e3}}, "no"},
		{row{time: spread{median: 51e3}}, ""},
	} {
		if got := c.row.verdict(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.row, got, c.want)
		}
	}
}

func TestFiguresAreShort(t *testing.T) {
	for ns, want := range map[float64]string{450: "0.45 µs", 67_400: "67 µs", 2_640_000: "2.6 ms", 171e6: "171 ms", 1.82e9: "1.8 s"} {
		if got := duration(ns); got != want {
			t.Errorf("duration(%v) = %q, want %q", ns, got, want)
		}
	}
	if got := number(164_432); got != "164,000" {
		t.Errorf("number = %q", got)
	}
}
