package server

import (
	"fmt"
	"testing"

	"github.com/tidemark-sessions/tidemark"
)

func TestAgesGoOnAndTimesAreToldInTheReadersZone(t *testing.T) {
	s := onSQLite(t)
	id := talk(t, s.of("a", "jo"), tidemark.Session{Title: "the crane"}, 1)
	w := s.window(t)
	w.signsIn("a")
	w.opens("/sessions/" + string(id))
	w.until(`/ago$|^now$/.test(document.querySelector("#e1 time").textContent)`)
	asks[bool](w, `(() => { const now = Date.now; Date.now = () => now() + 2 * 36e5; return true; })()`)
	w.until(`document.querySelector("#e1 time").textContent === "2 h ago"`)
	if told := asks[string](w, `(() => {
		const t = document.querySelector("#e1 time");
		t.dispatchEvent(new PointerEvent("pointerover", { bubbles: true }));
		const want = new Date(t.dateTime).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "long" });
		return t.title === want && t.title !== t.dateTime ? "" : t.title + ", want " + want;
	})()`); told != "" {
		t.Errorf("the exact time is %s", told)
	}
}

func TestWhoIsSignedOutComesBackToTheEntryThatTheyRead(t *testing.T) {
	s := onSQLite(t)
	id := string(talk(t, s.of("a", "jo"), tidemark.Session{Title: "the crane"}, 3))
	w := s.window(t)
	w.signsIn("a")
	w.opens("/sessions/" + id + "?at=4#e4")
	w.until(`document.getElementById("e4")`)
	asks[bool](w, `fetch("/signout", { method: "POST" }).then(() => true)`)
	s.end() // the page notices at the latest when its stream is to be opened again
	s.begin()
	w.until(`!document.querySelector("#banner a").hidden`)
	if got, want := asks[string](w, `new URL(document.querySelector("#banner a").href).searchParams.get("next")`), "/sessions/"+id+"?at=4#e4"; got != want {
		t.Errorf("Sign in again leads to %q, want %q", got, want)
	}
}

func TestTheOpenSessionIsInSightInTheListBesideIt(t *testing.T) {
	s := onSQLite(t)
	st := s.of("a", "jo")
	var first, middle tidemark.SessionID
	for n := range 40 {
		id := talk(t, st, tidemark.Session{Title: fmt.Sprintf("errand %d", n)}, 1)
		switch n {
		case 0:
			first = id
		case 20:
			middle = id
		}
	}
	w := s.window(t)
	w.signsIn("a")
	w.opens("/sessions/" + string(first))
	const inSight = `(() => {
		const pane = document.getElementById("pane"), open = pane.querySelector("[aria-current]");
		if (!open) return false;
		const row = open.getBoundingClientRect(), list = pane.getBoundingClientRect();
		return row.top >= list.top - 1 && row.bottom <= Math.min(list.bottom, innerHeight) + 1;
	})()`
	w.until(inSight + ` && document.querySelector("#pane [aria-current]").innerText.includes("errand 0")`)

	// It stays there when the list grows on top of it, also at the lower edge.
	w.leaves(func() { w.opens("/sessions/" + string(middle)) })
	w.until(inSight + ` && document.querySelector("#pane [aria-current]").innerText.includes("errand 20")`)
	asks[bool](w, `(() => { const pane = document.getElementById("pane"), row = pane.querySelector("[aria-current]").getBoundingClientRect(); pane.scrollTop -= Math.min(pane.getBoundingClientRect().bottom, innerHeight) - row.bottom - 2; return true; })()`)
	for n := range 3 {
		title := fmt.Sprintf("new errand %d", n)
		talk(t, st, tidemark.Session{Title: title}, 1)
		w.until(fmt.Sprintf(`document.querySelector("#pane li").innerText.includes(%q) && `, title) + inSight)
	}
}
