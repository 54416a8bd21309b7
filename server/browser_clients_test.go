package server

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/transfer"
)

// picturesIn is where make pictures wants those of the guide.
var picturesIn = flag.String("pictures", "", "a folder for the pictures of README and guide; without it none are taken")

// samples are homes of clients in which calc.py is mended: a file is read, edited
// and tested.
var samples = []string{"claude-code/2.1.197", "codex/0.98.0", "opencode/1.18.33", "kilo-cli/7.7.9", "gemini-cli/0.61.0", "qwen-code/0.24.4", "copilot-cli/1.0.102",
	"pi/0.73.1", "continue-cli/1.5.47", "kimi-code/2.1.0", "factory-droid/0.225.2", "cline/3.0.65"}

func TestSessionsOfEveryClientAreShown(t *testing.T) {
	s, _ := talking(t)
	st := s.of("a", "jo")
	for _, sample := range samples {
		// What cannot be taken is told by the tests of transfer.
		if _, err := transfer.Import(t.Context(), st, filepath.Join("..", "convert", "testdata", sample), nil); err != nil {
			t.Logf("%s: %v", sample, err)
		}
	}
	w := s.window(t)
	w.signsIn("a")
	seen, shown := make(map[string]bool), ""
	for i, err := range st.Sessions(t.Context(), store.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(i.Title, "mean function") && !strings.HasPrefix(i.Title, "New session") || seen[i.Tool] {
			continue
		}
		w.opens("/sessions/" + string(i.ID))
		w.until(`document.querySelector("#entries .said")`)
		if !asks[bool](w, `document.querySelector("#entries").textContent.includes("sum(xs) / len(xs)")`) {
			continue // another one of this client has it
		}
		seen[i.Tool] = true
		if i.Tool == "claude-code" {
			shown = "/sessions/" + string(i.ID)
		}
		for what, wrong := range map[string]string{
			"no call":                      `!document.querySelector(".call")`,
			"a result without its call":    `document.querySelector("[data-result]")`,
			"a call without a result":      `document.querySelector("[data-call]")`,
			"no diff, and no command":      `!document.querySelector(".diff ins, .call svg path[d^='M2.5 3.5h11v9']")`,
			"a tool that nobody knows":     `[...document.querySelectorAll(".call svg path")].some((p) => p.getAttribute("d").startsWith("M8 2.75 12.75"))`,
			"a call that says nothing":     `[...document.querySelectorAll(".call summary code")].some((c) => !c.textContent.trim())`,
			"a page that is too wide":      `document.documentElement.scrollWidth > innerWidth`,
			"context that is not one line": `document.querySelector("#entries > .run + .run")`,
			"a prompt that is not one":     `document.querySelectorAll(".said.user").length === 0 || document.querySelectorAll(".said.user").length > 8`,
		} {
			if asks[bool](w, "!!("+wrong+")") {
				t.Errorf("%s: %s: %s", i.Tool, i.Title, what)
			}
		}
		w.keeps("client-" + i.Tool)
	}
	if len(seen) < len(samples)-1 {
		t.Errorf("sessions of %d of %d clients were looked at: %v", len(seen), len(samples), seen)
	}
	if *picturesIn != "" {
		s.pictures(t, w, shown)
	}
}

