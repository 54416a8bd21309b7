package render

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
)

// ChartColumns is the width of a chart that is not written to a terminal.
const ChartColumns = 80

// chartRows is the height of a chart over time: enough to tell two days
// apart, and low enough to leave the question on the screen.
const chartRows = 10

// Bar is one thing to draw, by its name and its size.
type Bar struct {
	Name  string
	Value int64
}

// Chart is where and how to draw. No line of it is wider than Width.
type Chart struct {
	Out   io.Writer
	Width int
	ASCII bool // the terminal can draw nothing else
}

// line writes one line, cut to what fits.
func (c Chart) line(format string, args ...any) {
	s := Truncate(strings.TrimRight(fmt.Sprintf(format, args...), " "), c.Width)
	if c.ASCII {
		s = strings.ReplaceAll(s, "…", "~")
	}
	fmt.Fprintln(c.Out, s)
}

func largest(bars []Bar) int64 {
	most := int64(1)
	for _, b := range bars {
		most = max(most, b.Value)
	}
	return most
}

// Bars draws one bar below the other.
func (c Chart) Bars(bars []Bar, title string) error {
	most := largest(bars)
	names, numbers := 0, 0
	for i := range bars {
		bars[i].Name = CleanLine(bars[i].Name)
		names = max(names, Width(bars[i].Name))
		numbers = max(numbers, len(Count(bars[i].Value)))
	}
	names = min(names, max(c.Width/3, 1))
	room := max(c.Width-names-numbers-3, 1)
	w := bufio.NewWriter(c.Out)
	c.Out = w
	c.line("%s", title)
	for _, b := range bars {
		name := Truncate(b.Name, names)
		pad := strings.Repeat(" ", names-Width(name))
		c.line("%s%s  %s %s", name, pad, c.filled(b.Value, most, room), Count(b.Value))
	}
	return w.Flush()
}

// eighths are the parts of a block, from the left and from below.
const (
	eighthsRight = "▏▎▍▌▋▊▉█"
	eighthsUp    = "▁▂▃▄▅▆▇█"
)

// filled returns a bar of value in proportion to most, which fills room. A
// value above 0 is always visible.
func (c Chart) filled(value, most int64, room int) string {
	n := eighths(value, most, room)
	if c.ASCII {
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

// Days draws days as columns from the first to the last, including those
// without a value. Where there are more days than columns, a column is the
// sum of several.
func (c Chart) Days(bars []Bar, of string) error {
	first, last := dayNumber(bars[0].Name), dayNumber(bars[0].Name)
	for _, b := range bars {
		first, last = min(first, dayNumber(b.Name)), max(last, dayNumber(b.Name))
	}
	total := last - first + 1
	margin := len(Count(largest(bars))) + 1 // a column of several days may need one more
	room := max(c.Width-margin-2, 1)
	each := (total + room - 1) / room
	columns := make([]Bar, (total+each-1)/each)
	for _, b := range bars {
		n := (dayNumber(b.Name) - first) / each
		columns[n].Value = min(columns[n].Value, math.MaxInt64-b.Value) + b.Value // a sum that overflows stays the largest number
	}
	wide := min(max(room/len(columns), 1), 6)
	title := of + " by day"
	if each > 1 {
		title = fmt.Sprintf("%s, %d days a column", of, each)
	}
	w := bufio.NewWriter(c.Out)
	c.Out = w
	c.line("%s", title)
	c.columns(columns, margin, wide)
	from, to := bars[0].Name, bars[len(bars)-1].Name
	if total == 1 {
		to = ""
	}
	gap := max(len(columns)*wide-len(from)-len(to), 1)
	c.line("%s  %s%s%s", strings.Repeat(" ", margin), from, strings.Repeat(" ", gap), to)
	return w.Flush()
}

// columns draws columns of equal width, side by side, with a scale.
func (c Chart) columns(columns []Bar, margin, wide int) {
	most := largest(columns)
	axis, corner, floor, parts := "│", "└", "─", []rune(eighthsUp)
	if c.ASCII {
		axis, corner, floor, parts = "|", "+", "-", []rune("########")
	}
	space := 0
	if wide > 2 {
		space = 1
	}
	for row := chartRows - 1; row >= 0; row-- {
		label := ""
		if row == chartRows-1 {
			label = Count(most)
		}
		var b strings.Builder
		for _, column := range columns {
			n := eighths(column.Value, most, chartRows) - row*8
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

// dayNumber counts days, so that daylight saving makes none shorter.
func dayNumber(day string) int {
	t, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return 0
	}
	return int(t.Unix() / 86400)
}
