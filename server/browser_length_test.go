package server

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/memory"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/process"
)

// mostNodes is how many nodes a page may have, whatever was scrolled.
const mostNodes = 5000

// scrolls turns the wheel until an expression is true, and returns the most nodes
// that the page had on the way.
func (w *window) scrolls(step int, till string) int {
	w.t.Helper()
	return asks[int](w, fmt.Sprintf(`new Promise((done) => {
		let most = 0;
		const turn = () => {
			most = Math.max(most, document.getElementsByTagName("*").length);
			if (%s) { done(most); return; }
			scrollBy(0, %d);
			requestAnimationFrame(turn);
		};
		turn();
	})`, till, step))
}

// whole fails unless the page has all that was said in turns of worked, from its
// first entry to its last.
func (w *window) whole(last int) {
	w.t.Helper()
	w.until(`!document.querySelector("#entries [data-busy]")`)
	said := asks[[]int](w, `[...document.querySelectorAll("#entries > .said")].map((e) => +e.id.slice(1))`)
	if len(said) < 10 {
		w.t.Fatalf("only %v is there", said)
	}
	for said[0]%9 != 1 {
		said = said[1:] // a turn whose beginning is further up
	}
	var want []int
	for n := said[0]; n <= max(said[len(said)-1], last); n++ {
		if slices.Contains([]int{1, 4, 6, 0}, n%9) {
			want = append(want, n)
		}
	}
	if !slices.Equal(said, want) {
		w.t.Errorf("what was said is %v, want %v", said, want)
	}
}

// mostHeap and mostKept are what a page may have after it was scrolled and nothing
// that could be freed is left: more than it has on any machine, and less than if
// what was taken out were kept. What its whole process has is measured by
// workshop/bench.
const (
	mostHeap = 60 << 20
	mostKept = 40_000 // nodes of the document and beside it, texts among them
)

// freed is what the page has when all that could be freed is freed.
func (w *window) freed() (heap int64, nodes int64) {
	w.t.Helper()
	err := chromedp.Do(w.ctx, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		if _, err := cdp.Call(ctx, t, heapprofiler.CollectGarbage, cdp.Empty{}); err != nil {
			return err
		}
		used, err := cdp.Call(ctx, t, runtime.GetHeapUsage, cdp.Empty{})
		if err != nil {
			return err
		}
		heap = int64(used.UsedSize + used.EmbedderHeapUsedSize)
		counted, err := cdp.Call(ctx, t, memory.GetDOMCounters, cdp.Empty{})
		if err != nil {
			return err
		}
		nodes = int64(counted.Nodes)
		return nil
	}))
	if err != nil {
		w.t.Fatal(err)
	}
	return heap, nodes
}

func TestAPageOfFiftyThousandEntriesStaysSmall(t *testing.T) {
	s := onSQLite(t)
	const turns, atOnce = 5560, 278 // of nine entries each
	out := s.of("a", "jo").Create(tidemark.Session{Title: "long"}, process.Self("talk"))
	begun := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	for n := 0; n < turns; n += atOnce {
		var all []tidemark.Entry
		for m := range atOnce {
			turn := worked(fmt.Sprintf("Mend gauge %d.", n+m+1))
			for i := range turn {
				turn[i].At = begun.Add(time.Duration(n+m)*10*time.Minute + time.Duration(i)*time.Second)
			}
			all = append(all, turn...)
		}
		must[[]int64](t)(out.Append(t.Context(), all...))
	}
	go out.KeepAlive(t.Context(), nil)
	last := 9 * turns
	w := s.window(t)
	w.signsIn("a")
	w.opens("/sessions/" + string(out.ID()))
	w.until(`document.getElementById("newest").getBoundingClientRect().top <= innerHeight && document.querySelector(".turns .outline")`)
	asks[bool](w, `!(window.__long = [])`)

	// Something is unfolded, and has the focus, before it is left far behind.
	asks[bool](w, fmt.Sprintf(`!document.querySelector("#e%d .call summary").focus()`, last-5))
	w.types(kb.Enter)
	w.until(fmt.Sprintf(`document.querySelector("#e%d .call").open`, last-5))
	most := w.scrolls(-400, fmt.Sprintf(`document.getElementById("e%d")`, last-1499))
	if there := asks[bool](w, fmt.Sprintf(`!!document.getElementById("e%d")`, last)); there || most > mostNodes {
		t.Errorf("the page had %d nodes, and its end is still there: %v", most, there)
	}
	w.whole(0)

	// What is said meanwhile comes in at the end, not in the midst.
	must[[]int64](t)(out.Append(t.Context(), worked("And one more.")...))
	last += 9
	most = max(most, w.scrolls(400, fmt.Sprintf(`document.getElementById("e%d")`, last)))
	w.whole(last)
	w.until(fmt.Sprintf(`document.querySelector("#e%d .call").open && document.activeElement === document.querySelector("#e%d .call summary")`, last-14, last-14))
	must[[]int64](t)(out.Append(t.Context(), worked("And yet one more.")...))
	last += 9
	w.until(fmt.Sprintf(`document.getElementById("e%d")`, last))
	if most > mostNodes {
		t.Errorf("the page had %d nodes", most)
	}
	heap, kept := w.freed()
	t.Logf("at most %d nodes; %d MB and %d nodes are kept; long tasks %v ms", most, heap>>20, kept, asks[[]int](w, `window.__long`))
	if heap > mostHeap || kept > mostKept {
		t.Errorf("the page keeps %d bytes and %d nodes", heap, kept)
	}

	// The end is one step away from anywhere.
	w.scrolls(-400, `document.querySelector("#entries > .newer")`)
	w.types("e")
	w.until(fmt.Sprintf(`document.getElementById("e%d") && document.getElementById("newest").getBoundingClientRect().top <= innerHeight`, last))
	must[[]int64](t)(out.Append(t.Context(), tidemark.Say(tidemark.User, "The end?")))
	w.until(fmt.Sprintf(`document.getElementById("e%d")`, last+1))

	// So are any entry and any day.
	w.fills(".jumps [name=at]", "25003")
	w.leaves(func() { w.types("\r") })
	w.until(`document.getElementById("e25003").getBoundingClientRect().top < innerHeight`)
	w.whole(0)
	w.opens("/sessions/" + string(out.ID()) + "?on=2026-03-11")
	day := int(10*24*time.Hour-9*time.Hour)/int(10*time.Minute)*9 + 1 // its first entry
	w.until(fmt.Sprintf(`document.getElementById("e%d").getBoundingClientRect().top < innerHeight`, day))

	// So are the first entry and each turn, by the list of turns.
	w.leaves(func() { w.clicks(".jumps .actions a:first-child") })
	w.until(`document.getElementById("e1").getBoundingClientRect().top < innerHeight / 2`)
	w.scrolls(400, `document.getElementById("e496")`) // a prompt: what is folded is kept aside
	w.whole(0)
	if asks[bool](w, `!!document.getElementById("e1")`) {
		t.Error("the first entry is still on the page")
	}
	w.scrolls(-400, `document.getElementById("e1")`)
	w.until(`document.querySelector(".turns")`)
	for range 2 {
		first := asks[string](w, `document.querySelector(".turns .outline a").innerText`)
		w.clicks(`.turns > p:first-of-type a`)
		w.until(fmt.Sprintf(`document.querySelector(".turns .outline a").innerText !== %q`, first))
	}
	w.sees("later turns", "earlier turns")
	if err := out.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}
