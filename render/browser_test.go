package render

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	cdpage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/tidemark-sessions/tidemark"
)

// browser is a headless Chromium that writes down what a page does: dialogs,
// requests and navigations.
type browser struct {
	ctx  context.Context
	mu   sync.Mutex
	acts []string
}

// launch starts a browser for the test, or skips the test on a machine that
// has none.
func launch(t *testing.T) *browser {
	t.Helper()
	if testing.Short() {
		t.Skip("make quick leaves out what needs a browser")
	}
	var path string
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		t.Skip("no chromium, chromium-browser or google-chrome on the PATH")
	}
	// Inside a container the browser may not make a sandbox of its own, and
	// the pages are ours.
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(path), chromedp.NoSandbox)
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &browser{ctx: ctx}
	if err := chromedp.Do(ctx, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, network.Enable, network.EnableParams{})
		return err
	})); err != nil {
		t.Fatal(err)
	}
	listen(b, cdpage.JavascriptDialogOpening, func(e cdpage.EventJavascriptDialogOpening) string {
		_, _ = chromedp.Call(ctx, cdpage.HandleJavaScriptDialog, cdpage.HandleJavaScriptDialogParams{Accept: true})
		return "dialog " + e.Message
	})
	listen(b, network.RequestWillBeSent, func(e network.EventRequestWillBeSent) string { return "request " + e.Request.URL })
	listen(b, cdpage.FrameNavigated, func(e cdpage.EventFrameNavigated) string { return "frame " + e.Frame.URL })
	listen(b, cdpage.WindowOpen, func(e cdpage.EventWindowOpen) string { return "window " + e.URL })
	return b
}

func listen[E any](b *browser, event cdp.Event[E], say func(E) string) {
	events := chromedp.Events(b.ctx, event)
	go func() {
		for e, err := range events {
			if err != nil {
				return
			}
			act := say(e)
			b.mu.Lock()
			b.acts = append(b.acts, act)
			b.mu.Unlock()
		}
	}()
}

// settled waits until what a page does at once has been done, and says what is
// on it that should not be.
const settled = `new Promise(done => setTimeout(() => {
	const found = [];
	if (window.__pwned) found.push("a script ran");
	for (const e of document.querySelectorAll("script,iframe,frame,object,embed,base,form,input,button,link,svg,math,template,video,audio,portal"))
		found.push(e.outerHTML.slice(0, 80));
	for (const e of document.querySelectorAll("*"))
		for (const a of e.attributes)
			if (a.name.startsWith("on") || a.name === "style") found.push(e.tagName + " " + a.name);
	for (const a of document.links)
		if (![":", "http:", "https:", "mailto:"].includes(a.protocol) && !a.getAttribute("href").startsWith("#")) found.push(a.href.slice(0, 80));
	done(JSON.stringify(found));
}, 0))`

// load opens a page and returns what it found there and where it is then.
func (b *browser) load(t *testing.T, file string) (found, location string) {
	t.Helper()
	if err := chromedp.Do(b.ctx, chromedp.Navigate(fileURL(file))); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	found, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](settled, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	location, err = chromedp.Run(b.ctx, chromedp.Location())
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return found, location
}

// took returns what pages did beyond being loaded from the folder and showing
// the pictures that they hold.
func (b *browser) took(folder string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []string
	for _, act := range b.acts {
		kind, what, _ := strings.Cut(act, " ")
		own := strings.HasPrefix(what, fileURL(folder)) && strings.HasSuffix(what, ".html") || what == "about:blank"
		picture := kind == "request" && strings.HasPrefix(what, "data:image/")
		if kind != "request" && kind != "frame" || !own && !picture {
			all = append(all, act)
		}
	}
	return all
}

func fileURL(path string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // a drive
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
}

// TIDEMARK_HOSTILE is how many hostile transcripts a browser opens; the
// default is for every day.
func hostileCount(t *testing.T) int {
	if s := os.Getenv("TIDEMARK_HOSTILE"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("TIDEMARK_HOSTILE: %v", err)
		}
		return n
	}
	if testing.Short() {
		return 200
	}
	return 1000
}

