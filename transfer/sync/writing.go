package sync

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/seal"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/transfer/remote"
)

// Across machines a lease is advice: no remote can keep two machines from going on
// with the same session, and what both add becomes branches. A Tidemark server lets
// them know of each other in time. Each machine keeps one small sealed blob there that
// lists the sessions that it writes to. Whoever believes it is told of a branch before
// it grows; whoever is lied to by the server misses that, and loses nothing.

// writing is what a machine writes to at a time, by the clock of the server: clocks of
// machines may be hours apart.
type writing struct {
	Format   int                  `json:"format"`
	Machine  string               `json:"machine"`
	At       time.Time            `json:"at"`
	Sessions []tidemark.SessionID `json:"sessions"`
}

const (
	// announceEvery is how often a machine says again that it writes. It is silent
	// for good when it was silent for store.HeardWithin.
	announceEvery = 30 * time.Second
	// attendAtOnce bounds how long somebody who goes on with a session waits to be
	// told of another machine, and how long one who leaves waits to have it said.
	attendAtOnce = 1500 * time.Millisecond
	// maxWriting bounds how many sessions one machine is believed to write to.
	maxWriting = 1000
)

func writingName(machine string) string   { return "m/" + machine + "/writing" }
func sealedWriting(machine string) string { return "writing " + machine }

// adviser exchanges with one server what is written to now.
type adviser struct {
	s     *store.Store
	me    thisMachine
	peers map[string]*peer
	blobs remote.Blobs
	clock remote.Clock
	ring  *seal.Ring
	name  string    // of the remote
	said  time.Time // by the clock of the server; zero: nothing is there of this machine, as far as is known
	last  []tidemark.SessionID
}

// exchange says which sessions this machine writes to, and returns what the others say.
func (v *adviser) exchange(ctx context.Context) ([]store.Writing, error) {
	now := v.clock.Now()
	own, err := v.own(ctx)
	if err != nil {
		return nil, err
	}
	switch changed := !slices.Equal(own, v.last); {
	case len(own) == 0 && (changed || v.said.IsZero()):
		err = v.blobs.Delete(ctx, writingName(v.me.ID))
	case len(own) > 0 && (changed || now.Sub(v.said) >= announceEvery):
		var text []byte
		if text, err = encode(writing{Format: format, Machine: v.me.ID, At: now, Sessions: own}); err == nil {
			err = v.blobs.Replace(ctx, writingName(v.me.ID), v.ring.Seal(sealedWriting(v.me.ID), text))
		}
	default:
		now = v.said
	}
	if err != nil {
		return nil, err
	}
	v.said, v.last = now, own
	var all []store.Writing
	for id, p := range v.peers {
		said, err := v.others(ctx, id)
		if ctx.Err() != nil || errors.Is(err, tidemark.ErrStorage) {
			return nil, err
		}
		if err != nil {
			continue // nothing, or nothing that can be believed
		}
		// What is heard is remembered by the clock of this machine.
		heard := v.s.Records().Clock().Add(said.At.Sub(v.clock.Now()))
		for _, session := range said.Sessions {
			all = append(all, store.Writing{Session: session, Machine: cmp.Or(p.Name, id), Remote: v.name, HeardAt: heard})
		}
	}
	slices.SortFunc(all, func(a, b store.Writing) int {
		return cmp.Or(compareIDs(a.Session, b.Session), cmp.Compare(a.Machine, b.Machine))
	})
	return all, nil
}

