package server

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

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
	s := onSQLite(t)
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
			"a call that says nothing":     `[...document.querySelectorAll(".call summary code")].some((c) => !c.innerText.trim())`,
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
	for _, p := range []struct{ name, path, ready, js string }{
		{"sessions", "/sessions", `document.querySelectorAll(".sessions tr").length > 10`, ""},
		{"session", session, `document.querySelectorAll("#pane li").length > 10`, `scrollTo(0, 0)`},
		{"changes", session, `document.querySelectorAll("#pane li").length > 10`, `document.querySelectorAll(".call").forEach((c, i) => { c.open = i < 3; }); scrollTo(0, 0)`},
		{"search", "/sessions?q=mean", `document.querySelector("mark")`, ""},
		{"job", pages["job"], `document.querySelector(".review, .output")`, ""},
		{"usage", "/usage", `document.querySelector(".chart svg") && !document.querySelector("#counting")`, ""},
	} {
		for suffix, scheme := range map[string]string{"": "light", "-dark": "dark"} {
			w.shows(1280, scheme)
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
