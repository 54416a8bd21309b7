package transfer

import (
	"sync/atomic"
	"testing"

	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/store"
)

// However large a session is, it is heard of while it is read: more often for twice as
// much.
func TestWhatIsReadOfASourceIsHeard(t *testing.T) {
	heard := func(messages int) int64 {
		l := newLong(t, "claude-code", messages)
		var count atomic.Int64
		i := &Importer{Opened: open.Around(l.s), Holder: store.Self("import"), Tool: l.tool, Heard: func() { count.Add(1) }}
		if err := i.Paths(t.Context(), l.dir); err != nil || len(i.Results) != 1 || i.Results[0].Entries < messages {
			t.Fatalf("%+v, %v", i.Results, err)
		}
		return count.Load()
	}
	if one, two := heard(2000), heard(4000); two < one+one/2 {
		t.Errorf("%d times of 2,000 messages, %d times of 4,000", one, two)
	}
}
