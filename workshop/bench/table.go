package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
)

// row is one line of the table: the cost of some work, alone and
// compared with something else.
type row struct {
	goal    string // which goal it belongs to, "" for orientation
	what    string
	time    spread // nanoseconds; zero: not a time
	value   string // in place of the time
	against string
	ratio   spread // to what it is compared with; zero: to nothing
	faster  bool   // the ratio says how many times as fast, not how many times as long
	fine    bool   // percents of the ratio matter
	want    want
}

// want is what a goal asks for. Zero fields ask for nothing.
type want struct {
	ratioAtMost, ratioAtLeast float64
	timeAtMost                float64 // nanoseconds
	met                       *bool   // known in another way
	text                      string  // its wording, if special
}

// section is the table of one part, and where and when it was measured.
type section struct {
	part string
	surroundings
	table
}

type table struct {
	rows  []row
	notes []string // what was not measured, and why
}

func (t *table) add(r row) { t.rows = append(t.rows, r) }

func (t *table) skip(format string, args ...any) {
	t.notes = append(t.notes, fmt.Sprintf(format, args...))
}

var headings = []string{"goal", "work", "time", "beside", "ratio", "middle half", "wanted", "met"}

func (r row) cells() []string {
	time := r.value
	if time == "" && r.time.median > 0 {
		time = duration(r.time.median)
	}
	ratio, span := "", ""
	if r.ratio.median > 0 {
		unit := "×"
		if r.faster {
			unit = "× as fast"
		}
		figure := number
		if r.fine {
			figure = percents
		}
		ratio = figure(r.ratio.median) + unit
		if r.ratio.high > 0 { // of more than one run
			span = figure(r.ratio.low) + " – " + figure(r.ratio.high)
		}
	}
	return []string{r.goal, r.what, time, r.against, ratio, span, r.want.String(), r.verdict()}
}

func (w want) String() string {
	switch {
	case w.text != "":
		return w.text
	case w.ratioAtMost > 0:
		return "≤ " + exact(w.ratioAtMost) + "×"
	case w.ratioAtLeast > 0:
		return "≥ " + exact(w.ratioAtLeast) + "× as fast"
	case w.timeAtMost > 0:
		return "≤ " + duration(w.timeAtMost)
	}
	return ""
}

// verdict compares medians as printed: the third digit is noise.
func (r row) verdict() string {
	met := true
	switch w := r.want; {
	case w.met != nil:
		met = *w.met
	case w.ratioAtMost > 0 && r.fine:
		met = math.Round(r.ratio.median*100) <= math.Round(w.ratioAtMost*100)
	case w.ratioAtMost > 0:
		met = rounded(r.ratio.median) <= w.ratioAtMost
	case w.ratioAtLeast > 0:
		met = rounded(r.ratio.median) >= w.ratioAtLeast
	case w.timeAtMost > 0:
		met = rounded(r.time.median) <= w.timeAtMost
	default:
		return ""
	}
	if met {
		return "yes"
	}
	return "no"
}

// rounded keeps two digits, three from 100 on.
func rounded(f float64) float64 {
	if f <= 0 {
		return 0
	}
	digits := 2.0
	if f >= 100 {
		digits = 3
	}
	unit := math.Pow(10, math.Floor(math.Log10(f))-digits+1)
	return math.Round(f/unit) * unit
}

func number(f float64) string {
	f = rounded(f)
	switch {
	case f >= 10_000:
		return group(int64(f))
	case f >= 10:
		return fmt.Sprintf("%.0f", f)
	case f >= 1:
		return fmt.Sprintf("%.1f", f)
	}
	return fmt.Sprintf("%.2f", f)
}

// exact writes what somebody chose.
func exact(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// percents writes a ratio near one.
func percents(f float64) string { return fmt.Sprintf("%.2f", f) }

// group writes a number with a comma at every thousand.
func group(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func duration(ns float64) string {
	switch {
	case ns >= 1e9:
		return number(ns/1e9) + " s"
	case ns >= 1e6:
		return number(ns/1e6) + " ms"
	}
	return number(ns/1e3) + " µs"
}

// print writes the table for a terminal.
func (t *section) print(w io.Writer) error {
	fmt.Fprintf(w, "%s\n", t.part)
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, strings.Join(headings, "\t"))
	for _, r := range t.rows {
		fmt.Fprintln(tab, strings.Join(r.cells(), "\t"))
	}
	if err := tab.Flush(); err != nil {
		return err
	}
	for _, n := range t.notes {
		fmt.Fprintf(w, "not measured: %s\n", n)
	}
	_, err := fmt.Fprintf(w, "%s\n\n", t.surroundings)
	return err
}

// objects writes the table for a program: one row per line, with figures as
// printed, because these are judged. What was not measured is a row with
// only the reason.
func (t *section) objects(w io.Writer) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	for _, r := range t.rows {
		o := map[string]string{"part": t.part}
		for i, cell := range r.cells() {
			o[strings.ReplaceAll(headings[i], " ", "_")] = cell
		}
		if err := out.Encode(o); err != nil {
			return err
		}
	}
	for _, n := range t.notes {
		if err := out.Encode(map[string]string{"part": t.part, "not_measured": n}); err != nil {
			return err
		}
	}
	return nil
}

// markdown writes the table for a page, and where and when it was measured.
func (t *section) markdown() string {
	return fmt.Sprintf("%s.\n\n%s", t.surroundings, t.table.markdown())
}

func (t *table) markdown() string {
	var b strings.Builder
	line := func(cells []string) {
		b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
	line(headings)
	line(strings.Fields(strings.Repeat("--- ", len(headings))))
	for _, r := range t.rows {
		line(r.cells())
	}
	for _, n := range t.notes {
		fmt.Fprintf(&b, "\nNot measured: %s.\n", n)
	}
	return b.String()
}

// marks are the lines around the table of a part on a page.
func marks(part string) (begin, end string) {
	return "<!-- bench " + part + ": begin -->\n", "<!-- bench " + part + ": end -->\n"
}

// rewrite puts tables between their marks on a page and leaves the rest
// unchanged, including the tables of parts that did not run.
func rewrite(name string, sections []section) error {
	for _, s := range sections {
		if err := between(name, s.part, s.markdown()); err != nil {
			return err
		}
	}
	return nil
}

// between puts a text between its marks on a page.
func between(name, part, text string) error {
	page, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	begin, end := marks(part)
	before, rest, ok := strings.Cut(string(page), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return fmt.Errorf("%s: the marks %q and %q are not there", name, strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return os.WriteFile(name, []byte(before+begin+"\n"+text+"\n"+end+after), info.Mode().Perm())
}
