package wire

import (
	"crypto/sha256"
	"errors"
	"net/http"
	"sync"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/server/request"
)

// maxKept is how many outcomes of commits are remembered: those of the last
// seconds under the heaviest load, and of hours otherwise. A client retries
// within seconds.
const maxKept = 20_000

// repeats tells a client that lost its connection what became of its commit.
// The client names each call of Commit; a request with a known name waits for
// the first one to finish, if necessary, and gets its answer.
//
// It remembers only what is certain: done, or refused with nothing changed.
// And it is only a shortcut: a client that asks another server, or a
// restarted one, finds its batch by its id.
type repeats struct {
	mu   sync.Mutex
	of   map[[sha256.Size]byte]*outcome
	ring [][sha256.Size]byte // names in order of arrival, as a ring
	at   int
}

type outcome struct {
	body    [sha256.Size]byte
	done    chan struct{}
	receipt tidemark.Receipt
	err     error
}

func newRepeats() *repeats {
	return &repeats{of: make(map[[sha256.Size]byte]*outcome)}
}

// commitOnce commits, unless the same attempt did before. The name counts together
// with the caller: nobody learns the outcome of somebody else's.
func (t *repeats) commitOnce(r *http.Request, body [sha256.Size]byte, commit func() (tidemark.Receipt, error)) (receipt tidemark.Receipt, repeated bool, err error) {
	attempt := r.Header.Get(api.AttemptHeader)
	if attempt == "" {
		receipt, err = commit()
		return receipt, false, err
	}
	who := request.CallerOf(r.Context()) // two callers with cookies have the same header: none
	name := sha256.Sum256([]byte(who.Tenant + "/" + who.User + "\n" + r.Header.Get("Authorization") + "\n" + attempt))
	o, first := t.claim(name, body)
	if !first {
		if o.body != body {
			return receipt, false, tidemark.Invalidf("the attempt was made before, with another batch")
		}
		select {
		case <-o.done:
			return o.receipt, true, o.err
		case <-r.Context().Done():
			return receipt, false, r.Context().Err()
		}
	}
	defer func() {
		if !certain(o.err) {
			t.forget(name, o)
		}
		close(o.done)
	}()
	o.err = tidemark.ErrUnknown // the answer for waiters if commit panics
	o.receipt, o.err = commit()
	return o.receipt, false, o.err
}

// certain reports whether the outcome of a commit is final.
func certain(err error) bool {
	return err == nil || errors.Is(err, tidemark.ErrConflict) || errors.Is(err, tidemark.ErrExists) || errors.Is(err, tidemark.ErrInvalid)
}

func (t *repeats) claim(name, body [sha256.Size]byte) (o *outcome, first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if o = t.of[name]; o != nil {
		return o, false
	}
	o = &outcome{body: body, done: make(chan struct{})}
	if len(t.ring) < maxKept {
		t.ring = append(t.ring, name)
	} else {
		delete(t.of, t.ring[t.at])
		t.ring[t.at] = name
		t.at = (t.at + 1) % maxKept
	}
	t.of[name] = o
	return o, true
}

func (t *repeats) forget(name [sha256.Size]byte, o *outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of[name] == o {
		delete(t.of, name)
	}
}
