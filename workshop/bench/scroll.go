package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/systeminfo"
	"github.com/chromedp/chromedp"
)

// rolled is what a page told while it was scrolled.
type rolled struct {
	Frames []float64 `json:"frames"` // milliseconds from one to the next
	Nodes  int       `json:"nodes"`  // the most that it had
}

// noFrame is how long a page may get no frame before it counts as stuck: on a busy
// machine the longest frames take a tenth of a second. A test has less patience.
var noFrame = 10 * time.Second

// noFrames is what a page says that the browser draws no more. It comes now and then,
// after some minutes of scrolling, and is the browser's (seen with headless Chromium 156
// on two cores, in two traces): a frame waits for tiles to be painted, the thread pool's
// job that paints them gives way to V8's marking after three of them and is never taken
// up again. Frames go on being asked for, and none is drawn; the thread of the page
// sleeps. The page can do nothing about it, so such a repetition is made anew.
const noFrames = "the browser draws no frames any more"

// drawnAnew is how often a scroller begins anew because of noFrames before it gives up.
const drawnAnew = 5

// scroller scrolls pages, each in a tab of its own.
type scroller struct {
	on   *browser
	say  func(format string, args ...any)
	anew int // how often it began anew because the browser had stopped drawing
}

// scroll scrolls a page until an expression is true, and tells the memory that it has then.
func (s *scroller) scroll(ctx context.Context, url string, step int, till string) (rolled, int64, error) {
	for {
		got, used, err := s.once(ctx, url, step, till)
		if err == nil || !strings.Contains(err.Error(), noFrames) || s.anew == drawnAnew {
			return got, used, err
		}
		s.anew++
		s.say("%v; once more, in a new tab", err)
	}
}

func (s *scroller) once(ctx context.Context, url string, step int, till string) (got rolled, used int64, err error) {
	t, err := s.on.open(ctx, url)
	if err != nil {
		return got, 0, err
	}
	defer t.close()
	// A script comes once the page is painted; what it does first is no part of scrolling.
	if _, err := look[bool](t, `new Promise((done) => { const wait = () => { if ((window.htmx || !document.querySelector("script[src]")) && document.readyState === "complete") done(true); else setTimeout(wait, 20); }; wait(); })`); err != nil {
		return got, 0, err
	}
	if got, err = t.roll(step, till); err != nil {
		return got, 0, err
	}
	used, err = s.on.heaviest(ctx)
	return got, used, err
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
			return JSON.stringify({ at: scrollY, of: document.documentElement.scrollHeight, shown: document.visibilityState, focus: document.hasFocus(), frame: last, parts: list && [...list.children].slice(0, 5).map((c) => c.outerHTML.slice(0, 150)), frames: frames.length, now: performance.now(), asked, wrong });
		};
		// A page that gets no frame any more is told by a timer: nothing below would run again.
		const awake = setInterval(() => {
			if (performance.now() - Math.max(last, began) > %d) end(() => fail(new Error("%s: " + stuck())));
		}, 1000);
		const end = (how) => { clearInterval(awake); how(); };
		const turn = (now) => { try { step(now); } catch (e) { wrong.push(String(e.stack)); end(() => fail(new Error("the page cannot be scrolled any more: " + stuck() + location + document.body.innerText.slice(0, 1000)))); } };
		const step = (now) => {
			if (now - began > 300000) { end(() => fail(new Error("the page takes too long: " + stuck()))); return; }
			if (last) frames.push(now - last);
			last = now;
			if (frames.length %% 16 === 0) nodes = Math.max(nodes, document.getElementsByTagName("*").length);
			if (frames.length && (%s)) { end(() => done({ frames, nodes })); return; }
			scrollBy({ top: %d, behavior: "instant" });
			requestAnimationFrame(turn);
		};
		requestAnimationFrame(turn);
	})`, noFrame.Milliseconds(), noFrames, till, step))
}

// scrolling measures the frames, the nodes and the memory of the page of a long
// session while its end scrolls past, beside a page of plain paragraphs that
// scrolls as long.
func (r *run) scrolling(ctx context.Context) error {
	on, end, err := r.browse(ctx)
	if on == nil || err != nil {
		return err
	}
	defer end()
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
		first      = true
	)
	pages := scroller{on: on.browser, say: r.say}
	s, err := r.compareTimes(ctx, min(r.size.reps, scrollReps),
		contender{session, func() (sample, error) {
			past := entries
			if first { // is not counted: it wakes the server and the browser, which takes no minute
				first, past = false, max(entries/10, 1)
			}
			got, used, err := pages.scroll(ctx, "/sessions/"+string(on.session), -wheelPixels, fmt.Sprintf(`document.getElementById("entries").querySelector(":scope > [id^=e]") && +document.getElementById("entries").querySelector(":scope > [id^=e]").id.slice(1) <= %d`, r.size.turned-past))
			if err != nil {
				return sample{}, err
			}
			most, frames = max(most, got.Nodes), len(got.Frames)
			memory = append(memory, float64(used))
			return sampleOfFrames(got.Frames), nil
		}},
		contender{paragraphs, func() (sample, error) {
			got, used, err := pages.scroll(ctx, plain.URL, 5, fmt.Sprintf("frames.length >= %d", max(frames, 60)))
			if err != nil {
				return sample{}, err
			}
			bare = append(bare, float64(used))
			return sampleOfFrames(got.Frames), nil
		}})
	if err != nil && strings.Contains(err.Error(), noFrames) {
		r.say("%v", err)
		r.table.skip("scrolling: %s", noFrames)
		return nil
	}
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
	anew := ""
	if pages.anew > 0 {
		anew = fmt.Sprintf("; %d× anew because the browser had stopped drawing", pages.anew)
	}
	add(row{what: fmt.Sprintf("the longest frame: %s entries scroll past", short(entries)) + ninety(session) + anew, time: s.of(session, longest), against: "the page of paragraphs", ratio: s.ratioOf(session, paragraphs, longest)}, want{timeAtMost: float64(frameAtMost)})
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
