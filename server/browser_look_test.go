package server

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/server/pages/web"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/transfer/link"
)

// furnished fills a site with something of everything, and returns the address
// of every page by its name.
func furnished(t *testing.T, s *site) map[string]string {
	t.Helper()
	ctx, st, agents := t.Context(), s.of("a", "jo"), s.agent(t)
	id := string(rich(t, st))
	long := tidemark.Session{Title: strings.Repeat("A title that goes on and on ", 7), Project: "/home/jo/" + strings.Repeat("deep/", 20), Agent: "coder", Model: "claude-opus", Tags: []string{"blue", "quay"}}
	talk(t, st, long, 1)
	talk(t, st, tidemark.Session{Title: "Moor the ferry at the new quay", Project: "/srv/quay", Agent: "coder", Model: "claude-opus"}, 12)
	must[[]int64](t)(st.Create(tidemark.Session{Title: "Somebody writes here now", Project: "/srv/quay", Model: "claude-sonnet"}, process.Self("talk")).Append(ctx, tidemark.Say(tidemark.User, "hi")))
	trashed := talk(t, st, tidemark.Session{Title: "thrown away \u05e9\u05dc\u05d5\u05dd \u202eevil\u200b"}, 1)
	if err := st.Trash(ctx, trashed); err != nil {
		t.Fatal(err)
	}
	failed := must[tidemark.Job](t)(agents.RequestJob(ctx, fleet.JobRequest{Agent: "coder", Prompt: "Look after the quay."}))
	run := runJob(t, agents, failed.ID)
	put(t, run, "looking around", strings.Repeat("wide", 100))
	if _, err := run.Finish(ctx, func(j *tidemark.Job) {
		j.Status, j.ExitReason, j.ErrorMessage, j.Turns = tidemark.JobFailed, tidemark.ExitError, "the tide was too high for the crane", 3
	}, nil, nil); err != nil {
		t.Fatal(err)
	}
	must[tidemark.Job](t)(agents.RequestJob(ctx, fleet.JobRequest{Agent: "coder", Prompt: "Later."}))
	job := askWrite(t, agents)
	put(t, job, "one line", "another line")
	users := tenant.NewDirectory(must[*store.Store](t)(s.open(ctx, tidemark.Operator())).Records())
	org := must[tenant.Tenant](t)(users.CreateTenant(ctx, tenant.Tenant{Name: "a"}))
	if _, _, err := users.CreateToken(ctx, tenant.Token{Tenant: org.ID, Name: "ci", Role: tenant.RoleReader}); err != nil {
		t.Fatal(err)
	}
	jo, _, err := users.UpsertUser(ctx, tenant.Claims{Tenant: org, Issuer: "https://id.example", Subject: "jo", Name: "Jo Tide", Role: tenant.RoleAdmin})
	if err != nil {
		t.Fatal(err)
	}
	must[tenant.Link](t)(users.PutLink(ctx, tenant.Link{Name: link.NewName(), Tenant: org.ID, User: jo.ID, ExpiresAt: time.Now().Add(24 * time.Hour)}, []byte("sealed")))
	return map[string]string{
		"home": "/", "sessions": "/sessions", "trash": "/sessions?state=trash", "search": "/sessions?q=tide", "search-none": "/sessions?q=nowhere",
		"session": "/sessions/" + id, "session-find": "/sessions/" + id + "?find=tide&at=2", "session-trash": "/sessions/" + string(trashed), "tree": "/sessions/" + id + "/tree",
		"fleet": "/fleet", "agent": "/fleet/agents/coder", "jobs": "/fleet/jobs", "timeline": "/fleet/jobs?view=timeline",
		"job": "/fleet/jobs/" + job.Job().ID, "job-failed": "/fleet/jobs/" + failed.ID,
		"usage": "/usage", "store": "/store", "audit": "/store/audit", "tokens": "/store/tokens", "users": "/store/users", "links": "/store/links", "user": "/store/users/" + jo.ID, "tenants": "/store/tenants",
		"missing": "/nowhere", "wrong": "/sessions?cursor=forged",
	}
}

