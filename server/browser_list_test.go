package server

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/store"
)

// spent makes a session whose one answer cost something.
func spent(t *testing.T, st *store.Store, s tidemark.Session, entries int, usd float64) tidemark.SessionID {
	t.Helper()
	out := st.Create(s, process.Self("talk"))
	var all []tidemark.Entry
	for n := range entries {
		all = append(all, tidemark.Say(tidemark.User, fmt.Sprintf("lift crate %d", n)))
	}
	answer := tidemark.Say(tidemark.Assistant, "It is lifted.")
	answer.Model, answer.Usage = s.Model, &tidemark.Usage{InputTokens: int64(usd * 1000), CostUSD: usd}
	must[[]int64](t)(out.Append(t.Context(), append(all, answer)...))
	if err := out.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return out.ID()
}

func TestALongSessionDoesNotHideWhatTheOthersCost(t *testing.T) {
	s, st := pagesServer(t)
	for n := range 3 {
		spent(t, st, tidemark.Session{Title: fmt.Sprintf("short %d", n)}, 2, 1.25)
	}
	spent(t, st, tidemark.Session{Title: "long"}, 6000, 3)
	var v struct {
		Sessions []struct {
			Title string
			Usage struct {
				USD     *float64 `json:"cost_usd"`
				Partial bool
			}
		}
	}
	s.call(t, "reader-a", "GET", "/sessions.json", nil).want(t, 200).into(t, &v)
	if len(v.Sessions) != 4 || v.Sessions[0].Title != "long" || !v.Sessions[0].Usage.Partial {
		t.Fatalf("%+v: the long one is first, and not counted at once", v.Sessions)
	}
	for _, row := range v.Sessions[1:] {
		if row.Usage.USD == nil || *row.Usage.USD != 1.25 || row.Usage.Partial {
			t.Errorf("%s cost %v", row.Title, row.Usage)
		}
	}
}

func TestAListIsSortedNarrowedAndAddedUp(t *testing.T) {
	s := onSQLite(t)
	st := s.of("a", "jo")
	spent(t, st, tidemark.Session{Title: "barge", Project: "/srv/quay", Model: "tide-1", Agent: "coder"}, 3, 2)
	spent(t, st, tidemark.Session{Title: "anchor", Project: "/home/jo/yard", Model: "tide-2", Agent: "coder"}, 1, 3)
	dear := spent(t, st, tidemark.Session{Title: "crane", Project: "/srv/alley", Model: "tide-1", Agent: "mover", ForeignID: "rollout-77-crane", Tool: "codex"}, 2, 7)
	w := s.window(t)
	w.signsIn("a")
	order := func() string {
		return asks[string](w, `[...document.querySelectorAll(".sessions [data-open-row]")].map((a) => a.innerText.trim()).join(" ")`)
	}
	if got := order(); got != "crane anchor barge" {
		t.Errorf("the list is %q", got)
	}
	w.until(`document.getElementById("totals").innerText.includes("3 sessions")`)
	if got := asks[string](w, `document.getElementById("totals").innerText`); got != "3 sessions · 6 turns · 12k tokens · $12.00" {
		t.Errorf("the totals are %q", got)
	}
	for _, step := range []struct{ column, want string }{
		{"title", "anchor barge crane"}, {"title", "crane barge anchor"}, {"project", "crane barge anchor"}, {"model", "crane barge anchor"},
		{"turns", "barge crane anchor"}, {"tokens", "crane anchor barge"}, {"cost", "crane anchor barge"}, {"cost", "barge anchor crane"}, {"age", "crane anchor barge"}, {"age", "barge anchor crane"},
	} {
		w.leaves(func() { w.clicks(".sessions th.c-" + step.column + " a") })
		if got := order(); got != step.want {
			t.Errorf("by %s it is %q, want %q", step.column, got, step.want)
		}
	}
	w.opens("/sessions?model=tide-1&colour=red")
	if got := order(); got != "crane barge" {
		t.Errorf("of one model there are %q", got)
	}
	w.sees("does not count: colour")
	w.until(`document.getElementById("totals").innerText.includes("2 sessions")`)
	w.leaves(func() { w.clicks(`.scopes .chip`) })
	w.sees("anchor")

	// A short id and the id of another tool lead to the session.
	for _, name := range []string{string(dear)[:8], "rollout-77-crane"} {
		w.opens("/sessions/" + name)
		w.until(`location.pathname === "/sessions/` + string(dear) + `"`)
	}
	w.opens("/sessions/0000")
	w.sees("Nothing is here.")

	// Several are tagged, and thrown away, at once.
	w.opens("/sessions")
	for _, title := range []string{"barge", "anchor"} {
		w.clicks(`input[aria-label="Choose ` + title + `"]`)
	}
	w.until(`!document.getElementById("bulk").hidden && document.getElementById("bulk").innerText.includes("2 chosen")`)
	// They stay chosen when the list changes, also while somebody types beside it.
	dinghy := spent(t, st, tidemark.Session{Title: "dinghy"}, 1, 0)
	w.until(`document.getElementById("list").innerText.includes("dinghy")`)
	w.until(`!document.getElementById("bulk").hidden && document.getElementById("bulk").innerText.includes("2 chosen") && document.activeElement.matches("input[name=id]:checked")`)
	w.fills("#bulk [name=tags]", "wood, old")
	if err := st.Trash(t.Context(), dinghy); err != nil {
		t.Fatal(err)
	}
	asks[bool](w, `(document.activeElement.blur(), true)`)
	w.until(`!document.getElementById("list").innerText.includes("dinghy") && document.getElementById("bulk").innerText.includes("2 chosen") && document.querySelector("#bulk [name=tags]").value === "wood, old"`)
	w.leaves(func() { w.clicks(`#bulk [value=tags]`) })
	w.opens("/sessions?label=wood")
	if got := order(); got != "anchor barge" && got != "barge anchor" {
		t.Errorf("tagged are %q", got)
	}
	w.clicks(`[data-all=id]`)
	w.leaves(func() { w.clicks(`#bulk [value=trash]`) })
	w.sees("Moved to the trash: 2")
	w.opens("/sessions")
	if got := order(); got != "crane" {
		t.Errorf("left are %q", got)
	}
	// What was thrown away is taken back at once.
	w.clicks(`input[aria-label="Choose crane"]`)
	w.leaves(func() { w.clicks(`#bulk [value=trash]`) })
	w.sees("Moved to the trash: 1")
	w.leaves(func() { w.clicks(`#undo button`) })
	w.sees("Taken out of the trash: 1")
	if asks[bool](w, `document.querySelector("#undo button").checkVisibility()`) {
		t.Error("what was taken back can be taken back")
	}
	if got := order(); got != "crane" {
		t.Errorf("after that was taken back there are %q", got)
	}
}

