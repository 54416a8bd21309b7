package server

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/network"
	cdpage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent/slash"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/search"
	routes "github.com/tidemark-sessions/tidemark/server/api"
	"github.com/tidemark-sessions/tidemark/server/auth"
	"github.com/tidemark-sessions/tidemark/server/pages"
	"github.com/tidemark-sessions/tidemark/server/pages/web"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/workshop/pgtest"
)

// The pages in a real browser, over real HTTP with real cookies.

// patient is how long a page may take to show what it should: far longer than
// it takes, so that a busy machine is not a fault.
const patient = 2 * time.Minute

// doors let the users of two tenants in, each by links of their own.
type doors map[string]*auth.LocalAuthenticator // by tenant

func (d doors) Authenticate(r *http.Request) (request.Caller, error) {
	for tenant, a := range d {
		if c, err := a.Authenticate(r); err == nil {
			c.Name, c.Operator = "jo of "+tenant, tenant == "a"
			return c, nil
		}
	}
	return request.Caller{}, tidemark.ErrDenied
}

func (d doors) ServeSignIn(w http.ResponseWriter, r *http.Request, show auth.ShowSignIn) {
	tenant := r.URL.Query().Get("tenant")
	if d[tenant] == nil {
		tenant = "a"
	}
	d[tenant].ServeSignIn(w, r, show)
}

func (d doors) SignOut(w http.ResponseWriter, r *http.Request) error { return d["a"].SignOut(w, r) }

// site is a server that listens at one address for as long as the test lasts,
// also after it was begun again.
type site struct {
	t        *testing.T
	chrome   context.Context
	address  string
	url      string
	open     func(context.Context, tidemark.Principal) (*store.Store, error)
	doors    doors
	chat     func(context.Context, *store.Store, routes.ChatOptions) (routes.Conversation, error)
	commands func(tidemark.Session) []slash.Command
	server   *Server
	http     *httptest.Server
}

func newSite(t *testing.T, chrome context.Context, open func(context.Context, tidemark.Principal) (*store.Store, error)) *site {
	t.Helper()
	s := &site{t: t, chrome: chrome, open: open, doors: doors{}, address: "127.0.0.1:0"}
	for _, tenant := range []string{"a", "b"} {
		s.doors[tenant] = auth.Local("the secret of tenant "+tenant, tidemark.TenantOf(tenant, "jo"))
	}
	s.begin()
	t.Cleanup(s.end)
	return s
}

// titled stands for the formats of the program: a file that has the title of its session.
func titled(_ context.Context, _ *store.Store, at store.Point, _ string) (string, func(io.Writer) error, error) {
	return "text/markdown", func(w io.Writer) error {
		_, err := io.WriteString(w, "# "+at.View.Title+"\n")
		return err
	}, nil
}

func (s *site) begin() {
	s.t.Helper()
	var err error
	s.server, err = New(Options{Auth: s.doors, SignIn: s.doors, Open: s.open, Chat: s.chat, Commands: s.commands, Version: "test", Holder: process.Self("test"), Formats: []string{"md"}, Export: titled, Offboarding: seesOff(s.open, process.Self("test")),
		Watched: func(context.Context, tidemark.Principal) (*web.Watch, error) {
			return &web.Watch{Running: true, Watcher: "tidemark watch (pid 7 on quay)", Since: time.Now().Add(-time.Hour), Sources: []web.WatchedSource{
				{Tool: "codex", Path: "/home/jo/.codex", State: "following", At: time.Now().Add(-time.Minute)},
				{Tool: "claude-code", Path: "/mnt/old/.claude", State: "silent", At: time.Now().Add(-time.Hour), Failing: true, Problems: []string{"its disk may hang"}}}}, nil
		},
		Inspect: func(context.Context, tidemark.Principal) (pages.Inspection, error) {
			return pages.Inspection{Kind: "sqlite", Place: "/home/jo/.tidemark/tidemark.db", Bytes: 5 << 20, Sealed: true,
				Keys:    []pages.KeyInfo{{ID: "k1", Type: "passphrase", Label: "laptop", CreatedAt: time.Now().Add(-72 * time.Hour), Opened: true}},
				Backups: []pages.BackupInfo{{What: "export", At: time.Now().Add(-time.Hour), Outcome: "done"}}}, nil
		}})
	if err != nil {
		s.t.Fatal(err)
	}
	l, err := net.Listen("tcp", s.address)
	if err != nil {
		s.t.Fatal(err)
	}
	s.address, s.url = l.Addr().String(), "http://"+l.Addr().String()
	s.http = &httptest.Server{Listener: l, Config: &http.Server{Handler: s.server}}
	s.http.Start()
}

