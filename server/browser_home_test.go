package server

import (
	"fmt"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/process"
)

func TestTheFirstPageShowsAYearAndEachNumberLeadsToItsList(t *testing.T) {
	s := onSQLite(t)
	st := s.of("a", "jo")
	spent(t, st, tidemark.Session{Title: "barge", Project: "/srv/quay", Model: "tide-1"}, 3, 2)
	crane := spent(t, st, tidemark.Session{Title: "crane", Project: "/srv/quay", Model: "tide-2", Tool: "codex", ForeignID: "f1"}, 2, 7)
	if err := st.SetGone(t.Context(), crane, time.Now()); err != nil {
		t.Fatal(err)
	}
	old := st.Create(tidemark.Session{Title: "anchor", Project: "/home/jo/yard", Model: "tide-1"}, process.Self("talk"))
	ask := tidemark.Say(tidemark.User, "drop it")
	ask.At = time.Now().AddDate(0, 0, -60)
	must[[]int64](t)(old.Append(t.Context(), ask))
	go old.KeepAlive(t.Context(), nil)
	w := s.window(t)
	w.signsIn("a")
	// What is watched for this machine is told, and leads to where each folder is listed.
	w.opens("/")
	w.until(`document.querySelector('#home a[href="/store#sources"]').innerText === "2 folders of other tools watched" && document.querySelector('#home a.bad[href="/store#sources"]').innerText === "1 fails"`)
	w.leaves(func() { w.clicks(`#home a[href="/store#sources"]`) })
	w.sees("tidemark watch (pid 7 on quay)", "/mnt/old/.claude", "its disk may hang")
	titles := func() string {
		return asks[string](w, `[...document.querySelectorAll(".sessions [data-open-row]")].map((a) => a.innerText.trim()).sort().join(" ")`)
	}
	for _, step := range []struct{ days, link, number, want string }{
		{"30", ".sums li:nth-child(1) a", "2", "barge crane"}, {"90", ".sums li:nth-child(1) a", "3", "anchor barge crane"}, {"30", ".sums li:nth-child(2) a", "5", "barge crane"},
		{"30", ".sums li:nth-child(4) a", "$9.00", "barge crane"}, {"30", `.home-parts a[href*="tool=codex"]`, "codex", "crane"}, {"90", `.home-parts a[href*="tool=tidemark"]`, "tidemark", "anchor barge"},
		{"90", `.home-parts a[href*="project=%2Fsrv%2Fquay"]`, "quay", "barge crane"}, {"90", `.home-parts a[href*="model=tide-1"]`, "tide-1", "anchor barge"},
		{"30", `.now a[href*="gone"]`, "1", "crane"}, {"30", `.hours a`, "", "barge crane"}, {"30", `.heat a:last-of-type`, "", "barge crane"},
	} {
		w.opens("/?days=" + step.days)
		w.until(`document.querySelector(".heat")`)
		if got := asks[string](w, fmt.Sprintf(`(document.querySelector(%q).querySelector("b") || document.querySelector(%q)).textContent.trim()`, step.link, step.link)); step.number != "" && got != step.number {
			t.Errorf("%s says %q, want %s", step.link, got, step.number)
		}
		w.leaves(func() {
			asks[bool](w, fmt.Sprintf(`!document.querySelector(%q).dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true })) || true`, step.link))
		})
		if got := titles(); got != step.want {
			t.Errorf("%s of %s days leads to %q, want %q", step.link, step.days, got, step.want)
		}
	}
	// So does each number of a table, wherever in its row somebody clicks.
	w.opens("/?days=30")
	w.until(`document.querySelector(".heat")`)
	for cell := 2; cell <= 5; cell++ {
		if got := asks[string](w, fmt.Sprintf(`(() => {
			const cell = document.querySelector('.home-parts a[href*="tool=codex"]').closest("tr").querySelector(":nth-child(%d)");
			cell.scrollIntoView({ block: "center" });
			const at = cell.getBoundingClientRect(), link = document.elementFromPoint(at.right - 6, at.top + at.height / 2).closest("a");
			return link ? new URL(link.href).searchParams.get("tool") : "nowhere";
		})()`, cell)); got != "codex" {
			t.Errorf("the number in column %d of codex leads to %s", cell, got)
		}
	}
	w.opens("/")
	w.sees("Written to now", "anchor", "Most used")
	if n := w.count(".heat rect"); n < 53*7-6 || n > 53*7 {
		t.Errorf("the year has %d days", n)
	}
	if err := old.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestWhoSignsInComesToWhereTheyWanted(t *testing.T) {
	s := onSQLite(t)
	id := string(talk(t, s.of("a", "jo"), tidemark.Session{Title: "the crane"}, 3))
	w := s.window(t)
	w.opens("/sessions/" + id + "?at=2")
	w.sees("tidemark open", "not", "the crane")
	w.opens("/signin?tenant=a&code=" + s.doors["a"].NewCode())
	w.until(`location.pathname === "/sessions/` + id + `" && location.search === "?at=2"`)
	w.sees("answer 1")
	w.opens("/")
	w.until(`location.pathname === "/" && document.querySelector("#home")`)
}

func TestOpenPagesHearOfWhatWaitsAndWhatIsNew(t *testing.T) {
	s := onSQLite(t)
	st, agents := s.of("a", "jo"), s.agent(t)
	talk(t, st, tidemark.Session{Title: "the crane"}, 1)
	list, home := s.window(t), s.window(t)
	list.signsIn("a")
	home.signsIn("a")
	home.opens("/")
	home.until(`document.querySelector("#home .heat")`)
	asks[bool](list, `window.__here = true`)
	talk(t, st, tidemark.Session{Title: "the barge"}, 1)
	list.until(`document.querySelector(".sessions [data-open-row]").innerText === "the barge"`)

	// What somebody has chosen is not taken from them.
	list.clicks(`input[aria-label="Choose the barge"]`)
	askWrite(t, agents)
	for _, w := range []*window{list, home} {
		w.until(`document.title.startsWith("(1) ") && document.querySelector(".waits:not([hidden])")?.innerText === "1"`)
	}
	home.until(`document.querySelector(".now li:first-child b").innerText === "1"`)
	if !asks[bool](list, `window.__here && document.querySelector("input[name=id]:checked").value.length > 8`) {
		t.Error("the list was taken away")
	}
	if n := asks[int](list, `performance.getEntriesByType("resource").filter((e) => e.name.endsWith("/live")).length + document.querySelectorAll("[sse-connect]").length`); n > 2 {
		t.Errorf("a page has %d streams", n)
	}
}