// pictures takes those of the guide, light and dark.
func (s *site) pictures(t *testing.T, w *window, session string) {
	t.Helper()
	pages := furnished(t, s)
	st := s.of("a", "jo")
	for i, err := range st.Sessions(t.Context(), store.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		// Placeholders, and what needs fonts that not every machine has.
		if strings.Contains(strings.ToLower(i.Title), "xxx") || strings.ContainsFunc(i.Title, func(r rune) bool { return r > 0x24f && r != '…' }) {
			if err := st.Trash(t.Context(), i.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	const wide, phone = 1280, 390
	for _, p := range []struct {
		name, path, ready, js string
		width                 int64
	}{
		{"fleet", "/fleet", `document.querySelector(".review")`, "", wide},
		{"phone", session, `document.querySelector("#entries .said")`, `scrollTo(0, 0)`, phone},
		{"talk", session, `document.querySelector(".question") && document.querySelectorAll("#pane li").length > 10`, `for (const e of document.querySelectorAll(".said.user .text, .outline a")) e.textContent = e.textContent.split("[[")[0]; document.querySelector("#newest").scrollIntoView({ block: "end" })`, wide}, // without the marks of the stand-in
		{"sessions", "/sessions", `document.querySelectorAll(".sessions tr").length > 10`, "", wide},
		{"session", session, `document.querySelectorAll("#pane li").length > 10`, `scrollTo(0, 0)`, wide},
		{"changes", session, `document.querySelectorAll("#pane li").length > 10`, `document.querySelectorAll(".call").forEach((c, i) => { c.open = i < 3; }); scrollTo(0, 0)`, wide},
		{"search", "/sessions?q=mean", `document.querySelector("mark")`, "", wide},
		{"job", pages["job"], `document.querySelector(".review, .output")`, "", wide},
		{"usage", "/usage", `document.querySelector(".chart svg") && !document.querySelector("#counting")`, "", wide},
		{"home", "/", `document.querySelector(".heat") && !document.querySelector("#counting, #home[hx-trigger*=load]")`, "", wide},
	} {
		if p.name == "home" {
			aYear(t, st)
			for till := time.Now().Add(patient); time.Now().Before(till); { // it is counted behind the page
				w.opens("/")
				w.until(p.ready)
				if w.count(".heat a") > 100 {
					break
				}
			}
		}
		if p.name == "talk" {
			w.shows(wide, "light")
			w.opens(p.path)
			w.says(`Write down what you changed. [[fake call write {"path":"CHANGES.md","content":"# Changes\n\n- mean() divides by the number of values."}]]`)
		}
		for suffix, scheme := range map[string]string{"": "light", "-dark": "dark"} {
			w.shows(p.width, scheme)
			w.opens(p.path)
			w.until(p.ready)
			if p.js != "" {
				asks[bool](w, fmt.Sprintf(`(() => { %s; return true; })()`, p.js))
			}
			shot, err := chromedp.Run(w.ctx, chromedp.CaptureScreenshot())
			if err == nil {
				err = os.WriteFile(filepath.Join(*picturesIn, p.name+suffix+".png"), shot, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// aYear is what somebody said over a year: less at weekends, and more of late.
func aYear(t *testing.T, st *store.Store) {
	t.Helper()
	now, rest := time.Now(), rand.New(rand.NewPCG(1, 2))
	for n, model := range []string{"claude-opus-4-8", "gpt-5.6", "qwen-4-coder"} {
		w := st.Create(tidemark.Session{Title: []string{"Harbour wall", "Tide tables", "Ferry times"}[n], Project: "/home/jo/harbour", Agent: "tidemark", Model: model}, process.Self("talk"))
		var all []tidemark.Entry
		for day := 364; day > 0; day-- {
			at := now.AddDate(0, 0, -day).Truncate(24 * time.Hour)
			turns := rest.IntN(2 + (364-day)/60)
			if at.Weekday() == time.Saturday || at.Weekday() == time.Sunday {
				turns /= 3
			}
			for turn := range turns {
				asked, answered := tidemark.Say(tidemark.User, "When is the tide?"), tidemark.Say(tidemark.Assistant, "Twice a day.")
				asked.At = at.Add(time.Duration(8+rest.IntN(11))*time.Hour + time.Duration(turn)*time.Minute)
				answered.At, answered.Model = asked.At.Add(20*time.Second), model
				answered.Usage = &tidemark.Usage{InputTokens: 4000, OutputTokens: 600, CostUSD: 0.02}
				all = append(all, asked, answered)
			}
		}
		must[[]int64](t)(w.Append(t.Context(), all...))
		if err := w.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
