package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/store"
)

func TestABrowserSearchesBranchesForksAndChangesSessions(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s *site) {
		st := s.of("a", "jo")
		id := string(talk(t, st, tidemark.Session{Title: "Harbour plans", Project: "/p"}, 4))
		talk(t, st, tidemark.Session{Title: "something else"}, 1)
		w := s.window(t)
		w.opens("/sessions")
		w.sees("tidemark open")
		w.signsIn("a")
		w.sees("Harbour plans", "something else")
		asks[bool](w, `window.__here = true`)
		w.fills("#q", "harb")
		w.until(`document.querySelector("#list .found") && location.search.includes("q=harb")`)
		w.sees("Harbour plans", "not", "something else")
		w.types("our answer 3")
		w.until(`location.search.includes("answer+3") || location.search.includes("answer%203")`)
		w.fills("#q", "answer 3")
		w.until(`document.querySelector('#list a[href*="?at=6&find="]')`)
		if !asks[bool](w, `window.__here`) {
			t.Error("the search loaded the page anew")
		}
		w.leaves(func() { w.clicks(`#list a[href*="?at=6&find="]`) })
		w.until(`document.getElementById("e6").getBoundingClientRect().top < innerHeight`)
		w.until(`[...CSS.highlights.get("found")].some((r) => r.startContainer.parentElement.closest("#e6") && r.toString() === "answer")`)
		w.until(`getComputedStyle(document.querySelector("#e6 .text p"), "::highlight(found)").backgroundColor === "rgb(255, 229, 138)"`)

		w.opens("/sessions/" + id)
		do := func(selector, at, text string) {
			t.Helper()
			w.clicks("#act-button")
			w.fills("#at", at)
			w.fills("#text", text)
			w.leaves(func() { w.clicks(selector) })
		}
		w.clicks("#act-button")
		w.fills("#title", "Harbour wall")
		w.leaves(func() { w.clicks(`form[action$="/rename"] button`) })
		w.sees("Harbour wall", "not", "Harbour plans")
		do(`button[formaction$="/label"]`, "4", "the turn")
		w.until(`document.getElementById("e4").getBoundingClientRect().top < innerHeight`)
		w.opens("/sessions/" + id)
		do(`button[formaction$="/branch"]`, "2", "another way")
		w.until(`document.querySelector("#entries") && !document.getElementById("e8")`)
		w.sees("another way")
		w.leaves(func() { w.clicks(`svg a[href*="node=n3"]`) })
		w.until(`document.getElementById("e8")`)
		w.opens("/sessions/" + id)
		do(`form[action$="/fork"] .actions button`, "4", "a copy")
		w.sees("a copy")
		if where := w.where(); strings.Contains(where, id) {
			t.Errorf("the fork is at %s", where)
		}
		w.opens("/sessions/" + id)
		w.sees("a copy")
		w.clicks("#act-button")
		w.clicks(`form[action$="/trash"] button`)
		w.until(`document.getElementById("confirm").open`)
		w.types(kb.Escape)
		w.until(`!document.getElementById("confirm").open`)
		w.clicks("#act-button")
		w.clicks(`form[action$="/trash"] button`)
		w.until(`document.getElementById("confirm").open`)
		w.leaves(func() { w.clicks(`#confirm [value=yes]`) })
		w.sees("Restore")
		w.opens("/sessions?state=trash")
		w.sees("Harbour wall")
		w.leaves(func() { w.clicks(`a[data-open-row]`) })
		w.clicks("#act-button")
		w.leaves(func() { w.clicks(`form[action$="/restore"] button`) })
		i, err := st.Session(t.Context(), tidemark.SessionID(id))
		if err != nil || i.Title != "Harbour wall" || i.State != store.Live {
			t.Errorf("%+v, %v", i, err)
		}
		w.leaves(func() { w.clicks(`form[action="/signout"] button`) })
		w.opens("/sessions/" + id)
		w.sees("tidemark open", "not", "Harbour wall")
	})
}

// order is the numbers of the entries on the page, from top to bottom.
func (w *window) order() []int64 {
	w.t.Helper()
	return asks[[]int64](w, `[...document.querySelectorAll("#entries [id^=e]")].filter((e) => /^e\d+$/.test(e.id)).map((e) => +e.id.slice(1))`)
}

// inOrder fails unless every number from first to last is there once.
func inOrder(t *testing.T, all []int64, first, last int64) {
	t.Helper()
	var want []int64
	for n := first; n <= last; n++ {
		want = append(want, n)
	}
	if !slices.Equal(all, want) {
		t.Errorf("%d entries %v, want %d to %d", len(all), all, first, last)
	}
}

