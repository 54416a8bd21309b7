package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/workshop/nodes"
)

// What a page in a browser may cost.
const (
	paintAtMost  = 200 * time.Millisecond
	frameAtMost  = 50 * time.Millisecond
	nodesAtMost  = 5000
	memoryAtMost = 150 << 20
	// wheelPixels is how far each frame scrolls: some 24,000 pixels a second, faster
	// than anybody reads.
	wheelPixels = 400
	// scrollReps is how often a session is scrolled, which takes a minute.
	scrollReps = 3
	// tabTimeout is how long a page may take before it counts as broken: longer than
	// the five minutes after which one that is scrolled says itself what it looks like.
	tabTimeout = 6 * time.Minute
)

// onPages is what a part is measured with: a real browser before a real server, whose
// store has many sessions and one long one.
type onPages struct {
	*browser
	session tidemark.SessionID // the long one
}

// browse opens the browser and serves the store, which is made once for all parts; it is
// nil where there is no browser. What it returns ends both.
func (r *run) browse(ctx context.Context) (*onPages, func(), error) {
	if !r.hasProgram() {
		return nil, nil, nil
	}
	b, err := openBrowser(ctx)
	if err != nil {
		r.table.skip("pages: %v", err)
		return nil, nil, nil
	}
	node, err := r.serve(ctx, b)
	end := func() {
		if node != nil {
			node.Kill()
		}
		b.close()
	}
	if err != nil {
		end()
		return nil, nil, err
	}
	return &onPages{b, r.places[pagesStore].session}, end, nil
}

// pagesStore is what r.places has the store under.
const pagesStore = "pages in " + inSQLite

// serve starts a server that the browser may ask.
func (r *run) serve(ctx context.Context, b *browser) (*nodes.Node, error) {
	p, err := r.kept(ctx, inSQLite, "pages", func(p *place) (err error) {
		r.say("making %s sessions and one of %s entries", short(r.size.shelved), short(r.size.turned))
		if err = p.populate(ctx, r.size.shelved); err == nil {
			p.session, err = p.work(ctx, r.size.turned)
		}
		if err == nil {
			_, err = p.CatchUp(ctx, nil)
		}
		return err
	})
	if err == nil {
		err = p.close() // the server alone has it open
	}
	if err != nil {
		return nil, err
	}
	at := &nodes.Place{Program: r.program, Dir: p.dir, Env: os.Environ(), Store: p.url, Flags: []string{"--quiet"}}
	node, err := at.Start(ctx)
	if err != nil {
		return node, err
	}
	b.site = node.URL
	b.token, err = at.Token()
	return node, err
}

// work makes a session of n entries as agents leave them: prompts, thinking, calls
// with their results, and answers with code.
func (p *place) work(ctx context.Context, n int) (tidemark.SessionID, error) {
	w := p.Create(tidemark.Session{Title: fmt.Sprintf("work of %d entries", n), Model: "demo", Project: project(0)}, p.who)
	var batch []tidemark.Entry
	for turn := 0; n > 0; turn++ {
		one := worked(turn)
		one = one[:min(len(one), n)]
		n -= len(one)
		if batch = append(batch, one...); len(batch) < stride && n > 0 {
			continue
		}
		if _, err := w.Append(ctx, batch...); err != nil {
			return "", err
		}
		batch = batch[:0]
	}
	return w.ID(), w.Close(ctx)
}

// worked is one turn of an agent.
func worked(turn int) []tidemark.Entry {
	at := time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC).Add(time.Duration(turn) * time.Minute)
	message := func(role tidemark.Role, blocks ...tidemark.Block) tidemark.Entry {
		at = at.Add(1500 * time.Millisecond)
		return tidemark.Entry{Kind: tidemark.KindMessage, Role: role, At: at, Blocks: blocks}
	}
	call := func(id, name string, input map[string]string) tidemark.Block {
		text, _ := json.Marshal(input) // strings alone
		return tidemark.Block{Type: tidemark.BlockToolUse, ID: fmt.Sprintf("%s%d", id, turn), Name: name, Input: text}
	}
	result := func(id, text string, failed bool) tidemark.Block {
		return tidemark.Block{Type: tidemark.BlockToolResult, ToolUseID: fmt.Sprintf("%s%d", id, turn), Text: text, IsError: failed}
	}
	var file strings.Builder
	for line := range 30 {
		fmt.Fprintf(&file, "%d\tfunc tide%d() int { return %d } // %s\n", line+1, line, line*turn, words[(line+turn)%len(words)])
	}
	answer := message(tidemark.Assistant, tidemark.Text(fmt.Sprintf("It is **mended** for %s.\n\n- the gauge is read once\n- `tide%d` counts from the mark\n\n```go\nfunc tide() int {\n\treturn %d\n}\n```\n\nThe test of it passes now.", words[turn%len(words)], turn, turn)))
	answer.Model, answer.Usage = "demo", &tidemark.Usage{InputTokens: 1200, OutputTokens: 300, CostUSD: 0.01}
	return []tidemark.Entry{
		message(tidemark.User, tidemark.Text(fmt.Sprintf("Mend gauge %d: it is about %s, and about %s.", turn+1, words[turn%len(words)], words[(turn/3)%len(words)]))),
		message(tidemark.Assistant, tidemark.Block{Type: tidemark.BlockThinking, Text: "The gauge comes first, then its test."}, tidemark.Text("I look at the gauge first."), call("r", "Read", map[string]string{"file_path": "gauge.go"})),
		message(tidemark.Tool, result("r", file.String(), false)),
		message(tidemark.Assistant, call("e", "Edit", map[string]string{"file_path": "gauge.go", "old_string": "high := 3\nlow := 0", "new_string": "high := 4\nlow := 1\nmid := 2"})),
		message(tidemark.Tool, result("e", "done", false)),
		message(tidemark.Assistant, call("b", "Bash", map[string]string{"command": "go test ./quay"})),
		message(tidemark.Tool, result("b", "\x1b[31mFAIL\x1b[0m quay 0.2s\n"+strings.Repeat("    gauge_test.go:12: high = 3, want 4\n", 5), turn%5 == 0)),
		answer,
	}
}

