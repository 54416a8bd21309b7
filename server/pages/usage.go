package pages

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/prices"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/server/pages/web"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
)

const (
	// maxBuckets bounds the bars of a chart: more are finer than a screen.
	maxBuckets = 400
	// maxUsageRows bounds the table; the CSV has all rows.
	maxUsageRows = 100
	// usageDays is what the page shows by default.
	usageDays = 30
)

// usageAsk is what the address of the page requests.
type usageAsk struct {
	by, metric, bucket string
	coarser            bool // than requested
	zone               *time.Location
	zoneName           string
	since, until       string
	from, to           int // days; to is included
	counting
}

// usagePages show what was used, over time and by part.
func (s *Site) usagePages() {
	s.page("/usage", request.Reader, func(r *http.Request) (view, error) {
		v, err := s.gatherUsage(r)
		return view{s.frame(r, "usage"), v}, err
	})
	s.pages.HandleFunc("GET /usage.csv", s.usageCSV)
	s.act("/usage/recount", request.Reader, func(r *http.Request) (string, string, error) {
		ask, err := s.usageAsk(r, r.FormValue)
		if err != nil {
			return "", "", err
		}
		s.startUsage(r.Context(), ask)
		return "/usage?" + ask.query().Encode(), "", nil
	})
}

// choose returns a value that is one of several, the first when it is "".
func choose(what, value string, of ...string) (string, error) {
	if value == "" {
		return of[0], nil
	}
	if !slices.Contains(of, value) {
		return "", tidemark.Invalidf("%s %.40q: want one of %s", what, value, strings.Join(of, ", "))
	}
	return value, nil
}

// usageAsk reads the request.
func (s *Site) usageAsk(r *http.Request, value func(string) string) (usageAsk, error) {
	var a usageAsk
	var err error
	if a.by, err = choose("by", value("by"), "model", "agent", "project", "user"); err != nil {
		return a, err
	}
	if a.metric, err = choose("metric", value("metric"), "tokens", "cost", "turns", "messages"); err != nil {
		return a, err
	}
	if a.bucket, err = choose("bucket", value("bucket"), "", "day", "week", "month"); err != nil {
		return a, err
	}
	a.zoneName = cmp.Or(value("tz"), "UTC")
	// Local would be the server's own zone, which is private.
	if a.zone, err = time.LoadLocation(a.zoneName); err != nil || a.zoneName == "Local" || len(a.zoneName) > 64 {
		return a, tidemark.Invalidf("tz %.40q: not a time zone; want a name like Europe/Berlin", a.zoneName)
	}
	a.to = dayOf(s.o.Now(), a.zone)
	a.from = a.to - usageDays + 1
	switch a.since = value("since"); a.since {
	case "":
		a.since = startOf(a.from).Format(time.DateOnly)
	case "all":
		a.from = -1 << 30
	default:
		if a.from, err = dateOf("since", a.since); err != nil {
			return a, err
		}
	}
	if a.until = value("until"); a.until != "" {
		if a.to, err = dateOf("until", a.until); err != nil {
			return a, err
		}
	}
	if a.from > a.to {
		return a, tidemark.Invalidf("since %s is after until %s", a.since, startOf(a.to).Format(time.DateOnly))
	}
	a.counting.zone = a.zone
	if a.since != "all" {
		y, m, d := startOf(a.from).Date()
		a.counting.since = time.Date(y, m, d, 0, 0, 0, 0, a.zone)
	}
	a.everybody = a.by == "user" && request.CallerOf(r.Context()).Role.May(request.Admin)
	return a, nil
}

func dateOf(what, text string) (int, error) {
	t, err := time.Parse(time.DateOnly, text)
	if err != nil || t.Year() < 1970 {
		return 0, tidemark.Invalidf("%s %.40q: want a date like 2026-11-15", what, text)
	}
	return dayOf(t, time.UTC), nil
}

