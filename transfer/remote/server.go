package remote

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	backend "github.com/tidemark-sessions/tidemark/backend/remote"
	"github.com/tidemark-sessions/tidemark/internal/expression"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// server is a place on a Tidemark server: records beside the sessions of a user, that
// only this user's tokens lead to. Each blob is two of them, so that a list does not
// bring what it lists: one of KindBlob that says that it is there, and one of
// KindBlobData. Both always have the same version.
type server struct {
	b     *backend.Backend
	place string // before the name of each blob
}

var placeName = expression.WhenNeeded(`^[a-z0-9-]{1,20}$`)

// openServer reads https://HOST[?place=NAME].
func openServer(ctx context.Context, text string, o *Options) (Blobs, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, tidemark.Invalidf("%.100q is no URL", text)
	}
	q := u.Query()
	place := cmp.Or(q.Get("place"), "home")
	if q.Del("place"); len(q) > 0 || !placeName().MatchString(place) {
		return nil, tidemark.Invalidf("%s: want https://HOST or https://HOST?place=NAME", u.Redacted())
	}
	u.RawQuery = ""
	var token func(context.Context) (string, error)
	if o.Token != nil {
		token = o.Token(u.String())
	}
	b, err := backend.Open(ctx, u.String(), &backend.Options{Token: token})
	switch {
	case errors.Is(err, tidemark.ErrDenied):
		return nil, hint.With(err, "set $TIDEMARK_TOKEN, or $TIDEMARK_TOKEN_FILE, to a token of that server: tidemark token create")
	case errors.Is(err, tidemark.ErrNoStore):
		return nil, hint.With(tidemark.Storagef("%s", err.Error()), "see whether a server answers there: tidemark version --server %s", u)
	case err != nil:
		return nil, err
	}
	return &server{b, place}, nil
}

// keys are the two records of a blob.
func (s *server) keys(name string) (listed, data tidemark.Key, err error) {
	if err := CheckName(name); err != nil {
		return listed, data, err
	}
	id := s.place + "." + strings.ReplaceAll(name, "/", ".")
	return tidemark.Key{Kind: records.KindBlob, ID: id}, tidemark.Key{Kind: records.KindBlobData, ID: id}, tidemark.CheckID(id)
}

// fail makes an error that is none of those that a place has one of storage.
func (s *server) fail(name string, err error) error {
	if err == nil || errors.Is(err, tidemark.ErrNotFound) || errors.Is(err, tidemark.ErrStorage) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	failed := tidemark.Storagef("%s: %s: %s", s.b.Address(), name, err.Error())
	if way := hint.Of(err); way != "" {
		failed = hint.With(failed, "%s", way)
	}
	return failed
}

func (s *server) Get(ctx context.Context, name string) ([]byte, error) {
	_, data, err := s.keys(name)
	if err != nil {
		return nil, err
	}
	r, err := s.b.Get(ctx, data)
	return r.Body, s.fail(name, err)
}

// version returns the version of a blob, 0 when there is none.
func (s *server) version(ctx context.Context, listed tidemark.Key) (int64, error) {
	r, err := s.b.Get(ctx, listed)
	if errors.Is(err, tidemark.ErrNotFound) {
		err = nil
	}
	return r.Version, err
}

func (s *server) commit(ctx context.Context, change func(*tidemark.Batch)) error {
	b := tidemark.Batch{ID: tidemark.NewBatchID(), At: time.Now().UTC().Truncate(time.Microsecond)}
	change(&b)
	_, err := s.b.Commit(ctx, b)
	return err
}

// write puts both records of a blob at a version.
func (s *server) write(ctx context.Context, listed, data tidemark.Key, version int64, body []byte) error {
	return s.commit(ctx, func(b *tidemark.Batch) {
		b.Puts = []tidemark.Record{{Key: data, Version: version, Body: body}, {Key: listed, Version: version, Body: fmt.Appendf(nil, `{"bytes":%d}`, len(body))}}
		for i := range b.Puts {
			b.Puts[i].Sum = b.Puts[i].Checksum()
		}
	})
}

// PutNew makes a blob. Where it is not known whether that took effect, what is there
// decides.
func (s *server) PutNew(ctx context.Context, name string, body []byte) error {
	listed, data, err := s.keys(name)
	if err != nil {
		return err
	}
	err = s.write(ctx, listed, data, 1, body)
	if !errors.Is(err, tidemark.ErrConflict) && !errors.Is(err, tidemark.ErrUnknown) {
		return s.fail(name, err)
	}
	there, getErr := s.Get(ctx, name)
	switch {
	case getErr == nil && bytes.Equal(there, body):
		return nil
	case getErr == nil:
		return tidemark.Existsf("%s: %s is there already", s.b.Address(), name)
	}
	return s.fail(name, err)
}

// changes is how often a change is tried of a blob that changes at the same time,
// which only one that writes as this machine can do.
const changes = 5

func (s *server) Replace(ctx context.Context, name string, body []byte) error {
	listed, data, err := s.keys(name)
	if err != nil {
		return err
	}
	for range changes {
		var version int64
		if version, err = s.version(ctx, listed); err != nil {
			break
		}
		if err = s.write(ctx, listed, data, version+1, body); !errors.Is(err, tidemark.ErrConflict) {
			break
		}
	}
	return s.fail(name, err)
}

func (s *server) Delete(ctx context.Context, name string) error {
	listed, data, err := s.keys(name)
	if err != nil {
		return err
	}
	for range changes {
		var version int64
		if version, err = s.version(ctx, listed); err != nil || version == 0 {
			break
		}
		err = s.commit(ctx, func(b *tidemark.Batch) {
			b.Deletes = []tidemark.Precondition{{Key: listed, Version: version}, {Key: data, Version: version}}
		})
		if !errors.Is(err, tidemark.ErrConflict) {
			break
		}
	}
	return s.fail(name, err)
}

func (s *server) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		before := s.place + "."
		q := tidemark.Query{Kind: records.KindBlob, Prefix: before + strings.ReplaceAll(prefix, "/", "."), Order: tidemark.ByID}
		for r, err := range s.b.List(ctx, q) {
			if err != nil {
				yield("", s.fail("list", err))
				return
			}
			name := strings.ReplaceAll(strings.TrimPrefix(r.ID, before), ".", "/")
			if CheckName(name) == nil && r.Owner == "" && !yield(name, nil) {
				return
			}
		}
	}
}

// Now is the time by the clock of the server.
func (s *server) Now() time.Time { return s.b.Now() }

func (s *server) Close() error { return s.b.Close() }
