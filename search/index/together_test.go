package index_test

import (
	"fmt"
	"testing"

	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/search/index"
)

// Whoever looks for a rare word where each call takes a round trip does not wait for one
// segment after the other.
func TestSegmentsThatAreFarAwayAreAskedTogether(t *testing.T) {
	b := &far{Backend: memory.New()}
	w := newWorld(t, b)
	ix := w.index(b, index.Options{Cache: index.NewCache(0)})
	const segments = 6 // fewer than are merged
	for i := range segments {
		var text []string
		for j := range 2000 { // more than the root of a segment holds
			text = append(text, fmt.Sprintf("ebb number%d", 2000*i+j))
		}
		w.say(logKey(i+1), append(text, "rare ebb")...)
		w.catchUp(ix, index.Pace{})
	}
	v := w.look(ix)
	if n, _ := v.Segments(); n != segments {
		t.Fatalf("there are %d segments", n)
	}
	w.exact(v, "rare") // opens them
	b.calls.Store(0)
	b.logs.Store(0)
	w.exact(v, "rare")
	calls, logs := b.calls.Load(), b.logs.Load()
	if calls == 0 || logs < 2*calls {
		t.Errorf("%d calls read what was asked of %d segments", calls, logs)
	}
}