// query is the address of the same view.
func (a usageAsk) query() url.Values {
	q := url.Values{"by": {a.by}, "metric": {a.metric}, "since": {a.since}, "tz": {a.zoneName}}
	if a.until != "" {
		q.Set("until", a.until)
	}
	if a.bucket != "" {
		q.Set("bucket", a.bucket)
	}
	return q
}

// usageName is the name under which a count is kept: whose numbers, since
// when, in which zone.
func usageName(caller request.Caller, a usageAsk) string {
	whose := "own"
	if a.everybody {
		whose = "all"
	}
	name := TaskName(caller.Principal, "usage/"+whose+"/"+a.zoneName+"/"+a.since)
	for _, w := range caller.Workspaces {
		name += "/" + w
	}
	return name
}

func (s *Site) startUsage(ctx context.Context, a usageAsk) *task {
	return s.Begin(ctx, usageName(request.CallerOf(ctx), a), func(ctx context.Context, progress func(int64)) (any, error) {
		return s.countUsage(ctx, a.counting, progress)
	})
}

// usageTask returns the count that answers a question, a new one when there is
// no fresh one.
func (s *Site) usageTask(ctx context.Context, a usageAsk) *task {
	t := s.task(usageName(request.CallerOf(ctx), a))
	if t == nil || !t.fresh(s.o.Now()) {
		t = s.startUsage(ctx, a)
	}
	return t
}

func (s *Site) gatherUsage(r *http.Request) (web.UsagePage, error) {
	a, err := s.usageAsk(r, r.URL.Query().Get)
	if err != nil {
		return web.UsagePage{}, err
	}
	v := web.UsagePage{By: a.by, Metric: a.metric, Bucket: a.bucket, Zone: a.zoneName, Since: a.since, Until: a.until, Everybody: a.everybody,
		Zones: zones, Ranges: a.ranges(dayOf(s.o.Now(), a.zone)), Rows: []web.UsageRow{}, Times: []web.UsageTime{}, Names: []string{}}
	t := s.usageTask(r.Context(), a)
	v.Ready = t.wait(r.Context(), s.patience(r.Context()))
	v.Task = taskView(t)
	if !v.Ready {
		return v, nil
	}
	u, err := taskResult[*usage](t)
	if err != nil {
		return v, err
	}
	v.CountedAt, v.Damaged, v.Closed, v.Folded = t.endedAt(), u.damaged, u.closed, u.folded
	u.fill(&v, a)
	if prices.Old(v.Total.PricesAsOf, s.o.Now()) {
		v.OldPrices = v.Total.PricesAsOf
	}
	return v, nil
}

// ranges are the most common ranges of time.
func (a usageAsk) ranges(today int) []web.Choice {
	var all []web.Choice
	for _, days := range []int{7, 30, 90, 365} {
		all = append(all, web.Choice{Name: "usage.range." + strconv.Itoa(days), Value: startOf(today - days + 1).Format(time.DateOnly)})
	}
	all = append(all, web.Choice{Name: "usage.range.all", Value: "all"})
	for i := range all {
		all[i].Current = all[i].Value == a.since && a.until == ""
	}
	return all
}

// zones are what the field of the time zone offers; any other may be typed.
var zones = []string{"UTC", "America/Los_Angeles", "America/New_York", "America/Sao_Paulo", "Asia/Kolkata", "Asia/Shanghai", "Asia/Tokyo", "Australia/Sydney", "Europe/Berlin", "Europe/London"}

// cellsIn are the cells of the requested time, oldest first.
func (u *usage) cellsIn(a usageAsk) []cell {
	var in []cell
	for c := range u.cells {
		if c.day >= a.from && c.day <= a.to {
			in = append(in, c)
		}
	}
	slices.SortFunc(in, func(x, y cell) int {
		return cmp.Or(cmp.Compare(x.day, y.day), strings.Compare(x.model, y.model), strings.Compare(x.agent, y.agent), strings.Compare(x.project, y.project), strings.Compare(x.user, y.user))
	})
	return in
}

