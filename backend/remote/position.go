package remote

import (
	"net/http"
	"sync"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
)

// position is how far the server's database was that the caller has seen, so that a replica
// that is behind that does not answer. The zero value is for a caller who has seen nothing.
type position struct {
	mu sync.Mutex
	at tidemark.CommitPosition
}

// name writes into a request what has to be there, and returns it.
func (s *position) name(h http.Header) tidemark.CommitPosition {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at != (tidemark.CommitPosition{}) {
		h.Set(api.PositionHeader, s.at.String())
	}
	return s.at
}

// note reads what the answer to a request says, that named a position. If nothing came in between, the server is
// believed when it says an earlier one: after a failover what was seen may be gone. Of answers that
// come at the same time the farthest counts.
func (s *position) note(h http.Header, named tidemark.CommitPosition) {
	at, err := tidemark.ParseCommitPosition(h.Get(api.PositionHeader))
	if err != nil {
		return // a server without replicas says none
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at == named || at.Compare(s.at) > 0 {
		s.at = at
	}
}
