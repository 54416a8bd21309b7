package server

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/server/wire"
	"github.com/tidemark-sessions/tidemark/store"
)

// watchedBackend counts the calls about one session. What servers do in the background is
// about other things.
type watchedBackend struct {
	tidemark.Backend
	session        atomic.Value // a string
	reads, commits atomic.Int64
}

func (b *watchedBackend) about(k tidemark.Key) bool {
	id, _ := b.session.Load().(string)
	return id != "" && strings.HasPrefix(k.ID, id)
}

func (b *watchedBackend) Get(ctx context.Context, k tidemark.Key) (tidemark.Record, error) {
	if b.about(k) {
		b.reads.Add(1)
	}
	return b.Backend.Get(ctx, k)
}

func (b *watchedBackend) Lines(ctx context.Context, log tidemark.Key, spans ...tidemark.Span) iter.Seq2[tidemark.Line, error] {
	if b.about(log) {
		b.reads.Add(1)
	}
	return b.Backend.Lines(ctx, log, spans...)
}

func (b *watchedBackend) Commit(ctx context.Context, batch tidemark.Batch) (tidemark.Receipt, error) {
	if slices.ContainsFunc(slices.Collect(wire.KeysOf(batch)), b.about) {
		b.commits.Add(1)
	}
	return b.Backend.Commit(ctx, batch)
}

func TestAnAppendReadsNothingOfTheSession(t *testing.T) {
	b := &watchedBackend{Backend: memory.New()}
	s := newTestServer(t, func(o *Options) {
		open := o.Open
		st := store.New(b, nil)
		o.Open = func(ctx context.Context, p tidemark.Principal) (*store.Store, error) {
			if p.Tenant == people()[wA].Tenant && p.User == people()[wA].User {
				return st, nil
			}
			return open(ctx, p)
		}
	})
	path := newSession(t, s, wA, "tides", "one")
	l := s.acquire(t, path, "editor")
	s.append(t, path, with(l.Token, "two"))
	b.session.Store(path[strings.LastIndex(path, "/")+1:])
	three := func(token string) {
		b.reads.Store(0)
		b.commits.Store(0)
		for range 3 {
			s.append(t, path, with(token, "more"))
		}
		if reads, commits := b.reads.Load(), b.commits.Load(); reads != 0 || commits != 3 {
			t.Errorf("with token %q: %d reads and %d commits for three appends, want 0 and 3", token, reads, commits)
		}
	}
	three(l.Token)
	// A token is known for its own caller alone.
	for who, want := range map[string]int{"other-a": 404, "writer-b": 404, "reader-a": 403} {
		s.call(t, who, "POST", path+"/entries", with(l.Token, "x")).want(t, want)
	}
	s.call(t, wA, "POST", path+"/entries", said("not now")).want(t, 423)
	s.call(t, wA, "DELETE", path+"/lease", nil, "Lease-Token: "+l.Token).want(t, 200)
	s.append(t, path, said("after it"))
	three("")
	for who, want := range map[string]int{"other-a": 404, "writer-b": 404, "reader-a": 403} {
		s.call(t, who, "POST", path+"/entries", said("x")).want(t, want)
	}
}