// rich makes a session with all that a page can show of one.
func rich(t *testing.T, st *store.Store) tidemark.SessionID {
	t.Helper()
	ctx := t.Context()
	w := st.Create(tidemark.Session{Title: "Rebuild the tide table", Project: "/home/jo/harbour", Agent: "coder", Model: "claude-sonnet", Tags: []string{"harbour"}}, process.Self("talk"))
	answer := tidemark.Say(tidemark.Assistant, "Here is **the tide** table:\n\n| port | high |\n|---|---|\n| Kiel | 04:12 |\n\n```go\nfunc tide(h int) string { return fmt.Sprint(h) } // a comment\n```\n\n1. Read the gauge.\n2. Add an hour in summer.\n\n> Twice a day, and twice back.")
	answer.Model, answer.Usage = "claude-sonnet", &tidemark.Usage{InputTokens: 1200, OutputTokens: 340, CostUSD: 0.42}
	call := tidemark.Entry{Kind: tidemark.KindMessage, Role: tidemark.Assistant, Blocks: []tidemark.Block{{Type: tidemark.BlockThinking, Text: "The tide comes twice a day."}, tidemark.Text("I change the file."),
		{Type: tidemark.BlockToolUse, ID: "c1", Name: "edit", Input: json.RawMessage(`{"path":"tide.go","old_string":"high := 3\n","new_string":"high := 4\nlow := 1\n"}`)}}}
	result := tidemark.Entry{Kind: tidemark.KindMessage, Role: tidemark.Tool, Blocks: []tidemark.Block{{Type: tidemark.BlockToolResult, ToolUseID: "c1", Text: "done"}}}
	must[[]int64](t)(w.Append(ctx, tidemark.Say(tidemark.User, "When is the tide?\n\n"+strings.Repeat("wide", 150)), answer, tidemark.Say(tidemark.User, "Write it down."), call, result, tidemark.Say(tidemark.Assistant, "It is written.")))
	aside := tidemark.Say(tidemark.User, "And at Kiel alone?")
	aside.Parent = 2
	must[[]int64](t)(w.Append(ctx, aside, tidemark.Say(tidemark.Assistant, "At twelve past four."), tidemark.Say(tidemark.User, "Thank you."), tidemark.Say(tidemark.Assistant, "Fair winds.")))
	must[[]int64](t)(w.AppendTo(ctx, "scout", tidemark.Say(tidemark.Assistant, "I looked around")))
	must[store.File](t)(w.PutFile(ctx, "artifacts/table.txt", strings.NewReader("04:12")))
	if err := w.SaveCheckpoint(ctx, store.Checkpoint{Name: "before", Reason: "a pause"}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if err := st.Label(ctx, w.ID(), 2, "the table"); err != nil {
		t.Fatal(err)
	}
	return w.ID()
}

// shows sets the width of a window and whether it is dark.
func (w *window) shows(width int64, scheme string) {
	w.t.Helper()
	w.do(chromedp.EmulateViewport(width, 900), chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "screen",
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}})
		return err
	}))
}

// findings runs axe and names what it has to say; the rules are all of them, or
// those that depend on colours.
const findings = `axe.run(document, Object.assign({ resultTypes: ["violations"] }, %s)).then((r) => r.violations.map((v) => v.id + ": " + v.nodes.slice(0, 3).map((n) => n.target.join(" ") + " " + n.html.slice(0, 150) + " " + (n.any[0]?.message || "")).join("; ")))`

const (
	allRules    = `{}`
	colourRules = `{ runOnly: ["color-contrast", "link-in-text-block"] }`
)

// TestEveryPageFitsAndIsAccessible looks at each page on a phone, a tablet and a
// desk, in light, dark and high contrast. A page is loaded once, and turned into the
// others in place. All rules are asked at each width; in the other colours those that
// depend on colours, which is all that changes then, on a phone and on a desk. With
// TIDEMARK_EVERY_CASE, which make soak sets, all rules are asked everywhere.
func TestEveryPageFitsAndIsAccessible(t *testing.T) {
	s, _ := talking(t)
	w := s.window(t)
	axe, err := os.ReadFile(filepath.Join("..", "bin", "axe.min.js"))
	if err != nil {
		without(t, "no bin/axe.min.js: scripts/deps.sh brings it")
	}
	pages := furnished(t, s)
	w.opens("/signin")
	looked, opened := 0, 0
	look := func(name, path string) {
		t.Helper()
		w.shows(1280, "light")
		w.opens(path)
		if name == "usage" || name == "store" || strings.HasSuffix(name, "home") {
			w.until(`!document.querySelector("#counting, .task .live, #home[hx-trigger*=load]")`)
		}
		asks[bool](w, string(axe)+"\n;true")
		opened++
		for i, width := range []int64{360, 768, 1280} {
			for _, theme := range []string{"light", "dark", "contrast"} {
				// High contrast is chosen, and not told by the system; it is light or dark as that is.
				scheme := theme
				if theme == "contrast" {
					scheme = []string{"light", "dark"}[(opened+i)%2]
				}
				w.shows(width, scheme)
				asks[bool](w, fmt.Sprintf(`(() => { if (%q === "contrast") document.documentElement.dataset.theme = "contrast"; else delete document.documentElement.dataset.theme; return true; })()`, theme))
				if got := asks[int64](w, `document.documentElement.scrollWidth`); got > width {
					wide := asks[[]string](w, fmt.Sprintf(`[...document.querySelectorAll("main *, header *")].filter((e) => e.getBoundingClientRect().right > %d && !e.closest(".scroll, pre, .output")).slice(0, 4).map((e) => e.outerHTML.slice(0, 120))`, width))
					t.Errorf("%s at %d: the page is %d wide: %q", name, width, got, wide)
				}
				w.keeps(fmt.Sprintf("%s-%d-%s", name, width, theme))
				rules := colourRules
				switch {
				case theme == "light" || os.Getenv("TIDEMARK_EVERY_CASE") != "":
					rules = allRules
				case width == 768:
					continue
				}
				for _, f := range asks[[]string](w, fmt.Sprintf(findings, rules)) {
					t.Errorf("%s at %d %s: %s", name, width, theme, f)
				}
				looked++
			}
		}
	}
	look("signin", "/signin")
	look("refused", "/sessions")
	w.shows(1280, "light")
	w.signsIn("b")
	for _, name := range []string{"home", "sessions", "fleet", "jobs", "usage", "store"} {
		look("empty-"+name, pages[name])
	}
	look("denied", "/store/tenants")
	w.leaves(func() { w.clicks(`form[action="/signout"] button`) })
	w.signsIn("a")
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		look(name, pages[name])
	}
	// The choice itself holds from page to page.
	w.shows(1280, "light")
	w.opens("/sessions")
	w.leaves(func() {
		asks[bool](w, `(() => { const e = document.querySelector(".look select"); e.value = "contrast"; e.dispatchEvent(new Event("change", { bubbles: true })); return true; })()`)
	})
	w.opens("/fleet")
	if got := asks[string](w, `document.documentElement.dataset.theme || ""`); got != "contrast" {
		t.Errorf("the theme is %q", got)
	}
	t.Logf("axe looked %d times at %d pages", looked, opened)
}

