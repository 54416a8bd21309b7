package pages

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	routes "github.com/tidemark-sessions/tidemark/server/api"
	"github.com/tidemark-sessions/tidemark/server/pages/web"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
)

// listed is which sessions an address asks for.
type listed struct {
	q        url.Values
	st       *store.Store
	in       *routes.ListSessionsInput
	f        store.Filter
	until    time.Time
	active   *wasActive
	costs    *survey         // what sessions cost; nil: it is not known yet, or nobody asked
	survey   *survey         // the last one, if the list needs all sessions; nil: there is none
	labelled map[string]bool // with a label on an entry that is the tag of the list
	recall   bool            // sessions are those of the survey, which may have changed since
	view     web.SessionsView
}

// listed reads the address of a list.
func (s *Site) listed(r *http.Request) (*listed, error) {
	q := r.URL.Query()
	value := func(name string) string { return strings.TrimSpace(q.Get(name)) }
	l := &listed{q: q, view: web.SessionsView{Query: value("q"), Project: q.Get("project"), Agent: q.Get("agent"), Label: value("label"), Tool: value("tool"), Model: q.Get("model"),
		Since: value("since"), Until: value("until"), Sessions: []web.SessionRow{}}}
	v := &l.view
	if q.Get("state") == store.Trash {
		v.State = store.Trash
	}
	if q.Get("gone") != "" {
		v.Gone = "yes"
	}
	if v.Query != "" {
		v.Role = q.Get("role")
		if q.Get("failed") != "" {
			v.Failed = "yes"
		}
	}
	if v.Sort = q.Get("sort"); v.Sort != "" && !slices.Contains(web.Columns(), v.Sort) {
		return nil, tidemark.Invalidf("sort %.40q: want one of %s", v.Sort, strings.Join(web.Columns(), ", "))
	}
	order, err := choose("order", q.Get("order"), "", "up", "down")
	if err != nil {
		return nil, err
	}
	v.Up = order == "up" || order == "" && slices.Contains([]string{"title", "project", "model"}, v.Sort)
	if v.Until != "" {
		day, err := dateOf("until", v.Until)
		if err != nil {
			return nil, err
		}
		l.until = startOf(day + 1)
	}
	l.in = &routes.ListSessionsInput{Project: v.Project, Agent: v.Agent, Label: v.Label, Since: v.Since, Tool: v.Tool, Gone: v.Gone != "", Trash: v.State == store.Trash}
	if l.f, err = l.in.Filter(); err != nil {
		return nil, err
	}
	var t *task
	if l.active, t, err = s.activeIn(r); err != nil {
		return nil, err
	}
	if l.active != nil {
		v.Active = l.active.String()
		if l.active.survey == nil {
			v.Task = taskView(t)
		}
	}
	if v.Cost, err = choose("cost", q.Get("cost"), append([]string{""}, web.CostRanges...)...); err != nil {
		return nil, err
	}
	if v.Cost != "" {
		var t *task
		if l.costs, t = s.surveyOf(r.Context(), glance); l.costs == nil {
			v.Task = taskView(t)
		}
	}
	l.st, err = s.stores.Mine(r.Context())
	return l, err
}

