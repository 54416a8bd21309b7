package server

import (
	"crypto/sha256"
	"errors"
	"net/http"
	"sync"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
)

// backendKept is how many outcomes of commits are remembered: those of the
// last seconds under the heaviest load, and of hours otherwise. A client asks
// again within seconds.
const backendKept = 20_000

// backendRepeats tells a client that lost its connection what became of its
// commit. The client names each call of Commit; a request with a name that was
// seen waits for the first to finish, if need be, and gets its answer.
//
// It remembers only what is certain: done, or refused with nothing changed.
// And it is only a shortcut: a client that asks another server, or one that
// was started again, finds its batch by its id.
type backendRepeats struct {
	mu   sync.Mutex
	of   map[[sha256.Size]byte]*backendOutcome
	ring [][sha256.Size]byte // names in the order that they came, around
	at   int
}

type backendOutcome struct {
	body    [sha256.Size]byte
	done    chan struct{}
	receipt tidemark.Receipt
	err     error
}

func newBackendRepeats() *backendRepeats {
	return &backendRepeats{of: make(map[[sha256.Size]byte]*backendOutcome)}
}

// once commits, unless the same attempt did before. The name counts together
// with who calls: nobody learns the outcome of somebody else's.
func (t *backendRepeats) once(r *http.Request, body [sha256.Size]byte, commit func() (tidemark.Receipt, error)) (receipt tidemark.Receipt, repeated bool, err error) {
	attempt := r.Header.Get(api.AttemptHeader)
	if attempt == "" {
		receipt, err = commit()
		return receipt, false, err
	}
	who := CallerOf(r.Context()) // two who come with cookies have the same header: none
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
		if !backendCertain(o.err) {
			t.forget(name, o)
		}
		close(o.done)
	}()
	o.err = tidemark.ErrUnknown // what others are told if commit panics
	o.receipt, o.err = commit()
	return o.receipt, false, o.err
}

// backendCertain reports whether the outcome of a commit is known for good.
func backendCertain(err error) bool {
	return err == nil || errors.Is(err, tidemark.ErrConflict) || errors.Is(err, tidemark.ErrExists) || errors.Is(err, tidemark.ErrInvalid)
}

func (t *backendRepeats) claim(name, body [sha256.Size]byte) (o *backendOutcome, first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if o = t.of[name]; o != nil {
		return o, false
	}
	o = &backendOutcome{body: body, done: make(chan struct{})}
	if len(t.ring) < backendKept {
		t.ring = append(t.ring, name)
	} else {
		delete(t.of, t.ring[t.at])
		t.ring[t.at] = name
		t.at = (t.at + 1) % backendKept
	}
	t.of[name] = o
	return o, true
}

func (t *backendRepeats) forget(name [sha256.Size]byte, o *backendOutcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of[name] == o {
		delete(t.of, name)
	}
}
