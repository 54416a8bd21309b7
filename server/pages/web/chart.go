package web

import (
	"html"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Series is one row of numbers of a chart.
type Series struct {
	Name   string    `json:"name"`
	Values []float64 `json:"values"`
}

// Sum is all values of the series together.
func (s Series) Sum() float64 {
	sum := 0.0
	for _, v := range s.Values {
		sum += finite(v)
	}
	return sum
}

// MaxSeries is how many series a chart distinguishes: nobody can tell more
// patterns apart.
const MaxSeries = 6

// TopSeries returns the n largest series, largest first, and all others
// combined into one with the given name.
func TopSeries(all []Series, n int, other string) []Series {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b Series) int {
		switch x, y := a.Sum(), b.Sum(); {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
	if len(all) <= n {
		return all
	}
	rest := Series{Name: other}
	for _, s := range all[n:] {
		for i, v := range s.Values {
			if i == len(rest.Values) {
				rest.Values = append(rest.Values, 0)
			}
			rest.Values[i] += finite(v)
		}
	}
	return append(all[:n:n], rest)
}

// Chart is numbers to be drawn: for each label a value of each series. The
// pictures are SVG without script; series differ in pattern or dashes besides
// colour, and the colours come from the style sheet.
type Chart struct {
	ID     string // prefix of the ids in the picture, unique on the page
	Title  string
	Desc   string // says in words what the picture shows
	Labels []string
	Series []Series
	Format func(float64) string // of a value, for people; nil: short numbers
}

// The sizes of a picture: one for a desktop and one for a phone, of which the
// style sheet shows one. A picture that only shrinks has unreadable text.
const (
	wideChart   = 880
	narrowChart = 340
	chartHeight = 260
)

// widestBar bounds a bar: a single day should not be a wall.
const widestBar = 64

// maxTips is how many places of a picture have a tooltip with their numbers.
const maxTips = 130

// What is drawn is bounded, so that sums and parts of hostile numbers do
// not overflow.
const (
	largest  = 1e18
	smallest = 1e-12
)

// finite is v as something that can be drawn.
func finite(v float64) float64 {
	if math.IsNaN(v) || math.Abs(v) < smallest {
		return 0
	}
	return min(max(v, -largest), largest)
}

// Bars draws a bar for each label, with the series stacked. Negative values
// hang below the line.
func (c Chart) Bars() template.HTML {
	low, high := 0.0, 0.0
	for i := range c.Labels {
		below, above := 0.0, 0.0
		for _, s := range c.Series {
			if v := s.at(i); v < 0 {
				below += v
			} else {
				above += v
			}
		}
		low, high = min(low, below), max(high, above)
	}
	return c.figure(low, high, (*sketch).bars, false)
}

// Lines draws a line for each series.
func (c Chart) Lines() template.HTML {
	low, high := 0.0, 0.0
	for _, s := range c.Series {
		for i := range c.Labels {
			low, high = min(low, s.at(i)), max(high, s.at(i))
		}
	}
	return c.figure(low, high, (*sketch).lines, true)
}

func (s Series) at(i int) float64 {
	if i >= len(s.Values) {
		return 0
	}
	return finite(s.Values[i])
}

func (c Chart) format(v float64) string {
	if c.Format != nil {
		return c.Format(v)
	}
	return count(v)
}

// figure is the picture in both sizes, and its legend.
func (c Chart) figure(low, high float64, draw func(*sketch), lines bool) template.HTML {
	if len(c.Labels) == 0 || len(c.Series) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString(`<figure class="chart">`)
	for _, size := range []struct {
		name  string
		width float64
	}{{"wide", wideChart}, {"narrow", narrowChart}} {
		s := newSketch(c, &b, c.ID+"-"+size.name, size.width, low, high)
		s.begin(size.name)
		draw(s)
		s.end()
	}
	if len(c.Series) > 1 {
		c.legend(&b, lines)
	}
	b.WriteString("</figure>")
	return template.HTML(b.String())
}

// legend names the series beside a sample of each.
func (c Chart) legend(b *strings.Builder, lines bool) {
	b.WriteString(`<ul class="legend">`)
	for i, s := range c.Series {
		id := c.ID + "-key-" + strconv.Itoa(i)
		b.WriteString(`<li><svg width="28" height="14" aria-hidden="true" focusable="false">`)
		if lines {
			b.WriteString(`<path class="line s` + strconv.Itoa(i) + `" d="M0 7H28"` + dashes(i) + `/>`)
			mark(b, i, 14, 7)
		} else {
			b.WriteString("<defs>")
			pattern(b, id, i)
			b.WriteString(`</defs><rect class="edge s` + strconv.Itoa(i) + `" x="1" y="1" width="26" height="12" fill="url(#` + attr(id) + `)"/>`)
		}
		b.WriteString("</svg><bdi>" + html.EscapeString(s.Name) + "</bdi></li>")
	}
	b.WriteString("</ul>")
}

// sketch is a picture while it is drawn.
type sketch struct {
	Chart
	b                        *strings.Builder
	id                       string
	width                    float64
	left, right, top, bottom float64 // of the field
	ticks                    []float64
	low, high                float64
}

func newSketch(c Chart, b *strings.Builder, id string, width, low, high float64) *sketch {
	s := &sketch{Chart: c, b: b, id: id, width: width, right: width - 6, top: 10, bottom: chartHeight - 24}
	s.ticks = ticks(low, high)
	s.low, s.high = s.ticks[0], s.ticks[len(s.ticks)-1]
	longest := 0
	for _, t := range s.ticks {
		longest = max(longest, len([]rune(s.format(t))))
	}
	s.left = 10 + 7*float64(min(longest, 10))
	return s
}

// ticks are round numbers from low to high, with zero among them.
func ticks(low, high float64) []float64 {
	if high <= low {
		high = low + 1
	}
	rough := (high - low) / 4
	unit := math.Pow(10, math.Floor(math.Log10(rough)))
	step := unit * 10
	for _, m := range []float64{1, 2, 5} {
		if unit*m >= rough {
			step = unit * m
			break
		}
	}
	var all []float64
	for k := math.Floor(low / step); k <= math.Ceil(high/step); k++ {
		all = append(all, k*step)
	}
	return all
}

func (s *sketch) y(v float64) float64 {
	return s.bottom - (v-s.low)/(s.high-s.low)*(s.bottom-s.top)
}

// slot is where the space of a label begins, and how wide each is.
func (s *sketch) slot(i int) (x, width float64) {
	width = (s.right - s.left) / float64(len(s.Labels))
	return s.left + float64(i)*width, width
}

// begin writes what precedes the data: the title, the patterns, the scale.
func (s *sketch) begin(class string) {
	id := attr(s.id)
	s.say(`<svg class="`, class, `" viewBox="0 0 `, num(s.width), ` `, num(chartHeight), `" role="img" aria-labelledby="`, id, `-t `, id, `-d">`)
	s.say(`<title id="`, id, `-t">`, html.EscapeString(s.Title), `</title><desc id="`, id, `-d">`, html.EscapeString(s.Desc), `</desc>`)
	for _, t := range s.ticks {
		class := "grid"
		if t == 0 {
			class = "axis"
		}
		y := num(s.y(t))
		s.say(`<path class="`, class, `" d="M`, num(s.left), ` `, y, `H`, num(s.right), `"/>`)
		s.say(`<text x="`, num(s.left-6), `" y="`, y, `" dy=".32em" text-anchor="end">`, html.EscapeString(s.format(t)), `</text>`)
	}
	// Labels that would overlap are left out.
	longest := 1
	for _, l := range s.Labels {
		longest = max(longest, len([]rune(l)))
	}
	room := max(int((s.right-s.left)/(7*float64(min(longest, 16))+14)), 1)
	every := (len(s.Labels) + room - 1) / room
	for i := 0; i < len(s.Labels); i += every {
		x, w := s.slot(i)
		half := min(3.6*float64(len([]rune(s.Labels[i]))), s.width/2)
		x = min(max(x+w/2, half), s.width-half)
		s.say(`<text x="`, num(x), `" y="`, num(chartHeight-6), `" text-anchor="middle">`, html.EscapeString(s.Labels[i]), `</text>`)
	}
}

func (s *sketch) end() {
	s.tips()
	s.say("</svg>")
}

func (s *sketch) bars() {
	s.say("<defs>")
	for i := range s.Series {
		pattern(s.b, s.id+"-p"+strconv.Itoa(i), i)
	}
	s.say("</defs>")
	above, below := make([]float64, len(s.Labels)), make([]float64, len(s.Labels))
	for i, row := range s.Series {
		var d strings.Builder
		for j := range s.Labels {
			v, from := row.at(j), above
			if v < 0 {
				from = below
			}
			if v == 0 {
				continue
			}
			x, w := s.slot(j)
			gap := max(min(w*.2, 4), w-widestBar)
			y0, y1 := s.y(from[j]), s.y(from[j]+v)
			from[j] += v
			// One path per series: a year of days in seven series stays small.
			d.WriteString("M" + num(x+gap/2) + " " + num(y0) + "H" + num(x+w-gap/2) + "V" + num(y1) + "H" + num(x+gap/2) + "Z")
		}
		if d.Len() > 0 {
			s.say(`<path class="edge s`, strconv.Itoa(i), `" fill="url(#`, attr(s.id), `-p`, strconv.Itoa(i), `)" d="`, d.String(), `"/>`)
		}
	}
}

func (s *sketch) lines() {
	for i, row := range s.Series {
		var d strings.Builder
		for j := range s.Labels {
			x, w := s.slot(j)
			verb := "L"
			if j == 0 {
				verb = "M"
			}
			d.WriteString(verb + num(x+w/2) + " " + num(s.y(row.at(j))))
		}
		s.say(`<path class="line s`, strconv.Itoa(i), `" d="`, d.String(), `"`, dashes(i), `/>`)
		for j := range s.Labels {
			x, w := s.slot(j)
			// Marks are far enough apart to be distinguishable.
			if every := int(math.Ceil(24 / w)); j%every == i%every || j == len(s.Labels)-1 {
				mark(s.b, i, x+w/2, s.y(row.at(j)))
			}
		}
	}
}

// tips are the tooltips.
func (s *sketch) tips() {
	if len(s.Labels) > maxTips {
		return
	}
	for i, label := range s.Labels {
		x, w := s.slot(i)
		lines, sum := []string{}, 0.0
		for _, row := range s.Series {
			if v := row.at(i); v != 0 {
				lines = append(lines, row.Name+": "+s.format(v))
				sum += v
			}
		}
		if len(lines) == 0 {
			continue
		}
		if len(s.Series) == 1 {
			lines = nil
		}
		s.say(`<rect class="tip" x="`, num(x), `" y="`, num(s.top), `" width="`, num(w), `" height="`, num(s.bottom-s.top), `"><title>`,
			html.EscapeString(strings.Join(append([]string{label + ": " + s.format(sum)}, lines...), "\n")), `</title></rect>`)
	}
}

func (s *sketch) say(parts ...string) {
	for _, p := range parts {
		s.b.WriteString(p)
	}
}

// pattern writes how the bars of a series are filled: lines, dots, squares
// over a tint of the same colour. The first is solid.
func pattern(b *strings.Builder, id string, i int) {
	class := "s" + strconv.Itoa(i)
	b.WriteString(`<pattern id="` + attr(id) + `" width="8" height="8" patternUnits="userSpaceOnUse">`)
	shapes := []string{
		`<rect class="fill %" width="8" height="8"/>`,
		`<path class="ink %" d="M-2 2L2 -2M0 8L8 0M6 10L10 6"/>`,
		`<circle class="fill %" cx="2" cy="2" r="1.7"/><circle class="fill %" cx="6" cy="6" r="1.7"/>`,
		`<path class="ink %" d="M0 2H8M0 6H8"/>`,
		`<path class="ink %" d="M-2 6L2 10M0 0L8 8M6 -2L10 2"/>`,
		`<path class="ink %" d="M0 0L8 8M0 8L8 0"/>`,
		`<rect class="fill %" x="3" y="3" width="2" height="2"/>`,
	}
	b.WriteString(`<rect class="tint ` + class + `" width="8" height="8"/>` + strings.ReplaceAll(shapes[i%len(shapes)], "%", class) + `</pattern>`)
}

// dashes is the dash pattern of a series' line.
func dashes(i int) string {
	all := []string{"", "8 4", "2 3", "12 4 2 4", "5 2", "1 5", "16 6"}
	if d := all[i%len(all)]; d != "" {
		return ` stroke-dasharray="` + d + `"`
	}
	return ""
}

// mark draws a point of a series.
func mark(b *strings.Builder, i int, x, y float64) {
	class := `class="fill s` + strconv.Itoa(i) + `"`
	switch i % 3 {
	case 0:
		b.WriteString(`<circle ` + class + ` cx="` + num(x) + `" cy="` + num(y) + `" r="3.5"/>`)
	case 1:
		b.WriteString(`<rect ` + class + ` x="` + num(x-3) + `" y="` + num(y-3) + `" width="6" height="6"/>`)
	default:
		b.WriteString(`<path ` + class + ` d="M` + num(x) + " " + num(y-4) + "L" + num(x+4) + " " + num(y+3) + "H" + num(x-4) + `Z"/>`)
	}
}

// attr is text that is safe in an attribute and in url(): only its letters,
// digits and dashes.
func attr(id string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return -1
	}, id)
}

// num is a coordinate: a hundredth is finer than a screen.
func num(f float64) string {
	s := strconv.FormatFloat(f, 'f', 2, 64)
	s = strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
	if s == "-0" {
		return "0"
	}
	return s
}
