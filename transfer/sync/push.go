package sync

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/store"
)

// A head is published when this much waits for it, so that what was sent is not sent
// again after an interruption.
const (
	publishBytes    = 64 << 20
	publishSessions = 500
)

// push brings what is new here to the remote: first blobs that nobody knows of, then
// the head that names them. What the new head does not name any more is deleted.
func (y *syncer) push(ctx context.Context, own *head) error {
	todo, err := y.changed(ctx)
	if err != nil {
		return err
	}
	if y.c.Under != y.ring.KeyID() { // who was let out shall not open what is there now
		for n := range own.Shards {
			todo[n] = append(todo[n], "")
		}
	}
	p := &publisher{y: y, own: own}
	for _, ids := range todo {
		p.todo += len(ids)
	}
	if own.Generation == 0 {
		p.waiting++ // so that others know of this machine
	}
	for _, n := range slices.Sorted(maps.Keys(todo)) {
		if err := p.shard(ctx, n, todo[n]); err != nil {
			return err
		}
	}
	return p.publish(ctx)
}

// changed returns the sessions that are not here as they were when they were last
// pushed, by shard.
func (y *syncer) changed(ctx context.Context) (map[int][]tidemark.SessionID, error) {
	workers := make(map[tidemark.SessionID]int64)
	for w, err := range y.s.WorkersByID(ctx) {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return nil, err
		}
		workers[w.Session] += w.Entries
	}
	noted, err := y.s.SessionsWithNotes(ctx)
	named := err == nil
	if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
		return nil, err
	}
	todo := make(map[int][]tidemark.SessionID)
	here := make(map[tidemark.SessionID]bool)
	for i, err := range y.s.SessionsByID(ctx) {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return nil, err
		}
		if err == nil && i.State != store.Live && i.State != store.Trash {
			continue // it is being purged
		}
		here[i.ID] = true
		if err != nil || i.Owner != "" || !y.selects(i.Project, i.Tags) {
			continue
		}
		var notes int64
		if noted[i.ID] || !named {
			if notes, err = y.s.NoteCount(ctx, i.ID); err != nil {
				return nil, err
			}
		}
		st, all, err := y.state(ctx, i.ID)
		if err != nil {
			return nil, err
		}
		now := *st
		now.Version, now.Lines, now.Notes, now.Workers = i.Version(), i.Entries, notes, workers[i.ID]
		if now.Purged = false; !y.anew && st.Version == now.Version && st.Lines == now.Lines && st.Notes == now.Notes && st.Workers == now.Workers && !st.Purged {
			continue
		}
		now.Told = false
		*st, all.changed = now, true
		todo[shardOf(i.ID)] = append(todo[shardOf(i.ID)], i.ID)
	}
	return todo, y.gone(ctx, here, todo)
}

// gone adds the sessions that were here and are not any more.
func (y *syncer) gone(ctx context.Context, here map[tidemark.SessionID]bool, todo map[int][]tidemark.SessionID) error {
	for n := range shards {
		all, err := y.shardState(ctx, n)
		if err != nil {
			return err
		}
		for id, st := range all.Sessions {
			if here[id] || st.Purged && st.Told && !y.anew {
				continue
			}
			if has, err := y.k.Has(ctx, store.LogKey(id, "")); err != nil {
				return err
			} else if has {
				continue // it is being purged, or damaged
			}
			if st.Purged, err = y.s.PurgedID(ctx, id); err != nil {
				return err
			}
			if !st.Purged && st.Version == 0 {
				continue // it never was here
			}
			st.Told, all.changed = st.Purged, true
			todo[n] = append(todo[n], id)
			if !st.Purged { // an import that was taken back
				delete(all.Sessions, id)
			}
		}
	}
	return nil
}

// publisher gathers what the next head of this machine names.
type publisher struct {
	y       *syncer
	own     *head
	dropped []string // blobs that it does not name any more
	todo    int      // sessions to look at
	looked  int      // at so many
	waiting int      // sessions that wait for it
	bytes   int64    // that had been put when the last one was published
}

