package server

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
)

// jobHere is the job whose page a window shows.
func (w *window) jobHere() string {
	w.t.Helper()
	id, ok := strings.CutPrefix(strings.Split(w.where(), "?")[0], "/fleet/jobs/")
	if !ok {
		w.t.Fatalf("%s is no page of a job", w.where())
	}
	return id
}

func (s *site) answered(t *testing.T, job string) string {
	t.Helper()
	v, err := fleet.Over(s.of("a", "")).Review(t.Context(), job, "call/1?")
	if err != nil {
		t.Fatal(err)
	}
	return v.State
}

func (s *site) agent(t *testing.T) *fleet.Store {
	t.Helper()
	st := fleet.Over(s.of("a", ""))
	must[bool](t)(st.PutAgent(t.Context(), tidemark.Agent{Name: "coder", Status: tidemark.Idle}))
	must[bool](t)(st.PutSchedule(t.Context(), tidemark.Schedule{Agent: "coder", Name: "nightly", Status: tidemark.Idle, Cron: "0 3 * * *", Prompt: "Tidy up."}))
	return st
}

func TestABrowserRunsWatchesAndCancelsJobsAndAnswersReviews(t *testing.T) {
	onEveryStore(t, func(t *testing.T, s *site) {
		st := s.agent(t)
		w := s.window(t)
		w.signsIn("a")
		w.opens("/fleet/agents/coder")
		w.fills("#run-prompt", "Tidy the quay.")
		w.leaves(func() { w.clicks(`form[action$="/run"] button`) })
		w.sees("Tidy the quay.", "pending")
		id := w.jobHere()
		run := runJob(t, st, id)
		put(t, run, "one line", "another line")
		w.sees("running", "one line", "another line")
		put(t, run, "a third")
		w.sees("a third")
		endJob(t, run)
		w.sees("completed")
		if n := w.count(`#output [id^="e"]`); n != 3 {
			t.Errorf("%d lines of output, want 3", n)
		}
		w.leaves(func() { w.clicks(`form[action$="/retry"] button`) })
		again := w.jobHere()
		if again == id {
			t.Fatal("a job was not repeated")
		}
		w.clicks(`form[action$="/cancel"] button`)
		w.until(`document.getElementById("confirm").open`)
		w.leaves(func() { w.clicks(`#confirm [value=yes]`) })
		w.sees("cancelled")
		if j, err := st.Job(t.Context(), again); err != nil || j.Status != tidemark.JobCancelled {
			t.Errorf("%+v, %v", j, err)
		}
		for answer, state := range map[string]string{"approve": fleet.ReviewApproved, "deny": fleet.ReviewDenied} {
			asked := askWrite(t, st).Job().ID
			w.opens("/fleet")
			w.sees("Write a file", "two</script>")
			if answer == "approve" {
				// What was approved by mistake can be taken back: when its time comes,
				// nothing is sent.
				asks[bool](w, `!!(window.__timer = setTimeout) && !!(window.setTimeout = (then, ms) => ms === 4000 ? (window.__due = then, 0) : __timer(then, ms))`)
				w.clicks(`button[value=approve]`)
				w.until(`!document.getElementById("undo").hidden && document.getElementById("undo").innerText.startsWith("Approved:") && window.__due`)
				w.types("u")
				w.until(`document.getElementById("undo").hidden`)
				asks[bool](w, `window.__due().then(() => !!(window.setTimeout = __timer))`)
				if got := s.answered(t, asked); got != fleet.ReviewWaiting {
					t.Errorf("taken back, it is %s", got)
				}
			}
			if answer == "approve" {
				// What the server does not take is told, and no page comes that looks as if it had.
				asks[bool](w, `!!(document.querySelector("[name=shown]").value = "another") && !!(window.setTimeout = (then, ms) => __timer(then, ms === 4000 ? 0 : ms))`)
				w.clicks(`button[value=approve]`)
				w.until(`!document.getElementById("undo").hidden && document.getElementById("undo").innerText.startsWith("Not approved")`)
				w.opens("/fleet")
			}
			w.clicks(`button[value=` + answer + `]`)
			w.until(`document.querySelector("#waiting")?.hidden`)
			if got := s.answered(t, asked); got != state {
				t.Errorf("%s: it is %s", answer, got)
			}
		}
		w.opens("/fleet/jobs")
		w.sees(id, again)
		w.opens("/fleet/jobs?view=timeline")
		w.until(`document.querySelector("svg.timeline .bar")`)
	})
}

// tabsTo presses Tab until something has the focus.
func (w *window) tabsTo(selector string) {
	w.t.Helper()
	for range 300 {
		if asks[bool](w, `document.activeElement.matches(`+quoted(selector)+`)`) {
			return
		}
		w.types(kb.Tab)
	}
	w.t.Fatalf("Tab never comes to %s on %s", selector, w.where())
}

// selectAll marks what the field with the focus holds.
var selectAll = chromedp.KeyEvent("a", chromedp.KeyModifiers(chromedp.ModifierCtrl))

func quoted(s string) string { return "`" + s + "`" }