// unknown are the names in an address that count only in a search, or only in a
// list.
func (l *listed) unknown() []string {
	others := []string{"role", "failed", "count"}
	if l.view.Query != "" {
		others = []string{"active", "hour", "gone", "sort", "order", "from"}
	}
	var names []string
	for name := range l.q {
		if slices.Contains(others, name) && l.q.Get(name) != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// keeps reports whether a session is listed that the store has found: it has no
// filter by model or for the time before something.
func (l *listed) keeps(i store.Info) bool {
	if l.view.Cost != "" && l.costs.costOf(i) != l.view.Cost {
		return false
	}
	if l.active != nil {
		return l.active.has(i, l.view.Model)
	}
	return (l.view.Model == "" || i.Model == l.view.Model) && (l.until.IsZero() || i.UpdatedAt.Before(l.until))
}

// all are the sessions of the list, the one that changed last first. Those that
// cannot be read are apart: nothing is known that they could be counted by.
func (l *listed) all(ctx context.Context) (all []store.Info, damaged []damagedSession, err error) {
	if known, ok, err := l.known(ctx); ok || err != nil {
		return slices.DeleteFunc(known, func(i store.Info) bool { return !l.fits(i) || !l.keeps(i) }), nil, err
	}
	for i, err := range l.st.Sessions(ctx, l.f) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			damaged = append(damaged, damagedSession{i, err})
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		if l.keeps(i) {
			all = append(all, i)
		}
	}
	return all, damaged, nil
}

// damagedSession is one whose record cannot be read, and why.
type damagedSession struct {
	store.Info
	err error
}

// newest lists by the time of the last change, which is the order of the store.
func (s *Site) newest(ctx context.Context, l *listed) error {
	v := &l.view
	if text := l.q.Get("cursor"); text != "" {
		var c routes.SessionsCursor
		if err := s.api.ParseCursor(request.CallerOf(ctx), text, &c); err != nil {
			return err
		}
		if c.Of != l.in.Asked() {
			return tidemark.Invalidf("cursor: of another list; begin again without it")
		}
		l.f.After = c.After()
		v.Newest = address("/sessions", l.q, "cursor", "")
	}
	if v.Model == "" && l.until.IsZero() && l.active == nil && v.Cost == "" {
		l.f.Limit = listRows + 1
	}
	var infos []store.Info
	damage := make(map[string]error)
	sessions, err := s.inOrder(ctx, l)
	if err != nil {
		return err
	}
	for i, err := range sessions {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return err
		}
		if err == nil && !l.keeps(i) {
			continue
		}
		if n := len(infos); n == listRows {
			last := infos[n-1]
			v.Older = address("/sessions", l.q, "cursor", s.api.Cursor(request.CallerOf(ctx), routes.SessionsCursor{Of: l.in.Asked(), ID: last.ID, At: last.UpdatedAt, Owner: last.Owner}))
			break
		}
		if err != nil {
			damage[i.Name()] = err
		}
		infos = append(infos, i)
	}
	return s.fillRows(ctx, l, infos, damage)
}

// inOrder are the sessions of a list behind its cursor. A filter that few sessions
// pass is not tried on all of them in the store, if they are known.
func (s *Site) inOrder(ctx context.Context, l *listed) (iter.Seq2[store.Info, error], error) {
	if l.f.Agent != "" || l.f.Tool != "" || l.f.Tag != "" || l.f.Gone || l.f.Limit == 0 {
		l.survey, _ = s.surveyOf(ctx, 0)
	}
	known, ok, err := l.known(ctx)
	if !ok || err != nil {
		return l.st.Sessions(ctx, l.f), err
	}
	if a := l.f.After; a != nil {
		at := slices.IndexFunc(known, func(i store.Info) bool { return i.Name() == a.Name() && i.UpdatedAt.Equal(a.UpdatedAt) }) + 1
		if at == 0 { // it has changed since
			at = slices.IndexFunc(known, func(i store.Info) bool { return i.UpdatedAt.Before(a.UpdatedAt) })
		}
		if at < 0 {
			at = len(known)
		}
		known = known[at:]
	}
	return func(yield func(store.Info, error) bool) {
		for _, i := range known {
			if l.fits(i) && !yield(i, nil) {
				return
			}
		}
	}, nil
}

