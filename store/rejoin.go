package store

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// A lease can be lent to somebody who is no process that anybody could look
// for: a client of a server, which comes back over another connection and to
// another node. What it holds the session by is a token: the version of the
// lease, which fences, and a secret, of which the lease keeps a print. Nobody
// can be proven dead behind it, so it ends by time alone, and then for good.

// lent is the namespace of holders that a token stands for.
const lent = "token"

// LeaseTime is how long a holder may be silent.
func (s *Store) LeaseTime() time.Duration { return s.o.Lease }

// Lend is Attach for somebody who comes back with a token.
func (s *Store) Lend(ctx context.Context, id tidemark.SessionID, to tidemark.Holder) (token string, l Lease, err error) {
	to, secret := lentTo(to)
	w, err := s.Attach(ctx, id, to)
	if err != nil {
		return "", l, err
	}
	return tokenOf(w.lease, secret), w.lease, nil
}

// lentTo returns the holder that whoever knows the secret is.
func lentTo(to tidemark.Holder) (tidemark.Holder, string) {
	secret := rand.Text()
	return tidemark.Holder{Program: to.Program, Host: to.Host, Namespace: lent, StartedAt: printOf(secret)}, secret
}

func tokenOf(l Lease, secret string) string { return strconv.FormatInt(l.token, 10) + "-" + secret }

func printOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:16])
}

// Rejoin returns a Writer for a token: ErrInvalid when it is none, ErrConflict
// when the lease was lost or ran out, ErrNotFound when there is no such
// session or it is in the trash. Several may be at work with one token at the
// same time; WithToken lets them take turns. Closing the Writer ends the lease
// for all of them.
func (s *Store) Rejoin(ctx context.Context, id tidemark.SessionID, token string) (*Writer, error) {
	i, err := s.Session(ctx, id)
	if err != nil {
		return nil, err
	}
	if i.State != Live {
		return nil, tidemark.NotFoundf("session %s is in the trash", id)
	}
	l, err := s.borrowed(ctx, id, token)
	if err != nil {
		return nil, err
	}
	if l.Expired {
		return nil, tidemark.Conflictf("session %s: the lease has run out", id)
	}
	w := &Writer{s: s, id: id, closed: make(chan struct{}), session: i.Session, attached: true, lease: l}
	w.main = newTail(keyOf(kindSession, id), 0)
	if i.Base != nil {
		w.main.offset = i.Base.Seq
		w.shared = &View{s: s, Info: i}
	}
	return w, w.main.load(ctx, s)
}

// borrowed returns the lease that a token stands for, also one that ran out.
func (s *Store) borrowed(ctx context.Context, id tidemark.SessionID, token string) (Lease, error) {
	number, secret, ok := strings.Cut(token, "-")
	version, err := strconv.ParseInt(number, 10, 64)
	if !ok || err != nil || len(token) > 100 {
		return Lease{}, tidemark.Invalidf("session %s: this is no token of a lease", id)
	}
	l, err := s.Lease(ctx, id)
	switch {
	case err != nil:
		return l, err
	case !l.Held:
		return l, tidemark.Conflictf("session %s: the lease was released", id)
	case l.token != version || l.Holder.Namespace != lent || subtle.ConstantTimeCompare([]byte(printOf(secret)), []byte(l.Holder.StartedAt)) == 0:
		return l, tidemark.Conflictf("session %s: the lease was lost to %s", id, l.Holder)
	}
	return l, nil
}

// WithToken runs do with the Writer of a token, anew for as long as another
// user of the same token was quicker.
func (s *Store) WithToken(ctx context.Context, id tidemark.SessionID, token string, do func(*Writer) error) error {
	var err error
	for range tries {
		w, lookErr := s.Rejoin(ctx, id, token)
		if lookErr != nil {
			return lookErr
		}
		if err = do(w); !errors.Is(err, tidemark.ErrConflict) {
			return err
		}
	}
	return err
}

// RenewToken says that whoever has the token is alive. It returns who asked
// for the session since it was lent, nil: nobody did.
func (s *Store) RenewToken(ctx context.Context, id tidemark.SessionID, token string) (l Lease, asked *Ask, err error) {
	err = s.WithToken(ctx, id, token, func(w *Writer) error {
		err := w.Renew(ctx)
		l = w.lease
		return err
	})
	if err != nil {
		return l, nil, err
	}
	asked, err = s.asked(ctx, id, l.Since)
	return l, asked, err
}

func (s *Store) asked(ctx context.Context, id tidemark.SessionID, since time.Time) (*Ask, error) {
	var a Ask
	r, err := s.get(ctx, keyOf(kindAsk, id), &a)
	if err != nil || r.Version == 0 || r.UpdatedAt.Before(since) {
		return nil, err
	}
	return &a, nil
}

// PassOn gives a lease to somebody else, who gets a token of their own. At no
// time is the session free.
func (s *Store) PassOn(ctx context.Context, id tidemark.SessionID, token string, to tidemark.Holder) (fresh string, l Lease, err error) {
	to, secret := lentTo(to)
	err = s.WithToken(ctx, id, token, func(w *Writer) error {
		var b tidemark.Batch
		if l, b, err = s.lease(id, to, w.lease); err != nil {
			return err
		}
		_, err = s.commit(ctx, b)
		return err
	})
	if err != nil {
		return "", Lease{}, err
	}
	return tokenOf(l, secret), l, nil
}

// GiveBack ends a lease that was lent, also one that ran out. A session that
// nobody holds any more is no error.
func (s *Store) GiveBack(ctx context.Context, id tidemark.SessionID, token string) error {
	l, err := s.borrowed(ctx, id, token)
	if errors.Is(err, tidemark.ErrConflict) && !l.Held {
		return nil
	}
	if err != nil {
		return err
	}
	return s.free(ctx, id, l)
}
