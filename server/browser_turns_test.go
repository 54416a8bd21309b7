package server

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/process"
)

// worked makes entries of one turn as a coding agent leaves them: a prompt,
// bookkeeping, thinking, calls of many kinds with their results, an answer.
func worked(prompt string) []tidemark.Entry {
	at := time.Now().Add(-time.Hour).Truncate(time.Second)
	message := func(role tidemark.Role, blocks ...tidemark.Block) tidemark.Entry {
		at = at.Add(1500 * time.Millisecond)
		return tidemark.Entry{Kind: tidemark.KindMessage, Role: role, At: at, Blocks: blocks}
	}
	call := func(id, name, input string) tidemark.Block {
		return tidemark.Block{Type: tidemark.BlockToolUse, ID: id, Name: name, Input: json.RawMessage(input)}
	}
	result := func(id, text string, failed bool) tidemark.Block {
		return tidemark.Block{Type: tidemark.BlockToolResult, ToolUseID: id, Text: text, IsError: failed}
	}
	context := tidemark.Entry{Kind: tidemark.KindContext, Blocks: []tidemark.Block{tidemark.Text("the rules of the quay")}}
	asked := message(tidemark.User, tidemark.Text(prompt))
	first := message(tidemark.Assistant, tidemark.Block{Type: tidemark.BlockThinking, Text: "The gauge comes first."}, tidemark.Text("I look at the gauge."), call("a", "Read", `{"file_path":"gauge.go"}`))
	first.Model, first.Usage = "tide-1", &tidemark.Usage{InputTokens: 900, OutputTokens: 100, CostUSD: 0.25}
	read := message(tidemark.Tool, result("a", "1\tpackage quay\n2\thigh := 3\n", false))
	second := message(tidemark.Assistant, call("b", "Edit", `{"file_path":"gauge.go","old_string":"high := 3","new_string":"high := 4\nlow := 1"}`), call("c", "Bash", `{"command":"go test ./quay"}`))
	second.Model, second.Usage = "tide-1", &tidemark.Usage{InputTokens: 1000, CostUSD: 0.25}
	return []tidemark.Entry{
		asked, context, context, first, read, second,
		message(tidemark.Tool, result("b", "done", false)), message(tidemark.Tool, result("c", "\x1b[31mFAIL\x1b[0m quay", true)),
		message(tidemark.Assistant, tidemark.Text("It is **written**.\n\n```go\nfunc tide() {}\n```")),
	}
}

