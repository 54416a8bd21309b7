package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/systeminfo"
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
	// tabTimeout is how long a page may take before it counts as broken.
	tabTimeout = 15 * time.Minute
)

// browsing measures the pages of the real server in a real browser.
func (r *run) browsing(ctx context.Context) error {
	if !r.hasProgram() {
		return nil
	}
	b, err := openBrowser(ctx)
	if err != nil {
		r.table.skip("pages: %v", err)
		return nil
	}
	defer b.close()
	p, err := r.open(ctx, inSQLite, "pages")
	if err != nil {
		return err
	}
	defer p.leave()
	r.say("making %s sessions and one of %s entries", short(r.size.shelved), short(r.size.turned))
	if err := p.populate(ctx, r.size.shelved); err != nil {
		return err
	}
	id, err := p.work(ctx, r.size.turned)
	if err != nil {
		return err
	}
	if _, err = p.CatchUp(ctx, nil); err != nil {
		return err
	}
	if err := p.close(); err != nil {
		return err
	}
	at := &nodes.Place{Program: r.program, Dir: p.dir, Env: os.Environ(), Store: p.url, Flags: []string{"--quiet"}}
	node, err := at.Start(ctx)
	if node != nil {
		defer node.Kill()
	}
	if err != nil {
		return err
	}
	token, err := at.Token()
	if err != nil {
		return err
	}
	b.site, b.token = node.URL, token
	if err := r.painted(ctx, b, id); err != nil {
		return err
	}
	return r.scrolled(ctx, b, id)
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

// painted measures how soon a page shows something, in a window that has seen none
// of them before.
func (r *run) painted(ctx context.Context, b *browser, id tidemark.SessionID) error {
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
		{"session", "/sessions/" + string(id), fmt.Sprintf("first paint: a session of %s entries", short(r.size.turned))},
		{"middle", "/sessions/" + string(id) + "?at=" + strconv.Itoa(max(r.size.turned/2, 1)), "first paint: the midst of it"},
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

// rolled is what a page told while it was scrolled.
type rolled struct {
	Frames []float64 `json:"frames"` // milliseconds from one to the next
	Nodes  int       `json:"nodes"`  // the most that it had
}

// roll scrolls a frame at a time until an expression is true. A page that takes very
// long, or fails, is an error that has what it looks like then.
func (t *tab) roll(step int, till string) (rolled, error) {
	return look[rolled](t, fmt.Sprintf(`new Promise((done, fail) => {
		const frames = [], wrong = [], asked = [], get = window.fetch;
		let nodes = 0, last = 0;
		const began = performance.now();
		addEventListener("error", (e) => wrong.push(e.message + " at " + e.lineno));
		addEventListener("unhandledrejection", (e) => wrong.push(String(e.reason && e.reason.stack || e.reason)));
		window.fetch = async (url, ...rest) => {
			const one = [String(url), performance.now()];
			asked.push(one);
			if (asked.length > 4) asked.shift();
			try { const r = await get(url, ...rest); one.push(performance.now(), r.status); return r; } catch (e) { one.push(performance.now(), String(e)); throw e; }
		};
		const stuck = () => {
			const list = document.getElementById("entries");
			return JSON.stringify({ at: scrollY, of: document.documentElement.scrollHeight, parts: list && [...list.children].slice(0, 5).map((c) => c.outerHTML.slice(0, 150)), frames: frames.length, now: performance.now(), asked, wrong });
		};
		const turn = (now) => { try { step(now); } catch (e) { wrong.push(String(e.stack)); fail(new Error("the page cannot be scrolled any more: " + stuck() + location + document.body.innerText.slice(0, 1000))); } };
		const step = (now) => {
			if (now - began > 300000) { fail(new Error("the page takes too long: " + stuck())); return; }
			if (last) frames.push(now - last);
			last = now;
			if (frames.length %% 16 === 0) nodes = Math.max(nodes, document.getElementsByTagName("*").length);
			if (%s) { done({ frames, nodes }); return; }
			scrollBy({ top: %d, behavior: "instant" });
			requestAnimationFrame(turn);
		};
		requestAnimationFrame(turn);
	})`, till, step))
}

// scrolled measures the frames, the nodes and the memory of the page of a long
// session while its end scrolls past, beside a page of plain paragraphs that
// scrolls as long.
func (r *run) scrolled(ctx context.Context, b *browser, id tidemark.SessionID) error {
	entries := min(r.size.rolled, r.size.turned-1)
	r.say("scroll %s entries", short(entries))
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><title>plain</title>", strings.Repeat("<p>here is a paragraph of some words, as a page without any program has them</p>", nodesAtMost/4))
	}))
	defer plain.Close()
	var (
		most       int
		memory     []float64
		bare       []float64
		paragraphs = "plain paragraphs"
		session    = "session"
		frames     int
	)
	s, err := r.compareTimes(ctx, min(r.size.reps, scrollReps),
		contender{session, func() (sample, error) {
			t, err := b.open(ctx, "/sessions/"+string(id))
			if err != nil {
				return sample{}, err
			}
			defer t.close()
			// The script comes once the page is painted; what it does first is no part of scrolling.
			if _, err := look[bool](t, `new Promise((done) => { const wait = () => { if (window.htmx && document.readyState === "complete") done(true); else setTimeout(wait, 20); }; wait(); })`); err != nil {
				return sample{}, err
			}
			got, err := t.roll(-wheelPixels, fmt.Sprintf(`document.getElementById("entries").querySelector(":scope > [id^=e]") && +document.getElementById("entries").querySelector(":scope > [id^=e]").id.slice(1) <= %d`, r.size.turned-entries))
			if err != nil {
				return sample{}, err
			}
			most, frames = max(most, got.Nodes), len(got.Frames)
			used, err := b.heaviest(ctx)
			memory = append(memory, float64(used))
			return sampleOfFrames(got.Frames), err
		}},
		contender{paragraphs, func() (sample, error) {
			t, err := b.open(ctx, plain.URL)
			if err != nil {
				return sample{}, err
			}
			defer t.close()
			got, err := t.roll(5, fmt.Sprintf("frames.length >= %d", max(frames, 60)))
			if err != nil {
				return sample{}, err
			}
			used, err := b.heaviest(ctx)
			bare = append(bare, float64(used))
			return sampleOfFrames(got.Frames), err
		}})
	if err != nil {
		return err
	}
	whole := r.size.rolled >= full.rolled && r.size.turned >= full.turned
	longest := func(one sample) float64 { return one.each }
	add := func(line row, w want) {
		if whole {
			line.goal, line.want = "P21", w
		}
		r.table.add(line)
	}
	ninety := func(name string) string {
		return "; 99 of 100 within " + duration(s.of(name, func(one sample) float64 { return one.p99 }).median)
	}
	r.table.add(row{what: "the longest frame: a page of paragraphs scrolls as long" + ninety(paragraphs), time: s.of(paragraphs, longest)})
	add(row{what: fmt.Sprintf("the longest frame: %s entries scroll past", short(entries)) + ninety(session), time: s.of(session, longest), against: "the page of paragraphs", ratio: s.ratioOf(session, paragraphs, longest)}, want{timeAtMost: float64(frameAtMost)})
	few := most <= nodesAtMost
	add(row{what: "nodes of the page meanwhile, at most", value: group(int64(most))}, want{text: "≤ " + group(nodesAtMost), met: &few})
	if used := spreadOf(memory); used.median > 0 {
		little := used.median <= memoryAtMost
		ratio, plainly := spread{}, ""
		if was := spreadOf(bare).median; was > 0 {
			ratio, plainly = spread{used.median / was, used.low / was, used.high / was}, fmt.Sprintf(" (the page of paragraphs: %.0f MB)", was/(1<<20))
		}
		add(row{what: "memory of the page after it: what its process alone has written" + plainly, value: fmt.Sprintf("%.0f MB", used.median/(1<<20)), against: "the page of paragraphs", ratio: ratio}, want{text: "≤ 150 MB", met: &little})
	}
	return nil
}