func TestALongSessionOpensAtItsEndAndLoadsWhatIsOlder(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s *site) {
		const turns = 10_000
		out := s.of("a", "jo").Create(tidemark.Session{Title: "long"}, process.Self("talk"))
		for n := 0; n < turns; n += 1000 {
			var all []tidemark.Entry
			for m := n + 1; m <= n+1000; m++ {
				all = append(all, tidemark.Say(tidemark.User, fmt.Sprintf("question %d", m)), tidemark.Say(tidemark.Assistant, fmt.Sprintf("answer %d with `code` and\n\n```go\nfunc main() {}\n```\n", m)))
			}
			must[[]int64](t)(out.Append(t.Context(), all...))
		}
		if err := out.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		w := s.window(t)
		w.signsIn("a")
		w.opens("/sessions/" + string(out.ID()))
		w.until(`document.getElementById("newest").getBoundingClientRect().top <= innerHeight`)
		first := asks[float64](w, `performance.getEntriesByType("navigation")[0].domInteractive`)
		had := w.order()
		inOrder(t, had, had[0], 2*turns)
		if len(had) > 200 {
			t.Errorf("the page begins with %d entries", len(had))
		}
		asks[bool](w, `!(window.__long = [])`)
		for range 5 {
			before := w.order()[0]
			// Somebody turns the wheel until there is more.
			w.until(fmt.Sprintf(`(+document.querySelector("#entries [id^=e]").id.slice(1) < %d) || window.scrollBy(0, -200)`, before))
		}
		all := w.order()
		inOrder(t, all, all[0], 2*turns)
		t.Logf("the page was read after %.0f ms, long tasks while scrolling %v ms", first, asks[[]int](w, `window.__long || []`))
		w.opens("/sessions/" + string(out.ID()) + "#e777")
		w.until(`location.search.includes("at=777") && document.getElementById("e777").getBoundingClientRect().top < innerHeight`)
		// What is newer comes as well, without a gap.
		last := asks[int64](w, `Math.max(...[...document.querySelectorAll("#entries [id^=e]")].map((e) => +e.id.slice(1)))`)
		w.until(fmt.Sprintf(`document.getElementById("e%d") || window.scrollBy(0, 300)`, last+40))
		all = w.order()
		inOrder(t, all, all[0], all[len(all)-1])
	})
}

func TestAPageFollowsAWriterAndMissesNothingOverARestart(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s *site) {
		out := s.of("a", "jo").Create(tidemark.Session{Title: "live"}, process.Self("talk"))
		said := int64(0)
		say := func(n int) {
			t.Helper()
			for range n {
				said++
				must[[]int64](t)(out.Append(t.Context(), tidemark.Say(tidemark.User, fmt.Sprintf("number %d.", said))))
			}
		}
		say(3)
		w := s.window(t)
		w.signsIn("a")
		w.sees("live")
		w.opens("/sessions/" + string(out.ID()))
		w.until(`document.getElementById("e3")`)
		say(30)
		w.until(`document.getElementById("e33")`)
		inOrder(t, w.order(), 1, said)
		w.until(`document.getElementById("newest").getBoundingClientRect().top <= innerHeight`)
		s.end()
		say(10)
		w.until(`document.getElementById("banner").checkVisibility() && document.getElementById("banner").innerText.startsWith("Reconnecting")`)
		s.begin()
		say(10)
		w.until(`document.getElementById("e53") && !document.getElementById("banner").checkVisibility()`)
		say(1)
		w.until(`document.getElementById("e54")`)
		inOrder(t, w.order(), 1, said)
		// Whoever reads above stays there.
		asks[bool](w, `!window.scrollTo(0, 0)`)
		w.until(`scrollY === 0 && !document.querySelector(".to-newest").classList.contains("seen")`)
		say(1)
		w.until(`document.getElementById("e55")`)
		if at := asks[int](w, `scrollY`); at > 5 {
			t.Errorf("the page jumped to %d", at)
		}
		if err := out.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.of("a", "jo").Trash(t.Context(), out.ID()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestTwoTenantsInOneBrowserSeeTheirOwn(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s *site) {
		ids, windows := make(map[string]string), make(map[string]*window)
		for _, tenant := range []string{"a", "b"} {
			ids[tenant] = string(talk(t, s.of(tenant, "jo"), tidemark.Session{Title: "harbour of " + tenant}, 2))
			must[bool](t)(fleet.Over(s.of(tenant, "")).PutAgent(t.Context(), tidemark.Agent{Name: "agent-" + tenant, Status: tidemark.Idle}))
			windows[tenant] = s.window(t)
		}
		for tenant, w := range windows {
			w.signsIn(tenant)
		}
		for tenant, w := range windows {
			other := map[string]string{"a": "b", "b": "a"}[tenant]
			w.sees("harbour of "+tenant, "jo of "+tenant, "not", "harbour of "+other)
			w.fills("#q", "harbour")
			w.until(`document.querySelector("#list .found")`)
			w.sees("harbour of "+tenant, "not", "harbour of "+other)
			w.opens("/fleet")
			w.sees("agent-"+tenant, "not", "agent-"+other)
			for _, path := range []string{"", "/tree", "/part?before=3"} {
				w.opens("/sessions/" + ids[other] + path)
				w.sees("Nothing is here.", "not", "harbour of "+other, "answer 1")
			}
			w.opens("/fleet/agents/agent-" + other)
			w.sees("Nothing is here.")
			w.opens("/sessions/" + ids[tenant])
			w.sees("answer 2")
		}
	})
}
