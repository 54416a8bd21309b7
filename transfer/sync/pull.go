package sync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// source is what one machine keeps of a session, where that is not known here yet.
type source struct {
	machine string
	shard   int
	kept    *kept
	sum     string
}

// place is a shard of a machine.
type place struct {
	machine string
	shard   int
}

// puller brings what other machines keep at the remote into this store.
type puller struct {
	y       *syncer
	work    map[tidemark.SessionID][]source
	done    map[tidemark.SessionID]bool
	blocked map[place]bool           // something of it waits
	index   func(tidemark.SessionID) // has a session indexed beside
}

// indexRoom is how much memory the index of what is pulled may take before it becomes a
// segment: blobs are in memory beside it.
const indexRoom = 6 << 20

// savedSessions is after how many sessions what was read is kept.
const savedSessions = 500

func (y *syncer) pull(ctx context.Context, heads map[string]*head) error {
	p := &puller{y: y, work: make(map[tidemark.SessionID][]source), done: make(map[tidemark.SessionID]bool), blocked: make(map[place]bool)}
	for _, machine := range slices.Sorted(maps.Keys(heads)) {
		if err := p.look(ctx, machine, heads[machine]); err != nil {
			return err
		}
	}
	if err := p.sessions(ctx); err != nil || y.o.DryRun {
		return err
	}
	// What was read is kept before it is called read: a push keeps the settings again
	// before it ends, and who was killed then would never look at these shards.
	if err := y.saveStates(ctx); err != nil {
		return err
	}
	for machine, h := range heads {
		known := y.c.Peers[machine].Shards
		for n := range known {
			if h.Shards[n] == "" {
				delete(known, n)
			}
		}
		for n, hash := range h.Shards {
			if !p.blocked[place{machine, n}] {
				known[n] = hash
			}
		}
	}
	return y.finishPull(ctx)
}

// sessions merges all that have changed. While one is merged, those after it are fetched
// and those before it are indexed.
func (p *puller) sessions(ctx context.Context) error {
	y := p.y
	ids, told := slices.SortedFunc(maps.Keys(p.work), compareIDs), 0
	if !y.o.DryRun && len(ids) > 0 {
		y.in = y.ahead(ctx)
		defer func() { y.in.end(); y.in = nil }()
		var indexed func()
		p.index, indexed = y.s.IndexBeside(ctx, indexRoom)
		defer indexed()
	}
	for n, id := range ids {
		for ; y.in != nil && told < len(ids) && told <= n+aheadSessions; told++ {
			y.in.told <- wantedBlobs{ids[told], p.wants(ids[told])}
		}
		if err := p.session(ctx, id); err != nil {
			return err
		}
		if n%savedSessions == savedSessions-1 {
			if err := y.saveStates(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// finishPull brings the search index up to date.
func (y *syncer) finishPull(ctx context.Context) error {
	var err error
	if y.report.Purged > 0 {
		err = y.s.RewriteIndex(ctx)
	}
	if err == nil && y.report.Pulled.Sessions > 0 {
		_, err = y.s.CatchUp(ctx, nil)
	}
	// Who makes the index at the moment, or looks after it next, finds what came.
	if errors.Is(err, tidemark.ErrUnsupported) || errors.Is(err, tidemark.ErrHeld) {
		return nil
	}
	return err
}

// look finds the sessions of a machine that have changed.
func (p *puller) look(ctx context.Context, machine string, h *head) error {
	y := p.y
	for _, n := range slices.Sorted(maps.Keys(h.Shards)) {
		if y.c.Peers[machine].Shards[n] == h.Shards[n] {
			continue
		}
		s, err := y.getShard(ctx, machine, n, h.Shards[n])
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, tidemark.ErrStorage) {
				return err
			}
			y.problem(Problem{Machine: h.Name, What: "a list of its sessions: " + err.Error(), Waits: isAbsent(err)})
			p.blocked[place{machine, n}] = true
			continue
		}
		for _, k := range s.Sessions {
			st, _, err := y.state(ctx, k.ID)
			if err != nil {
				return err
			}
			text, err := records.Encode(k)
			if err != nil {
				return err
			}
			if sum := hashOf(text)[:16]; st.Peers[machine] != sum {
				p.work[k.ID] = append(p.work[k.ID], source{machine, n, k, sum})
			}
		}
	}
	return nil
}

// session merges one session, after the one that it is a fork of.
func (p *puller) session(ctx context.Context, id tidemark.SessionID) error {
	if p.done[id] {
		return nil
	}
	p.done[id] = true
	y, sources := p.y, p.work[id]
	st, all, err := y.state(ctx, id)
	if err != nil {
		return err
	}
	if y.o.DryRun {
		return y.wouldPull(ctx, id, sources)
	}
	m := &merge{y: y, id: id, st: st, before: p.session}
	err = m.run(ctx, sources)
	err = errors.Join(err, m.close(ctx))
	y.in.passed(id)
	all.changed = true
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, tidemark.ErrStorage):
		return err
	case errors.Is(err, tidemark.ErrHeld), errors.Is(err, tidemark.ErrConflict):
		y.problem(Problem{Session: id, What: err.Error(), Waits: true})
	case isAbsent(err): // a folder that is still being filled
		y.problem(Problem{Session: id, What: err.Error(), Waits: true})
	case err != nil:
		y.problem(Problem{Session: id, What: err.Error()})
	}
	for _, s := range sources {
		if err == nil && !m.waits[s.machine] {
			st.Peers[s.machine] = s.sum
		} else {
			p.blocked[place{s.machine, s.shard}] = true
		}
	}
	if m.entries > 0 {
		p.index(id)
	}
	if m.entries > 0 || m.changed {
		y.report.Pulled.Sessions++
		y.report.Pulled.Entries += m.entries
		y.o.Progress(len(p.done), fmt.Sprintf("of %d sessions pulled", max(len(p.done), len(p.work))))
	}
	return nil
}

