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

	"github.com/tidemark-sessions/tidemark"
)

// A lease can be lent to somebody who is no process that anybody could look
// for: a client of a server, which comes back over another connection and to
// another node. What it holds the session by is a token: the version of the
// lease, which fences, and a secret, of which the lease keeps a hash. Nobody
// can be proven dead behind it, so it ends by time alone, and then for good.

// IssueToken is Attach for somebody who comes back with a token.
func (s *Store) IssueToken(ctx context.Context, id tidemark.SessionID, to tidemark.Holder) (token string, l Lease, err error) {
	secret := rand.Text()
	w, err := s.attach(ctx, id, client(to), tokenHash(secret))
	if err != nil {
		return "", l, err
	}
	l = w.held.Lease()
	return tokenOf(l, secret), l, nil
}

// client is what is known of a holder that is no process.
func client(h tidemark.Holder) tidemark.Holder {
	return tidemark.Holder{Program: h.Program, Host: h.Host}
}

func tokenOf(l Lease, secret string) string { return strconv.FormatInt(l.Version, 10) + "-" + secret }

func tokenHash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:16])
}

// AttachWithToken returns the Writer of a token: ErrInvalid when it is none, ErrConflict
// when the lease was lost or ran out, ErrNotFound when there is no such
// session or it is in the trash. Several may be at work with one token at the
// same time; WithToken lets them take turns. Closing the Writer ends the lease
// for all of them.
func (s *Store) AttachWithToken(ctx context.Context, id tidemark.SessionID, token string) (*Writer, error) {
	i, err := s.Session(ctx, id)
	if err != nil {
		return nil, err
	}
	if i.State != Live {
		return nil, tidemark.Errorf(tidemark.ErrTrashed, "session %s is in the trash", id)
	}
	l, err := s.borrowed(ctx, id, token)
	if err != nil {
		return nil, err
	}
	if l.Expired {
		return nil, tidemark.Conflictf("session %s: the lease has run out", id)
	}
	w := s.writer(i, l)
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
	case l.Version != version || subtle.ConstantTimeCompare([]byte(tokenHash(secret)), []byte(l.TokenHash)) == 0:
		return l, tidemark.Conflictf("session %s: the lease was lost to %s", id, l.Holder)
	}
	return l, nil
}

// WithToken runs do with the Writer of a token, anew for as long as another
// user of the same token was quicker. The Writer is kept for the next call, so
// that an append under a lease is one commit and reads nothing.
func (s *Store) WithToken(ctx context.Context, id tidemark.SessionID, token string, do func(*Writer) error) error {
	return s.withKept(keptName{id: id, token: token}, func() (*Writer, error) { return s.AttachWithToken(ctx, id, token) }, do)
}

// RenewToken says that whoever has the token is alive. It returns who
// requested the session since the token was issued, nil: nobody did.
func (s *Store) RenewToken(ctx context.Context, id tidemark.SessionID, token string) (l Lease, requested *HandoverRequest, err error) {
	err = s.WithToken(ctx, id, token, func(w *Writer) error {
		err := w.Renew(ctx)
		l = w.lease()
		return err
	})
	if err != nil {
		return l, nil, err
	}
	requested, err = s.requested(ctx, l)
	return l, requested, err
}

// requested returns the newest request for a lease since it began.
func (s *Store) requested(ctx context.Context, l Lease) (*HandoverRequest, error) {
	q, r, err := s.k.Handover(ctx, l.Of)
	if err != nil || r.Version == 0 || r.UpdatedAt.Before(l.Since) {
		return nil, err
	}
	return &q, nil
}

// TransferToken gives a lease to somebody else, who gets a token of their own. At no
// time is the session free.
func (s *Store) TransferToken(ctx context.Context, id tidemark.SessionID, token string, to tidemark.Holder) (fresh string, l Lease, err error) {
	secret := rand.Text()
	err = s.WithToken(ctx, id, token, func(w *Writer) error {
		var b tidemark.Batch
		if l, b, err = s.k.LeaseAfter(w.lease(), client(to), tokenHash(secret)); err != nil {
			return err
		}
		_, err = s.k.Commit(ctx, b)
		return err
	})
	if err != nil {
		return "", Lease{}, err
	}
	s.kept.forget(keptName{id: id, token: token})
	return tokenOf(l, secret), l, nil
}

// ReturnToken ends a lease that was lent, also one that ran out. A session that
// nobody holds any more is no error.
func (s *Store) ReturnToken(ctx context.Context, id tidemark.SessionID, token string) error {
	s.kept.forget(keptName{id: id, token: token})
	l, err := s.borrowed(ctx, id, token)
	if errors.Is(err, tidemark.ErrConflict) && !l.Held {
		return nil
	}
	if err != nil {
		return err
	}
	return s.k.Free(ctx, l)
}