// settleBucket chooses the width of a bucket if nobody did, and widens
// buckets that would be too many.
func (a *usageAsk) settleBucket(first int) {
	asked := a.bucket
	from := a.start(first)
	if a.bucket == "" {
		switch days := a.to - from; {
		case days <= 62:
			a.bucket = "day"
		case days <= 400:
			a.bucket = "week"
		default:
			a.bucket = "month"
		}
	}
	if a.bucket == "day" && a.to-from >= maxBuckets {
		a.bucket = "week"
	}
	if a.bucket == "week" && (a.to-from)/7 >= maxBuckets {
		a.bucket = "month"
	}
	a.coarser = asked != "" && asked != a.bucket
}

// start is the first day of a chart: the requested one, or the first with
// data.
func (a *usageAsk) start(first int) int {
	if a.since == "all" {
		return first
	}
	return a.from
}

// fill puts the numbers into a view.
func (u *usage) fill(v *web.UsagePage, a usageAsk) {
	cells := u.cellsIn(a)
	first := a.to
	if len(cells) > 0 {
		first = cells[0].day
	}
	a.settleBucket(first)
	days := bucketsBetween(a.start(first), a.to, a.bucket, maxBuckets)
	at := make(map[int]int, len(days))
	for i, day := range days {
		at[day] = i
	}
	rows, series := make(map[string]*web.UsageRow), make(map[string][]float64)
	for _, c := range cells {
		t, name := u.cells[c], render.CleanLine(u.part(c, a.by))
		if rows[name] == nil {
			rows[name], series[name] = &web.UsageRow{Name: name}, make([]float64, len(days))
		}
		addRow(rows[name], t)
		addRow(&v.Total, t)
		if i, ok := at[bucketOf(c.day, a.bucket)]; ok {
			series[name][i] += amount(t, a.metric)
		} else {
			v.LeftOut = true
		}
	}
	v.Bucket, v.Coarser = a.bucket, a.coarser
	u.fillRows(v, rows)
	u.fillTimes(v, days, series)
}

func addRow(r *web.UsageRow, t *store.Tally) {
	r.Turns += t.Turns
	r.Messages += t.Messages
	r.InputTokens = sum(r.InputTokens, t.InputTokens)
	r.OutputTokens = sum(r.OutputTokens, t.OutputTokens)
	r.CacheReadTokens = sum(r.CacheReadTokens, t.CacheReadTokens)
	r.CacheWriteTokens = sum(r.CacheWriteTokens, t.CacheWriteTokens)
	r.Tokens = sum(r.Tokens, t.Tokens())
	r.Cost.Add(t.Cost)
}

// sum adds two numbers that are not negative. On overflow it returns the
// largest number.
func sum(a, b int64) int64 {
	if a+b < a {
		return 1<<63 - 1
	}
	return a + b
}

// rowAmount is how much of a metric a row has.
func rowAmount(r web.UsageRow, metric string) float64 {
	switch metric {
	case "cost":
		return r.USD()
	case "turns":
		return float64(r.Turns)
	case "messages":
		return float64(r.Messages)
	}
	return float64(r.Tokens)
}

func (u *usage) fillRows(v *web.UsagePage, rows map[string]*web.UsageRow) {
	all := rowAmount(v.Total, v.Metric)
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		r := *rows[name]
		if all > 0 {
			r.Share = rowAmount(r, v.Metric) / all
		}
		v.Rows = append(v.Rows, r)
	}
	slices.SortStableFunc(v.Rows, func(x, y web.UsageRow) int {
		return cmp.Or(cmp.Compare(rowAmount(y, v.Metric), rowAmount(x, v.Metric)), cmp.Compare(y.Messages, x.Messages))
	})
	if len(v.Rows) > maxUsageRows {
		v.RowsLeft = len(v.Rows) - maxUsageRows
		v.Rows = v.Rows[:maxUsageRows]
	}
	if all > 0 {
		v.Total.Share = 1
	}
}

