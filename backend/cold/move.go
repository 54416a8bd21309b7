package cold

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

const (
	// atOnce is how many segments are moved in one commit, which bounds how long it
	// takes.
	atOnce = 32
	// sweptAfter is how long an object stays that no record names: whoever put it
	// there names it by then, or is dead.
	sweptAfter = 24 * time.Hour
)

// Moved is what a move did, or would do.
type Moved struct {
	Lines  int64 `json:"lines"`
	Bytes  int64 `json:"bytes"`  // of the lines
	Packed int64 `json:"packed"` // at the place
}

// Move moves the older lines of a log to the place: it puts each segment there, reads
// it back, and then trims the log in one commit that also says where they are. Segments
// that are in the store itself go to the place as well; where the store is the place,
// that commit carries them. Killed anywhere, nothing is lost: objects that nothing names
// are deleted by Sweep. Few lines stay where they are. ErrConflict: the log was changed
// meanwhile. ErrCorrupt: a line is damaged, and all of them stay.
func (b *Backend) Move(ctx context.Context, log tidemark.Key) (did Moved, err error) {
	if b.url == "" {
		return did, tidemark.Invalidf("no cold place is set")
	}
	if !b.moves(log) {
		return did, tidemark.Invalidf("%s: lines of this kind stay", log)
	}
	prefix := ""
	if b.url != Here {
		if prefix, err = b.prefix(ctx, true); err != nil {
			return did, err
		}
	}
	for {
		m := move{b: b, log: log, prefix: prefix, packer: packer{log: log}}
		err := m.run(ctx)
		did.Lines, did.Bytes, did.Packed = did.Lines+m.did.Lines, did.Bytes+m.did.Bytes, did.Packed+m.did.Packed
		if b.places.counts.moved(m.did); err != nil && !errors.Is(err, tidemark.ErrConflict) && !errors.Is(err, tidemark.ErrNotFound) {
			b.places.counts.failedMove.Add(1)
		}
		if err != nil || !m.more {
			return did, err
		}
	}
}

// move is one commit of a move.
type move struct {
	b      *Backend
	log    tidemark.Key
	prefix string
	packer packer
	place  Place // nil: the store itself
	made   []Segment
	here   []tidemark.Append // their content, where the store is the place
	did    Moved
	more   bool // there is more to move
}

func (m *move) run(ctx context.Context) error {
	r, err := m.b.inner.Get(ctx, m.log)
	if err != nil {
		return err
	}
	c, err := m.b.find(ctx, m.log)
	if err != nil {
		return err
	}
	first, last := r.Head.Trimmed+1, r.Head.Length-m.b.limits.hot
	from := -1
	if m.b.url != Here {
		from = c.firstHere()
	}
	if last < first && from < 0 {
		return nil
	}
	if m.b.url != Here {
		if m.place, err = m.b.places.place(ctx, m.b.url); err != nil {
			return err
		}
	}
	if from >= 0 {
		err = m.sendOn(ctx, r, c, from)
	} else if err = m.pack(ctx, first, last, len(c.Segments)); err == nil && len(m.made) > 0 {
		err = m.trim(ctx, r, c)
	}
	if err != nil {
		m.takeBack(ctx)
		m.did = Moved{}
	}
	return err
}

// full reports whether one commit moves no more.
func (m *move) full() bool {
	return len(m.made) >= atOnce || m.place == nil && m.did.Packed >= hereAtOnce
}

// pack puts the lines from first to last at the place, or as many as one commit moves.
// The log has so many segments already.
func (m *move) pack(ctx context.Context, first, last int64, segments int) error {
	for l, err := range m.b.inner.Lines(ctx, m.log, tidemark.Span{From: first, To: last}) {
		if t := (*tidemark.TrimmedError)(nil); errors.As(err, &t) {
			return tidemark.Conflictf("%s: somebody else moves its lines", m.log)
		}
		if err != nil {
			return err
		}
		if len(m.packer.data) > 0 && len(m.packer.data)+len(l.Body) > m.b.segmentBytes(segments+len(m.made)) {
			if err := m.put(ctx); err != nil {
				return err
			}
			if m.full() {
				m.more = true
				return nil
			}
		}
		m.packer.add(l)
	}
	if len(m.packer.data) < m.b.limits.least && len(m.made) == 0 {
		return nil
	}
	return m.put(ctx)
}

