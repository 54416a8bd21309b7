package server

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/tidemark-sessions/tidemark"
)

// shifts is what moved by itself since the page was opened, as browsers reckon it. Entries
// far from the screen are as high as they look when they come near it; those of a session and
// of the list beside it are not told.
const shifts = `new Promise((done) => {
	const all = [], rect = (r) => [r.left, r.top, r.right, r.bottom].map(Math.round).join(" ");
	new PerformanceObserver((l) => { for (const e of l.getEntries()) for (const s of e.sources) if (!(s.node?.closest ? s.node : s.node?.parentElement)?.closest("#entries, #pane")) all.push((s.node?.id || s.node?.className || s.node?.nodeName) + " " + rect(s.previousRect) + " to " + rect(s.currentRect)); }).observe({ type: "layout-shift", buffered: true });
	requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => done(all.join("; ")), 50)));
})`

// rowsShown are the titles of a list, each with how far its columns are from those of the
// first row. On a phone an age begins where its words do, and a row may be older than the first one.
const rowsShown = `[...document.querySelectorAll(".sessions tbody tr")].map((tr, i, all) => tr.querySelector("[data-open-row]").textContent + " " +
	Math.max(...[...tr.cells].map((td, at) => td.querySelector("time") && td.textContent !== all[0].cells[at].textContent ? 0 : Math.round(Math.abs(td.getBoundingClientRect().left - all[0].cells[at].getBoundingClientRect().left))))).join(", ")`

// moved is what moves on a page each time that it is opened. A browser that has too much to do paints
// a page before all of it was read, and what it had painted of the header moves then.
func (w *window) moved(path string) (moved string) {
	w.t.Helper()
	for range 3 {
		if moved = asks[string](w, shifts); moved == "" {
			return ""
		}
		w.opens(path)
	}
	return moved
}

func TestWhatComesAfterThePageIsSeenMovesNothing(t *testing.T) {
	s := onSQLite(t)
	st := s.of("a", "jo")
	want := ""
	for n := range 25 {
		talk(t, st, tidemark.Session{Title: fmt.Sprintf("errand %d", n)}, 1)
		if want != "" {
			want = ", " + want
		}
		want = fmt.Sprintf("errand %d 0", n) + want
	}
	id := string(talk(t, st, tidemark.Session{Title: "long"}, 30))
	want = "long 0, " + want
	w := s.window(t)
	w.signsIn("a")
	for _, height := range []int64{800, 1500} {
		w.do(chromedp.EmulateViewport(1280, height))
		w.opens("/sessions")
		if got := asks[string](w, rowsShown); got != want {
			t.Errorf("the list has %s, want %s", got, want)
		}
		if n := w.count("noscript, .room"); n != 1 { // that of the theme
			t.Errorf("%d parts of the list are left over", n)
		}
		if n := asks[float64](w, `document.querySelectorAll(".sessions tbody .pick input").length`); n != 26 {
			t.Errorf("%v rows can be chosen", n)
		}
		if moved := w.moved("/sessions"); moved != "" {
			t.Errorf("the list moved in a window of %d: %s", height, moved)
		}
		w.opens("/sessions/" + id)
		if asks[string](w, `document.querySelector("#rail .facts code").textContent`) != id {
			t.Error("the rail is not there")
		}
		if moved := w.moved("/sessions/" + id); moved != "" {
			t.Errorf("the session moved in a window of %d: %s", height, moved)
		}
	}
	// A session that a script puts in the place of another one has all at once.
	w.until(`document.querySelector("#pane-list a[title^='errand 3']")`)
	w.clicks("#pane-list a[title^='errand 3']")
	w.until(`document.querySelector("h1").textContent === "errand 3" && document.querySelector("#rail #find")`)
}

func TestAllRowsOfAListAreThereWithoutScript(t *testing.T) {
	s := onSQLite(t)
	st := s.of("a", "jo")
	want := ""
	for n := range 20 {
		talk(t, st, tidemark.Session{Title: fmt.Sprintf("errand %d", n), Project: "/srv/quay", Model: "tide-1"}, 1)
		if want != "" {
			want = ", " + want
		}
		want = fmt.Sprintf("errand %d 0", n) + want
	}
	w := s.window(t)
	w.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
		return err
	}))
	w.signsIn("a")
	for _, width := range []int64{1280, 900, 360} {
		w.do(chromedp.EmulateViewport(width, 800))
		w.opens("/sessions")
		if got := asks[string](w, rowsShown); got != want {
			t.Errorf("at a width of %d the list has %s, want %s", width, got, want)
		}
		if gap := asks[float64](w, `(() => { const all = [...document.querySelectorAll(".sessions tbody tr")]; return all[16].getBoundingClientRect().top - all[15].getBoundingClientRect().bottom; })()`); gap < 0 || gap > 2 {
			t.Errorf("between the rows that come first and the others are %v pixels at a width of %d", gap, width)
		}
		w.keeps(fmt.Sprintf("list-noscript-%d", width))
	}
}

func TestWhatAScriptPutsIntoAPageHasAllOfItAtOnce(t *testing.T) {
	s, st := pagesServer(t)
	for n := range 20 {
		talk(t, st, tidemark.Session{Title: fmt.Sprintf("errand %d", n)}, 1)
	}
	for sent, later := range map[string]int{"Accept: text/html": 1, "HX-Request: true": 0} {
		a := s.call(t, "reader-a", "GET", "/sessions", nil, sent).want(t, 200)
		if n := strings.Count(string(a.Body), `<noscript class="later"`); n != later {
			t.Errorf("with %s, %d parts come later, want %d", sent, n, later)
		}
		if n := strings.Count(string(a.Body), "<tr data-row>"); n != 20 {
			t.Errorf("with %s, there are %d rows", sent, n)
		}
		if vary := a.Header.Get("Vary"); !strings.Contains(vary, "HX-Request") {
			t.Errorf("with %s, the answer depends on %s alone", sent, vary)
		}
	}
}
