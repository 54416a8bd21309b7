package server

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/server/wire"
)

// matrix asks and judges. What it finds is told, and no failure yet: the test
// of the test wants it to find something.
type matrix struct {
	*prober
	t       testing.TB
	routes  []route
	handler http.Handler
	asked   int
	found   []string
	seen    map[string]int // markers, by how often they were shown to who may see them
	good    map[string]int // routes, by how often they were answered well
	named   map[string]bool
	moved   map[string]bool // ids of things that changed hands, or were shared
	first   bool            // one finding is enough
}

func newMatrix(t testing.TB, w *world, s *Server, seed uint64) *matrix {
	return &matrix{prober: &prober{rand.New(rand.NewPCG(seed, 7)), w, s}, t: t, routes: routesOf(t, s), handler: s, seen: map[string]int{}, good: map[string]int{}, named: map[string]bool{}, moved: map[string]bool{}}
}

// maxFound is enough to see what is wrong.
const maxFound = 40

func (m *matrix) tell(format string, args ...any) {
	if len(m.found) < maxFound {
		m.found = append(m.found, fmt.Sprintf(format, args...))
	}
}

// run asks n times, and once at least: every route with every kind of id, then
// whatever comes. Reading comes before writing, while nobody can have learned an id by
// writing it down himself.
func (m *matrix) run(n int) {
	before := m.w.digest(m.t)
	type cell struct {
		route
		class string
	}
	var cells []cell
	for _, r := range m.routes {
		for _, class := range idClasses {
			cells = append(cells, cell{r, class})
		}
	}
	m.Shuffle(len(cells), func(i, j int) { cells[i], cells[j] = cells[j], cells[i] })
	slices.SortStableFunc(cells, func(a, b cell) int { return phaseOf(a.route) - phaseOf(b.route) })
	m.sure()
	for round := 0; round == 0 || m.asked < n; round++ {
		for i, c := range cells {
			if m.asked >= n && round > 0 {
				break
			}
			if m.first && len(m.found) > 0 {
				return
			}
			m.one(c.route, c.class)
			if i%250 == 249 {
				m.w.refill(m.t)
			}
			if i%1000 == 999 {
				m.unchanged(before)
			}
		}
	}
	m.unchanged(before)
}

func phaseOf(r route) int {
	if r.method == "GET" || r.call != "" && !wire.Writes(httptest.NewRequest("POST", api.BackendPath+r.call, nil)) {
		return 0
	}
	return 1
}

func (m *matrix) unchanged(before string) {
	if now := m.w.digest(m.t); now != before {
		m.tell("something of bravo or of lee was changed, within the last requests before number %d", m.asked)
	}
}

// sure asks for what has to be shown to somebody.
func (m *matrix) sure() {
	for _, who := range m.w.callers {
		for _, th := range m.w.things {
			if th.kind == "session" && th.tenant == "alpha" && who.name == "kim as writer" {
				m.judge(probe{route: route{method: "GET", path: "/api/v1/sessions/{id}/entries"}, who: who, target: "/api/v1/sessions/" + th.id + "/entries"})
			}
		}
		if who.Operator {
			m.judge(probe{route: route{method: "GET", path: "/api/v1/users"}, who: who, target: "/api/v1/users?tenant=bravo"})
			m.judge(probe{route: route{method: "GET", path: "/api/v1/audit"}, who: who, target: "/api/v1/audit?tenant=bravo"})
		}
	}
}

// one asks once, and once more with ids that there are not.
func (m *matrix) one(r route, class string) {
	who := m.w.callers[m.IntN(len(m.w.callers))]
	if m.IntN(2) == 0 { // most who call may do something
		who = m.w.callers[3+m.IntN(5)]
	}
	with := bodyClasses[m.IntN(len(bodyClasses))]
	if (class == ownID || class == sharedID) && m.IntN(3) > 0 {
		with = "good"
	}
	p := m.probe(r, class, with, who)
	if who.Operator && (strings.Contains(p.path, "/tenants/") || strings.HasSuffix(p.path, "/users/{id}/export") || p.method != "GET") {
		return // the operator may do this to every tenant, whose audit log says so
	}
	m.judge(p)
}

func (m *matrix) judge(p probe) {
	a, err := probed(m.handler, p)
	if err != nil {
		return // no URL at all
	}
	m.asked++
	m.look(p, a)
	if len(p.swap) == 0 {
		return
	}
	twin := p.asTwin()
	if twin.target == p.target && string(twin.body) == string(p.body) {
		return // the id was picked, and not used
	}
	b, err := probed(m.handler, twin)
	if err != nil {
		m.tell("%s: %v", twin, err)
		return
	}
	m.asked++
	m.look(twin, b)
	if p.who.Operator || p.method == "DELETE" && p.class != foreignID && p.class != hiddenID {
		return // who may know which there are; what is gone the second time
	}
	if a.Status == waitedInVain || b.Status == waitedInVain {
		return
	}
	if a.Status < 300 && phaseOf(p.route) == 1 && p.class != foreignID && p.class != hiddenID && b.Status != http.StatusNotFound {
		return // the first of them changed what is the caller's own, and the second found that
	}
	if slices.ContainsFunc(p.swap, func(id string) bool { return m.moved[id] }) {
		return // its owner shared it meanwhile, or it went to another
	}
	if diff := cmp.Diff(alike(twin, b), alike(p, a)); diff != "" {
		m.tell("%s: answers otherwise than to an id that there is not (-absent +there):\n%.900s", p, diff)
	}
}

