package pages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/server/pages/web"
	"github.com/tidemark-sessions/tidemark/store"
)

const (
	// homeDays is the time that the first page tells about unless another one is
	// chosen, and homeRows how many values of a part it lists.
	homeDays = 30
	homeRows = 6
	// heatWeeks is how far back the heat map goes: a year.
	heatWeeks = 53
	// maxTold is how many views of one survey are kept.
	maxTold = 16
	// failedSpan is how far back failed jobs count as news.
	failedSpan = "24h"
	// countedFailed is how many of them are counted; there are rarely more.
	countedFailed = 1000
)

// zoneCookie is where the browser says in which time zone its user is.
const zoneCookie = "tidemark-zone"

// zoneOf is the time zone of the reader, UTC where it is not known. Local would
// be the server's own, which is private.
func zoneOf(r *http.Request) *time.Location {
	c, err := r.Cookie(zoneCookie)
	if err != nil || c.Value == "" || c.Value == "Local" || len(c.Value) > 64 {
		return time.UTC
	}
	zone, err := time.LoadLocation(c.Value)
	if err != nil {
		return time.UTC
	}
	return zone
}

// homePage is the first page: a year at a glance, and what wants attention.
func (s *Site) homePage(r *http.Request) (view, error) {
	ctx := r.Context()
	days, err := choose("days", r.URL.Query().Get("days"), strconv.Itoa(homeDays), "7", "90", "365")
	if err != nil {
		return view{}, err
	}
	span, _ := strconv.Atoi(days) // one of those above
	zone := zoneOf(r)
	today := dayOf(s.o.Now(), zone)
	v := web.HomeView{Days: span, Zone: zone.String(), Parts: []web.HomePart{}, Hours: []web.HomeHour{}, Heat: []web.HeatDay{}, Months: []web.HomeMonth{}, Top: []web.HomeSession{}, Running: []web.HomeSession{}}
	for _, n := range []int{7, 30, 90, 365} {
		v.Spans = append(v.Spans, web.Choice{Name: "usage.range." + strconv.Itoa(n), Value: strconv.Itoa(n), Current: n == span})
	}
	if err := s.homeNow(ctx, &v); err != nil {
		return view{}, err
	}
	u, t := s.surveyOf(ctx, surveyWait)
	v.Task = taskView(t)
	if u != nil {
		v.Ready = true
		u.tellOnce(&v, today-span+1, today, zone)
	}
	return view{s.frame(r, "home"), v}, nil
}

// homeNow adds what runs, what waits and what failed.
func (s *Site) homeNow(ctx context.Context, v *web.HomeView) error {
	st, err := s.stores.Mine(ctx)
	if err != nil {
		return err
	}
	if v.Met, _, err = meetings(ctx, st, ""); err != nil {
		return err
	}
	v.Watch = s.watched(ctx)
	leases, err := leasesOf(ctx, st)
	if err != nil {
		return err
	}
	asking := s.api.Asking(ctx)
	for id, l := range leases {
		if !l.Held || l.Dead || l.Expired {
			continue
		}
		i, err := st.Session(ctx, id)
		if errors.Is(err, tidemark.ErrNotFound) || errors.Is(err, tidemark.ErrCorrupt) {
			continue
		}
		if err != nil {
			return err
		}
		if one := homeSession(i, web.Used{}); slices.Contains(asking, id) {
			v.Asking = append(v.Asking, one)
		} else {
			v.Running = append(v.Running, one)
		}
	}
	for _, all := range [][]web.HomeSession{v.Running, v.Asking} {
		slices.SortFunc(all, func(a, b web.HomeSession) int { return b.UpdatedAt.Compare(a.UpdatedAt) })
	}
	v.Running = v.Running[:min(len(v.Running), homeRows)]
	of, err := s.stores.Fleet(ctx)
	if err != nil {
		return err
	}
	running, err := of.Running(ctx, "")
	if err != nil {
		return err
	}
	v.Jobs = len(running)
	waiting, err := of.WaitingReviews(ctx, "")
	if err != nil {
		return err
	}
	for _, w := range waiting {
		if slices.Contains(running, w.Job) {
			v.Waiting++
		}
	}
	since := s.o.Now().Add(-spans[failedSpan])
	for j, err := range of.JobsAfter(ctx, fleet.JobFilter{Status: tidemark.JobFailed, Limit: countedFailed + 1}, fleet.Mark{}) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue
		}
		if err != nil {
			return err
		}
		if j.Mark.At.Before(since) {
			break
		}
		if v.Failed == countedFailed {
			v.MoreFailed = true
			break
		}
		v.Failed++
	}
	return nil
}

