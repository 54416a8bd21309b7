package web

import (
	"html/template"
	"math"
	"strconv"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// Task is something that runs behind a page.
type Task struct {
	Running bool      `json:"running"`
	Done    int64     `json:"done"` // progress, in its own units
	BegunAt time.Time `json:"begun_at"`
	EndedAt time.Time `json:"ended_at,omitzero"`
	Trouble string    `json:"trouble,omitempty"` // why it failed
}

// UsagePage is what the page of usage shows.
type UsagePage struct {
	By     string `json:"by"`     // model, agent, project, user
	Metric string `json:"metric"` // tokens, cost, turns, messages
	Bucket string `json:"bucket"` // day, week, month
	Zone   string `json:"zone"`
	Since  string `json:"since"` // a date, or all
	Until  string `json:"until"` // a date that is included, or ""
	// Ranges are ranges of time to choose from, with the date each begins at.
	Ranges []Choice `json:"-"`
	Zones  []string `json:"-"`

	Task      *Task         `json:"task"`
	Ready     bool          `json:"ready"` // everything below is filled in
	Total     UsageRow      `json:"total"`
	Rows      []UsageRow    `json:"rows"`
	Times     []UsageTime   `json:"times"`
	Names     []string      `json:"series"` // columns of Times
	Chart     template.HTML `json:"-"`
	Damaged   int           `json:"damaged"`             // entries and sessions that could not be read
	Closed    int           `json:"closed,omitempty"`    // users whose store this server cannot read
	Folded    bool          `json:"folded,omitempty"`    // there were too many parts to tell apart
	LeftOut   bool          `json:"left_out,omitempty"`  // the chart does not begin where the numbers do
	Everybody bool          `json:"everybody,omitempty"` // the numbers are those of the whole tenant
	Coarser   bool          `json:"coarser,omitempty"`   // the buckets are wider than requested
	RowsLeft  int           `json:"rows_left,omitempty"` // rows that are only in the CSV
	CountedAt time.Time     `json:"counted_at,omitzero"`
	OldPrices string        `json:"old_prices,omitempty"` // since when the prices that were used have not been checked; a date
}

// Choice is one of several, with its address.
type Choice struct {
	Name    string
	Value   string
	Current bool
}

// UsageRow is what one part used.
type UsageRow struct {
	Name             string `json:"name"`
	Turns            int64  `json:"turns"`
	Messages         int64  `json:"messages"`
	InputTokens      int64  `json:"input_tokens"`
	OutputTokens     int64  `json:"output_tokens"`
	CacheReadTokens  int64  `json:"cache_read_tokens"`
	CacheWriteTokens int64  `json:"cache_write_tokens"`
	Tokens           int64  `json:"tokens"`
	tidemark.Cost
	Share float64 `json:"share"` // of the metric, 0 to 1
}

// UsageTime is what was used in one bucket, for each series and in total.
type UsageTime struct {
	Name   string    `json:"name"`
	Values []float64 `json:"values"`
	Sum    float64   `json:"sum"`
}

// Amount says a number of the metric for people.
func (u UsagePage) Amount(v float64) string { return Amount(u.Metric, v) }

// Percent is the share for people.
func (r UsageRow) Percent() string {
	switch {
	case r.Share <= 0 || math.IsNaN(r.Share):
		return "0 %"
	case r.Share < 0.01:
		return "<1 %"
	}
	return strconv.Itoa(int(math.Round(min(r.Share, 1)*100))) + " %"
}

// Money is the cost for people; a dash if unknown.
func (r UsageRow) Money() string { return CostText(r.Cost) }

// CostText formats a cost for people: a dash where it is unknown, and "more
// than" where some of it is.
func CostText(c tidemark.Cost) string {
	switch {
	case c.CostUSD == nil:
		return "–"
	case c.UnpricedMessages > 0:
		return "≥ " + Amount("cost", *c.CostUSD)
	}
	return Amount("cost", *c.CostUSD)
}

// Amount says a number of a metric for people: cost as money, others short.
func Amount(metric string, v float64) string {
	switch {
	case metric != "cost":
		return count(math.Round(v*100) / 100)
	case v == 0:
		return "$0"
	case math.Abs(v) >= 10_000:
		return "$" + count(v)
	case math.Abs(v) < 0.01:
		return "$" + strconv.FormatFloat(v, 'g', 2, 64)
	}
	return "$" + strconv.FormatFloat(v, 'f', 2, 64)
}