// sorted lists by a column. All sessions are looked at; for what they used, all
// of them have to be counted.
func (s *Site) sorted(ctx context.Context, l *listed) error {
	v := &l.view
	wait := time.Duration(0)
	if v.Sort == "tokens" || v.Sort == "cost" {
		wait = glance
	}
	u, t := s.surveyOf(ctx, wait)
	if u == nil && wait > 0 {
		v.Task = taskView(t)
	}
	l.survey = u
	infos, damaged, err := l.all(ctx)
	if err != nil {
		return err
	}
	infos = sortBy(infos, cmp.Or(v.Sort, "age"), v.Up, u)
	damage := make(map[string]error)
	for _, d := range damaged { // in no order: they stand at the end
		damage[d.Name()] = d.err
		infos = append(infos, d.Info)
	}
	from := 0
	if text := l.q.Get("from"); text != "" {
		if from, err = strconv.Atoi(text); err != nil || from < 0 {
			return tidemark.Invalidf("from %.20q: want how many sessions to pass over", text)
		}
		v.Newest = address("/sessions", l.q, "from", "")
	}
	infos = infos[min(from, len(infos)):]
	if len(infos) > listRows {
		infos = infos[:listRows]
		v.Older = address("/sessions", l.q, "from", strconv.Itoa(from+listRows))
	}
	return s.fillRows(ctx, l, infos, damage)
}

// sortKey is what a session is sorted by. What is not known stands at the end, in
// either order.
type sortKey struct {
	at      int // where the session was before
	text    string
	number  float64
	unknown bool
}

// sortBy sorts sessions by a column; survey may be nil.
func sortBy(infos []store.Info, column string, up bool, u *survey) []store.Info {
	keys := make([]sortKey, len(infos))
	for at, i := range infos {
		k := sortKey{at: at}
		switch column {
		case "title":
			k.text, k.unknown = strings.ToLower(i.Title), i.Title == ""
		case "project":
			k.text, k.unknown = web.Base(i.Project), i.Project == ""
		case "model":
			k.text, k.unknown = i.Model, i.Model == ""
		case "turns":
			k.number = float64(i.Nodes)
		case "tokens":
			n := u.usedBy(i).Tokens()
			k.number, k.unknown = float64(n), n == 0
		case "cost":
			used := u.usedBy(i)
			k.number, k.unknown = used.USD(), used.CostUSD == nil
		case "age":
			k.number = float64(i.UpdatedAt.UnixMicro())
		}
		keys[at] = k
	}
	slices.SortFunc(keys, func(a, b sortKey) int {
		if a.unknown != b.unknown {
			if a.unknown {
				return 1
			}
			return -1
		}
		order := cmp.Or(cmp.Compare(a.number, b.number), strings.Compare(a.text, b.text))
		if !up {
			order = -order
		}
		return cmp.Or(order, cmp.Compare(a.at, b.at)) // of equals, the one that changed last
	})
	sorted := make([]store.Info, len(infos))
	for to, k := range keys {
		sorted[to] = infos[k.at]
	}
	return sorted
}

// fillRows makes the rows of the list. The shortest sessions are counted first, so
// that a long one does not keep the others from being counted.
func (s *Site) fillRows(ctx context.Context, l *listed, infos []store.Info, damage map[string]error) error {
	if l.recall {
		var err error
		if infos, err = l.current(ctx, infos); err != nil {
			return err
		}
	}
	if err := l.st.SetMachines(ctx, infos); err != nil {
		return err
	}
	rows := make([]web.SessionRow, len(infos))
	order := make([]int, len(infos))
	for at, i := range infos {
		order[at] = at
		var lease store.Lease
		var err error
		if i.Owner == "" { // those of others are private
			if lease, err = l.st.Lease(ctx, i.ID); err != nil && !errors.Is(err, tidemark.ErrCorrupt) { // the page of the store reports it
				return err
			}
		}
		if rows[at], err = s.sessionRow(ctx, l.st, i, lease, damage[i.Name()]); err != nil {
			return err
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(infos[a].Entries, infos[b].Entries) })
	budget := countBudget
	for _, at := range order {
		if rows[at].Damage != "" {
			continue
		}
		v, err := l.st.ViewOf(infos[at])
		if err == nil {
			rows[at].Usage, err = s.used(ctx, v, &budget)
			if errors.Is(err, tidemark.ErrColdAway) {
				rows[at].Usage.Partial, err = true, nil // a later page counts it
			}
		}
		if err := goneOrDamaged(err, &rows[at]); err != nil {
			return err
		}
		if rows[at].Usage.Damaged > 0 && rows[at].End.Kind == web.EndDone {
			rows[at].End = web.SessionEnd{Kind: web.EndDamaged}
		}
	}
	l.view.Sessions = rows
	return nil
}

