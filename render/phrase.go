package render

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/prices"
)

// FirstLine is the first line of a text that is not blank, made harmless and
// cut to a number of columns.
func FirstLine(text string, columns int) string {
	text = strings.TrimSpace(text)
	if columns > 0 && len(text) > columns && singleColumns(text[:columns+1]) {
		return text[:columns-1] + "…" // however long the rest is
	}
	line, _, _ := strings.Cut(text, "\n")
	return Truncate(CleanLine(line), columns)
}

// singleColumns reports whether each byte is a character that is drawn in one column.
func singleColumns(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] >= 0x7f {
			return false
		}
	}
	return true
}

// phraseColumns bounds a phrase that shares its line with others.
const phraseColumns = 100

// Phrase is the first line of a text, short enough to share a line with others.
func Phrase(text string) string { return FirstLine(text, phraseColumns) }

// Call is a tool call in one line: the tool, and the most telling field of
// its input.
func Call(tool string, input json.RawMessage) string {
	if all, ok := members(input); ok {
		if s := field(all, fieldNames); s != "" {
			return tool + ": " + Phrase(s)
		}
	}
	return tool + ": " + Phrase(JSONText(input))
}

// JSONText is JSON as people read it: a string without its quotes. It is not
// made harmless.
func JSONText(b json.RawMessage) string {
	var s string
	if json.Unmarshal(b, &s) == nil {
		return s
	}
	return string(b)
}

// OrDash is a text in one line, "-" when there is none.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return CleanLine(s)
}

// TimeOrDash is a time for people in their zone, "-" when there is none.
func TimeOrDash(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format(time.RFC3339)
}

// SinceNow is how long ago a time was.
func SinceNow(t time.Time) string { return Ago(t, time.Now()) }

// Ago is how long before now a time was, in the largest unit that fits.
func Ago(t, now time.Time) string {
	d := now.Sub(t)
	switch {
	case t.IsZero():
		return "never"
	case d < 0:
		return "in the future"
	case d < time.Minute:
		return fmt.Sprintf("%d s ago", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	case d < 60*24*time.Hour:
		return fmt.Sprintf("%d days ago", int(d.Hours()/24))
	}
	return t.Local().Format("2006-01-02")
}

// Count is a number in at most five characters, up to a limit that no count
// reaches.
func Count(n int64) string {
	if n < 10_000 {
		return strconv.FormatInt(n, 10)
	}
	f := float64(n)
	for _, unit := range "kMGTPE" {
		f /= 1000
		switch {
		case f < 99.95:
			return fmt.Sprintf("%.1f%c", f, unit)
		case f < 999.5:
			return fmt.Sprintf("%.0f%c", f, unit)
		}
	}
	return fmt.Sprintf("%.0fE", f)
}

// Cost formats a cost for people: a dash where it is unknown.
func Cost(c tidemark.Cost) string {
	switch {
	case c.CostUSD == nil:
		return "–"
	case c.UnpricedMessages > 0:
		return fmt.Sprintf("≥ $%.2f", *c.CostUSD)
	}
	return fmt.Sprintf("$%.2f", *c.CostUSD)
}

// ExactCost formats a cost for programs: all digits, without a unit; a dash
// where it is unknown.
func ExactCost(c tidemark.Cost) string {
	if c.CostUSD == nil {
		return "–"
	}
	return strconv.FormatFloat(*c.CostUSD, 'f', -1, 64)
}

// CostNotes say how reliable the numbers of a cost are.
func CostNotes(c tidemark.Cost, now time.Time) []string {
	var notes []string
	switch c.CostSource {
	case tidemark.CostEstimated:
		notes = append(notes, "The cost is an estimate: tokens times prices of "+c.PricesAsOf+".")
	case tidemark.CostMixed:
		notes = append(notes, "A part of the cost is what tools recorded, the rest an estimate: tokens times prices of "+c.PricesAsOf+".")
	}
	if prices.Old(c.PricesAsOf, now) {
		notes = append(notes, "These prices are more than 90 days old; give newer ones in a file: tidemark help prices")
	}
	if c.UnpricedMessages > 0 {
		notes = append(notes, fmt.Sprintf("The cost of %d answer(s) is not known: the table has no price for the model.", c.UnpricedMessages))
	}
	return notes
}