// shard brings the sessions of one shard to the remote.
func (p *publisher) shard(ctx context.Context, n int, ids []tidemark.SessionID) error {
	y := p.y
	list, old := &shard{}, p.own.Shards[n]
	if old != "" {
		had, err := y.getShard(ctx, y.me.ID, n, old)
		switch {
		case errors.Is(err, tidemark.ErrStorage) || ctx.Err() != nil:
			return err
		case err != nil:
			y.problem(Problem{Machine: y.me.Name, What: "what this machine had pushed is damaged there, and is pushed again: " + err.Error()})
			all, err := y.shardState(ctx, n)
			if err != nil {
				return err
			}
			for id, st := range all.Sessions {
				if st.Known = ""; !slices.Contains(ids, id) {
					ids = append(ids, id)
				}
			}
		default:
			list = had
		}
	}
	changed := old != "" && y.c.Under != y.ring.KeyID()
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		if p.looked++; id == "" {
			continue
		}
		was := list.find(id)
		now, dropped, err := y.keep(ctx, id, was)
		switch {
		case errors.Is(err, tidemark.ErrStorage) || ctx.Err() != nil:
			return err
		case err != nil && y.refused != nil: // nothing new can be pushed
			return y.refused
		case err != nil:
			y.problem(Problem{Session: id, What: err.Error(), Waits: true})
			y.states[n].Sessions[id].Version = -1 // try it again
			continue
		case now == was:
			continue
		}
		changed = true
		p.dropped = append(p.dropped, dropped...)
		list.Sessions = slices.DeleteFunc(list.Sessions, func(k *kept) bool { return k.ID == id })
		if now != nil {
			list.Sessions = append(list.Sessions, now)
			p.waiting++
		}
		y.report.Pushed.Sessions++
		y.o.Progress(p.looked, fmt.Sprintf("of %d sessions pushed", max(p.looked, p.todo)))
	}
	if !changed {
		return nil
	}
	if old != "" {
		p.dropped = append(p.dropped, old)
	}
	if delete(p.own.Shards, n); len(list.Sessions) > 0 {
		slices.SortFunc(list.Sessions, func(a, b *kept) int { return compareIDs(a.ID, b.ID) })
		text, err := encode(list)
		if err != nil {
			return err
		}
		if p.own.Shards[n], err = y.put(ctx, y.ring.Seal(sealedShard(y.me.ID, n), text)); err != nil {
			return err
		}
	}
	if p.waiting >= publishSessions || y.report.Pushed.Bytes-p.bytes >= publishBytes {
		return p.publish(ctx)
	}
	p.waiting++
	return nil
}

func compareIDs(a, b tidemark.SessionID) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// publish replaces the head of this machine, if anything waits for that.
func (p *publisher) publish(ctx context.Context) error {
	y := p.y
	if p.waiting == 0 || y.o.DryRun {
		return nil
	}
	if err := y.out.arrived(); err != nil {
		return err
	}
	if err := y.writeHead(ctx, p.own); err != nil {
		return err
	}
	y.c.Under, y.claimed, y.refused = y.ring.KeyID(), true, nil
	for _, hash := range p.dropped {
		if err := y.blobs.Delete(ctx, blobName(y.me.ID, hash)); err != nil {
			return err
		}
	}
	p.dropped, p.waiting, p.bytes = nil, 0, y.report.Pushed.Bytes
	return nil
}

// keep returns what this machine keeps of a session from now on, and the blobs that
// it does not need any more; was itself when nothing is new, and nil for nothing.
func (y *syncer) keep(ctx context.Context, id tidemark.SessionID, was *kept) (now *kept, dropped []string, err error) {
	st, _, err := y.state(ctx, id)
	if err != nil {
		return was, nil, err
	}
	i, err := y.s.Session(ctx, id)
	if isAbsent(err) {
		if was != nil && was.Purged == st.Purged && st.Purged {
			return was, nil, nil
		}
		if st.Purged {
			now = &kept{ID: id, Purged: true}
		}
		return now, was.blobs(), nil
	}
	if err != nil {
		return was, nil, err
	}
	if was != nil && was.Purged { // it came back, such as by an import
		was = nil
	}
	if y.o.DryRun {
		now, err = y.wouldKeep(ctx, i, was, st)
		return now, nil, err
	}
	o, err := y.prepare(ctx, i)
	if err != nil {
		return was, nil, err
	}
	next := was.clone(id)
	v, err := y.s.ViewOf(i)
	if err != nil {
		return was, nil, err
	}
	d := &drafter{y: y, kept: next, view: v.Unmasked(), offset: offsetOf(i.Base), o: o}
	if err := d.log(ctx, i.Entries-d.offset); err != nil {
		return was, nil, err
	}
	if err := d.workers(ctx); err != nil {
		return was, nil, err
	}
	if err := d.past(ctx, i); err != nil {
		return was, nil, err
	}
	if err := d.about(ctx, i, st); err != nil {
		return was, nil, err
	}
	if !d.changed {
		return was, nil, nil
	}
	return next, d.dropped, nil
}

