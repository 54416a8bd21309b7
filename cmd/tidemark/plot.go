package main

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/store"
)

// plotColumns is how wide a plot is that goes to no terminal.
const plotColumns = 80

// plotRows is how high a plot over time is: enough to tell two days apart,
// and low enough to leave the question on the screen.
const plotRows = 10

// bar is one thing to draw, by its name and its size.
type bar struct {
	name  string
	value int64
}

// chart is where and with what to draw.
type chart struct {
	w     io.Writer
	width int
	ascii bool
}

// plotStats draws tallies: by day as columns over time, else as a bar each.
func (a *app) plotStats(w io.Writer, rows []*store.Tally, by string) error {
	c := chart{w: w, width: a.columns, ascii: !unicodeLocale()}
	if c.width <= 0 {
		c.width = plotColumns
	}
	of := "tokens"
	size := (*store.Tally).Tokens
	if !hasTokens(rows) {
		of = "messages"
		size = func(t *store.Tally) int64 { return t.Messages }
	}
	bars := make([]bar, len(rows))
	for i, t := range rows {
		bars[i] = bar{titled(t), size(t)}
	}
	if len(bars) == 0 {
		a.say("There is nothing to draw.")
		return nil
	}
	if by == "day" {
		return c.days(bars, of)
	}
	return c.bars(bars, of+" by "+by)
}

func hasTokens(rows []*store.Tally) bool {
	for _, t := range rows {
		if t.Tokens() > 0 {
			return true
		}
	}
	return false
}

// unicodeLocale reports whether the terminal can draw more than ASCII.
func unicodeLocale() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToLower(os.Getenv(name)); v != "" {
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return runtime.GOOS == "windows" || runtime.GOOS == "darwin"
}

// line writes one line, cut to what fits.
func (c chart) line(format string, args ...any) {
	s := render.Truncate(strings.TrimRight(fmt.Sprintf(format, args...), " "), c.width)
	if c.ascii {
		s = strings.ReplaceAll(s, "…", "~")
	}
	fmt.Fprintln(c.w, s)
}

func largest(bars []bar) int64 {
	most := int64(1)
	for _, b := range bars {
		most = max(most, b.value)
	}
	return most
}

// bars draws one bar below the other.
func (c chart) bars(bars []bar, title string) error {
	most := largest(bars)
	names, numbers := 0, 0
	for i := range bars {
		bars[i].name = render.CleanLine(bars[i].name)
		names = max(names, render.Width(bars[i].name))
		numbers = max(numbers, len(short(bars[i].value)))
	}
	names = min(names, max(c.width/3, 1))
	room := max(c.width-names-numbers-3, 1)
	w := bufio.NewWriter(c.w)
	c.w = w
	c.line("%s", title)
	for _, b := range bars {
		name := render.Truncate(b.name, names)
		pad := strings.Repeat(" ", names-render.Width(name))
		c.line("%s%s  %s %s", name, pad, c.filled(b.value, most, room), short(b.value))
	}
	return w.Flush()
}

// eighths are the parts of a block, from the left and from below.
const (
	eighthsRight = "▏▎▍▌▋▊▉█"
	eighthsUp    = "▁▂▃▄▅▆▇█"
)

// filled returns a bar of value in proportion to most, which fills room. What
// is not nothing is never drawn as nothing.
func (c chart) filled(value, most int64, room int) string {
	n := eighths(value, most, room)
	if c.ascii {
		return strings.Repeat("#", (n+7)/8)
	}
	s := strings.Repeat("█", n/8)
	if n%8 > 0 {
		s += string([]rune(eighthsRight)[n%8-1])
	}
	return s
}

// eighths returns how many eighths of room value fills in proportion to most.
func eighths(value, most int64, room int) int {
	if value <= 0 {
		return 0
	}
	return max(int(float64(value)/float64(most)*float64(room)*8+0.5), 1)
}

// days draws days as columns from the first to the last, those without
// anything as well. Where there are more days than columns, a column is the
// sum of several.
func (c chart) days(bars []bar, of string) error {
	first, last := dayNumber(bars[0].name), dayNumber(bars[0].name)
	for _, b := range bars {
		first, last = min(first, dayNumber(b.name)), max(last, dayNumber(b.name))
	}
	total := last - first + 1
	margin := len(short(largest(bars))) + 1 // a column of several days may need one more
	room := max(c.width-margin-2, 1)
	each := (total + room - 1) / room
	columns := make([]bar, (total+each-1)/each)
	for _, b := range bars {
		n := (dayNumber(b.name) - first) / each
		columns[n].value = min(columns[n].value, math.MaxInt64-b.value) + b.value // a sum that is too large stays the largest
	}
	wide := min(max(room/len(columns), 1), 6)
	title := of + " by day"
	if each > 1 {
		title = fmt.Sprintf("%s, %d days a column", of, each)
	}
	w := bufio.NewWriter(c.w)
	c.w = w
	c.line("%s", title)
	c.columns(columns, margin, wide)
	from, to := bars[0].name, bars[len(bars)-1].name
	if total == 1 {
		to = ""
	}
	gap := max(len(columns)*wide-len(from)-len(to), 1)
	c.line("%s  %s%s%s", strings.Repeat(" ", margin), from, strings.Repeat(" ", gap), to)
	return w.Flush()
}

// columns draws columns of equal width, side by side, with a scale.
func (c chart) columns(columns []bar, margin, wide int) {
	most := largest(columns)
	axis, corner, floor, parts := "│", "└", "─", []rune(eighthsUp)
	if c.ascii {
		axis, corner, floor, parts = "|", "+", "-", []rune("########")
	}
	space := 0
	if wide > 2 {
		space = 1
	}
	for row := plotRows - 1; row >= 0; row-- {
		label := ""
		if row == plotRows-1 {
			label = short(most)
		}
		var b strings.Builder
		for _, column := range columns {
			n := eighths(column.value, most, plotRows) - row*8
			sign := " "
			if n > 0 {
				sign = string(parts[min(n, 8)-1])
			}
			b.WriteString(strings.Repeat(sign, wide-space) + strings.Repeat(" ", space))
		}
		c.line("%*s %s%s", margin, label, axis, b.String())
	}
	c.line("%*s %s%s", margin, "0", corner, strings.Repeat(floor, len(columns)*wide))
}

// dayNumber counts days, so that summer time makes none shorter.
func dayNumber(day string) int {
	t, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return 0
	}
	return int(t.Unix() / 86400)
}