func TestEveryTroubleHasWords(t *testing.T) {
	for _, status := range []int{400, 401, 403, 404, 409, 423, 500, 503} {
		for _, key := range []string{fmt.Sprintf("error.%d", status), fmt.Sprintf("error.%d.help", status)} {
			if web.Say("", key) == key {
				t.Errorf("there is no text %s", key)
			}
		}
	}
}

// keeps takes a picture, for somebody who wants to look: TIDEMARK_SCREENSHOTS
// is the folder for it.
func (w *window) keeps(name string) {
	w.t.Helper()
	folder := os.Getenv("TIDEMARK_SCREENSHOTS")
	if folder == "" {
		return
	}
	shot, err := chromedp.Run(w.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, name+".png"), shot, 0o600)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func TestEveryPageIsReadAndUsedWithoutScript(t *testing.T) {
	s := onSQLite(t)
	pages := furnished(t, s)
	many := string(talk(t, s.of("a", "jo"), tidemark.Session{Title: "many"}, 60))
	w := s.window(t)
	w.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
		return err
	}))
	w.signsIn("a")
	for name, text := range map[string]string{"sessions": "Rebuild the tide table", "trash": "thrown away", "search": "tide", "session": "Fair winds.", "session-find": "When is the tide?",
		"tree": "the table", "fleet": "Write a file", "agent": "nightly", "jobs": "coder", "timeline": "coder", "job": "another line", "job-failed": "too high",
		"store": "Somebody writes here now", "audit": "Audit", "tokens": "ci", "users": "Users", "tenants": "Tenants", "missing": "Nothing is here."} {
		w.opens(pages[name])
		w.sees(text)
		if asks[bool](w, `"htmx" in window`) {
			t.Fatal("scripts run")
		}
	}
	w.opens(pages["usage"])
	w.until(`document.querySelector("svg") || (document.querySelector("#counting a") && location.reload())`)
	w.opens("/sessions/" + many)
	w.sees("answer 60")
	w.until(`document.getElementById("newest").getBoundingClientRect().bottom <= innerHeight + 1`) // it opens at its end
	w.leaves(func() { w.clicks(".older a") })
	w.sees("answer 40", "not", "answer 60")
	w.clicks("#act-button")
	w.fills("#title", "named without a script")
	w.leaves(func() { w.clicks(`form[action$="/rename"] button`) })
	w.sees("named without a script")
	w.clicks("#act-button")
	w.leaves(func() { w.clicks(`form[action$="/trash"] button`) })
	w.sees("Restore")
	w.clicks("#act-button")
	w.leaves(func() { w.clicks(`form[action$="/restore"] button`) })
	w.opens("/sessions")
	w.fills("#q", "without")
	w.leaves(func() { w.clicks(`form[role=search] button`) })
	w.sees("named without a script", "not", "thrown away")
	w.opens(pages["fleet"])
	w.leaves(func() { w.clicks(`button[value=deny]`) })
	w.opens("/fleet/agents/coder")
	w.fills("#run-prompt", "Tidy up.")
	w.leaves(func() { w.clicks(`form[action$="/run"] button`) })
	w.leaves(func() { w.clicks(`form[action$="/cancel"] button`) })
	w.sees("cancelled")
	w.leaves(func() { w.clicks(`form[action="/signout"] button`) })
}