func TestEveryTaskIsDoneWithTheKeyboardAlone(t *testing.T) {
	s := onSQLite(t)
	st, agents := s.of("a", "jo"), s.agent(t)
	talk(t, st, tidemark.Session{Title: "first"}, 2)
	id := string(talk(t, st, tidemark.Session{Title: "second"}, 3))
	w := s.window(t)
	w.opens("/signin")
	w.tabsTo("#token")
	w.types("the secret of tenant a")
	w.leaves(func() { w.types(kb.Enter) })
	w.sees("first", "second")
	focused := func(text string) {
		t.Helper()
		w.until(`document.activeElement.innerText.includes(` + quoted(text) + `)`)
		if !asks[bool](w, `(() => { const c = getComputedStyle(document.activeElement); return c.outlineStyle !== "none" && c.outlineWidth !== "0px"; })()`) {
			t.Errorf("the focus on %s is not to be seen", text)
		}
	}
	w.types("?")
	w.until(`document.getElementById("keys").open`)
	w.types(kb.Escape)
	w.until(`!document.getElementById("keys").open`)
	w.types("j")
	focused("second")
	w.types("j")
	focused("first")
	w.types("k")
	focused("second")
	w.leaves(func() { w.types("o") })
	w.until(`location.pathname.endsWith(` + quoted(id) + `)`)
	w.leaves(func() { w.types("b") })
	w.types("/")
	w.types("question 3")
	w.until(`document.querySelector("#list .found")`)
	w.types(kb.Escape)
	w.types("j")
	w.leaves(func() { w.types("o") })
	w.until(`location.search.includes("at=5")`)

	menu := func() {
		t.Helper()
		w.types("m")
		w.until(`document.querySelector("#act:popover-open")`)
	}
	act := func(field, text, button string) {
		t.Helper()
		menu()
		w.tabsTo(field)
		w.do(selectAll)
		w.types(text)
		w.tabsTo(button)
		w.leaves(func() { w.types(kb.Enter) })
	}
	act("#title", "renamed", `form[action$="/rename"] button`)
	w.sees("renamed")
	act("#tags", "blue, red", `form[action$="/tags"] button`)
	w.sees("blue")
	act("#at", "2", `button[formaction$="/label"]`)
	w.sees("say what it is called")
	w.opens("/sessions/" + id)
	menu()
	w.tabsTo("#at")
	w.types("2" + kb.Tab + "a mark")
	w.tabsTo(`button[formaction$="/label"]`)
	w.leaves(func() { w.types(kb.Enter) })
	w.sees("a mark")
	w.opens("/sessions/" + id)
	act("#at", "2", `button[formaction$="/branch"]`)
	w.until(`document.getElementById("e2") && !document.getElementById("e6")`)
	w.tabsTo(`svg a[href*="node=n2"]`)
	w.leaves(func() { w.types(kb.Enter) })
	w.until(`document.getElementById("e6")`)
	w.opens("/sessions/" + id)
	act("#at", "4", `form[action$="/fork"] .actions button:first-child`)
	w.until(`!location.pathname.endsWith(` + quoted(id) + `)`)
	menu()
	w.tabsTo(`form[action$="/trash"] button`)
	w.types(kb.Enter)
	w.until(`document.getElementById("confirm").open`)
	w.leaves(func() { w.types(kb.Enter) })
	menu()
	w.tabsTo(`form[action$="/restore"] button`)
	w.leaves(func() { w.types(kb.Enter) })
	menu()
	w.tabsTo(`form[action$="/trash"] button`)

	w.goes("gf")
	w.until(`location.pathname === "/fleet"`)
	w.types("j")
	focused("coder")
	w.leaves(func() { w.types("o") })
	w.types("r")
	w.types("Tidy up.")
	w.tabsTo(`form[action$="/run"] button`)
	w.leaves(func() { w.types(kb.Enter) })
	w.jobHere()
	w.types("x")
	w.until(`document.getElementById("confirm").open`)
	w.leaves(func() { w.types(kb.Enter) })
	w.sees("cancelled")
	w.leaves(func() { w.types("r") })
	w.types("x")
	w.until(`document.getElementById("confirm").open`)
	w.leaves(func() { w.types(kb.Enter) })
	w.types("f")
	w.tabsTo("#fork-prompt")
	w.types("another way")
	w.tabsTo(`form[action$="/fork"] button`)
	w.leaves(func() { w.types(kb.Enter) })
	w.sees("another way")
	for key, state := range map[string]string{"a": fleet.ReviewApproved, "d": fleet.ReviewDenied} {
		job := askWrite(t, agents).Job().ID
		w.opens("/fleet")
		w.sees("Write a file")
		w.types(key)
		if key == "a" {
			w.until(`document.activeElement.value === "approve"`) // one key alone gives nothing away
			w.types(kb.Enter)
		}
		w.until(`document.querySelector("#waiting")?.hidden`)
		if got := s.answered(t, job); got != state {
			t.Errorf("%s: it is %s", key, got)
		}
	}
	w.goes("gu")
	w.sees("Usage")
	w.goes("gt")
	w.leaves(func() { w.types("v") })
	w.until(`location.pathname === "/store"`)
	w.goes("gs")
	w.tabsTo(`form[action="/signout"] button`)
	w.leaves(func() { w.types(kb.Enter) })
	w.until(`location.pathname === "/signin"`)
}
