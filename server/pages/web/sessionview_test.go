package web

import (
	"testing"

	"github.com/tidemark-sessions/tidemark/store"
)

func TestTheTitleIsNotOneOfTheHitsInASession(t *testing.T) {
	f := FoundSession{Hits: []FoundHit{{}, {Seq: 3}, {Draft: true}}, More: store.Count{N: 4}}
	if got := f.All(); got != 6 {
		t.Errorf("%d hits in the session, want 6: one that is listed, one of its draft and four more", got)
	}
}
