package pages

import (
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/server/pages/web"
	"github.com/tidemark-sessions/tidemark/store"
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