// sampleOfFrames has the longest frame as the cost.
func sampleOfFrames(ms []float64) sample {
	all := make([]time.Duration, len(ms))
	for i, f := range ms {
		all[i] = time.Duration(f * 1e6)
	}
	s := sampleOf(0, all)
	s.each = float64(slices.Max(all))
	return s
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

// heaviest is the memory that a process of a page has for itself, of the one that has
// most; 0 where the system does not tell.
func (b *browser) heaviest(ctx context.Context) (most int64, err error) {
	all, err := chromedp.CallBrowser(b.ctx, systeminfo.GetProcessInfo, cdp.Empty{})
	if err != nil {
		return 0, err
	}
	for _, p := range all.ProcessInfo {
		if p.Type == "renderer" {
			most = max(most, privateBytes(int(p.ID)))
		}
	}
	return most, ctx.Err()
}

// privateBytes is the memory that a process has written and shares with no other, as
// Linux counts it. What it only reads of the browser's own program (some 20 MB after a
// page was scrolled, which count as private as long as no other process reads them) is
// in the file anyway, and dropped when somebody needs the room: no page can help it.
func privateBytes(pid int) (n int64) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "smaps_rollup"))
	if err != nil {
		return 0
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if f := strings.Fields(lines.Text()); len(f) == 3 && (f[0] == "Private_Dirty:" || f[0] == "Private_Hugetlb:") && f[2] == "kB" {
			kb, _ := strconv.ParseInt(f[1], 10, 64)
			n += kb << 10
		}
	}
	return n
}
