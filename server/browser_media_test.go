package server

import (
	"context"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdpage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/process"
)

// shownOn makes the window show its pages on a medium, with features of it by name.
func (w *window) shownOn(medium string, features ...*emulation.MediaFeature) {
	w.t.Helper()
	w.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: medium, Features: features})
		return err
	}))
}

func TestASessionIsPrintedAloneAndWhole(t *testing.T) {
	s := onSQLite(t)
	out := s.of("a", "jo").Create(tidemark.Session{Title: "the gauge"}, process.Self("talk"))
	must[[]int64](t)(out.Append(t.Context(), worked("Mend the gauge.")...))
	w := s.window(t)
	w.signsIn("a")
	w.opens("/sessions/" + string(out.ID()))
	w.until(`document.querySelectorAll("#entries .call").length === 3`)
	w.shownOn("print")
	for _, gone := range []string{".bar", "#pane", "#rail", ".about .tools", ".acts"} {
		w.until(`[...document.querySelectorAll("` + gone + `")].every((e) => !e.checkVisibility())`)
	}
	w.sees("Mend the gauge.")
	// Nothing stands beside the words, so they have the width of the paper.
	w.until(`document.querySelector(".conversation").getBoundingClientRect().width > innerWidth * 0.9`)
	// What was done is printed whole, also what was put aside while it was folded; context
	// and bookkeeping stay the line that they are.
	w.until(`document.querySelector("#entries .call .diff").checkVisibility({ contentVisibilityAuto: true })`)
	w.until(`document.querySelector("#entries .run").textContent.includes("the rules of the quay")`)
	w.until(`[...document.querySelectorAll("#entries .run > :not(summary)")].every((e) => !e.checkVisibility({ contentVisibilityAuto: true }))`)
	w.keeps("printed")
}

func TestWhatWasPutAsideWhileFoldedIsPrinted(t *testing.T) {
	s := onSQLite(t)
	out := s.of("a", "jo").Create(tidemark.Session{Title: "the gauge"}, process.Self("talk"))
	for range 60 {
		must[[]int64](t)(out.Append(t.Context(), worked("Mend the gauge.")...))
	}
	w := s.window(t)
	w.signsIn("a")
	w.opens("/sessions/" + string(out.ID()))
	// The content of folds that came in later is not in the page until somebody unfolds them.
	w.scrolls(-400, `[...document.querySelectorAll("#entries .call")].some((e) => e.children.length === 1)`)
	w.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, cdpage.PrintToPDF, cdpage.PrintToPDFParams{})
		return err
	}))
	w.until(`[...document.querySelectorAll("#entries .call")].every((e) => e.children.length > 1)`)
}

func TestTheNumbersOfThePageOfUsageAreOnTheFirstScreenOfAPhone(t *testing.T) {
	s := onSQLite(t)
	talk(t, s.of("a", "jo"), tidemark.Session{Title: "barge", Model: "tide-1"}, 2)
	w := s.window(t)
	w.shows(360, "light")
	w.do(chromedp.EmulateViewport(360, 740))
	w.signsIn("a")
	w.opens("/usage?since=all")
	w.until(`!document.querySelector("#counting") && document.querySelector(".figures")`)
	w.until(`document.querySelector(".figures").getBoundingClientRect().bottom < innerHeight && document.querySelector(".figures").getBoundingClientRect().bottom <= document.querySelector("form.filters").getBoundingClientRect().top`)
	w.keeps("usage-phone")
}

func TestASessionIsReadInForcedColours(t *testing.T) {
	s := onSQLite(t)
	out := s.of("a", "jo").Create(tidemark.Session{Title: "the gauge"}, process.Self("talk"))
	must[[]int64](t)(out.Append(t.Context(), worked("Mend the gauge.")...))
	w := s.window(t)
	w.shownOn("screen", &emulation.MediaFeature{Name: "forced-colors", Value: "active"})
	w.signsIn("a")
	w.opens("/sessions/" + string(out.ID()))
	w.until(`document.querySelectorAll("#entries .call").length === 3 && matchMedia("(forced-colors: active)").matches`)
	// Colour says nothing alone: what failed has a sign, what is chosen a border.
	w.until(`document.querySelector(".call.failed .state").textContent.includes("✗")`)
	w.until(`getComputedStyle(document.querySelector(".bar nav [aria-current]")).borderBottomStyle === "solid"`)
	w.until(`[...document.querySelectorAll(".said h2, .call summary, #composer textarea, .bar nav a")].every((e) => getComputedStyle(e).color !== getComputedStyle(document.body).backgroundColor)`)
	w.keeps("forced")
}

func TestATranscriptIsReadFromRightToLeft(t *testing.T) {
	s := onSQLite(t)
	out := s.of("a", "jo").Create(tidemark.Session{Title: "النهر"}, process.Self("talk"))
	must[[]int64](t)(out.Append(t.Context(), tidemark.Say(tidemark.User, "كيف أشغل الأمر `git push -f origin` هنا؟"),
		tidemark.Say(tidemark.Assistant, "هكذا:\n\n| الأمر | المعنى |\n| --- | --- |\n| `git pull` | يجلب |\n\n- بند أول\n- an item in English\n\nAnd now in English:\n\n- first\n- بند\n")))
	w := s.window(t)
	w.signsIn("a")
	w.opens("/sessions/" + string(out.ID()))
	w.until(`document.querySelectorAll("#entries .text ul").length === 2`)
	for what, is := range map[string]string{
		"a sentence begins at the right":                     `(() => { const p = document.querySelector(".said.user .text p"), r = document.createRange(); r.selectNodeContents(p); return Math.abs(r.getBoundingClientRect().right - p.getBoundingClientRect().right) < 4; })()`,
		"code in it is read from the left":                   `getComputedStyle(document.querySelector(".said.user .text code")).direction === "ltr"`,
		"the first column of its table is the right one":     `(([a, b]) => a.getBoundingClientRect().left > b.getBoundingClientRect().left)([...document.querySelectorAll("#entries th")])`,
		"code in a cell stands below the head of its column": `(() => { const cell = document.querySelector("#entries td"); return cell.getBoundingClientRect().right - cell.querySelector("code").getBoundingClientRect().right < 24; })()`,
		"an item stands on the side of its mark":             `[...document.querySelectorAll("#entries .text ul")].every((list) => { const right = list.matches(":dir(rtl)"); return [...list.children].every((li) => { const r = document.createRange(); r.selectNodeContents(li); const text = r.getBoundingClientRect(), box = li.getBoundingClientRect(); return right ? box.right - text.right < 4 : text.left - box.left < 4; }); })`,
	} {
		if !asks[bool](w, is) {
			t.Errorf("not so: %s", what)
		}
	}
	w.keeps("right-to-left")
}
