package main

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// sized finds how large the store was in the name of some work: the last number
// that follows one of these words.
var sized = regexp.MustCompile(`^(.*(?:of|at|among|in|,)) ([0-9]+[kM]?)\b(.*)$`)

// notAwaited is in the names of works that nobody waits for, that do something with
// each element, or whose number is none of elements.
var notAwaited = regexp.MustCompile(`writers|at once|at a time|followers|daemons|memory|CPU|-n 0|readdir|parse all|deltas|written|kept|one append`)

// grown is a work that was measured at several sizes.
type grown struct {
	work  string
	sizes []atSize
}

type atSize struct {
	name    string
	n, time float64
}

// growth collects from the page of tables what was measured at more than one size,
// the smallest first.
func growth(page string) (all []grown) {
	for line := range strings.Lines(page) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) != len(headings) || strings.HasPrefix(cells[0], "| P20") || notAwaited.MatchString(cells[1]) {
			continue
		}
		m := sized.FindStringSubmatch(cells[1])
		took, unit := amount(cells[2])
		if m == nil || unit != "s" {
			continue
		}
		work := m[1] + " n" + m[3]
		i := slices.IndexFunc(all, func(g grown) bool { return g.work == work })
		if i < 0 {
			i, all = len(all), append(all, grown{work: work})
		}
		g := &all[i]
		if n := elements(m[2]); !slices.ContainsFunc(g.sizes, func(s atSize) bool { return s.n == n }) {
			g.sizes = append(g.sizes, atSize{m[2], n, took})
		}
	}
	all = slices.DeleteFunc(all, func(g grown) bool { return len(g.sizes) < 2 })
	for i := range all {
		slices.SortFunc(all[i].sizes, func(x, y atSize) int { return int(x.n - y.n) })
	}
	return all
}

func elements(size string) float64 {
	unit := 1.0
	switch {
	case strings.HasSuffix(size, "k"):
		unit = 1e3
	case strings.HasSuffix(size, "M"):
		unit = 1e6
	}
	n, err := strconv.ParseFloat(strings.TrimRight(size, "kM"), 64)
	if err != nil {
		return 0
	}
	return n * unit
}

// exponent is that of the power of the size that the times grow with, by least
// squares over their logarithms.
func (g grown) exponent() float64 {
	var x, y, xx, xy float64
	for _, s := range g.sizes {
		a, b := math.Log(s.n), math.Log(s.time)
		x, y, xx, xy = x+a, y+b, xx+a*a, xy+a*b
	}
	n := float64(len(g.sizes))
	return (n*xy - x*y) / (n*xx - x*x)
}

// row says how the largest compares with the smallest, and whether that is more than
// the logarithm of their sizes allows.
func (g grown) row() row {
	var sizes []string
	for _, s := range g.sizes {
		sizes = append(sizes, s.name)
	}
	first, last := g.sizes[0], g.sizes[len(g.sizes)-1]
	ratio := last.time / first.time
	w := row{goal: "P20", what: fmt.Sprintf("%s; n = %s; n^%.2f", g.work, strings.Join(sizes, ", "), g.exponent()), time: spread{median: last.time * 1e9},
		against: "the same with " + first.name, ratio: spread{median: ratio}}
	w.want.ratioAtMost = math.Round(10*math.Log(last.n)/math.Log(first.n)) / 10
	return w
}

// grow writes the table of growth on the page of tables, from its other tables.
func grow(tables string) error {
	page, err := os.ReadFile(tables)
	if err != nil {
		return err
	}
	var t table
	for _, g := range growth(string(page)) {
		t.add(g.row())
	}
	return between(tables, "growth", t.markdown())
}