// TestABrowserRunsAndLoadsNothing opens the corpus from disk, fifty transcripts a
// page. Every other page is opened without the policy that forbids scripts, so
// that the policy cannot cover for the renderer.
func TestABrowserRunsAndLoadsNothing(t *testing.T) {
	b := launch(t)
	folder := t.TempDir()
	const together = 50
	for i := range hostileCount(t) / together {
		c := newCorpus(1_000_000 + uint64(i))
		var all []tidemark.Entry
		var d Document
		for range together {
			var more []tidemark.Entry
			d, more = c.transcript(int64(len(all))+1, 2)
			all = append(all, more...)
		}
		html := document(t, HTML, d, all...)
		if i%2 == 0 {
			html = strings.Replace(html, "Content-Security-Policy", "X-None", 1)
		}
		file := filepath.Join(folder, fmt.Sprintf("%d.html", i))
		if err := os.WriteFile(file, []byte(html), 0o600); err != nil {
			t.Fatal(err)
		}
		if found, at := b.load(t, file); found != "[]" || at != fileURL(file) {
			t.Fatalf("page %d at %s: %s", i, at, found)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	if acts := b.took(folder); len(acts) > 0 {
		t.Errorf("%d acts: %.2000q", len(acts), acts)
	}
}

// TestTheBrowserWouldHaveNoticed shows each of the watches above something to
// see.
func TestTheBrowserWouldHaveNoticed(t *testing.T) {
	b := launch(t)
	folder := t.TempDir()
	planted := map[string]string{
		"script": "<script>window.__pwned=1</script>", "handler": "<p onclick=x>", "style": "<p style=color:red>",
		"link": "<a href=javascript:x>x</a>", "frame": "<iframe></iframe>",
	}
	for name, html := range planted {
		file := filepath.Join(folder, name+".html")
		if err := os.WriteFile(file, []byte("<!doctype html>"+html), 0o600); err != nil {
			t.Fatal(err)
		}
		if found, _ := b.load(t, file); found == "[]" {
			t.Errorf("nothing was found in %s", html)
		}
	}
	file := filepath.Join(folder, "acts.html")
	html := "<!doctype html><script>alert('seen')</script><img src=other.png><iframe src='data:text/html,x'></iframe>"
	if err := os.WriteFile(file, []byte(html), 0o600); err != nil {
		t.Fatal(err)
	}
	b.load(t, file)
	acts := strings.Join(b.took(folder), "\n")
	for _, want := range []string{"dialog seen", "other.png", "frame data:text/html"} {
		if !strings.Contains(acts, want) {
			t.Errorf("%s went unnoticed among %s", want, acts)
		}
	}
}

// TestAPageFitsAPhoneAndThePrinter opens a page that is narrow, dark, and
// printed, and looks for what sticks out or stays folded.
func TestAPageFitsAPhoneAndThePrinter(t *testing.T) {
	b := launch(t)
	file := filepath.Join(t.TempDir(), "page.html")
	d, all := realistic()
	all = append(all, tidemark.Say(tidemark.User, strings.Repeat("wide", 200)+"\n\n```\n"+strings.Repeat("wide", 200)+"\n```\n\n|"+strings.Repeat("wide|", 20)+"\n|"+strings.Repeat("-|", 20)))
	if err := os.WriteFile(file, []byte(document(t, HTML, d, all...)), 0o600); err != nil {
		t.Fatal(err)
	}
	media := func(kind string, scheme string) chromedp.Action[chromedp.Void] {
		return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Media: kind, Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
			return err
		})
	}
	for _, look := range []struct {
		name, media, scheme string
		width               int64
	}{
		{"phone", "screen", "light", 360}, {"phone-dark", "screen", "dark", 360}, {"desk", "screen", "light", 1280},
		{"desk-dark", "screen", "dark", 1280}, {"print", "print", "light", 720},
	} {
		if err := chromedp.Do(b.ctx, media(look.media, look.scheme), chromedp.EmulateViewport(look.width, 800), chromedp.Navigate(fileURL(file))); err != nil {
			t.Fatal(err)
		}
		width, err := chromedp.Run(b.ctx, chromedp.Evaluate[int64](`document.documentElement.scrollWidth`))
		if err != nil {
			t.Fatal(err)
		}
		if width > look.width {
			t.Errorf("%s: the page is %d wide, the window %d", look.name, width, look.width)
		}
		shown, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](`document.querySelector("details.tool pre").checkVisibility({contentVisibilityAuto: true})`))
		if err != nil {
			t.Fatal(err)
		}
		if want := look.media == "print"; shown != want {
			t.Errorf("%s: a folded tool call is shown: %v, want %v", look.name, shown, want)
		}
		context, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](`document.querySelector("details.context pre").checkVisibility({contentVisibilityAuto: true})`))
		if err != nil {
			t.Fatal(err)
		}
		if context {
			t.Errorf("%s: context that is folded is shown", look.name)
		}
		if folder := os.Getenv("TIDEMARK_SCREENSHOTS"); folder != "" {
			shot, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(folder, look.name+".png"), shot, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}
