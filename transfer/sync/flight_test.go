package sync

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/transfer/remote"
)

// farRemote is a place whose blobs take a while, until two were under way together. It
// refuses a head while blobs are.
type farRemote struct {
	remote.Blobs
	puts, gets pair
	under      atomic.Int64
}

// pair finds out whether two come together.
type pair struct {
	under atomic.Int64
	met   atomic.Bool
}

func (p *pair) meet() {
	if p.under.Add(1) > 1 {
		p.met.Store(true)
	}
	for wait := time.Now(); !p.met.Load() && time.Since(wait) < 20*time.Millisecond; {
		time.Sleep(time.Millisecond)
	}
	p.under.Add(-1)
}

func (f *farRemote) PutNew(ctx context.Context, name string, data []byte) error {
	f.under.Add(1)
	defer f.under.Add(-1)
	if strings.Contains(name, "/b/") {
		f.puts.meet()
	}
	return f.Blobs.PutNew(ctx, name, data)
}

func (f *farRemote) Get(ctx context.Context, name string) ([]byte, error) {
	if strings.Contains(name, "/b/") {
		f.gets.meet()
	}
	return f.Blobs.Get(ctx, name)
}

func (f *farRemote) Replace(ctx context.Context, name string, data []byte) error {
	if n := f.under.Load(); n > 0 && strings.HasSuffix(name, "/head") {
		return tidemark.Storagef("a head before %d of its blobs", n)
	}
	return f.Blobs.Replace(ctx, name, data)
}

func TestSeveralBlobsAreUnderWayAtOnce(t *testing.T) {
	dir := t.TempDir()
	a, b := newHome(t, "a"), newHome(t, "b")
	a.join(dir, nil)
	b.join(dir, a)
	var ids []tidemark.SessionID
	for n := range 3 * aheadSessions {
		ids = append(ids, a.create(fmt.Sprint("plan ", n), "one", "two"))
	}
	var far *farRemote
	open := func(ctx context.Context, url string) (remote.Blobs, error) {
		place, err := remote.Open(ctx, url, nil)
		far = &farRemote{Blobs: place}
		return far, err
	}
	if r := a.run(Options{Push: true, open: open}); r.Pushed.Sessions != len(ids) || len(r.Problems) > 0 || !far.puts.met.Load() {
		t.Errorf("pushed one by one %v: %+v", !far.puts.met.Load(), r)
	}
	if r := b.run(Options{Pull: true, open: open}); r.Pulled.Sessions != len(ids) || len(r.Problems) > 0 || !far.gets.met.Load() {
		t.Errorf("pulled one by one %v: %+v", !far.gets.met.Load(), r)
	}
	for _, id := range ids {
		same2(t, id, a, b)
	}
	if r := b.run(Options{Push: true, DryRun: true}); r.Pushed.Sessions != 0 || r.Pushed.Entries != 0 {
		t.Errorf("it would be pushed again: %+v", r.Pushed)
	}
	if r := b.sync(); r.Pushed.Sessions != 0 || r.Pushed.Bytes > 1000 {
		t.Errorf("what came from elsewhere is pushed again: %+v", r.Pushed)
	}
	b.add(ids[0], "three")
	for _, dry := range []bool{true, false} {
		if r := b.run(Options{Push: true, DryRun: dry}); r.Pushed.Sessions != 1 || r.Pushed.Entries != 1 {
			t.Errorf("its own, dry %v: %+v", dry, r.Pushed)
		}
	}
}
