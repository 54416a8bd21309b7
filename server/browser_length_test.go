package server

import (
	"fmt"
	"slices"
	"testing"

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
	w.until(`!document.querySelector("#entries .htmx-added, #entries .htmx-settling, #entries .htmx-request")`)
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

func TestAPageOfALongSessionStaysSmall(t *testing.T) {
	s := onSQLite(t)
	const turns = 500 // of nine entries each
	out := s.of("a", "jo").Create(tidemark.Session{Title: "long"}, process.Self("talk"))
	for n := 0; n < turns; n += 100 {
		var all []tidemark.Entry
		for m := range 100 {
			all = append(all, worked(fmt.Sprintf("Mend gauge %d.", n+m+1))...)
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
	t.Logf("at most %d nodes; long tasks %v ms", most, asks[[]int](w, `window.__long`))

	// The end is one step away from anywhere.
	w.scrolls(-400, `document.querySelector("#entries > .newer")`)
	w.types("e")
	w.until(fmt.Sprintf(`document.getElementById("e%d") && document.getElementById("newest").getBoundingClientRect().top <= innerHeight`, last))
	must[[]int64](t)(out.Append(t.Context(), tidemark.Say(tidemark.User, "The end?")))
	w.until(fmt.Sprintf(`document.getElementById("e%d")`, last+1))

	// So are the first entry and each turn, by the list of turns.
	w.leaves(func() { w.clicks(".jumps .actions a:first-child") })
	w.until(`document.getElementById("e1").getBoundingClientRect().top < innerHeight / 2`)
	w.scrolls(400, `document.getElementById("e500")`)
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
	w.sees("Mend gauge 1.", "later turns", "not", "earlier turns")
	if err := out.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}