func (s *site) end() {
	s.server.Drain()
	s.http.CloseClientConnections()
	s.http.Close()
}

// of is the store of a user, or of a tenant when there is no name.
func (s *site) of(tenant, user string) *store.Store {
	s.t.Helper()
	return must[*store.Store](s.t)(s.open(s.t.Context(), tidemark.TenantOf(tenant, user)))
}

// onEveryStore runs a test with a browser on an embedded store and on
// PostgreSQL.
func onEveryStore(t *testing.T, test func(*testing.T, *site)) {
	t.Parallel() // a person, and so a window, mostly waits
	chrome := chromium(t)
	t.Run("sqlite", func(t *testing.T) { test(t, newSite(t, chrome, sqliteStores(t))) })
	t.Run("postgres", func(t *testing.T) {
		w := &world{served: connectTo(t, newDatabase(t), nil), stores: make(map[string]*store.Store)}
		test(t, newSite(t, chrome, w.open))
	})
}

// onSQLite is for what makes no odds to a store.
func onSQLite(t *testing.T) *site {
	t.Helper()
	t.Parallel()
	return newSite(t, chromium(t), sqliteStores(t))
}

func sqliteStores(t *testing.T) func(context.Context, tidemark.Principal) (*store.Store, error) {
	t.Helper()
	return sqliteStoresIn(t, t.TempDir())
}

// sqliteStoresIn are stores in a folder, where another process may have them, too.
func sqliteStoresIn(t interface{ Cleanup(func()) }, dir string) func(context.Context, tidemark.Principal) (*store.Store, error) {
	var mu sync.Mutex
	stores := make(map[string]*store.Store)
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		for _, st := range stores {
			st.Close()
		}
	})
	return func(ctx context.Context, p tidemark.Principal) (*store.Store, error) {
		mu.Lock()
		defer mu.Unlock()
		name := p.Tenant + p.User
		if stores[name] == nil {
			b, err := sqlite.Open(context.WithoutCancel(ctx), filepath.Join(dir, name+".db"), &sqlite.Options{Create: true})
			if err != nil {
				return nil, err
			}
			stores[name] = store.New(b, &store.Options{Places: search.EachWord})
		}
		return stores[name], nil
	}
}

// without skips a test, or fails it where everything has to be there.
func without(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(what)
	}
	t.Skip(what)
}

func TestMain(m *testing.M) {
	if os.Getenv(talkServer) != "" {
		serveTalks()
		return
	}
	code := pgtest.Main(m)
	if chrome.end != nil {
		chrome.end()
	}
	os.Exit(code)
}

// chrome is the browser of this process: each window has a profile of its own, so
// that tests share nothing but the seconds that it takes to start.
var chrome struct {
	sync.Once
	ctx context.Context
	err error
	end func()
}

// chromium returns the browser, and starts it when this is the first call.
func chromium(t *testing.T) context.Context {
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
		without(t, "no chromium, chromium-browser or google-chrome on the PATH")
	}
	chrome.Do(func() { startBrowser(path) })
	if chrome.err != nil {
		t.Fatal(chrome.err)
	}
	return chrome.ctx
}

func startBrowser(path string) {
	// Inside a container the browser may not make a sandbox of its own, and
	// the pages are ours.
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WSURLReadTimeout(patient))
	allocated, endAll := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, end := chromedp.NewContext(allocated)
	chrome.ctx, chrome.err = ctx, chromedp.Do(ctx)
	chrome.end = func() { end(); endAll() }
}

// window is a browser of somebody: it shares no cookie with another one. It
// writes down what no page of ours may do.
type window struct {
	t    *testing.T
	ctx  context.Context
	site *site
	mu   sync.Mutex
	acts []string
}

// told makes a page say when its policy kept it from something.
const told = `addEventListener("securitypolicyviolation", (e) => console.error("policy: " + e.violatedDirective + " " + e.blockedURI));
try { new PerformanceObserver((l) => { for (const e of l.getEntries()) (window.__long ||= []).push(Math.round(e.duration)); }).observe({ type: "longtask", buffered: true }); } catch {}`