// meetings are when the remotes of a store were last met, and which other machine
// writes to a session as far as they say.
func meetings(ctx context.Context, st *store.Store, id tidemark.SessionID) (all []web.Meeting, writer string, err error) {
	m, err := st.Machines(ctx)
	if errors.Is(err, tidemark.ErrCorrupt) {
		return nil, "", nil // the page of the store reports it
	}
	for _, met := range m.Meetings() {
		all = append(all, web.Meeting(met))
	}
	return all, render.CleanLine(m.WritesTo(id, st.Records().Clock())), err
}

func homeSession(i store.Info, used web.Used) web.HomeSession {
	return web.HomeSession{Name: i.Name(), ID: string(i.ID), Title: render.CleanLine(i.Title), Agent: render.CleanLine(i.Agent), Project: render.CleanLine(i.Project), UpdatedAt: i.UpdatedAt, Used: used}
}

// toolOf is the tool that a session came from.
func toolOf(i store.Info) string { return cmp.Or(i.Tool, store.Native) }

// homeSum is a row of the first page while it is added up.
type homeSum struct {
	web.HomeRow
	last string // the session that was counted last
}

func (h *homeSum) add(session string, of hourly) {
	if h.last != session {
		h.last = session
		h.Sessions++
	}
	h.Prompts += of.prompts
	h.Tokens = sum(h.Tokens, of.tokens)
	h.Cost.Add(of.cost)
}

// tellOnce fills in what tell does, which is the same for every view of one survey.
func (u *survey) tellOnce(v *web.HomeView, from, to int, zone *time.Location) {
	name := fmt.Sprint(from, to, zone)
	u.mu.Lock()
	defer u.mu.Unlock()
	t := u.told[name]
	if t == nil {
		if u.told == nil || len(u.told) == maxTold {
			u.told = make(map[string]*web.HomeView)
		}
		t = &web.HomeView{Parts: v.Parts, Heat: v.Heat, Months: v.Months, Top: v.Top}
		u.tell(t, from, to, zone)
		u.told[name] = t
	}
	v.Any, v.Gone, v.Total, v.Parts, v.Hours, v.Heat, v.Months, v.Top = t.Any, t.Gone, t.Total, t.Parts, t.Hours, t.Heat, t.Months, t.Top
}

