package server

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent/slash"
	"github.com/tidemark-sessions/tidemark/store"
)

// commands runs a command on the page of a session, and waits for what it says.
func (w *window) commands(line, says string) {
	w.t.Helper()
	w.says(line)
	w.until(fmt.Sprintf(`!document.querySelector("#talk .running") && [...document.querySelectorAll("#talk .told, #talk .notice")].some((e) => e.textContent.includes(%q))`, says))
}

// accessible has axe look at what is shown now.
func (w *window) accessible(what string) {
	w.t.Helper()
	axe, err := os.ReadFile(filepath.Join("..", "bin", "axe.min.js"))
	if err != nil {
		without(w.t, "no bin/axe.min.js: scripts/deps.sh brings it")
	}
	asks[bool](w, string(axe)+"\n;true")
	for _, f := range asks[[]string](w, fmt.Sprintf(findings, allRules)) {
		w.t.Errorf("%s: %s", what, f)
	}
}

func TestCommandsOfTheTerminalAreTypedOnAPage(t *testing.T) {
	s, folder := talking(t)
	st := s.of("a", "jo")
	id := talk(t, st, tidemark.Session{Title: "harbour"}, 2)
	w := s.window(t)
	w.signsIn("a")
	w.opens("/sessions/" + string(id))

	// A slash offers them; letters narrow them down, keys choose one.
	w.fills("#say", "/")
	w.until(`!document.getElementById("commands").hidden && document.querySelectorAll("#commands li").length > 20`)
	for _, not := range []string{"/exit", "/new", "/loop"} {
		if asks[bool](w, fmt.Sprintf(`[...document.querySelectorAll("#commands bdi")].some((e) => e.textContent === %q)`, not)) {
			t.Errorf("%s is offered", not)
		}
	}
	w.fills("#say", "/co")
	w.until(`document.querySelectorAll("#commands li").length === 3 && document.querySelector("#commands [aria-selected=true] bdi").textContent === "/compact"`)
	w.types(kb.ArrowDown)
	w.until(`document.querySelector("#commands [aria-selected=true] bdi").textContent === "/context" && document.getElementById("say").getAttribute("aria-activedescendant") === "command-1"`)
	w.keeps("composer-commands")
	w.accessible("with commands")
	w.types(kb.Escape)
	w.until(`document.getElementById("commands").hidden && document.activeElement.id === "say" && document.getElementById("say").value === "/co"`)
	w.fills("#say", "/cos")
	w.until(`!document.getElementById("commands").hidden && document.querySelector("#commands [aria-selected=true] bdi").textContent === "/cost"`)
	w.types(kb.Enter) // it needs nothing more
	w.until(`[...document.querySelectorAll("#talk .told")].some((e) => /cost +/.test(e.textContent))`)
	w.until(`!document.querySelector("#talk .running")`)
	w.keeps("composer-told")
	w.opens("/sessions/" + string(id)) // and stays until something else is said
	w.until(`document.querySelector("#talk .told")`)

	// What the conversation knows is offered after a command.
	w.fills("#say", "/compact s")
	w.until(`[...document.querySelectorAll("#commands bdi")].map((e) => e.textContent).join() === "/compact simple"`)

	// They do what they do in a terminal.
	w.commands("/name the <b>outer</b> harbour", "Named")
	if i := must[store.Info](t)(st.Session(t.Context(), id)); i.Title != "the <b>outer</b> harbour" {
		t.Errorf("the session is called %q", i.Title)
	}
	w.commands("/permissions edits", "changed without a question")
	made := filepath.Join(folder, "made.txt")
	w.says(`[[fake call write {"path":"made.txt","content":"made"}]] [[fake say it is made]]`)
	w.answers("it is made")
	if _, err := os.Stat(made); err != nil {
		t.Error(err)
	}
	w.commands("/undo", "file(s) are as they were")
	if _, err := os.Stat(made); err == nil {
		t.Error("what was made is still there")
	}
	// The page shows the branch that it goes on with, and what the command said.
	w.until(`!document.getElementById("entries").textContent.includes("it is made") && document.querySelector("#talk .told")`)
	w.opens("/sessions/" + string(id)) // as a reader would, and no reload is under way while the next is typed
	w.until(`document.querySelector("#talk .told")`)
	w.says("//not a command [[fake say on another branch]]")
	w.answers("on another branch")
	if n := prompts(t, st, id)["/not a command [[fake say on another branch]]"]; n != 1 {
		t.Errorf("said %d times", n)
	}
	w.until(`!document.querySelector("#talk .told")`)

	// What needs a terminal is told, with what does the same here, and so is what
	// does not exist.
	w.commands("/new", "press n")
	w.commands("/nothing of this kind", "there is no command /nothing")
	w.commands("/help", "/permissions")
}