// sessionTotals answers with the sums of a list.
func (s *Site) sessionTotals(w http.ResponseWriter, r *http.Request) {
	s.fragmentOf(w, r, "sessions", func() (string, any, error) {
		l, err := s.listed(r)
		if err != nil {
			return "", nil, err
		}
		u, t := s.surveyOf(r.Context(), glance)
		if u == nil {
			l.view.Task = taskView(t)
			return "totals", l.view, nil
		}
		l.survey = u
		infos, _, err := l.all(r.Context())
		if err != nil {
			return "", nil, err
		}
		totals := u.totals(infos)
		l.view.Totals, l.view.Costs = &totals, l.byCost(u, infos)
		return "totals", l.view, nil
	})
}

// byCost counts the sessions of a list by what they cost, nil if they all cost
// the same.
func (l *listed) byCost(u *survey, infos []store.Info) *web.FacetView {
	f := store.Facet{Name: store.FacetCost}
	n := make(map[string]int64)
	for _, i := range infos {
		n[u.costOf(i)]++
		f.AtLeast = f.AtLeast || u.usedBy(i).Partial
	}
	for _, value := range web.CostRanges {
		if n[value] > 0 {
			f.Values = append(f.Values, store.FacetValue{Value: value, N: n[value]})
		}
	}
	if len(f.Values) < 2 && l.view.Cost == "" {
		return nil
	}
	q := maps.Clone(l.q)
	q.Del("from")
	return &facets(q, []store.Facet{f})[0]
}

// facets are what a search found by what it has in common, with the addresses
// that narrow it.
func facets(q url.Values, found []store.Facet) []web.FacetView {
	// The names of the parameters, where they are not those of the facets.
	names := map[string]string{store.FacetTag: "label", store.FacetError: "failed"}
	var all []web.FacetView
	for _, f := range found {
		v := web.FacetView{Name: f.Name, More: f.More, AtLeast: f.AtLeast}
		name := cmp.Or(names[f.Name], f.Name)
		for _, value := range f.Values {
			row := web.FacetValue{Value: value.Value, N: value.N, On: q.Get(name) == value.Value}
			if f.Name == store.FacetTag && q.Get(name) != "" && !row.On {
				continue // a list is narrowed by one tag: another leads to more than what is counted here
			}
			to := maps.Clone(q)
			to.Del("cursor")
			if f.Name == store.FacetDay { // a day is a time from it until it
				name = "until"
				if row.On = q.Get("since") == value.Value && q.Get(name) == value.Value; row.On {
					to.Del("since")
				} else {
					to.Set("since", value.Value)
				}
			}
			if row.On {
				row.Path = address("/sessions", to, name, "")
			} else {
				row.Path = address("/sessions", to, name, value.Value)
			}
			v.Values = append(v.Values, row)
		}
		if f.Name == store.FacetCost {
			slices.SortFunc(v.Values, func(a, b web.FacetValue) int {
				return cmp.Compare(slices.Index(web.CostRanges, a.Value), slices.Index(web.CostRanges, b.Value))
			})
		}
		if f.Name == store.FacetDay {
			slices.SortFunc(v.Values, func(a, b web.FacetValue) int { return cmp.Compare(b.Value, a.Value) })
		}
		all = append(all, v)
	}
	return all
}