// tell fills in what the days from one to another had, and the year.
func (u *survey) tell(v *web.HomeView, from, to int, zone *time.Location) {
	names := []string{"tool", "project", "model"}
	parts := []map[string]*homeSum{{}, {}, {}} // in their order
	var total homeSum
	type spent struct {
		of *surveyed
		homeSum
	}
	var top []*spent
	year := make(map[int]*homeSum)
	heatFrom := to - 7*(heatWeeks-1) - weekday(to)
	v.Hours, v.Any = make([]web.HomeHour, 24), len(u.sessions) > 0
	for i := range u.sessions {
		s := &u.sessions[i]
		if !s.Gone.IsZero() {
			v.Gone++
		}
		name := s.Name()
		own := &spent{of: s}
		s.tally.each(func(at slot, of hourly) {
			t := time.Unix(at.hour*3600, 0).In(zone)
			day := dayOf(t, zone)
			if day >= heatFrom && day <= to {
				if year[day] == nil {
					year[day] = &homeSum{}
				}
				year[day].add(name, of)
			}
			if day < from || day > to {
				return
			}
			total.add(name, of)
			own.add(name, of)
			v.Hours[t.Hour()].N += of.prompts
			for part, value := range [...]string{toolOf(s.Info), s.Project, at.model} {
				if value == "" {
					continue
				}
				if parts[part][value] == nil {
					parts[part][value] = &homeSum{}
				}
				parts[part][value].add(name, of)
			}
		})
		if own.Sessions > 0 {
			top = append(top, own)
		}
	}
	active := activeSpan(from, to)
	v.Total = total.HomeRow
	v.Total.Path = address("/sessions", nil, "active", active)
	slices.SortStableFunc(top, func(a, b *spent) int {
		return cmp.Or(cmp.Compare(b.USD(), a.USD()), cmp.Compare(b.Tokens, a.Tokens), b.of.UpdatedAt.Compare(a.of.UpdatedAt))
	})
	for _, s := range top[:min(len(top), homeRows)] {
		v.Top = append(v.Top, homeSession(s.of.Info, web.Used{Cost: s.Cost, InputTokens: s.Tokens}))
	}
	for i, name := range names {
		v.Parts = append(v.Parts, homePart(name, active, parts[i]))
	}
	most := int64(0)
	for _, h := range v.Hours {
		most = max(most, h.N)
	}
	for i := range v.Hours {
		h := &v.Hours[i]
		h.Hour, h.Part = i, part100(h.N, most)
		h.Path = v.Total.Path + "&hour=" + strconv.Itoa(i)
	}
	v.Heat = heat(year, heatFrom, to)
	for day := to; day >= heatFrom; day-- {
		v.Months = addMonth(v.Months, day, year[day])
	}
}

// homePart is a table of the first page: the values with the highest cost first.
func homePart(name, active string, sums map[string]*homeSum) web.HomePart {
	p := web.HomePart{Name: name, Rows: []web.HomeRow{}}
	for _, value := range slices.Sorted(maps.Keys(sums)) {
		row := sums[value].HomeRow
		row.Name = render.CleanLine(value)
		row.Path = address("/sessions", nil, name, value) + "&active=" + active
		p.Rows = append(p.Rows, row)
	}
	slices.SortStableFunc(p.Rows, func(a, b web.HomeRow) int {
		return cmp.Or(cmp.Compare(b.USD(), a.USD()), cmp.Compare(b.Tokens, a.Tokens), cmp.Compare(b.Prompts, a.Prompts))
	})
	p.More = max(len(p.Rows)-homeRows, 0)
	p.Rows = p.Rows[:len(p.Rows)-p.More]
	return p
}

// weekday is how many days a day is after Monday.
func weekday(day int) int { return (int(startOf(day).Weekday()) + 6) % 7 }

// heatSteps is how many shades the heat map has beside none.
const heatSteps = 4

// heat are the days of the heat map, week by week.
func heat(year map[int]*homeSum, from, to int) []web.HeatDay {
	// A shade is a quarter of the days on which something was said: measured by the
	// busiest one, a single day would make all others look alike.
	var counts []int64
	for day := from; day <= to; day++ {
		if of := year[day]; of != nil && of.Prompts > 0 {
			counts = append(counts, of.Prompts)
		}
	}
	slices.Sort(counts)
	shade := func(prompts int64) int {
		rank, _ := slices.BinarySearch(counts, prompts+1)
		return min(max((rank*heatSteps+len(counts)-1)/max(len(counts), 1), 1), heatSteps)
	}
	var all []web.HeatDay
	for day := from; day <= to; day++ {
		d := web.HeatDay{Day: startOf(day).Format(time.DateOnly), X: (day - from) / 7, Y: (day - from) % 7}
		if startOf(day).Day() == 1 {
			d.Month = startOf(day).Format("Jan")
		}
		if of := year[day]; of != nil {
			d.Sessions, d.Prompts = of.Sessions, of.Prompts
			d.Path = address("/sessions", nil, "active", activeSpan(day, day))
			d.Shade = shade(of.Prompts)
		}
		all = append(all, d)
	}
	return all
}

// addMonth adds a day to its month; days come newest first.
func addMonth(all []web.HomeMonth, day int, of *homeSum) []web.HomeMonth {
	name := startOf(day).Format("2006-01")
	if n := len(all); n == 0 || all[n-1].Name != name {
		all = append(all, web.HomeMonth{Name: name, Path: address("/sessions", nil, "active", activeSpan(bucketOf(day, "month"), day))})
	}
	if of != nil {
		all[len(all)-1].Prompts += of.Prompts
		all[len(all)-1].Cost.Add(of.Cost)
	}
	return all
}