// own returns the sessions that somebody on this machine writes to, without those that
// do not leave it.
func (v *adviser) own(ctx context.Context) (ids []tidemark.SessionID, err error) {
	m, err := v.s.Machines(ctx)
	if err != nil {
		return nil, err
	}
	for id, at := range m.Attended {
		if v.s.Records().Clock().Sub(at) < store.HeardWithin {
			ids = append(ids, id)
		}
	}
	for l, err := range v.s.Leases(ctx) {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return nil, err
		}
		if err == nil && l.Living() {
			ids = append(ids, l.Session())
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	return slices.DeleteFunc(ids[:min(len(ids), maxWriting)], func(id tidemark.SessionID) bool {
		i, err := v.s.Session(ctx, id)
		return err != nil || i.Owner != "" || slices.Contains(i.Tags, Private)
	}), nil
}

// others returns what another machine says: ErrNotFound, ErrCorrupt.
func (v *adviser) others(ctx context.Context, id string) (w writing, err error) {
	data, err := v.blobs.Get(ctx, writingName(id))
	if err == nil {
		data, err = v.ring.Open(sealedWriting(id), data)
	}
	if err == nil {
		err = decode(data, &w)
	}
	if err == nil && (w.Format != format || w.Machine != id || len(w.Sessions) > maxWriting) {
		err = corruptf("not what machine %s writes to", id)
	}
	return w, err
}

// advise exchanges what is written to with the place of this run, if that is a server.
// It is advice: what goes wrong with it is no fault of the run.
func (y *syncer) advise(ctx context.Context) {
	clock, ok := y.blobs.(remote.Clock)
	if !ok {
		return
	}
	v := &adviser{s: y.s, me: y.me, peers: y.c.Peers, blobs: y.blobs, clock: clock, ring: y.ring, name: y.c.Name}
	if all, err := v.exchange(ctx); err == nil {
		v.note(ctx, all)
	}
}

// Attend tells the other machines, by each Tidemark server among the remotes, that this
// one writes to a session, until the returned function is called. Before it returns it
// tells of a machine that writes to the session now, if one does: both may go on. A
// server that does not answer soon is not waited for.
func Attend(ctx context.Context, s *store.Store, id tidemark.SessionID, o Options, tell func(machine string)) (leave func()) {
	all, err := Of(s.Records(), o.Host, o.Places).servers(ctx)
	if err != nil || len(all) == 0 || id == "" {
		return func() {}
	}
	a := &attendance{s: s, id: id, o: o, ended: make(chan struct{})}
	a.o.patience = cmp.Or(o.patience, attendAtOnce)
	soon, done := context.WithTimeout(ctx, a.o.patience)
	defer done()
	first := make(chan struct{})
	going, stop := context.WithCancel(context.WithoutCancel(ctx))
	go a.keep(going, all, first)
	select {
	case <-first:
	case <-soon.Done():
	}
	if m, err := s.Machines(ctx); err == nil {
		if machine := m.WritesTo(id, s.Records().Clock()); machine != "" {
			tell(machine)
		}
	}
	return func() {
		stop()
		select {
		case <-a.ended:
		case <-time.After(a.o.patience):
		}
	}
}

// attendance is one session that this machine writes to.
type attendance struct {
	s     *store.Store
	id    tidemark.SessionID
	o     Options
	ended chan struct{}
}

// keep exchanges with servers again and again until ctx ends; then it says that the
// session is left. first is closed when each was asked once.
func (a *attendance) keep(ctx context.Context, all []*settings, first chan struct{}) {
	defer close(a.ended)
	var advisers []*adviser
	exchange := func(ctx context.Context, attended bool) {
		a.mark(ctx, attended)
		for _, v := range advisers {
			if heard, err := v.exchange(ctx); err == nil {
				v.note(ctx, heard)
			}
		}
	}
	for _, c := range all {
		if v, err := a.adviser(ctx, c); err == nil {
			advisers = append(advisers, v)
			defer v.blobs.Close()
		}
	}
	exchange(ctx, true)
	close(first)
	for ticks := time.NewTicker(announceEvery); ; {
		select {
		case <-ticks.C:
			exchange(ctx, true)
			continue
		case <-ctx.Done():
		}
		ticks.Stop()
		last, done := context.WithTimeout(context.WithoutCancel(ctx), a.o.patience)
		exchange(last, false)
		done()
		return
	}
}

// mark remembers that the session is written to, or is not any more: also by a program
// that takes no lease, such as another agent.
func (a *attendance) mark(ctx context.Context, attended bool) {
	// Without it the session is announced for as long as its lease is held.
	_ = Of(a.s.Records(), "", nil).changeMachines(ctx, func(m *store.Machines) {
		if delete(m.Attended, a.id); attended {
			if m.Attended == nil {
				m.Attended = make(map[tidemark.SessionID]time.Time)
			}
			m.Attended[a.id] = a.s.Records().Clock()
		}
	})
}

// adviser opens a server.
func (a *attendance) adviser(ctx context.Context, c *settings) (*adviser, error) {
	remotes := Of(a.s.Records(), a.o.Host, a.o.Places)
	me, err := remotes.machineAt(ctx, c)
	if err != nil {
		return nil, err
	}
	blobs, err := remote.Open(ctx, c.URL, a.o.Places)
	if err != nil {
		return nil, err
	}
	v := &adviser{s: a.s, me: me, peers: c.Peers, blobs: blobs, name: c.Name}
	var ok bool
	if v.clock, ok = blobs.(remote.Clock); !ok {
		err = tidemark.Unsupportedf("%s keeps no clock", c.URL)
	}
	if err == nil {
		v.ring, err = c.openRing(ctx, blobs)
	}
	if err != nil {
		blobs.Close()
	}
	return v, err
}

// servers returns the remotes that are Tidemark servers.
func (r *Remotes) servers(ctx context.Context) ([]*settings, error) {
	var m store.Machines
	if _, err := r.k.Get(ctx, records.MachinesKey, &m); err != nil {
		return nil, err
	}
	var all []*settings
	for name := range m.Met {
		c, err := r.load(ctx, name)
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(c.URL, "https:") || strings.HasPrefix(c.URL, "http:") {
			all = append(all, c)
		}
	}
	return all, nil
}

// note remembers what other machines write to, where lists and pages look.
func (v *adviser) note(ctx context.Context, all []store.Writing) {
	m, err := v.s.Machines(ctx)
	if err != nil || len(m.Writing) == 0 && len(all) == 0 {
		return
	}
	// It is advice, which the next exchange gives again.
	_ = Of(v.s.Records(), "", nil).changeMachines(ctx, func(m *store.Machines) {
		m.Writing = append(slices.DeleteFunc(m.Writing, func(w store.Writing) bool { return w.Remote == v.name }), all...)
	})
}