// wouldKeep counts what would be pushed, and returns was when that is nothing.
func (y *syncer) wouldKeep(ctx context.Context, i store.Info, was *kept, st *state) (*kept, error) {
	o, err := loadOrigins(ctx, y.k, i.ID, "")
	if err != nil {
		return was, err
	}
	have := was.clone(i.ID)
	own := y.own(o, have.log("").to()+1, i.Entries-offsetOf(i.Base))
	v, err := y.s.ViewOf(i)
	if err != nil {
		return was, err
	}
	workers, err := v.WorkerInfos(ctx)
	if err != nil {
		return was, err
	}
	for _, w := range workers {
		wo, err := loadOrigins(ctx, y.k, i.ID, w.Name)
		if err != nil {
			return was, err
		}
		own += y.own(wo, have.log(w.Name).to()+1, w.Entries)
	}
	y.report.Pushed.Entries += own
	now, err := y.said(ctx, i, o)
	if err != nil {
		return was, err
	}
	if own == 0 && st.Known == sumOf(o.Registers) && maps.EqualFunc(now, o.Seen, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
		return was, nil
	}
	return &kept{ID: i.ID}, nil
}

func (k *kept) blobs() (all []string) {
	if k == nil {
		return nil
	}
	if k.About != nil {
		all = append(all, k.About.Hash)
	}
	for _, l := range k.Logs {
		for _, s := range l.Segments {
			all = append(all, s.Hash)
		}
	}
	return all
}

// clone returns what was kept, to be changed.
func (k *kept) clone(id tidemark.SessionID) *kept {
	if k == nil {
		return &kept{ID: id}
	}
	next := *k
	next.Keys, next.Logs = slices.Clone(k.Keys), slices.Clone(k.Logs)
	for i := range next.Logs {
		next.Logs[i].Segments = slices.Clone(next.Logs[i].Segments)
	}
	return &next
}

// prepare returns the origins of a session that says what everybody says about it.
func (y *syncer) prepare(ctx context.Context, i store.Info) (*origins, error) {
	o, err := y.stamped(ctx, i)
	if err != nil {
		return nil, err
	}
	waiting, err := y.settle(ctx, i.ID, o)
	if err != nil {
		return nil, err
	}
	if waiting != "" {
		y.problem(Problem{Session: i.ID, What: waiting, Waits: true})
	}
	return o, o.save(ctx, y.k)
}

// named returns the origins of a session, in which all its lines have names, and so
// has what it was forked from.
func (y *syncer) named(ctx context.Context, i store.Info) (*origins, error) {
	o, err := loadOrigins(ctx, y.k, i.ID, "")
	if err != nil {
		return nil, err
	}
	if i.Base != nil && o.Base == nil {
		at := i.ID // it has its own copy of what it began after
		if !i.Base.Owned {
			base, err := y.s.Session(ctx, i.Base.Session)
			if err != nil {
				return nil, err
			}
			if !y.selects(base.Project, base.Tags) {
				return nil, tidemark.NotFoundf("it is a fork of session %.8s, which is not pushed", base.ID)
			}
			if _, err := y.named(ctx, base); err != nil {
				return nil, err
			}
			at = base.ID
		}
		n, err := y.nameOf(ctx, at, i.Base.Seq)
		if err != nil {
			return nil, err
		}
		o.Base, o.changed = &n, true
	}
	if err := y.nameLines(ctx, o, i.Entries-offsetOf(i.Base)); err != nil {
		return nil, err
	}
	return o, o.save(ctx, y.k)
}