// wouldPull counts what would be pulled, by the lists alone.
func (y *syncer) wouldPull(ctx context.Context, id tidemark.SessionID, sources []source) error {
	read := make(map[string]*origins)
	for _, s := range sources {
		for _, l := range s.kept.Logs {
			if l.Worker == pastLog {
				continue
			}
			o := read[l.Worker]
			if o == nil {
				var err error
				if o, err = loadOrigins(ctx, y.k, id, l.Worker); err != nil {
					return err
				}
				read[l.Worker] = o
			}
			y.report.Pulled.Entries += l.after(o.Read[s.machine])
		}
	}
	if slices.ContainsFunc(sources, func(s source) bool { return s.kept.Purged }) {
		y.report.Purged++
	}
	y.report.Pulled.Sessions++
	return nil
}

// stream reads the lines of a log that one machine keeps, from one on.
type stream struct {
	y       *syncer
	machine string
	kept    *kept
	log     *keptLog
	next    int64 // the line at the machine that comes next
	items   []item
	at      int64 // the first line of items
}

// peek returns what comes next, nil at the end: ErrCorrupt, ErrNotFound.
func (s *stream) peek(ctx context.Context) (*item, error) {
	for {
		for len(s.items) > 0 && s.at+s.items[0].count() <= s.next {
			s.at += s.items[0].count()
			s.items = s.items[1:]
		}
		if len(s.items) > 0 {
			it := s.items[0]
			if skip := s.next - s.at; skip > 0 && it.Same != nil {
				it.Same = &same{it.Same.Machine, it.Same.Line + skip, it.Same.Count - skip}
			} else if skip > 0 {
				it.Local -= skip
			}
			return &it, nil
		}
		i := slices.IndexFunc(s.log.Segments, func(g segment) bool { return g.From <= s.next && s.next <= g.To })
		if i < 0 {
			return nil, nil
		}
		g := s.log.Segments[i]
		data, err := s.y.get(ctx, s.machine, g.Hash)
		if err == nil {
			s.y.report.Pulled.Bytes += int64(len(data))
			data, err = s.y.ring.OpenWith(s.kept.Keys[g.Key].Key, sealedSegment(s.machine, s.kept.ID, s.log.Worker, g), data)
		}
		if err == nil {
			s.items, err = unpack(data, g.To-g.From+1)
		}
		if err != nil {
			return nil, err
		}
		s.at = g.From
	}
}

// entries returns the entries of what a fork begins after.
func (s *stream) entries(ctx context.Context) iter.Seq2[tidemark.Entry, error] {
	return func(yield func(tidemark.Entry, error) bool) {
		for {
			it, err := s.peek(ctx)
			if it == nil && err == nil {
				return
			}
			var e tidemark.Entry
			if err == nil && (it.Line == nil || it.Line.Kind == tidemark.KindBranch || it.Line.Kind == tidemark.KindGap) {
				err = corruptf("entry %d of a past is none", s.next)
			}
			if err == nil {
				e, err = it.Line.entry()
			}
			if s.next++; !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// getAbout returns what a machine says about a session.
func (y *syncer) getAbout(ctx context.Context, s source) (about, error) {
	var a about
	data, err := y.get(ctx, s.machine, s.kept.About.Hash)
	if err == nil {
		y.report.Pulled.Bytes += int64(len(data))
		data, err = y.ring.OpenWith(s.kept.Keys[s.kept.About.Key].Key, sealedAbout(s.machine, s.kept.ID), data)
	}
	if err == nil {
		err = decode(data, &a)
	}
	if err == nil {
		err = checkRegisters(a.Registers)
	}
	if err == nil && (a.Session.ID != s.kept.ID || !a.Base.ok()) {
		err = corruptf("it is about another session")
	}
	return a, err
}

// byMachine orders sources, so that every machine merges in the same order.
func byMachine(a, b source) int { return cmp.Compare(a.machine, b.machine) }