func TestASessionReadsLikeAConversation(t *testing.T) {
	s := onSQLite(t)
	out := s.of("a", "jo").Create(tidemark.Session{Title: "the gauge"}, process.Self("talk"))
	must[[]int64](t)(out.Append(t.Context(), worked("Mend the gauge.")...))
	w := s.window(t)
	w.signsIn("a")
	w.opens("/sessions/" + string(out.ID()))
	w.until(`document.querySelectorAll("#entries .call").length === 3`)

	// A call and its result are one folded row; nobody's entries are one line.
	type row struct {
		Text   string
		Open   bool
		Failed bool
	}
	rows := asks[[]row](w, `[...document.querySelectorAll(".call")].map((c) => ({ Text: c.querySelector("summary").innerText.replace(/\s+/g, " ").trim(), Open: c.open, Failed: c.classList.contains("failed") }))`)
	for i, want := range []row{{"Read gauge.go 1.5 s ✓", false, false}, {"Edit gauge.go +2 −1 1.5 s ✓", false, false}, {"Bash go test ./quay 3.0 s ✗", false, true}} {
		if rows[i] != want {
			t.Errorf("row %d is %+v, want %+v", i, rows[i], want)
		}
	}
	for what, selector := range map[string]string{
		"one line for the context": "#entries > .run", "one answer": ".said.assistant:not(.again)", "thinking": ".said details.thinking:not([open])",
		"a numbered file": ".call .numbered", "a diff": ".call .diff .pair", "a colour": ".call .a-r", "what the turn used": ".turn-end", "code": ".said pre code",
	} {
		if n := w.count(selector); n != 1 {
			t.Errorf("%s: %d times %s", what, n, selector)
		}
	}
	if text := asks[string](w, `document.querySelector(".run summary").innerText + "|" + document.querySelector(".turn-end").innerText.replace(/\s+/g, " ")`); text != "2 context entries|9 s 2000 tokens $0.50" {
		t.Errorf("the quiet lines say %q", text)
	}
	w.clicks(".call.failed summary")
	w.until(`document.querySelector(".call.failed").open && document.getElementById("e8").getBoundingClientRect().height > 0`)
	inOrder(t, w.order(), 1, 9)

	// What a change removed and what took its place stand side by side where there is room.
	asks[bool](w, `document.querySelector(".call .diff").closest(".call").open = true`)
	for _, width := range []int64{1199, 1200, 1280} {
		beside := width >= 1200
		w.do(chromedp.EmulateViewport(width, 800))
		if got := asks[bool](w, `(([del, ins]) => del.getBoundingClientRect().top === ins.getBoundingClientRect().top)(document.querySelector(".call .diff .pair").children)`); got != beside {
			t.Errorf("at %d pixels the sides of a diff stand beside each other: %t", width, got)
		}
		if beside && asks[bool](w, `[...document.querySelectorAll(".call .diff .pair > *")].some((side) => getComputedStyle(side).whiteSpace !== "pre-wrap" || side.scrollWidth > side.clientWidth)`) {
			t.Errorf("at %d pixels a side of a diff is cut", width)
		}
	}

	// What comes in is put where it belongs: results to their calls.
	must[[]int64](t)(out.Append(t.Context(), worked("And once more.")...))
	w.until(`document.querySelectorAll(".turn-end").length >= 1 && document.querySelectorAll(".call").length === 6 && !document.querySelector("[data-result], [data-call]") && document.getElementById("e18")`)
	inOrder(t, w.order(), 1, 18)
	if text := asks[string](w, `[...document.querySelectorAll(".call .state")].map((e) => e.innerText.trim()).join(", ")`); text != "1.5 s ✓, 1.5 s ✓, 3.0 s ✗, 1.5 s ✓, 1.5 s ✓, 3.0 s ✗" {
		t.Errorf("the states are %q", text)
	}

	// The rail lists the turns, and leads to them, to errors and to days.
	w.opens("/sessions/" + string(out.ID()))
	w.until(`document.querySelectorAll(".outline a").length === 2`)
	w.clicks(".outline li:first-child a")
	w.until(`location.hash === "#e1" && document.getElementById("e1").getBoundingClientRect().top < innerHeight / 2`)
	w.clicks(`[data-jump="error"]`)
	w.until(`document.activeElement.matches(".call.failed summary")`)
	w.opens("/sessions/" + string(out.ID()) + "?from=10&to=error")
	w.until(`document.getElementById("e17") && document.getElementById("e17").closest(".call").open`)
	w.opens("/sessions/" + string(out.ID()) + "?from=17&to=error")
	w.sees("No error follows")
	w.opens("/sessions/" + string(out.ID()))
	asks[bool](w, `(scrollTo(0, 0), true)`)
	for n := range 2 { // the second is too near the end to be scrolled to the top
		w.clicks(`[data-jump="error"]`)
		w.until(fmt.Sprintf(`document.querySelectorAll(".call.failed")[%d].contains(document.activeElement)`, n))
	}
	w.opens("/sessions/" + string(out.ID()) + "?on=2001-01-01")
	w.until(`document.getElementById("e1")`)

	// One click from an entry to what can be done with it.
	asks[bool](w, `!document.querySelector("#e6 .seq").focus()`)
	w.types("\t\t")
	w.types("\r")
	w.until(`document.querySelector("#act:popover-open #at") && document.getElementById("at").value === "6"`)
	asks[bool](w, `!document.getElementById("act").hidePopover() && !document.querySelector("#e9 .seq").focus()`)
	// Who copies the session gets the conversation: what nobody said is left out, and told.
	copied := asks[string](w, `fetch(document.querySelector(".about [data-copy-from]").dataset.copyFrom).then((r) => r.text())`)
	if strings.Contains(copied, "the rules of the quay") || !strings.Contains(copied, "Mend the gauge.") || !strings.Contains(copied, "It is **written**.") ||
		!strings.HasSuffix(copied, "*4 context entries are left out here; an export of the session has them.*\n") {
		t.Errorf("the session is copied as\n%s", copied)
	}
	if got := asks[string](w, `fetch(document.querySelector("#e9 [data-copy-from]").dataset.copyFrom).then((r) => r.text())`); got != "It is **written**.\n\n```go\nfunc tide() {}\n```\n\n" {
		t.Errorf("an entry is copied as %q", got)
	}

	// On a phone the first entry is on the first screen, and the rail is a sheet.
	w.shows(390, "light")
	w.opens("/sessions/" + string(out.ID()) + "?at=1")
	if top := asks[int](w, `Math.round(document.getElementById("e1").getBoundingClientRect().top + scrollY)`); top > 400 {
		t.Errorf("the first entry is at %d", top)
	}
	if asks[bool](w, `document.getElementById("rail").checkVisibility()`) {
		t.Error("the rail is in the way")
	}
	w.clicks(".rail-button")
	w.until(`document.querySelector("#rail:popover-open")`)
	if err := out.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestAPictureOpensLarge(t *testing.T) {
	s := onSQLite(t)
	out := s.of("a", "jo").Create(tidemark.Session{Title: "a picture"}, process.Self("talk"))
	picture := tidemark.Entry{Kind: tidemark.KindMessage, Role: tidemark.User, Blocks: []tidemark.Block{tidemark.Text("Look."), {Type: tidemark.BlockImage, Name: "quay.png", MediaType: "image/png", Data: []byte(dotPNG)}}}
	must[[]int64](t)(out.Append(t.Context(), picture))
	if err := out.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	w := s.window(t)
	w.signsIn("a")
	w.opens("/sessions/" + string(out.ID()))
	w.until(`document.querySelector("figure img.zoom")`)
	asks[bool](w, `!document.querySelector("figure img").focus()`)
	w.types("\r")
	w.until(fmt.Sprintf(`document.getElementById("lightbox").open && document.querySelector("#lightbox img").alt === %q`, "quay.png"))
	w.until(`document.querySelector("#lightbox img").getBoundingClientRect().width > 200`) // a small one, too
}

// dotPNG is a picture of one pixel.
const dotPNG = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89\x00\x00\x00\rIDATx\xdacd\xf8\xcfP\x0f\x00\x03\x86\x01\x80Z4}k\x00\x00\x00\x00IEND\xaeB`\x82"
