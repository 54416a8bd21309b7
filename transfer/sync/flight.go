package sync

import (
	"context"
	"sync"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/transfer/remote"
)

// A remote may be far away. So that a run does not wait for one answer after the other,
// several blobs are under way at once: those that were put, until a head is to name
// them, and those that will be asked for soon.

// outgoing are blobs on their way to the remote.
type outgoing struct {
	under *remote.Flight
	wait  sync.WaitGroup
	mu    sync.Mutex
	err   error // the first
}

// send calls put when there is room for so many bytes. It returns an error of an
// earlier one.
func (o *outgoing) send(ctx context.Context, size int64, put func() error) error {
	if err := o.failed(); err != nil {
		return err
	}
	if err := o.under.Enter(ctx, size); err != nil {
		return err
	}
	o.wait.Go(func() {
		defer o.under.Leave(size)
		if err := put(); err != nil {
			o.mu.Lock()
			defer o.mu.Unlock()
			if o.err == nil {
				o.err = err
			}
		}
	})
	return nil
}

func (o *outgoing) failed() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// arrived waits until all that was sent is there.
func (o *outgoing) arrived() error {
	o.wait.Wait()
	return o.failed()
}

// incoming are blobs of sessions that will be merged soon.
type incoming struct {
	y     *syncer
	under *remote.Flight
	told  chan wantedBlobs
	wait  sync.WaitGroup
	stop  func()

	mu   sync.Mutex
	soon map[string]*fetch // by name
	gone map[tidemark.SessionID]bool
}

// fetch is one of them.
type fetch struct {
	session tidemark.SessionID
	size    int64
	done    chan struct{}
	data    []byte
	err     error
}

// aheadSessions is of how many sessions beyond the one that is being merged blobs may be
// fetched.
const aheadSessions = 64

// ahead begins to fetch what will be asked for: say tells it of sessions, in the order
// in which they will be merged.
func (y *syncer) ahead(ctx context.Context) (in *incoming) {
	in = &incoming{y: y, under: remote.NewFlight(), told: make(chan wantedBlobs, aheadSessions+1), soon: make(map[string]*fetch), gone: make(map[tidemark.SessionID]bool)}
	waiting, stop := context.WithCancel(ctx)
	in.stop = func() { stop(); close(in.told) }
	in.wait.Go(func() {
		for w := range in.told {
			for _, b := range w.blobs {
				if !in.fetch(ctx, waiting, w.session, b) {
					return
				}
			}
		}
	})
	return in
}

// wantedBlobs are those that the merging of a session most likely asks for.
type wantedBlobs struct {
	session tidemark.SessionID
	blobs   []wantedBlob
}

// wantedBlob is a blob that will be asked for.
type wantedBlob struct {
	name string
	size int64
}

// wants returns the blobs that the merging of a session most likely asks for. Where only
// some sessions are selected, what is said about them decides that.
func (p *puller) wants(id tidemark.SessionID) (all []wantedBlob) {
	y := p.y
	for _, s := range p.work[id] {
		if s.kept.About == nil {
			continue
		}
		all = append(all, wantedBlob{blobName(s.machine, s.kept.About.Hash), 0})
		if y.o.Project != "" || y.o.Tag != "" {
			continue
		}
		known := y.states[s.shard].Sessions[id].Peers[s.machine] != ""
		for _, l := range s.kept.Logs {
			for n, g := range l.Segments {
				if l.Worker != pastLog && (!known || n == len(l.Segments)-1) {
					all = append(all, wantedBlob{blobName(s.machine, g.Hash), g.Bytes})
				}
			}
		}
	}
	return all
}

// fetch fetches one blob when there is room for it, unless its session was merged
// meanwhile; false: waiting has ended.
func (in *incoming) fetch(ctx, waiting context.Context, id tidemark.SessionID, b wantedBlob) bool {
	if in.under.Enter(waiting, b.size) != nil {
		return false
	}
	f := &fetch{session: id, size: b.size, done: make(chan struct{})}
	in.mu.Lock()
	late := in.gone[id]
	if !late {
		in.soon[b.name] = f
	}
	in.mu.Unlock()
	if late {
		in.under.Leave(b.size)
		return true
	}
	in.wait.Go(func() {
		defer close(f.done)
		f.data, f.err = in.y.blobs.Get(ctx, b.name)
	})
	return true
}

// take returns a blob that was fetched ahead.
func (in *incoming) take(name string) (data []byte, ok bool, err error) {
	in.mu.Lock()
	f := in.soon[name]
	delete(in.soon, name)
	in.mu.Unlock()
	if f == nil {
		return nil, false, nil
	}
	<-f.done
	in.under.Leave(f.size)
	return f.data, true, f.err
}

// passed forgets what was fetched for a session that was merged.
func (in *incoming) passed(id tidemark.SessionID) {
	in.mu.Lock()
	in.gone[id] = true
	var names []string
	for name, f := range in.soon {
		if f.session == id {
			names = append(names, name)
		}
	}
	in.mu.Unlock()
	for _, name := range names {
		in.take(name)
	}
}

// end waits for what is still under way.
func (in *incoming) end() {
	in.stop()
	in.wait.Wait()
}