// window opens one.
func (s *site) window(t *testing.T) *window {
	t.Helper()
	ctx, cancel := chromedp.NewContext(s.chrome, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	w := &window{t: t, ctx: ctx, site: s}
	// The window lives as long as the context that it was first used with.
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	w.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		if _, err := cdp.Call(ctx, t, network.Enable, network.EnableParams{}); err != nil {
			return err
		}
		if _, err := cdp.Call(ctx, t, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}); err != nil {
			return err
		}
		_, err := cdp.Call(ctx, t, cdpage.AddScriptToEvaluateOnNewDocument, cdpage.AddScriptToEvaluateOnNewDocumentParams{Source: told})
		return err
	}), chromedp.EmulateViewport(1280, 800))
	note := func(format string, args ...any) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.acts = append(w.acts, fmt.Sprintf(format, args...))
	}
	messages, requests, dialogs := chromedp.Console(ctx), chromedp.Events(ctx, network.RequestWillBeSent), chromedp.Events(ctx, cdpage.JavascriptDialogOpening)
	go func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			if m.IsException() || strings.HasPrefix(m.Text, "policy: ") || strings.Contains(m.Text, "Content Security Policy") {
				note("%s", m)
			}
		}
	}()
	home := s.url + "/" // stays the same over restarts
	go func() {
		for r, err := range requests {
			if err != nil {
				return
			}
			if u := r.Request.URL; !strings.HasPrefix(u, home) && !strings.HasPrefix(u, "data:image/") {
				note("request %s", u)
			}
		}
	}()
	go func() {
		for d, err := range dialogs {
			if err != nil {
				return
			}
			_, _ = chromedp.Call(ctx, cdpage.HandleJavaScriptDialog, cdpage.HandleJavaScriptDialogParams{Accept: true})
			note("dialog %s", d.Message)
		}
	}()
	t.Cleanup(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.acts) > 0 {
			t.Errorf("the pages did %d things that they may not: %.2000q", len(w.acts), w.acts)
		}
	})
	return w
}

func (w *window) do(steps ...chromedp.Action[chromedp.Void]) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, patient)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		w.t.Fatalf("%v on %s", err, w.where())
	}
}

func (w *window) where() string {
	where, _ := chromedp.Run(w.ctx, chromedp.Location())
	return strings.TrimPrefix(where, w.site.url)
}

// opens goes to a page of the site.
func (w *window) opens(path string) {
	w.t.Helper()
	w.do(chromedp.Navigate(w.site.url + path))
	w.until(ready)
}

// ready is true when the script of a page has run, which comes once the page is painted.
const ready = `document.readyState === "complete" && (window.htmx || !document.querySelector("script[data-then]") || matchMedia("(scripting: none)").matches)`

// asks evaluates an expression in the page.
func asks[T any](w *window, expression string) T {
	w.t.Helper()
	v, err := chromedp.Run(w.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		w.t.Fatalf("%s: %v on %s", expression, err, w.where())
	}
	return v
}

