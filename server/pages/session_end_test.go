package pages

import (
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/server/pages/web"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/store/rewind"
)

func TestAHolderThatIsDeadIsACrash(t *testing.T) {
	st := store.New(memory.New(), &store.Options{Dead: func(tidemark.Holder) bool { return true }})
	w := st.Create(tidemark.Session{}, process.Self("talk"))
	if _, err := w.Append(t.Context(), tidemark.Say(tidemark.User, "hi")); err != nil {
		t.Fatal(err)
	}
	v, err := st.View(t.Context(), w.ID())
	if err != nil {
		t.Fatal(err)
	}
	l, err := st.Lease(t.Context(), w.ID())
	if err != nil {
		t.Fatal(err)
	}
	if end, err := sessionEnd(t.Context(), st, v, l); err != nil || end.Kind != web.EndCrashed || end.Who == "" {
		t.Errorf("%+v, %v", end, err)
	}
}

func TestACommandOfThePersonNeedsNoAnswer(t *testing.T) {
	failed := rewind.PutOut("<data 1>\nno such boat\n</data 1>", true)
	for _, c := range []struct {
		e    tidemark.Entry
		want string
	}{
		{rewind.PutOut("<data 1>\nebb\n</data 1>", false), web.EndDone},
		{failed, web.EndDone},
		{rewind.Typed("ls"), web.EndInterrupted},
		{tidemark.Say(tidemark.User, "What it put out:\nebb"), web.EndUnanswered},
		{tidemark.Entry{Kind: tidemark.KindMessage, Role: tidemark.Tool, Blocks: []tidemark.Block{{Type: tidemark.BlockToolResult, ToolUseID: "1"}}}, web.EndUnanswered},
	} {
		if got := endOf(c.e, nil).Kind; got != c.want {
			t.Errorf("after %q: %s, want %s", c.e.Text(), got, c.want)
		}
	}
}