// TestAllThatMatchAreChosenAtOnce has a list of more than a page.
func TestAllThatMatchAreChosenAtOnce(t *testing.T) {
	s := onSQLite(t)
	st := s.of("a", "jo")
	for n := range 45 {
		spent(t, st, tidemark.Session{Title: fmt.Sprintf("barge %d: oil/tar", n), Agent: "mover"}, 1, 0)
	}
	spent(t, st, tidemark.Session{Title: "anchor", Agent: "coder"}, 1, 0)
	w := s.window(t)
	w.signsIn("a")
	w.opens("/sessions?agent=mover")
	w.clicks(`input[name=id]`)
	w.until(`document.getElementById("bulk").innerText.includes("1 chosen")`)
	if asks[bool](w, `document.querySelector("#bulk [value=every]").checkVisibility()`) {
		t.Error("all that match are offered to who chose one")
	}
	w.clicks(`[data-all=id]`)
	w.until(`document.getElementById("bulk").innerText.includes("30 chosen")`)
	w.clicks(`#bulk [value=every]`)
	w.until(`document.getElementById("bulk").innerText.includes("45 chosen")`)

	// They come as one file, each with the words of its title.
	zipped := asks[string](w, `(async () => {
		const ids = await (await fetch(document.getElementById("bulk").dataset.names)).json();
		const r = await fetch("/sessions/zip", { method: "POST", body: new URLSearchParams({ ids: [...ids, "0000"].join(" ") }) });
		return btoa(String.fromCharCode(...new Uint8Array(await r.arrayBuffer())));
	})()`)
	packed := must[[]byte](t)(base64.StdEncoding.DecodeString(zipped))
	files := must[*zip.Reader](t)(zip.NewReader(bytes.NewReader(packed), int64(len(packed))))
	var names []string
	for _, f := range files.File {
		names = append(names, f.Name)
		in := must[io.ReadCloser](t)(f.Open())
		text := string(must[[]byte](t)(io.ReadAll(in)))
		switch f.Name {
		case "not-exported.txt":
			if !strings.HasPrefix(text, "0000: ") {
				t.Errorf("left out is %q", text)
			}
		default:
			if !strings.HasPrefix(f.Name, "barge-") || !strings.Contains(f.Name, "-oil-tar-") || !strings.Contains(text, "barge") {
				t.Errorf("%s has %.100q", f.Name, text)
			}
		}
	}
	if len(names) != 46 || !slices.Contains(names, "not-exported.txt") {
		t.Errorf("the file has %d: %q", len(names), names)
	}

	w.fills("#bulk [name=tags]", "wood")
	w.leaves(func() { w.clicks(`#bulk [value=tags]`) })
	w.sees("Tagged: 45")
	tagged := 0
	for i, err := range st.Sessions(t.Context(), store.Filter{Tag: "wood"}) {
		if err != nil {
			t.Fatal(err)
		}
		if tagged++; i.Agent != "mover" {
			t.Errorf("%s is tagged", i.Title)
		}
	}
	if tagged != 45 {
		t.Errorf("%d are tagged", tagged)
	}
	// What was newest is still there, and what was oldest not before it.
	if list := asks[string](w, `document.querySelector("#list table").innerText`); !strings.Contains(list, "barge 44:") || strings.Contains(list, "barge 0:") {
		t.Errorf("tagging turned the list round: %s", list)
	}
}

