package sync

import (
	"context"
	"errors"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/seal"
	"github.com/tidemark-sessions/tidemark/store"
)

// drafter makes what is kept of one session from what it is here.
type drafter struct {
	y       *syncer
	kept    *kept
	view    *store.View
	worker  string
	offset  int64
	o       *origins
	changed bool
	dropped []string
}

// key returns the index of the key to seal with.
func (d *drafter) key() int {
	under := d.y.ring.KeyID()
	if n := len(d.kept.Keys); n > 0 && d.kept.Keys[n-1].Under == under {
		return n - 1
	}
	d.kept.Keys = append(d.kept.Keys, sessionKey{Under: under, Key: seal.NewBlobKey()})
	return len(d.kept.Keys) - 1
}

func (d *drafter) workers(ctx context.Context) error {
	infos, err := d.view.WorkerInfos(ctx)
	if err != nil {
		return err
	}
	main := *d
	defer func() { main.changed, main.dropped = d.changed, d.dropped; *d = main }()
	for _, w := range infos {
		if d.view, err = main.view.Worker(ctx, w.Name); err != nil {
			return err
		}
		d.view = d.view.Unmasked()
		if d.o, err = loadOrigins(ctx, d.y.k, w.Session, w.Name); err != nil {
			return err
		}
		if d.worker, d.offset = w.Name, 0; d.kept.log(w.Name) == nil && w.Entries == 0 {
			continue
		}
		if err := d.log(ctx, w.Entries); err != nil {
			return err
		}
	}
	return nil
}

// log adds segments for the lines of a log that are not kept yet. Lines that only
// repeat what other machines keep there wait until a line of its own follows.
func (d *drafter) log(ctx context.Context, length int64) error {
	log := d.kept.log(d.worker)
	to := log.to()
	own := d.y.own(d.o, to+1, length)
	if own == 0 {
		return nil
	}
	if log == nil {
		d.kept.Logs = append(d.kept.Logs, keptLog{Worker: d.worker})
		log = &d.kept.Logs[len(d.kept.Logs)-1]
	}
	// Small segments at the end are written again as one, when what is added is at
	// least half as long: so there are few, and each line is written a few times.
	from, segments := to+1, log.Segments
	for n := len(segments); n > 0; n = len(segments) {
		last := segments[n-1]
		if last.Bytes >= segmentBytes/2 || last.To-last.From+1 > 2*(length-last.To) {
			break
		}
		d.dropped, from, segments = append(d.dropped, last.Hash), last.From, segments[:n-1]
	}
	log.Segments = segments
	w := &segmentWriter{d: d, log: log, worker: d.worker, from: from, next: from}
	for e, err := range d.view.LogRange(ctx, from+d.offset, length+d.offset) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			d.y.problem(Problem{Session: d.kept.ID, What: "what follows is not pushed: " + err.Error()})
			break
		}
		if err != nil {
			return err
		}
		if err := w.add(ctx, e); err != nil {
			return err
		}
	}
	if err := w.flush(ctx); err != nil {
		return err
	}
	d.y.report.Pushed.Entries += own
	d.changed = true
	return nil
}

// past adds what a fork begins after, once its source was purged: machines that never
// had the source make the fork from it. Everybody who has the fork keeps it, for whoever
// keeps its lines may never come back.
func (d *drafter) past(ctx context.Context, i store.Info) error {
	if i.Base == nil || d.kept.log(pastLog) != nil {
		return nil
	}
	if base, _, err := d.y.state(ctx, i.Base.Session); err != nil || !i.Base.Owned && !base.Held {
		return err
	}
	d.kept.Logs = append(d.kept.Logs, keptLog{Worker: pastLog})
	w := &segmentWriter{d: d, log: &d.kept.Logs[len(d.kept.Logs)-1], worker: pastLog, from: 1, next: 1}
	for e, err := range d.view.Path(ctx, i.Base.Seq) {
		if err != nil {
			return err
		}
		kept, err := e.Line()
		if err != nil {
			return err
		}
		w.next++
		if err := w.line(ctx, &line{Kind: kept.Kind, Key: kept.Key, At: kept.At, Body: kept.Body}); err != nil {
			return err
		}
	}
	d.changed = true
	return w.flush(ctx)
}

// own returns how many of the lines are not kept there by another machine.
func (y *syncer) own(o *origins, from, to int64) (n int64) {
	for local := from; local <= to; {
		if _, is := o.Markers[local]; is {
			local++
		} else if s, ok := o.via(y.c.Store, local, y.has); ok {
			local += s.Count
		} else {
			n, local = n+1, local+1
		}
	}
	return n
}

// has reports whether a machine keeps something at the remote.
func (y *syncer) has(machine string) bool { return y.machines[machine] }

// segmentWriter cuts lines into segments.
type segmentWriter struct {
	d          *drafter
	log        *keptLog
	worker     string
	items      []item
	from, next int64
	bytes      int
}