func TestShellAndMemoryLinesAreTypedOnAPage(t *testing.T) {
	s, folder := talking(t)
	st := s.of("a", "jo")
	id := talk(t, st, tidemark.Session{Title: "harbour"}, 1)
	w := s.window(t)
	w.signsIn("a")
	w.opens("/sessions/" + string(id))
	w.sees("!: runs a command")

	// What it puts out is seen while it runs, and stays as what the model reads.
	w.says("!echo ebb; while [ ! -e flood ]; do sleep 0.1; done; echo '<b>flood</b>'")
	w.until(`document.querySelector("#talk .running") && [...document.querySelectorAll("#talk pre.piece")].some((e) => e.textContent.includes("ebb"))`)
	if text := asks[string](w, `document.querySelector("#talk .running").textContent`); !strings.Contains(text, "Running") || strings.Contains(text, "Answering") {
		t.Errorf("a command that runs is called %q", text)
	}
	w.keeps("composer-shell")
	if err := os.WriteFile(filepath.Join(folder, "flood"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.until(`!document.querySelector("#talk .running, #talk .piece") && [...document.querySelectorAll("#entries .said.user details.call[open] .answer")].some((e) => e.textContent.includes("<b>flood</b>"))`)
	if text := asks[string](w, `[...document.querySelectorAll("#entries .said")].map((e) => e.textContent).join()`); strings.Contains(text, "<data") || strings.Contains(text, "What it put out") {
		t.Errorf("what is for the model is shown: %s", text)
	}
	w.until(`document.querySelectorAll(".turn-end").length === 1`) // there was one turn with a model
	w.until(`document.querySelector("#state") && !document.querySelector("#state").textContent.includes("no answer")`)
	w.opens("/sessions/" + string(id))
	if turns := asks[[]string](w, `[...document.querySelectorAll("#rail .outline a")].map((e) => e.textContent.trim())`); len(turns) != 2 || !strings.HasPrefix(turns[1], "! echo ebb") {
		t.Errorf("the turns beside it are %q", turns)
	}
	w.keeps("composer-shell-done")
	w.accessible("after a command of the shell")

	// One that goes on for ever is stopped.
	w.says("!echo waiting; sleep 1000")
	w.until(`[...document.querySelectorAll("#talk pre.piece")].some((e) => e.textContent.includes("waiting"))`)
	w.presses("#talk [data-key=x]")
	w.until(`!document.querySelector("#talk .running") && document.getElementById("entries").textContent.includes("interrupted")`)

	w.commands("# boats leave at <b>high</b> water", "Remembered")
	var memories []string
	for m, err := range st.Memories(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		memories = append(memories, m.Text)
	}
	if !slices.Contains(memories, "boats leave at <b>high</b> water") {
		t.Errorf("remembered: %q", memories)
	}
	w.says(" # not a memory [[fake say a message]]")
	w.answers("a message")
}

// picture is a PNG.
func picture(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 8, 8))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestImagesGoWithAMessage(t *testing.T) {
	s, _ := talking(t)
	st := s.of("a", "jo")
	id := talk(t, st, tidemark.Session{Title: "harbour"}, 1)
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tides, notes, large := file("tides.png", picture(t)), file("notes.txt", []byte("no image")), file("large.png", append(picture(t), make([]byte, slash.MaxImage)...))
	fake := file("fake.png", []byte("this is no image"))
	w := s.window(t)
	w.signsIn("a")
	w.opens("/sessions/" + string(id))
	pick := func(path string) {
		t.Helper()
		w.do(chromedp.SetUploadFiles(chromedp.CSS("#pick"), []string{path}))
	}
	pick(notes)
	w.sees("only PNG, JPEG, GIF and WebP")
	pick(large)
	w.sees("an image has at most")
	pick(fake)
	w.until(`document.querySelector("#composer .wrong").textContent.startsWith("fake.png: only PNG") && document.querySelectorAll("#images li").length === 0`)
	pick(tides)
	w.until(`document.querySelector("#images img") && document.querySelector("#images img").naturalWidth === 8 && document.querySelector("#composer .wrong").hidden`)
	// A second one is pasted, a third dropped and left out again.
	const carry = `(() => {
		const t = new DataTransfer(), png = atob(document.querySelector("#images img").src.split(",")[1]);
		t.items.add(new File([Uint8Array.from(png, (c) => c.charCodeAt(0))], %q, { type: "image/png" }));
		const field = document.getElementById("say");
		field.dispatchEvent(new %s(%q, { %s: t, bubbles: true, cancelable: true }));
		return true;
	})()`
	asks[bool](w, fmt.Sprintf(carry, "pasted.png", "ClipboardEvent", "paste", "clipboardData"))
	asks[bool](w, fmt.Sprintf(carry, "dropped.png", "DragEvent", "drop", "dataTransfer"))
	w.until(`document.querySelectorAll("#images li").length === 3`)
	w.keeps("composer-images")
	w.accessible("with images")
	w.clicks("#images li:nth-child(3) button")
	w.until(`document.querySelectorAll("#images li").length === 2`)
	w.says("[[fake say I see them]]")
	w.answers("I see them")
	w.until(`document.getElementById("images").hidden && document.querySelectorAll("#entries .said.user figure img").length === 2`)
	var kept []string
	v := must[*store.View](t)(st.View(t.Context(), id))
	for e, err := range v.Log(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range e.Blocks {
			if b.Type == tidemark.BlockImage && e.Role == tidemark.User && b.MediaType == "image/png" && bytes.Equal(b.Data, picture(t)) {
				kept = append(kept, b.Name)
			}
		}
	}
	if strings.Join(kept, " ") != "tides.png pasted.png" {
		t.Errorf("kept %q", kept)
	}

	// The server looks at what they are itself, and takes one that is as large as may be.
	send := func(name string, content []byte) (int, string) {
		t.Helper()
		var body bytes.Buffer
		m := multipart.NewWriter(&body)
		part := must[io.Writer](t)(m.CreateFormFile("image", name))
		part.Write(content)
		m.Close()
		r := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), "POST", s.url+"/sessions/"+string(id)+"/say", &body))
		for name, value := range map[string]string{"Content-Type": m.FormDataContentType(), "Cookie": s.cookie("a"), "Origin": s.url, "Sec-Fetch-Site": "same-origin", "Accept": "application/json"} {
			r.Header.Set(name, value)
		}
		answer := must[*http.Response](t)(http.DefaultClient.Do(r))
		defer answer.Body.Close()
		return answer.StatusCode, string(must[[]byte](t)(io.ReadAll(answer.Body)))
	}
	for name, c := range map[string]struct {
		content []byte
		status  int
		says    string
	}{
		"fake.png":    {[]byte("this is no image"), 400, "no image that models take"},
		"large.png":   {append(picture(t), make([]byte, slash.MaxImage)...), 400, "at most"},
		"fitting.png": {append(picture(t), bytes.Repeat([]byte("{[,\x00\xff"), (slash.MaxImage-1000)/5)...), 204, ""},
	} {
		if status, text := send(name, c.content); status != c.status || !strings.Contains(text, c.says) {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
}