func TestAListIsNarrowedByWhatItsSessionsCost(t *testing.T) {
	s := onSQLite(t)
	st := s.of("a", "jo")
	spent(t, st, tidemark.Session{Title: "barge"}, 1, 2)
	spent(t, st, tidemark.Session{Title: "anchor"}, 1, 3)
	spent(t, st, tidemark.Session{Title: "dinghy"}, 1, 0.05)
	raft := st.Create(tidemark.Session{Title: "raft"}, process.Self("talk")) // nobody knows what it cost
	must[[]int64](t)(raft.Append(t.Context(), tidemark.Say(tidemark.User, "does it float?")))
	if err := raft.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	w := s.window(t)
	w.signsIn("a")
	w.until(`[...document.querySelectorAll("#totals .chip")].map((c) => c.textContent).join() === "< $0.10 1,$1–$10 2"`)
	w.leaves(func() { w.clicks("#totals .chip") })
	order := func() string {
		return asks[string](w, `[...document.querySelectorAll(".sessions [data-open-row]")].map((a) => a.innerText.trim()).join(" ")`)
	}
	if got := order(); got != "dinghy" {
		t.Errorf("of the cheap ones there are %q", got)
	}
	w.until(`document.querySelector("#totals .chip[aria-current]")`)
	w.leaves(func() { w.clicks("#totals .chip[aria-current]") })
	if got := order(); got != "raft dinghy anchor barge" {
		t.Errorf("all are %q", got)
	}
	w.opens("/sessions?cost=1-10&sort=title")
	if got := order(); got != "anchor barge" {
		t.Errorf("of the others there are %q", got)
	}
	w.opens("/sessions?cost=none")
	w.sees("want one of")
}

func TestASearchIsNarrowedByWhatItFound(t *testing.T) {
	s := onSQLite(t)
	st := s.of("a", "jo")
	spent(t, st, tidemark.Session{Title: "barge", Project: "/srv/quay", Model: "tide-1", Agent: "coder", Tags: []string{"wood"}}, 30, 2)
	out := st.Create(tidemark.Session{Title: "anchor", Project: "/home/jo/yard", Model: "tide-2"}, process.Self("talk"))
	failed := tidemark.Entry{Kind: tidemark.KindMessage, Role: tidemark.Tool, Blocks: []tidemark.Block{{Type: tidemark.BlockToolResult, ToolUseID: "a", Text: "no crate here", IsError: true}}}
	old := tidemark.Say(tidemark.User, "an old crate")
	old.At = time.Date(2024, 3, 9, 12, 0, 0, 0, time.UTC)
	must[[]int64](t)(out.Append(t.Context(), old, tidemark.Say(tidemark.User, "where is the crate?"), failed))
	if err := out.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	w := s.window(t)
	w.signsIn("a")
	w.until(`document.getElementById("totals").innerText.includes("2 sessions")`) // they are counted
	w.opens("/sessions?q=crate")
	w.sees("barge", "anchor", "All 30 in this session")
	w.until(`document.querySelector(".facets li a")`)
	facet := func(name string) string {
		return asks[string](w, fmt.Sprintf(`[...document.querySelectorAll(".facets section")].filter((s) => s.querySelector("h2").innerText === %q).map((s) => [...s.querySelectorAll("li")].map((l) => l.innerText.replace(/\s+/g, " ").trim()).join(", ")).join()`, name))
	}
	for name, want := range map[string]string{"Said by": "user 32, tool 1", "Project": "quay 30, yard 3", "Model": "tide-1 30, tide-2 3", "Tag": "wood 30", "Errors": "with an error 1", "Agent": "coder 30", "Cost of the session": "$1–$10 30"} {
		if got := facet(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for _, step := range []struct{ value, sees, not string }{{"quay", "barge", "anchor"}, {"tide-2", "anchor", "barge"}, {"with an error", "no crate here", "where is the crate"}, {"wood", "barge", "anchor"}, {"$1–$10", "barge", "anchor"}, {"2024-03-09", "an old crate", "where is the crate"}, {"tool", "no crate here", "barge"}} {
		w.opens("/sessions?q=crate")
		w.until(`document.querySelector(".facets li a")`)
		w.leaves(func() {
			asks[bool](w, fmt.Sprintf(`(() => { [...document.querySelectorAll(".facets li a")].find((a) => a.innerText.startsWith(%q)).click(); return true; })()`, step.value))
		})
		if !asks[bool](w, fmt.Sprintf(`document.querySelector(".found").innerText.includes(%q) && !document.querySelector(".found").innerText.includes(%q)`, step.sees, step.not)) {
			t.Errorf("%s leaves %q", step.value, asks[string](w, `document.querySelector(".found").innerText`))
		}
		// The same click takes it away again.
		w.until(`document.querySelector(".facets a[aria-current]")`)
		w.leaves(func() { w.clicks(".facets a[aria-current]") })
		w.sees("barge", "anchor")
	}
}