// painting measures how soon a page shows something, in a window that has seen none
// of them before.
func (r *run) painting(ctx context.Context) error {
	b, end, err := r.browse(ctx)
	if b == nil || err != nil {
		return err
	}
	defer end()
	r.say("first paint")
	const (
		bare  = "a page of one line, by no program of ours"
		empty = "a page that says that nothing is there"
	)
	// What the browser itself takes on this machine, before anything of ours counts.
	line := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><title>plain</title><p>one line")
	}))
	defer line.Close()
	at := func(path string) func() (sample, error) {
		return func() (sample, error) {
			t, err := b.open(ctx, path)
			if err != nil {
				return sample{}, err
			}
			defer t.close()
			ms, err := look[float64](t, `new Promise((done) => new PerformanceObserver((l) => { for (const e of l.getEntries()) if (e.name === "first-contentful-paint") done(e.startTime); }).observe({ type: "paint", buffered: true }))`)
			return sample{each: ms * 1e6}, err
		}
	}
	pages := []struct{ name, path, what string }{
		{"session", "/sessions/" + string(b.session), fmt.Sprintf("first paint: a session of %s entries", short(r.size.turned))},
		{"middle", "/sessions/" + string(b.session) + "?at=" + strconv.Itoa(max(r.size.turned/2, 1)), "first paint: the midst of it"},
		{"list", "/sessions", fmt.Sprintf("first paint: the list of %s sessions", short(r.size.shelved))},
		{"home", "/", "first paint: the first page of them"},
	}
	contenders := []contender{{bare, at(line.URL)}, {empty, at("/nothing")}}
	for _, p := range pages {
		contenders = append(contenders, contender{p.name, at(p.path)})
	}
	s, err := r.compare(ctx, contenders...)
	if err != nil {
		return err
	}
	r.table.add(row{what: "first paint: " + bare, time: s.time(bare)})
	r.table.add(row{what: "first paint: " + empty, time: s.time(empty), against: bare, ratio: s.ratio(empty, bare)})
	for _, p := range pages {
		line := row{goal: "P21", what: p.what, time: s.time(p.name), against: bare, ratio: s.ratio(p.name, bare)}
		if r.size.turned >= full.turned && r.size.shelved >= full.shelved {
			line.want = want{timeAtMost: float64(paintAtMost)}
		}
		r.table.add(line)
	}
	return nil
}

// browser is a real one, that shows what a server serves.
type browser struct {
	ctx         context.Context
	end         func()
	site, token string
}

// openBrowser starts Chromium, if it is there.
func openBrowser(ctx context.Context) (*browser, error) {
	var path string
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		return nil, errors.New("there is no Chromium")
	}
	// Inside a container the browser may not make a sandbox of its own, and
	// the pages are ours.
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WSURLReadTimeout(tabTimeout))
	allocated, endAll := chromedp.NewExecAllocator(ctx, options...)
	own, end := chromedp.NewContext(allocated)
	b := &browser{ctx: own, end: func() { end(); endAll() }}
	if err := chromedp.Do(own); err != nil {
		b.end()
		return nil, err
	}
	return b, nil
}

func (b *browser) close() { b.end() }

// tab is a window of somebody who was never here before.
type tab struct {
	ctx  context.Context
	stop func()
}

// open goes to a page of the site, or elsewhere, and waits until it is loaded.
func (b *browser) open(ctx context.Context, path string) (*tab, error) {
	own, cancel := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext())
	if err := chromedp.Do(own); err != nil { // it lives as long as this context
		cancel()
		return nil, err
	}
	timed, stop := context.WithTimeout(own, tabTimeout)
	release := context.AfterFunc(ctx, stop)
	t := &tab{ctx: timed, stop: func() { release(); stop(); cancel() }}
	if strings.HasPrefix(path, "/") {
		path = b.site + path
	}
	err := chromedp.Do(timed, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		// A window behind another one paints nothing.
		if _, err := cdp.Call(ctx, t, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}); err != nil {
			return err
		}
		if _, err := cdp.Call(ctx, t, network.Enable, network.EnableParams{}); err != nil || !strings.HasPrefix(path, b.site) {
			return err
		}
		_, err := cdp.Call(ctx, t, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: network.Headers{"Authorization": "Bearer " + b.token}})
		return err
	}), chromedp.EmulateViewport(1280, 800), chromedp.Navigate(path))
	if err != nil {
		t.close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

func (t *tab) close() { t.stop() }

// look evaluates an expression in the page, and waits for what it promises.
func look[T any](t *tab, expression string) (T, error) {
	return chromedp.Run(t.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}
