package server

import (
	"fmt"
	"net/url"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/process"
)

func TestSessionsAreReadBesideTheirList(t *testing.T) {
	s := onSQLite(t)
	st := s.of("a", "jo")
	for n := range 12 {
		talk(t, st, tidemark.Session{Title: fmt.Sprintf("errand %d", n), Agent: "codex", Project: "/srv/quay"}, 1)
	}
	live := st.Create(tidemark.Session{Title: "the crane", Project: "/srv/harbour", Agent: "claude-code"}, process.Self("talk"))
	must[[]int64](t)(live.Append(t.Context(), tidemark.Say(tidemark.User, "lift it")))
	w := s.window(t)
	w.signsIn("a")
	if tall := asks[[]int](w, `[...document.querySelectorAll(".sessions tbody tr")].map((r) => Math.round(r.getBoundingClientRect().height)).filter((h) => h > 38)`); len(tall) > 0 {
		t.Errorf("rows are %v high", tall)
	}
	if n := w.count(".sessions .badge"); n != 1 {
		t.Errorf("%d states are told; all but one session are done", n)
	}

	// Words lead to a session from anywhere.
	w.do(chromedp.KeyEvent("k", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	w.until(`document.getElementById("palette").open && document.querySelectorAll("#palette [role=option]").length > 5`)
	// Before anything is typed there are the newest sessions, what can be done and all pages.
	for group, want := range map[string]string{"Sessions": "the crane", "Actions": "Colours: Dark", "Pages": "Usage"} {
		w.until(fmt.Sprintf(`[...document.querySelectorAll("#palette ul:not([hidden])")].some((g) => g.getAttribute("aria-label") === %q && g.innerText.includes(%q))`, group, want))
	}
	w.types("keys")
	w.until(`document.querySelector("#palette [aria-selected=true]").innerText === "Keys"`)
	w.enters()
	w.until(`document.getElementById("keys").open && !document.getElementById("palette").open`)
	w.types(kb.Escape)
	w.until(`!document.getElementById("keys").open`)
	w.do(chromedp.KeyEvent("k", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	w.until(`document.getElementById("palette").open`)
	w.types("errand 7")
	w.until(`document.querySelectorAll("#palette [role=option]").length === 2 && document.querySelector("#palette [aria-selected=true]").innerText.includes("errand 7")`)
	w.leaves(func() { w.types(kb.Enter) })
	w.until(`document.querySelector("#session h1").innerText === "errand 7"`)

	// The list stands beside it, and leads to another one without a page load.
	w.until(`document.querySelectorAll("#pane li").length === 13 && document.querySelector("#pane [aria-current]").innerText.includes("errand 7")`)
	if got := asks[string](w, `document.querySelector("#pane > ol + p a").getAttribute("href")`); got != "/sessions" {
		t.Errorf("the list ends, and leads to %q for the rest", got)
	}
	asks[bool](w, `window.__here = true`)
	w.clicks("#pane li:first-child a")
	w.until(`document.querySelector("#session h1").innerText === "the crane" && document.querySelector("#pane [aria-current]").innerText.includes("the crane") && location.pathname.endsWith(` + quoted(string(live.ID())) + `)`)
	must[[]int64](t)(live.Append(t.Context(), tidemark.Say(tidemark.Assistant, "it is lifted")))
	w.until(`document.getElementById("e2")`)
	w.types(kb.ArrowDown)
	w.until(`document.activeElement.matches("#pane li:nth-child(2) a")`)
	w.types(kb.Enter)
	w.until(`document.querySelector("#session h1").innerText === "errand 11"`)
	if !asks[bool](w, `window.__here`) {
		t.Error("a page was loaded")
	}
	must[[]int64](t)(live.Append(t.Context(), tidemark.Say(tidemark.User, "now lower it")))
	w.fills("#pane input", "crane")
	w.until(`document.querySelectorAll("#pane li").length === 1`)
	w.sees("not", "now lower it")
	asks[bool](w, `!history.back()`)
	w.until(`document.querySelector("#session h1") && document.querySelector("#session h1").innerText === "the crane" && document.getElementById("e3")`)

	// Colours are chosen, and stay.
	ground := func() string { return asks[string](w, `getComputedStyle(document.body).backgroundColor`) }
	for theme, want := range map[string]string{"dark": "rgb(20, 23, 26)", "light": "rgb(255, 255, 255)"} {
		w.leaves(func() {
			asks[bool](w, fmt.Sprintf(`(() => { const e = document.querySelector(".look select"); e.value = %q; e.dispatchEvent(new Event("change", { bubbles: true })); return true; })()`, theme))
		})
		w.opens("/usage")
		if got := ground(); got != want {
			t.Errorf("%s is %s", theme, got)
		}
	}
	if err := live.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestAThemeLeadsNowhereElse(t *testing.T) {
	s, _ := pagesServer(t)
	for back, want := range map[string]string{"/usage?by=model": "/usage?by=model", "": "/", "//evil.example": "/", `/\evil.example`: "/", "https://evil.example/": "/", "/a\r\nb": "/"} {
		res := s.send(t, "reader-a", "/look", url.Values{"theme": {"dark"}, "back": {back}})
		if got := res.Header.Get("Location"); got != want || len(res.Cookies()) != 1 || res.Cookies()[0].Value != "dark" {
			t.Errorf("%q leads to %q with %v", back, got, res.Cookies())
		}
	}
	if c := s.send(t, "reader-a", "/look", url.Values{"theme": {`"><script>`}}).Cookies(); len(c) != 1 || c[0].Value != "" || c[0].MaxAge >= 0 {
		t.Errorf("an unknown theme leaves %v", c)
	}
	lacks(t, s.read(t, "reader-a", "/palette?q=%3Cscript%3E", 200), "<script>")
	s.read(t, "nobody", "/pane", 401)
}

// The order is told by the browser's own times. Where a page was not painted for some
// seconds, its script does not wait any longer.
func TestAPageIsPaintedBeforeItsScriptIsLoaded(t *testing.T) {
	s := onSQLite(t)
	w := s.window(t)
	w.signsIn("a")
	for _, path := range []string{"/", "/sessions", "/fleet"} {
		w.opens(path)
		if why := asks[string](w, `(() => {
			const at = (name) => performance.getEntriesByType("resource").find((e) => new URL(e.name).pathname === "/assets/" + name)?.startTime;
			const painted = performance.getEntriesByName("first-contentful-paint")[0]?.startTime, parsed = performance.getEntriesByType("navigation")[0].domContentLoadedEventStart;
			
			return painted <= at("script.js") || at("script.js") - parsed >= 3000 ? "" : "painted at " + painted + ", script at " + at("script.js");
		})()`); why != "" {
			t.Errorf("%s: %s", path, why)
		}
		// What begins with the script works, and the page is as loaded as it says.
		w.until(`document.readyState === "complete" && document.querySelector("[sse-connect]")["htmx-internal-data"].sseEventSource`)
		w.types("?")
		w.until(`document.getElementById("keys").open`)
	}
}