// fillTimes puts the numbers over time into a view, as a chart and as a table.
func (u *usage) fillTimes(v *web.UsagePage, days []int, series map[string][]float64) {
	var all []web.Series
	for _, name := range slices.Sorted(maps.Keys(series)) {
		all = append(all, web.Series{Name: cmp.Or(name, web.Say("", "usage.none")), Values: series[name]})
	}
	top := web.TopSeries(all, web.MaxSeries, web.Say("", "usage.other"))
	top = slices.DeleteFunc(top, func(s web.Series) bool { return s.Sum() == 0 })
	chart := web.Chart{ID: "usage", Series: top, Format: v.Amount}
	for i, day := range days {
		t := web.UsageTime{Name: bucketName(day, v.Bucket), Values: []float64{}}
		for _, s := range top {
			t.Values = append(t.Values, s.Values[i])
			t.Sum += s.Values[i]
		}
		v.Times = append(v.Times, t)
		chart.Labels = append(chart.Labels, t.Name)
	}
	for _, s := range top {
		v.Names = append(v.Names, s.Name)
	}
	chart.Title = web.Say("", "usage.chart."+v.Metric)
	if len(days) > 0 {
		chart.Desc = web.Say("", "usage.chart.desc", web.Say("", "usage.by."+v.By), bucketName(days[0], v.Bucket), bucketName(days[len(days)-1], v.Bucket), v.Amount(rowAmount(v.Total, v.Metric)))
	}
	v.Chart = chart.Bars()
}

// csvTimeout is how long a program waits for a count.
const csvTimeout = 5 * time.Minute

// usageCSV answers with every number, a line for each bucket and part.
func (s *Site) usageCSV(w http.ResponseWriter, r *http.Request) {
	if !request.CallerOf(r.Context()).Role.May(request.Reader) {
		s.Trouble(w, r, tidemark.ErrDenied)
		return
	}
	a, err := s.usageAsk(r, r.URL.Query().Get)
	if err != nil {
		s.Trouble(w, r, err)
		return
	}
	t := s.usageTask(r.Context(), a)
	if !t.wait(r.Context(), csvTimeout) {
		s.Trouble(w, r, request.Unavailable("the counting is not over yet; it goes on, ask again later"))
		return
	}
	u, err := taskResult[*usage](t)
	if err != nil {
		s.Trouble(w, r, err)
		return
	}
	body, err := u.csv(a)
	if err != nil {
		s.Trouble(w, r, err)
		return
	}
	w.Header().Set("Content-Disposition", `attachment; filename="tidemark-usage-by-`+a.by+`.csv"`)
	answerBody(w, r, http.StatusOK, "text/csv; charset=utf-8", body)
}

func (u *usage) csv(a usageAsk) ([]byte, error) {
	cells := u.cellsIn(a)
	if len(cells) > 0 {
		a.settleBucket(cells[0].day)
	}
	bucket := cmp.Or(a.bucket, "day")
	type key struct {
		day  int
		name string
	}
	rows := make(map[key]*web.UsageRow)
	for _, c := range cells {
		k := key{bucketOf(c.day, bucket), render.CleanLine(u.part(c, a.by))}
		if rows[k] == nil {
			rows[k] = &web.UsageRow{}
		}
		addRow(rows[k], u.cells[c])
	}
	keys := slices.SortedFunc(maps.Keys(rows), func(x, y key) int {
		return cmp.Or(cmp.Compare(x.day, y.day), strings.Compare(x.name, y.name))
	})
	var buf bytes.Buffer
	out := csv.NewWriter(&buf)
	out.Write([]string{bucket, a.by, "turns", "messages", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "tokens", "cost_usd", "cost_source"})
	for _, k := range keys {
		r := rows[k]
		line := []string{bucketName(k.day, bucket), csvText(k.name)}
		for _, n := range []int64{r.Turns, r.Messages, r.InputTokens, r.OutputTokens, r.CacheReadTokens, r.CacheWriteTokens, r.Tokens} {
			line = append(line, strconv.FormatInt(n, 10))
		}
		cost := "" // unknown
		if r.CostUSD != nil {
			cost = strconv.FormatFloat(*r.CostUSD, 'f', -1, 64)
		}
		out.Write(append(line, cost, r.CostSource))
	}
	out.Flush()
	return buf.Bytes(), out.Error()
}
