package main

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The pages that the figures are on: all of them, and one for visitors.
const (
	tablesPage   = "benchmark-tables.md"
	visitorsPage = "benchmarks.md"
)

// goals are what the figures are measured for, in the words of the page for
// visitors.
var goals = []struct{ id, about string }{
	{"P1", "a durable append, one writer"},
	{"P2", "durable appends, 64 writers"},
	{"P3", "the last 50 entries of a session"},
	{"P4", "50 entries in the middle"},
	{"P5", "branch, label, checkpoint, fork"},
	{"P6", "lists of sessions"},
	{"P7", "resume, whatever the length"},
	{"P8", "search over a million entries"},
	{"P9", "import and export"},
	{"P10", "start of the program"},
	{"P11", "a fleet"},
	{"P12", "a team's store on PostgreSQL"},
	{"P13", "a team's server over HTTP"},
	{"P14", "streaming a model's answer"},
	{"P15", "a second import, nothing new"},
	{"P16", "watching all agents of a machine"},
	{"P17", "an append beside somebody's import"},
	{"P18", "sync between machines"},
	{"P19", "the index on PostgreSQL"},
	{"P20", "growth with the store"},
	{"P21", "pages in a browser"},
}

// judged is a row of the tables' page that belongs to a goal and has a
// verdict.
type judged struct {
	goal, work, figure, beside, wanted string
	met                                bool
	short                              float64 // how many times it falls short of what is wanted; below 1: it is better
}

// judgedRows finds the rows with a verdict on the page of tables.
func judgedRows(page string) (rows []judged) {
	for line := range strings.Lines(page) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) != len(headings) {
			continue
		}
		cells[0] = strings.TrimPrefix(cells[0], "| ")
		verdict := strings.TrimSuffix(cells[7], " |")
		if verdict != "yes" && verdict != "no" || !strings.HasPrefix(cells[0], "P") {
			continue
		}
		j := judged{goal: cells[0], work: cells[1], figure: cells[4], beside: cells[3], wanted: cells[6], met: verdict == "yes"}
		if !strings.Contains(j.wanted, "×") {
			j.figure, j.beside = cells[2], ""
		}
		j.short = shortfall(j.figure, j.wanted)
		rows = append(rows, j)
	}
	return rows
}

// quantity is a number with its unit, as the tables have it.
var quantity = regexp.MustCompile(`([0-9][0-9,.]*) ?(µs|ms|s\b|×|MB/s|MB|%|a second)?`)

// shortfall is how many times a figure is worse than what is wanted, or NaN
// where they cannot be compared.
func shortfall(figure, wanted string) float64 {
	has, hasUnit := amount(figure)
	want, wantUnit := amount(wanted)
	if wantUnit == "a second" && hasUnit == "s" && has > 0 {
		has, hasUnit = 1/has, wantUnit
	}
	if hasUnit != wantUnit || has <= 0 || want <= 0 {
		return math.NaN()
	}
	if strings.HasPrefix(wanted, "≥") {
		return want / has
	}
	return has / want
}

// amount reads a quantity; times are in seconds.
func amount(s string) (n float64, unit string) {
	m := quantity.FindStringSubmatch(s)
	if m == nil {
		return 0, ""
	}
	n, err := strconv.ParseFloat(strings.ReplaceAll(m[1], ",", ""), 64)
	if err != nil {
		return 0, ""
	}
	switch unit = m[2]; unit {
	case "µs":
		return n / 1e6, "s"
	case "ms":
		return n / 1e3, "s"
	}
	return n, unit
}

// summary is the table for visitors: a line for each goal, with the row that
// is furthest from what is wanted.
func summary(rows []judged) string {
	var b strings.Builder
	b.WriteString("| goal | about | met | furthest from it | figure | beside | wanted |\n| --- | --- | --- | --- | --- | --- | --- |\n")
	for _, g := range goals {
		of := slices.DeleteFunc(slices.Clone(rows), func(j judged) bool { return j.goal != g.id })
		if len(of) == 0 {
			fmt.Fprintf(&b, "| %s | %s | not measured | | | | |\n", g.id, g.about)
			continue
		}
		worst := slices.MaxFunc(of, func(x, y judged) int {
			if x.met != y.met {
				return map[bool]int{true: -1, false: 1}[x.met]
			}
			return cmp.Compare(x.short, y.short) // NaN is the least
		})
		met := len(slices.DeleteFunc(slices.Clone(of), func(j judged) bool { return !j.met }))
		verdict := "**yes**"
		if met < len(of) {
			verdict = fmt.Sprintf("%d of %d", met, len(of))
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", g.id, g.about, verdict, worst.work, worst.figure, worst.beside, worst.wanted)
	}
	return b.String()
}

// summarise writes what follows from the page of tables: the table of growth on that
// page, and the table for visitors on theirs.
func summarise(tables, visitors string) error {
	if err := grow(tables); err != nil {
		return err
	}
	page, err := os.ReadFile(tables)
	if err != nil {
		return err
	}
	return between(visitors, "summary", summary(judgedRows(string(page))))
}
