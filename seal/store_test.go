package seal_test

import (
	"errors"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/seal"
	"github.com/tidemark-sessions/tidemark/store"
)

// TestAStoreLivesInASealedPlace follows a session and its fork through the
// rules: kept, forked, purged, and the fork still read by whoever comes next.
func TestAStoreLivesInASealedPlace(t *testing.T) {
	b, inner, opens := made(t)
	s := store.New(b, nil)
	who := tidemark.Holder{Program: "test", PID: 1, Host: "here"}
	w := s.Create(tidemark.Session{Title: "Tides"}, who)
	if _, err := w.Append(ctx, tidemark.Say(tidemark.User, "When is high tide?"), tidemark.Say(tidemark.Assistant, "At noon.")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(ctx); err != nil {
		t.Fatal(err)
	}
	fork := must[store.Info](t)(s.Fork(ctx, w.ID(), 0, "Ebb"))
	if err := s.Purge(ctx, w.ID(), who); err != nil {
		t.Fatal(err)
	}
	if _, err := inner.Get(ctx, key("datakey", string(w.ID()))); !errors.Is(err, tidemark.ErrNotFound) {
		t.Errorf("the data key of a purged session: %v, want ErrNotFound", err)
	}
	for k, err := range inner.Walk(ctx, tidemark.Key{}) {
		if err != nil || len(k.ID) >= 36 && k.ID[:36] == string(w.ID()) {
			t.Errorf("left of the purged session: %s, %v", k, err)
		}
	}
	again := store.New(must[*seal.Backend](t)(seal.Open(ctx, inner.Again(), opens)), nil)
	v := must[*store.View](t)(again.View(ctx, fork.ID))
	if v.Title != "Ebb" || v.Messages != 2 {
		t.Errorf("the fork: %q with %d messages", v.Title, v.Messages)
	}
}