// part100 is how many of 100 one number is of another.
func part100(of, all int64) int {
	if all <= 0 {
		return 0
	}
	return int((of*100 + all - 1) / all)
}

// activeSpan is a time in which something was said, in an address.
func activeSpan(from, to int) string {
	return startOf(from).Format(time.DateOnly) + ".." + startOf(to).Format(time.DateOnly)
}

// wasActive is which sessions had something said in them in some time.
type wasActive struct {
	from, to int // days
	hour     int // of the day; -1: any
	zone     *time.Location
	survey   *survey
}

// activeIn reads such a time from an address. The sessions have to be counted for it.
func (s *Site) activeIn(r *http.Request) (*wasActive, *task, error) {
	text := r.URL.Query().Get("active")
	if text == "" {
		return nil, nil, nil
	}
	a := &wasActive{hour: -1, zone: zoneOf(r)}
	from, to, ok := strings.Cut(text, "..")
	var err error
	if a.from, err = dateOf("active", from); err == nil && ok {
		a.to, err = dateOf("active", to)
	}
	if err != nil || !ok || a.from > a.to {
		return nil, nil, tidemark.Invalidf("active %.40q: want two days like 2026-11-01..2026-11-15", text)
	}
	if hour := r.URL.Query().Get("hour"); hour != "" {
		if a.hour, err = strconv.Atoi(hour); err != nil || a.hour < 0 || a.hour > 23 {
			return nil, nil, tidemark.Invalidf("hour %.20q: want an hour of the day, 0 to 23", hour)
		}
	}
	var t *task
	a.survey, t = s.surveyOf(r.Context(), glance)
	return a, t, nil
}

// has reports whether something was said in a session then, by a model if one is
// asked for.
func (a *wasActive) has(i store.Info, model string) bool {
	if a.survey == nil {
		return false
	}
	at, known := a.survey.byName[i.Name()]
	found := false
	if known {
		a.survey.sessions[at].tally.each(func(s slot, of hourly) {
			t := time.Unix(s.hour*3600, 0).In(a.zone)
			day := dayOf(t, a.zone)
			found = found || day >= a.from && day <= a.to && (a.hour < 0 || a.hour == t.Hour() && of.prompts > 0) && (model == "" || model == s.model)
		})
	}
	return found
}

// String is the time for people.
func (a *wasActive) String() string {
	days := startOf(a.from).Format(time.DateOnly)
	if a.to > a.from {
		days += " – " + startOf(a.to).Format(time.DateOnly)
	}
	if a.hour >= 0 {
		days += fmt.Sprintf(", %02d:00", a.hour)
	}
	return days
}

// goOn is the page that somebody asked for before they signed in, "" for none; it
// is asked for once.
func goOn(w http.ResponseWriter, r *http.Request) string {
	c, err := r.Cookie(nextCookie)
	if err != nil {
		return ""
	}
	http.SetCookie(w, next(r, "", -1))
	path, err := url.QueryUnescape(c.Value)
	if to := ownPath(path); err == nil && to != "/" {
		return to
	}
	return ""
}

// KeepNext remembers the page that whoever signs in came from, if the address names
// one of this site as next.
func KeepNext(w http.ResponseWriter, r *http.Request) {
	if to := ownPath(r.URL.Query().Get("next")); to != "/" && r.Method == http.MethodGet {
		http.SetCookie(w, next(r, to, nextSeconds))
	}
}

// nextCookie keeps where somebody wanted to go while they sign in. Whoever signs
// in with an issuer comes back from another site, so it is not strict.
const nextCookie = "tidemark-next"

// nextSeconds is how long somebody may take to sign in.
const nextSeconds = 600

func next(r *http.Request, to string, seconds int) *http.Cookie {
	return &http.Cookie{Name: nextCookie, Value: url.QueryEscape(to), Path: "/", MaxAge: seconds, HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteLaxMode}
}