// put puts what was collected at the place and reads it back.
func (m *move) put(ctx context.Context) error {
	m.did.Lines += m.packer.last - m.packer.first + 1
	m.did.Bytes += int64(len(m.packer.data))
	data, err := m.packer.pack()
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	s := Segment{First: m.packer.first, Last: m.packer.last, Bytes: int64(len(data)), SHA256: hex.EncodeToString(sum[:])}
	m.did.Packed += s.Bytes
	if m.place == nil {
		if _, _, err := m.b.places.unpacker.decode(data, m.log); err != nil {
			return err
		}
		s.Object = Object{Here, random()}
		m.made, m.here = append(m.made, s), append(m.here, pieces(m.log, s.Name, data))
		return nil
	}
	s.Object = Object{m.b.url, m.prefix + time.Now().UTC().Format(hourForm) + "/" + random()}
	if err := m.place.PutNew(ctx, s.Name, data); err != nil {
		return unreachable(m.b.url, err)
	}
	m.made = append(m.made, s)
	back, err := m.place.Get(ctx, s.Name)
	if err != nil {
		return unreachable(m.b.url, err)
	}
	if _, _, err := m.b.places.unpacker.decode(back, m.log); err != nil || sha256.Sum256(back) != sum {
		return unreachable(m.b.url, errors.New("what was put there is not what is read back"))
	}
	return nil
}

// trim removes the lines that were put at the place, and says where they are.
func (m *move) trim(ctx context.Context, r tidemark.Record, c whereabouts) error {
	if n := len(c.Segments); n > 0 && c.Segments[n-1].Last != m.made[0].First-1 || n == 0 && m.made[0].First != 1 {
		return tidemark.Conflictf("%s: was moved by somebody else", m.log)
	}
	batch := newBatch()
	batch.Appends = m.here
	batch.Trims = []tidemark.Trim{{Log: m.log, Length: r.Head.Length, Upto: m.made[len(m.made)-1].Last}}
	c.Segments = append(slices.Clip(c.Segments), m.made...)
	return m.commit(ctx, r, c, batch)
}

// commit writes the record of a log and what a batch does beside it.
func (m *move) commit(ctx context.Context, r tidemark.Record, c whereabouts, batch tidemark.Batch) error {
	put, err := c.put()
	if err != nil {
		return err
	}
	batch.Puts = []tidemark.Record{put}
	if r.Version > 0 { // a session that is deleted and made again is another one
		batch.Require = []tidemark.Precondition{{Key: r.Key, Version: r.Version}}
	}
	_, err = m.b.inner.Commit(ctx, batch)
	if errors.Is(err, tidemark.ErrUnknown) {
		m.made = nil // a record may name them
	}
	return err
}

// takeBack deletes what was put at the place in vain. What stays is swept later.
func (m *move) takeBack(ctx context.Context) {
	if m.place == nil {
		return
	}
	for _, s := range m.made {
		m.place.Delete(ctx, s.Name)
	}
}

// hourForm is how the name of an object says when it was made.
const hourForm = "2006010215"

// nameLength is how many digits random returns.
const nameLength = 32

func random() string {
	var id [nameLength / 2]byte
	rand.Read(id[:])
	return hex.EncodeToString(id[:])
}

// mark is the record that has the prefix of the objects of this store, so that
// several may share a place.
type mark struct {
	ID string `json:"id"`
}

var markKey = tidemark.Key{Kind: Kind, ID: "place"}

// prefix returns what the names of the objects of this store begin with, "" when there
// is none yet and none is to be made.
func (b *Backend) prefix(ctx context.Context, create bool) (string, error) {
	for {
		var m mark
		r, err := b.inner.Get(ctx, markKey)
		switch {
		case err == nil && r.Version > 0:
			err := records.Decode(r, &m)
			if err == nil && (len(m.ID) != nameLength || strings.Trim(m.ID, "0123456789abcdef") != "") {
				err = &tidemark.Damage{Key: markKey, What: "it names no prefix"}
			}
			return m.ID + "/", err
		case err != nil && !errors.Is(err, tidemark.ErrNotFound):
			return "", err
		case !create:
			return "", nil
		}
		m.ID = random()
		put, err := records.Put(markKey, 0, m)
		if err != nil {
			return "", err
		}
		batch := newBatch()
		batch.Puts = []tidemark.Record{put}
		if _, err := b.inner.Commit(ctx, batch); err != nil && !errors.Is(err, tidemark.ErrConflict) {
			return "", err
		}
	}
}

