package web

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// wellFormed fails unless a figure is XML, has a name and a description for
// each picture, and no number that is none.
func wellFormed(t interface {
	Helper()
	Fatalf(string, ...any)
	Errorf(string, ...any)
}, figure string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(figure))
	ids, pictures, titles := make(map[string]bool), 0, 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in %s", err, figure)
		}
		e, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		if e.Name.Local == "script" || e.Name.Local == "style" || e.Name.Local == "foreignObject" || e.Name.Local == "a" {
			t.Fatalf("<%s> in %s", e.Name.Local, figure)
		}
		for _, a := range e.Attr {
			switch {
			case a.Name.Local == "id":
				if ids[a.Value] {
					t.Errorf("id %q twice", a.Value)
				}
				ids[a.Value] = true
				if strings.HasSuffix(a.Value, "-t") || strings.HasSuffix(a.Value, "-d") {
					titles++
				}
			case a.Name.Local == "role" && a.Value == "img":
				pictures++
			case a.Name.Local == "style" || strings.HasPrefix(a.Name.Local, "on"):
				t.Fatalf("attribute %s in %s", a.Name.Local, figure)
			case regexp.MustCompile(`NaN|Inf|\de[+-]`).MatchString(a.Value) && a.Name.Local != "class":
				t.Errorf("%s=%q", a.Name.Local, a.Value)
			}
		}
	}
	if figure != "" && (pictures != 2 || titles != 4) {
		t.Errorf("%d pictures with %d titles and descriptions: %s", pictures, titles, figure)
	}
}

func TestAChartOfNothingIsNothing(t *testing.T) {
	for _, c := range []Chart{{ID: "a"}, {ID: "a", Labels: []string{"x"}}, {ID: "a", Series: []Series{{Name: "n"}}}} {
		if got := c.Bars() + c.Lines(); got != "" {
			t.Errorf("%q", got)
		}
	}
}

func TestAChartOfOnePointOrOfZerosIsDrawn(t *testing.T) {
	for _, v := range []float64{0, 1, -1, 1e300, math.NaN(), math.Inf(1), math.Inf(-1), 5e-324, math.MaxInt64} {
		c := Chart{ID: "a", Title: "t", Desc: "d", Labels: []string{"Monday"}, Series: []Series{{Name: "n", Values: []float64{v}}}}
		wellFormed(t, string(c.Bars()))
		wellFormed(t, string(c.Lines()))
	}
}

func TestAChartEscapesWhatStrangersWrote(t *testing.T) {
	evil := `"><script>alert(1)</script><img src=x onerror=alert(1)>'&`
	c := Chart{ID: evil, Title: evil, Desc: evil, Labels: []string{evil, "b"},
		Series: []Series{{Name: evil, Values: []float64{1, 2}}, {Name: "]]>", Values: []float64{3, 4}}}, Format: func(float64) string { return evil }}
	for _, got := range []string{string(c.Bars()), string(c.Lines())} {
		wellFormed(t, got)
		if strings.Contains(got, "<script") || strings.Contains(got, "<img") {
			t.Errorf("not escaped: %s", got)
		}
	}
}

// bar finds the boxes of a path of bars.
var bar = regexp.MustCompile(`M([\d.-]+) ([\d.-]+)H([\d.-]+)V([\d.-]+)H([\d.-]+)Z`)

func TestTheBarsAreAsHighAsTheNumbersAndStayInside(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		labels := rapid.SliceOfN(rapid.StringN(0, 6, 20), 1, 40).Draw(t, "labels")
		c := Chart{ID: "a", Title: "t", Desc: "d", Labels: labels}
		total := 0.0
		for range rapid.IntRange(1, 7).Draw(t, "series") {
			row := Series{Name: rapid.String().Draw(t, "name")}
			for range rapid.IntRange(0, len(labels)).Draw(t, "n") {
				v := rapid.Float64Range(-1e6, 1e9).Draw(t, "v")
				row.Values = append(row.Values, v)
				total += math.Abs(finite(v))
			}
			c.Series = append(c.Series, row)
		}
		figure := string(c.Bars())
		// What XML cannot hold, browsers can.
		clean := strings.Map(func(r rune) rune {
			if r < ' ' && r != '\n' || r == 0xfffe || r == 0xffff {
				return -1
			}
			return r
		}, figure)
		wellFormed(t, clean)
		wide := figure[:strings.Index(figure, "</svg>")]
		low, high := 0.0, 0.0
		for i := range labels {
			a, b := 0.0, 0.0
			for _, s := range c.Series {
				if v := s.at(i); v > 0 {
					a += v
				} else {
					b += v
				}
			}
			low, high = min(low, b), max(high, a)
		}
		scale := ticks(low, high)
		unit := (chartHeight - 24 - 10) / (scale[len(scale)-1] - scale[0])
		drawn, boxes := 0.0, 0
		for _, m := range bar.FindAllStringSubmatch(wide, -1) {
			var n [5]float64
			for i := range n {
				n[i], _ = strconv.ParseFloat(m[i+1], 64)
			}
			boxes++
			drawn += math.Abs(n[1] - n[3])
			if n[0] < 0 || n[2] > wideChart || min(n[1], n[3]) < 0 || max(n[1], n[3]) > chartHeight || n[2] < n[0] {
				t.Fatalf("a bar at %v", n)
			}
		}
		if want := total * unit; math.Abs(drawn-want) > .011*float64(boxes+1)+1e-6*want {
			t.Fatalf("the bars are %v high, the numbers %v", drawn, want)
		}
	})
}

func TestTheTopSeriesAndTheRestAreAllOfIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []Series
		sum := 0.0
		for range rapid.IntRange(0, 20).Draw(t, "series") {
			s := Series{Name: rapid.String().Draw(t, "name"), Values: rapid.SliceOfN(rapid.Float64Range(0, 1e6), 0, 5).Draw(t, "values")}
			all, sum = append(all, s), sum+s.Sum()
		}
		top, got := TopSeries(all, MaxSeries, "other"), 0.0
		for _, s := range top {
			got += s.Sum()
		}
		if len(top) > MaxSeries+1 || math.Abs(got-sum) > 1e-6*(1+sum) {
			t.Fatalf("%d series with %v, want %v", len(top), got, sum)
		}
		for i := 1; i < min(len(top), MaxSeries); i++ {
			if top[i].Sum() > top[i-1].Sum() {
				t.Fatalf("%v before %v", top[i-1].Sum(), top[i].Sum())
			}
		}
	})
}

func TestTicksAreFewRoundAndAroundTheData(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		low := -rapid.Float64Range(0, largest*7).Draw(t, "low")
		high := rapid.Float64Range(0, largest*7).Draw(t, "high")
		all := ticks(low, high)
		if len(all) < 2 || len(all) > 9 || all[0] > low || all[len(all)-1] < high*(1-1e-9) {
			t.Fatalf("%v for %v to %v", all, low, high)
		}
	})
}