func (w *segmentWriter) add(ctx context.Context, e tidemark.Entry) error {
	local := e.Seq - w.d.offset
	if local != w.next {
		return corruptf("line %d follows line %d", local, w.next-1)
	}
	w.next++
	var last *item
	if n := len(w.items); n > 0 {
		last = &w.items[n-1]
	}
	if _, is := w.d.o.Markers[local]; is {
		if last != nil && last.Local > 0 {
			last.Local++
		} else {
			w.items = append(w.items, item{Local: 1})
		}
		return nil
	}
	if s, ok := w.d.o.via(w.d.y.c.Store, local, w.d.y.has); ok {
		if s.Count = 1; last != nil && last.Same != nil && last.Same.Machine == s.Machine && last.Same.Line+last.Same.Count == s.Line {
			last.Same.Count++
		} else {
			w.items = append(w.items, item{Same: &s})
		}
		return nil
	}
	l, err := w.d.line(ctx, e, local)
	if err != nil {
		return err
	}
	return w.line(ctx, l)
}

func (w *segmentWriter) line(ctx context.Context, l *line) error {
	w.items = append(w.items, item{Line: l})
	if w.bytes += len(l.Body) + 100; w.bytes < segmentBytes {
		return nil
	}
	return w.flush(ctx)
}

// line returns an entry as it travels.
func (d *drafter) line(ctx context.Context, e tidemark.Entry, local int64) (*line, error) {
	kept, err := e.Line()
	if err != nil {
		return nil, err
	}
	l := &line{Kind: kept.Kind, Key: kept.Key, At: kept.At, Body: kept.Body}
	parent := e.Parent
	if to, is := d.o.Markers[parent-d.offset]; is {
		parent = to
	}
	switch {
	case parent > d.offset:
		l.Parent = parent - d.offset
	case parent > 0 && parent == d.offset && d.o.Base != nil:
		l.Past = d.o.Base // also when that was purged
	case parent > 0:
		// What follows a marker that points before the first entry follows nothing.
		n, err := d.y.nameOf(ctx, d.kept.ID, parent)
		if err == nil {
			l.Past = &n
		} else if !isAbsent(err) {
			return nil, err
		}
	}
	if n, ok := d.o.born(local); !ok {
		return nil, tidemark.NotFoundf("line %d has no name yet", local)
	} else if n.Machine != d.y.me.ID || n.Line != local {
		l.Born = &n
	}
	return l, nil
}

// flush seals the lines that were added and puts them there.
func (w *segmentWriter) flush(ctx context.Context) error {
	if len(w.items) == 0 {
		return nil
	}
	text, err := pack(w.items)
	if err != nil {
		return err
	}
	d := w.d
	seg := segment{blob: blob{Key: d.key()}, From: w.from, To: w.next - 1}
	for _, i := range w.items {
		if i.Line == nil {
			seg.Others += i.count()
		}
	}
	data, err := d.y.ring.SealWith(d.kept.Keys[seg.Key].Key, sealedSegment(d.y.me.ID, d.kept.ID, w.worker, seg), text)
	if err == nil {
		seg.Bytes = int64(len(data))
		seg.Hash, err = d.y.put(ctx, data)
	}
	if err != nil {
		return err
	}
	w.log.Segments = append(w.log.Segments, seg)
	w.items, w.bytes, w.from = nil, 0, w.next
	return nil
}

// about brings what is said about the session there, unless somebody keeps the same
// there already.
func (d *drafter) about(ctx context.Context, i store.Info, st *state) error {
	sess := i.Session
	sess.Title, sess.Tags, sess.Pinned, sess.OnHold, sess.Base = "", nil, false, false, nil
	sess.Draft, sess.Handed, sess.Redacted, sess.Charged = nil, false, 0, 0
	sess.Gone = time.Time{}
	a := about{Session: sess, Base: d.o.Base, Registers: d.o.Registers}
	plain, err := records.Encode(a)
	if err != nil {
		return err
	}
	sum, registers := hashOf(plain), sumOf(d.o.Registers)
	old := d.kept.About
	if old != nil && old.Sum == sum || registers == st.Known && (old != nil || !d.changed) {
		return nil
	}
	key := d.key()
	data, err := d.y.ring.SealWith(d.kept.Keys[key].Key, sealedAbout(d.y.me.ID, d.kept.ID), compress(plain))
	if err != nil {
		return err
	}
	hash, err := d.y.put(ctx, data)
	if err != nil {
		return err
	}
	if old != nil {
		d.dropped = append(d.dropped, old.Hash)
	}
	d.kept.About, d.changed, st.Known = &blob{Hash: hash, Key: key, Sum: sum}, true, registers
	return nil
}

func sumOf(all map[string]register) string {
	text, err := records.Encode(all)
	if err != nil {
		return ""
	}
	return hashOf(text)
}