// Quiet yields the logs of sessions that nobody touched since an instant, and that
// have lines to move. Those of sealed stores do not become smaller: where the store is
// the place, they stay as they are.
func (b *Backend) Quiet(ctx context.Context, since time.Time) iter.Seq2[tidemark.Record, error] {
	return func(yield func(tidemark.Record, error) bool) {
		for _, kind := range movableKinds {
			for r, err := range b.inner.List(ctx, tidemark.Query{Kind: kind, Order: tidemark.ByID}) {
				switch {
				case errors.Is(err, tidemark.ErrCorrupt):
					continue // verify names it
				case err == nil && (!b.quiet(r, since) || b.lines(r) == 0 || b.url == Here && len(r.Head.Chain) > 0):
					continue
				}
				if !yield(r, err) || err != nil {
					return
				}
			}
		}
		if b.url == Here {
			return
		}
		for c, err := range b.whereabouts(ctx, statePacked) {
			var r tidemark.Record
			if err == nil {
				r, err = b.inner.Get(ctx, c.log)
			}
			switch {
			case errors.Is(err, tidemark.ErrCorrupt), errors.Is(err, tidemark.ErrNotFound):
				continue
			case err == nil && (!b.quiet(r, since) || b.lines(r) > 0):
				continue // it was yielded if it is quiet
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// quiet reports whether a log is one's own and was touched by nobody since an instant.
func (b *Backend) quiet(r tidemark.Record, since time.Time) bool {
	return r.Owner == "" && r.Touched().Before(since) && b.moves(r.Key)
}

// lines is how many lines of a log are to be moved that are in it.
func (b *Backend) lines(r tidemark.Record) int64 {
	return max(r.Head.Length-r.Head.Trimmed-b.limits.hot, 0)
}

// Would returns what a move of a log that Quiet yielded is about; the bytes are not
// known without reading it.
func (b *Backend) Would(ctx context.Context, r tidemark.Record) (Moved, error) {
	would := Moved{Lines: b.lines(r)}
	if b.url == Here {
		return would, nil
	}
	c, err := b.find(ctx, r.Key)
	for _, s := range c.Segments {
		if s.isHere() {
			would.Lines += s.Last - s.First + 1
		}
	}
	return would, err
}

// Status is what is at places.
type Status struct {
	Logs     int              `json:"logs"`
	Segments int              `json:"segments"`
	Lines    int64            `json:"lines"`
	Packed   int64            `json:"packed"`
	Places   map[string]int64 `json:"places,omitempty"` // bytes by place
	Left     int              `json:"left"`             // objects that are to be deleted, and are not yet
}

// Add adds what another owner has there.
func (st *Status) Add(more Status) {
	st.Logs, st.Segments, st.Lines, st.Packed, st.Left = st.Logs+more.Logs, st.Segments+more.Segments, st.Lines+more.Lines, st.Packed+more.Packed, st.Left+more.Left
	for place, bytes := range more.Places {
		if st.Places == nil {
			st.Places = make(map[string]int64)
		}
		st.Places[place] += bytes
	}
}

// Status counts what is at places.
func (b *Backend) Status(ctx context.Context) (st Status, err error) {
	st.Places = make(map[string]int64)
	for c, err := range b.whereabouts(ctx, "") {
		if err != nil {
			return st, err
		}
		if len(c.Segments) > 0 {
			st.Logs++
		}
		st.Left += len(c.Gone)
		for _, s := range c.Segments {
			st.Segments++
			st.Lines += s.Last - s.First + 1
			st.Packed += s.Bytes
			st.Places[s.Place] += s.Bytes
		}
	}
	return st, nil
}

// Logs yields the logs that have lines at places.
func (b *Backend) Logs(ctx context.Context) iter.Seq2[tidemark.Key, error] {
	return func(yield func(tidemark.Key, error) bool) {
		for c, err := range b.whereabouts(ctx, "") {
			if err == nil && len(c.Segments) == 0 {
				continue
			}
			if !yield(c.log, err) {
				return
			}
		}
	}
}

// SweepGone deletes what records say is gone, and returns how many objects that were. An
// error says which place did not answer; the rest was done.
func (b *Backend) SweepGone(ctx context.Context) (deleted int, err error) {
	var gone []whereabouts
	for c, err := range b.whereabouts(ctx, stateGone) {
		if err != nil {
			return 0, err
		}
		gone = append(gone, c)
	}
	return b.deleteAllGone(ctx, gone)
}

func (b *Backend) deleteAllGone(ctx context.Context, gone []whereabouts) (deleted int, err error) {
	for _, c := range gone {
		if failed := b.deleteGone(ctx, c.log); failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		deleted += len(c.Gone)
	}
	return deleted, err
}

// Sweep deletes what is at places and nothing needs: what records say is gone, and
// objects older than a day that no record names. It returns how many. An error says
// which place did not answer; the rest was done.
func (b *Backend) Sweep(ctx context.Context) (deleted int, err error) {
	return b.sweep(ctx, sweptAfter)
}

// Vanish is Sweep for an owner of whom nothing is to stay: objects that no record names
// go, whatever their age, and so does the name that the objects of this store begin
// with. As long as there are sessions it is Sweep, since somebody may be moving them.
// An error: something is left, and it is to be called again.
func (b *Backend) Vanish(ctx context.Context) error {
	for _, kind := range movableKinds {
		for r, err := range b.inner.List(ctx, tidemark.Query{Kind: kind, Order: tidemark.ByID}) {
			if err == nil && r.Owner != "" {
				continue
			}
			_, failed := b.Sweep(ctx)
			return failed
		}
	}
	if _, err := b.sweep(ctx, 0); err != nil {
		return err
	}
	r, err := b.inner.Get(ctx, markKey)
	if err != nil || r.Version == 0 {
		if errors.Is(err, tidemark.ErrNotFound) {
			err = nil
		}
		return err
	}
	batch := newBatch()
	batch.Deletes = []tidemark.Precondition{{Key: markKey, Version: r.Version}}
	_, err = b.inner.Commit(ctx, batch)
	return err
}

// sweep is Sweep of objects that are older than that.
func (b *Backend) sweep(ctx context.Context, older time.Duration) (deleted int, err error) {
	named := make(map[Object]bool)
	places := make(map[string]bool)
	if b.url != "" && b.url != Here {
		places[b.url] = true
	}
	var gone []whereabouts
	for c, err := range b.whereabouts(ctx, "") {
		if err != nil {
			return 0, err // what it names is not known
		}
		if len(c.Gone) > 0 {
			gone = append(gone, c)
		}
		for _, s := range c.Segments {
			if !s.isHere() { // nobody leaves one there that nothing names
				named[s.Object], places[s.Place] = true, true
			}
		}
	}
	deleted, err = b.deleteAllGone(ctx, gone)
	n, failed := b.sweepHere(ctx)
	deleted, err = deleted+n, errors.Join(err, failed)
	prefix, failed := b.prefix(ctx, false)
	if failed != nil || prefix == "" {
		return deleted, errors.Join(err, failed)
	}
	for url := range places {
		n, failed := b.sweepPlace(ctx, url, prefix, older, named)
		deleted, err = deleted+n, errors.Join(err, failed)
	}
	return deleted, err
}

func (b *Backend) sweepPlace(ctx context.Context, url, prefix string, older time.Duration, named map[Object]bool) (deleted int, err error) {
	place, err := b.places.place(ctx, url)
	if err != nil {
		return 0, err
	}
	var old []string
	for name, err := range place.List(ctx, prefix) {
		if err != nil {
			return 0, unreachable(url, err)
		}
		hour, _, _ := strings.Cut(strings.TrimPrefix(name, prefix), "/")
		made, bad := time.Parse(hourForm, hour)
		if bad == nil && (older == 0 || made.Add(time.Hour).Before(b.places.now().Add(-older))) && !named[Object{url, name}] {
			old = append(old, name)
		}
	}
	for _, name := range old {
		if err := place.Delete(ctx, name); err != nil {
			return deleted, unreachable(url, err)
		}
		deleted++
	}
	return deleted, nil
}

// Left returns an error that names what is still at a place though it was dropped, nil
// when nothing is.
func (b *Backend) Left(ctx context.Context) error {
	n, places := 0, make(map[string]bool)
	for c, err := range b.whereabouts(ctx, stateGone) {
		if err != nil {
			return err
		}
		n += len(c.Gone)
		for _, o := range c.Gone {
			places[o.Place] = true
		}
	}
	if n == 0 {
		return nil
	}
	var names []string
	for p := range places {
		names = append(names, p)
	}
	return unreachable(strings.Join(names, ", "), fmt.Errorf("%d segment(s) of what was destroyed are still there", n))
}