// until waits until an expression is true, on whatever page is there then.
func (w *window) until(expression string) {
	w.t.Helper()
	till := time.Now().Add(patient)
	for {
		ok, err := chromedp.Run(w.ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		if ok {
			return
		}
		if time.Now().After(till) {
			text, _ := chromedp.Run(w.ctx, chromedp.Evaluate[string](`((text) => text.length > 4500 ? text.slice(0, 3000) + "\n…\n" + text.slice(-1500) : text)(document.body.innerText)`))
			w.t.Fatalf("it never came to %s (%v) on %s:\n%s", expression, err, w.where(), text)
		}
		select {
		case <-w.ctx.Done():
			w.t.Fatal(w.ctx.Err())
		case <-time.After(15 * time.Millisecond):
		}
	}
}

// sees waits for texts, and shows that none of those after "not" are there.
func (w *window) sees(texts ...string) {
	w.t.Helper()
	for i, text := range texts {
		if text == "not" {
			for _, text := range texts[i+1:] {
				if asks[bool](w, fmt.Sprintf("document.body.textContent.includes(%q)", text)) {
					w.t.Errorf("%q is on %s", text, w.where())
				}
			}
			return
		}
		w.until(fmt.Sprintf("document.body.textContent.includes(%q)", text))
	}
}

// leaves does something that leads to another page, and waits until that is
// there.
func (w *window) leaves(do func()) {
	w.t.Helper()
	w.until(ready)
	asks[bool](w, `window.__old = true`)
	do()
	w.until(`!window.__old && ` + ready)
}

// goes presses two keys that lead to another page. The page waits for the second
// one only for a moment, so that on a busy machine they may have to be pressed
// again.
func (w *window) goes(keys string) {
	w.t.Helper()
	asks[bool](w, `window.__old = true`)
	for till := time.Now().Add(patient); time.Now().Before(till); {
		w.types(keys)
		for range 20 {
			if left, _ := chromedp.Run(w.ctx, chromedp.Evaluate[bool](`!window.__old`)); left {
				w.until(ready)
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	w.t.Fatalf("%s leads nowhere on %s", keys, w.where())
}

// clicks clicks with the mouse, once what is named can be seen. A page may hide, move
// or replace a part of itself between finding and clicking it, so that it is looked
// for again as long as somebody would wait, until it was hit.
func (w *window) clicks(selector string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, patient)
	defer cancel()
	// Where no script may run nobody hears of a click, and no script moves anything.
	heard := fmt.Sprintf(`(() => {
		window.__hit = null;
		const hears = (e) => { if (e.type === "click" ? e.target.closest(%q) : true) window.__hit = e.type; };
		document.addEventListener("click", hears, { capture: true });
		document.addEventListener("probe", hears);
		document.dispatchEvent(new Event("probe"));
		return window.__hit === "probe";
	})()`, selector)
	w.until(ready)
	for {
		hears, err := chromedp.Run(ctx, chromedp.Evaluate[bool](heard))
		if err == nil {
			err = chromedp.Do(ctx, chromedp.Click(chromedp.CSS(selector)))
		}
		if err == nil {
			missed := false
			if hears { // a page that was left does not know of the probe
				missed, err = chromedp.Run(ctx, chromedp.Evaluate[bool](`window.__hit === "probe"`))
			}
			if !missed || err != nil {
				return
			}
		}
		if ctx.Err() != nil {
			w.t.Fatalf("%s cannot be clicked: %v on %s", selector, err, w.where())
		}
		time.Sleep(15 * time.Millisecond)
	}
}

// types presses keys, wherever the focus is.
func (w *window) types(keys string) {
	w.t.Helper()
	w.until(ready)
	w.do(chromedp.KeyEvent(keys))
}

// enters presses Enter as a keyboard does: who handles the key keeps its sign from
// whatever has the focus afterwards, which types sends apart.
func (w *window) enters() {
	w.t.Helper()
	for _, kind := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeKeyDown, input.DispatchKeyEventTypeKeyUp} {
		w.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			_, err := cdp.Call(ctx, t, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: kind, Key: "Enter", Code: "Enter", WindowsVirtualKeyCode: 13, Text: "\r"})
			return err
		}))
	}
}

// fills puts text into a field.
func (w *window) fills(selector, text string) {
	w.t.Helper()
	asks[bool](w, fmt.Sprintf(`(() => { const e = document.querySelector(%q); e.focus(); e.select(); return true; })()`, selector))
	if text == "" {
		text = kb.Backspace
	}
	w.types(text)
}

// signsIn opens a link that lets a user in once.
func (w *window) signsIn(tenant string) {
	w.t.Helper()
	w.opens("/signin?tenant=" + tenant + "&code=" + w.site.doors[tenant].NewCode())
	w.until(`location.pathname !== "/signin" && ` + ready)
	w.opens("/sessions")
}

// noticed waits until the window has written down something of a kind, and
// forgives it.
func (w *window) noticed(kind string) {
	w.t.Helper()
	till := time.Now().Add(patient)
	for {
		w.mu.Lock()
		found := slices.ContainsFunc(w.acts, func(a string) bool { return strings.Contains(a, kind) })
		if found {
			w.acts = nil
		}
		w.mu.Unlock()
		if found {
			return
		}
		if time.Now().After(till) {
			w.t.Fatalf("%q went unnoticed", kind)
		}
		w.until(`true`)
	}
}

// count is how many elements there are.
func (w *window) count(selector string) int {
	w.t.Helper()
	return asks[int](w, fmt.Sprintf("document.querySelectorAll(%q).length", selector))
}
