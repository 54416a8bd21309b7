package server

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/workshop/hostile"
)

// foreign is what stands in a page that none of its own templates wrote.
const foreign = `(() => {
	const found = [];
	if (window.__pwned) found.push("a script ran");
	for (const e of document.querySelectorAll("iframe,frame,object,embed,base,math,template,video,audio,portal,style,meta[http-equiv]"))
		if (!e.matches("template#older, template#newer, template#acts") || e.closest("[data-part], #drafts")) found.push(e.outerHTML.slice(0, 80));
	for (const e of document.querySelectorAll("script:not(head > script[data-then]:first-of-type),link,img"))
		if (!(e.matches("dialog#lightbox > img:not([src])") && !e.closest("[data-part], #drafts")) && !(e.src || e.href || "").startsWith(location.origin + "/assets/") && !(e.tagName === "IMG" && e.src.startsWith("data:image/"))) found.push(e.outerHTML.slice(0, 80));
	for (const e of document.querySelectorAll("form"))
		if (!e.action.startsWith(location.origin + "/")) found.push(e.outerHTML.slice(0, 80));
	for (const e of document.querySelectorAll("*"))
		for (const a of e.attributes)
			if (a.name.startsWith("on") || a.name === "style" && e !== document.documentElement) found.push(e.tagName + " " + a.name);
	for (const a of document.links)
		if (![":", "http:", "https:", "mailto:"].includes(a.protocol)) found.push(a.href.slice(0, 80));
	return found;
})()`

// TestHostileTranscriptsRunAndLoadNothing opens pages that are full of what
// should not get through. A window fails the test by itself when a page asks
// for something elsewhere, or its policy had to step in.
func TestHostileTranscriptsRunAndLoadNothing(t *testing.T) {
	s := onSQLite(t)
	st, agents := s.of("a", "jo"), s.agent(t)
	w := s.window(t)
	w.signsIn("a")
	sessions, entries := 20, 0
	if n, err := strconv.Atoi(os.Getenv("TIDEMARK_HOSTILE")); err == nil {
		sessions = max(1, n/10) // a third of thirty entries is such that a store takes it
	}
	clean := func(path string) {
		t.Helper()
		w.opens(path)
		if found := asks[[]string](w, foreign); len(found) > 0 {
			t.Errorf("%s: %.1000q", path, found)
		}
	}
	for seed := range uint64(sessions) {
		c := hostile.New(2_000_000 + seed)
		out := st.Create(tidemark.Session{Title: c.Disguise(c.Of(hostile.Payloads)), Agent: c.Of(hostile.Payloads), Model: c.Of(hostile.Payloads),
			Project: c.Of(hostile.Goals), Tags: []string{c.Of(hostile.Payloads), c.Of(hostile.Goals)}}, process.Self("talk"))
		for range 30 {
			e := tidemark.Entry{Kind: tidemark.KindMessage, Role: tidemark.Role(c.Of([]string{"user", "assistant", "tool", "system"})), Model: c.Of(hostile.Payloads)}
			for range 1 + c.IntN(3) {
				e.Blocks = append(e.Blocks, c.Block(0))
			}
			// What no store takes, no page has to show.
			if _, err := out.Append(t.Context(), e); err == nil {
				entries++
			}
		}
		if err := out.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if v, err := st.View(t.Context(), out.ID()); err == nil && v.Entries > 0 {
			_ = st.Label(t.Context(), out.ID(), v.Entries, c.Disguise(c.Of(hostile.Payloads)))
			clean(fmt.Sprintf("/sessions/%s?find=script", out.ID()))
		}
		j := must[tidemark.Job](t)(agents.RequestJob(t.Context(), fleet.JobRequest{Agent: "coder", Prompt: c.Text()}))
		run := runJob(t, agents, j.ID)
		put(t, run, c.Text(), c.Text())
		if err := agents.AskReview(t.Context(), fleet.Review{Job: j.ID, Agent: "coder", Call: c.Of(hostile.Payloads), Tool: c.Of(hostile.Payloads), Title: c.Text(), Input: []byte(c.Text())}); err != nil {
			t.Fatal(err)
		}
		if seed%8 == 0 {
			clean("/fleet/jobs/" + j.ID)
			clean("/fleet")
		}
		endJob(t, run)
	}
	for _, path := range []string{"/sessions", "/sessions?q=script", "/sessions?q=%3Cscript%3Ealert(1)%3C/script%3E", "/fleet/jobs?view=timeline", "/store", "/%3Cscript%3Ealert(1)%3C/script%3E"} {
		clean(path)
	}
	w.opens("/usage?by=project")
	w.until(`!document.querySelector("#counting")`)
	if found := asks[[]string](w, foreign); len(found) > 0 {
		t.Errorf("usage: %.1000q", found)
	}
	t.Logf("%d hostile entries in %d sessions", entries, sessions)
}

// TestTheWindowWouldHaveNoticed shows the watches of a window something to see.
func TestTheWindowWouldHaveNoticed(t *testing.T) {
	s := onSQLite(t)
	w := s.window(t)
	w.opens("/signin")
	asks[bool](w, `(() => { const i = new Image(); i.src = "http://127.0.0.1:9/x.png"; const c = document.createElement("script"); c.textContent = "window.__pwned = 1"; document.body.append(i, c); return true; })()`)
	w.until(`true`)
	if found := asks[[]string](w, foreign); len(found) < 2 {
		t.Errorf("found only %q", found)
	}
	w.noticed("policy: ")
}
