package remote

import (
	"net/http"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
)

func TestTheServerIsBelievedUnlessSomethingNewerCameMeanwhile(t *testing.T) {
	t.Parallel()
	var p position
	says := func(at string) http.Header { return http.Header{api.PositionHeader: {at}} }
	is := func(when, want string) {
		t.Helper()
		h := make(http.Header)
		if p.name(h); h.Get(api.PositionHeader) != want {
			t.Errorf("%s: %q is named, want %q", when, h.Get(api.PositionHeader), want)
		}
	}
	is("at first", "")
	p.note(make(http.Header), tidemark.CommitPosition{})
	p.note(says("nonsense"), tidemark.CommitPosition{})
	is("after answers without one", "")
	p.note(says("1-0/50"), tidemark.CommitPosition{})
	is("after an answer", "1-0/50")

	slow := p.name(make(http.Header)) // a read that is answered after a write
	p.note(says("1-0/90"), slow)
	p.note(says("1-0/60"), slow)
	is("after an old answer that came late", "1-0/90")

	p.note(says(tidemark.UnknownCommitPosition.String()), p.name(make(http.Header)))
	is("after a write whose position is unknown", tidemark.UnknownCommitPosition.String())
	p.note(says("2-0/40"), p.name(make(http.Header)))
	is("after the primary said where it is, which went back", "2-0/40")
}
