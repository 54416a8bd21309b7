package store_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/store"
)

// Every second entry is a branch that was left again, so no two entries of the
// path stand beside each other in the log.
func TestAPathOfManyBranchesIsReadFromItsEnd(t *testing.T) {
	s := open(t)
	w := begin(t, s, user("begin"))
	path := []string{"begin"}
	for i := range 80 {
		text := fmt.Sprint("kept ", i)
		kept := add(t, w, assistant(text))
		add(t, w, assistant(fmt.Sprint("left ", i)))
		if err := w.Branch(t.Context(), kept[0]); err != nil {
			t.Fatal(err)
		}
		path = append(path, text)
	}
	v := view(t, s, w.ID())
	for _, n := range []int{1, 7, 80, 81, 200} {
		same(t, texts(t, v.Tail(t.Context(), 0, n)), path[max(0, len(path)-n):])
	}
}

// gap is a Backend that lost one line of every log without a trace.
type gap struct {
	tidemark.Backend
	lost int64
}

func (g gap) Lines(ctx context.Context, log tidemark.Key, spans ...tidemark.Span) iter.Seq2[tidemark.Line, error] {
	return func(yield func(tidemark.Line, error) bool) {
		for l, err := range g.Backend.Lines(ctx, log, spans...) {
			if l.Seq != g.lost && !yield(l, err) {
				return
			}
		}
	}
}

func TestALineThatIsMissingIsDamageAndMayBeTheLastThatIsRead(t *testing.T) {
	b := memory.New()
	w := begin(t, store.New(b, nil), user("1"), assistant("2"), assistant("3"), assistant("4"))
	v := view(t, store.New(gap{b, 3}, nil), w.ID())
	for n, want := range map[int]string{1: "4", 2: "! 4", 3: "2 ! 4", 4: "1 2 ! 4"} {
		got := ""
		for e, err := range v.Tail(t.Context(), 0, n) {
			if errors.Is(err, tidemark.ErrCorrupt) {
				got += " !"
			} else if err != nil {
				t.Fatal(err)
			} else {
				got += " " + e.Text()
			}
		}
		same(t, got[1:], want)
	}
}