var (
	aTime   = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+(Z|[+-]\d\d:\d\d)`)
	aNewID  = regexp.MustCompile(`session [0-9a-f-]{36}: entry`) // of a session that was not made, because of this entry
	aMarker = regexp.MustCompile(`zq(alpha|bravo)x([a-z]+)x([a-z]+)qz`)
)

// alike is what two answers have in common when the caller cannot tell them
// apart: all but the id itself, when it was, and how fast it was asked.
func alike(p probe, a answer) string {
	var b strings.Builder
	if a.Status < 300 {
		return "done" // what was made, or made anew, and what is one's own
	}
	fmt.Fprintln(&b, a.Status)
	for _, k := range slices.Sorted(maps.Keys(a.Header)) {
		if k != "Date" && k != "Ratelimit-Remaining" {
			fmt.Fprintln(&b, k, a.Header[k])
		}
	}
	b.Write(a.Body)
	text := aNewID.ReplaceAllString(aTime.ReplaceAllString(b.String(), "TIME"), "session ID: entry")
	if !p.twin {
		text = strings.NewReplacer(p.swap...).Replace(text)
	}
	return text
}

// look finds what somebody was shown and may not see.
func (m *matrix) look(p probe, a answer) {
	all := fmt.Sprint(a.Status, a.Header) + string(a.Body)
	asked := p.target + string(p.body) + fmt.Sprint(p.header)
	for _, word := range aMarker.FindAllStringSubmatch(all, -1) {
		if p.who.sees(word[1], word[2], word[3]) {
			m.seen[word[0]]++
		} else if !strings.Contains(asked, word[0]) {
			m.tell("%s: was shown %s: %d %.300s", p, word[0], a.Status, a.Body)
		}
	}
	// What somebody who may shared or gave away is no longer hidden, or may not be.
	if (a.Status < 300 || a.Status == waitedInVain) && (strings.Contains(p.target, "/share") || strings.Contains(p.target, "/hand-over")) {
		for _, th := range m.w.things {
			if user := m.w.userOf(th); strings.Contains(asked, th.id) || user != "" && strings.Contains(asked, user) {
				m.moved[th.id] = true
			}
		}
	}
	// What the audit log tells admins of their tenant: the path of a call that somebody of
	// the tenant made, or was refused.
	if phaseOf(p.route) == 1 || p.wrongMethod || strings.HasSuffix(p.path, "/export") || a.Status == http.StatusForbidden {
		for _, th := range m.w.things {
			if strings.Contains(asked, th.id) {
				m.named[th.id] = true
			}
		}
	}
	for _, th := range m.w.things {
		if len(th.id) > 8 && !p.who.sees(th.tenant, th.owner, th.scope) && !m.named[th.id] && strings.Contains(all, th.id) && !strings.Contains(asked, th.id) && th.kind != "user" {
			at := strings.Index(all, th.id)
			m.tell("%s: was told of the %s %s of %s: %d … %s …", p, th.kind, th.id, th.tenant, a.Status, all[max(0, at-200):min(len(all), at+200)])
		}
	}
	m.lookAtStatus(p, a)
}

func (m *matrix) lookAtStatus(p probe, a answer) {
	public := strings.HasPrefix(p.target, "/openapi")
	switch {
	case a.Status == waitedInVain: // for an answer that a busy machine did not give in time
	case a.Status >= 500 && a.Status != http.StatusNotImplemented:
		m.tell("%s: %d %.300s", p, a.Status, a.Body)
	case !p.who.known && !public && a.Status != http.StatusUnauthorized && !m.refusedEarly(p, a):
		m.tell("%s: %d to somebody who is not known: %.300s", p, a.Status, a.Body)
	case p.need != "" && !p.wrongMethod && !p.who.Role.May(p.need) && a.Status < 400 && a.Status/100 != 3:
		m.tell("%s: %d to a %s, which needs a %s", p, a.Status, p.who.Role, p.need)
	case a.Status >= 400 && isAPI(p.target) && p.method != "HEAD" && a.Header.Get("Content-Type") != "application/problem+json":
		m.tell("%s: %d as %q: %.200s", p, a.Status, a.Header.Get("Content-Type"), a.Body)
	case a.Header.Get("X-Evil") != "":
		m.tell("%s: a header of the client's", p)
	case a.Status < 300 && !p.wrongMethod && !p.twin:
		m.good[p.route.String()]++
	}
}

func isAPI(target string) bool {
	return strings.HasPrefix(target, "/api/") || strings.HasPrefix(target, tenantSpace)
}

// refusedEarly reports whether nobody was asked who calls: a page that sends
// people to sign in, or a path that is cleaned first.
func (m *matrix) refusedEarly(p probe, a answer) bool {
	return !isAPI(p.target) && (a.Status/100 == 3 || a.Status == http.StatusNotFound)
}
