package sync

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/store"
)

// merge brings what other machines keep of one session into this store. Nothing of it
// is destroyed by another machine except by a purge.
type merge struct {
	y      *syncer
	id     tidemark.SessionID
	st     *state
	before func(context.Context, tidemark.SessionID) error // merges what it was forked from

	s       *store.Store // adds pending to the batch that appends to log
	log     tidemark.Key
	pending *tidemark.Record
	clock   time.Time // of the newest entry that was added

	w        *store.Writer
	exists   bool
	info     store.Info
	o        *origins
	sources  []source
	abouts   []about
	machines []string        // whose they are
	waits    map[string]bool // machines of which something is left
	entries  int64
	changed  bool
	tips     map[string]int64 // what machines went on with apart from here
}

// run merges what the sources keep.
func (m *merge) run(ctx context.Context, sources []source) error {
	m.waits, m.tips = make(map[string]bool), make(map[string]int64)
	m.s = m.y.s.ChangedAt(func() time.Time { return m.clock }).With(m.also)
	m.clock = m.y.k.Clock()
	slices.SortFunc(sources, byMachine)
	var err error
	if m.info, err = m.y.s.Session(ctx, m.id); err != nil && !isAbsent(err) {
		return err
	}
	m.exists = err == nil
	if ended, err := m.purge(ctx, sources); ended || err != nil {
		return err
	}
	sources = slices.DeleteFunc(slices.Clone(sources), func(s source) bool { return s.kept.Purged })
	if m.sources = sources; len(sources) == 0 {
		return nil
	}
	if err := m.load(ctx, sources); err != nil {
		return err
	}
	if !m.exists && !m.wanted() {
		for _, s := range sources {
			m.waits[s.machine] = true // another selection may want it
		}
		return nil
	}
	if err := m.logs(ctx, sources); err != nil {
		return err
	}
	if err := m.close(ctx); err != nil {
		return err
	}
	return m.settle(ctx)
}

// also adds the origins to the batch that appends the lines that they speak of, or to
// the one that labels a branch.
func (m *merge) also(_ context.Context, b *tidemark.Batch) (func(error), error) {
	if m.pending != nil && (m.log == tidemark.Key{} || slices.ContainsFunc(b.Appends, func(a tidemark.Append) bool { return a.Log == m.log })) {
		b.Puts = append([]tidemark.Record{*m.pending}, b.Puts...) // before the one that makes a session exist
	}
	return func(error) {}, nil
}

// close releases the lease.
func (m *merge) close(ctx context.Context) error {
	if m.w == nil {
		return nil
	}
	w := m.w
	m.w = nil
	return w.Close(context.WithoutCancel(ctx))
}

// purge deals with a session that was purged here or elsewhere, and reports whether
// that was all.
func (m *merge) purge(ctx context.Context, sources []source) (ended bool, err error) {
	buried := slices.ContainsFunc(sources, func(s source) bool { return s.kept.Purged })
	if !m.exists {
		if m.st.Purged, err = m.y.s.PurgedID(ctx, m.id); err != nil || m.st.Purged || !buried {
			return m.st.Purged, err
		}
		m.st.Purged, m.st.Told = true, false
		return true, m.y.s.Bury(ctx, m.id)
	}
	if !buried {
		return false, nil
	}
	if m.info.OnHold {
		if err := m.parted(ctx); err != nil {
			return false, err
		}
		for _, s := range sources {
			if s.kept.Purged {
				m.waits[s.machine] = true
				m.y.problem(Problem{Session: m.id, Machine: m.y.nameOfMachine(s.machine), What: "it was purged there, and stays here because it is on hold", Waits: true})
			}
		}
		return false, nil
	}
	if err := m.y.s.Destroy(ctx, m.id, m.y.o.Holder); err != nil {
		return false, err
	}
	m.st.Purged, m.st.Told, m.changed = true, false, true
	m.y.report.Purged++
	return true, nil
}

// parted notes that machines that are new will not be given this session: its forks
// are kept with what they begin after from the next push on.
func (m *merge) parted(ctx context.Context) error {
	if m.st.Held {
		return nil
	}
	v, err := m.y.s.ViewOf(m.info)
	if err != nil {
		return err
	}
	forks, err := v.Forks(ctx, 0)
	if err != nil {
		return err
	}
	for _, id := range forks {
		st, all, err := m.y.state(ctx, id)
		if err != nil {
			return err
		}
		st.Version, all.changed = -1, true
	}
	m.st.Held = true
	return nil
}

// load reads what is said about the session, there and here.
func (m *merge) load(ctx context.Context, sources []source) (err error) {
	for _, s := range sources {
		a, err := m.y.getAbout(ctx, s)
		if err != nil {
			return err
		}
		m.abouts, m.machines = append(m.abouts, a), append(m.machines, s.machine)
	}
	if m.exists {
		if err := m.attach(ctx, sources); err != nil {
			return err
		}
		if m.info, err = m.y.s.Session(ctx, m.id); err != nil {
			return err
		}
		if m.o, err = m.y.stamped(ctx, m.info); err != nil {
			return err
		}
	} else if m.o, err = loadOrigins(ctx, m.y.k, m.id, ""); err != nil {
		return err
	}
	if m.o.Registers == nil {
		m.o.Registers = make(map[string]register)
	}
	for _, a := range m.abouts {
		if join(m.o.Registers, m.y.masked(a.Registers)) {
			m.o.changed, m.changed = true, m.exists // what is not here yet changes when it comes
		}
	}
	return nil
}

// attach takes the lease of the session if there are lines to add.
func (m *merge) attach(ctx context.Context, sources []source) error {
	for _, s := range sources {
		for _, l := range s.kept.Logs {
			if l.Worker == pastLog {
				continue
			}
			o, err := loadOrigins(ctx, m.y.k, m.id, l.Worker)
			if err != nil {
				return err
			}
			if l.to() > o.Read[s.machine] {
				m.w, err = m.s.AttachMerge(ctx, m.id, m.y.o.Holder)
				return err
			}
		}
	}
	return nil
}

// wanted reports whether the options include the session.
func (m *merge) wanted() bool {
	var tags []string
	for key := range wanted(m.o.Registers) {
		if tag, is := strings.CutPrefix(key, regTag); is {
			tags = append(tags, tag)
		}
	}
	return m.y.selects(m.abouts[0].Session.Project, tags)
}

// logs merges the logs of the session and of its workers.
func (m *merge) logs(ctx context.Context, sources []source) error {
	workers := map[string]bool{"": true}
	for _, s := range sources {
		for _, l := range s.kept.Logs {
			workers[l.Worker] = true
		}
	}
	delete(workers, pastLog)
	for _, worker := range slices.Sorted(maps.Keys(workers)) {
		l := &logMerge{m: m, worker: worker, o: m.o}
		if worker != "" {
			if !m.exists {
				for _, s := range sources {
					m.waits[s.machine] = true // its own log did not come
				}
				return nil
			}
			o, err := loadOrigins(ctx, m.y.k, m.id, worker)
			if err != nil {
				return err
			}
			l.o = o
		}
		if err := l.run(ctx, sources); err != nil {
			return err
		}
	}
	return nil
}

// settle makes the session say what everybody says about it.
func (m *merge) settle(ctx context.Context) error {
	if !m.exists {
		// Who only says something about it keeps no lines: those who do are not read
		// yet, and what is said has to be read again when they are.
		for _, machine := range m.machines {
			m.waits[machine] = true
		}
		return nil
	}
	waiting, err := m.y.settle(ctx, m.id, m.o)
	if err != nil {
		return err
	}
	if waiting != "" {
		m.y.problem(Problem{Session: m.id, What: waiting, Waits: true})
		for _, machine := range m.machines {
			m.waits[machine] = true
		}
	}
	if err := m.nameBranches(ctx); err != nil {
		return err
	}
	sum := sumOf(m.o.Registers)
	if slices.ContainsFunc(m.abouts, func(a about) bool { return sumOf(a.Registers) == sum }) {
		m.st.Known = sum
	}
	return m.o.save(ctx, m.y.k)
}

// nameBranches labels what other machines went on with by the names of these, unless
// a person gave the label to something else.
func (m *merge) nameBranches(ctx context.Context) error {
	for _, machine := range slices.Sorted(maps.Keys(m.tips)) {
		name := m.y.nameOfMachine(machine)
		if _, taken := m.o.Seen[regLabel+name]; taken {
			continue
		}
		if m.o.Branches == nil {
			m.o.Branches = make(map[string]int64)
		}
		m.o.Branches[name] = m.tips[machine]
		r, err := m.o.record()
		if err != nil {
			return err
		}
		// Known by itself, the label would be one that a person gave.
		m.pending, m.log = &r, tidemark.Key{}
		err = m.s.Label(ctx, m.id, m.tips[machine], name)
		if m.pending = nil; err != nil {
			return err
		}
		m.o.version, m.o.changed = m.o.version+1, false
	}
	return nil
}

// stamped returns the origins of a session, in which its lines have names and what
// was changed about it has versions.
func (y *syncer) stamped(ctx context.Context, i store.Info) (*origins, error) {
	o, err := y.named(ctx, i)
	if err != nil {
		return nil, err
	}
	v, err := y.s.ViewOf(i)
	if err != nil {
		return nil, err
	}
	workers, err := v.WorkerInfos(ctx)
	if err != nil {
		return nil, err
	}
	for _, w := range workers {
		wo, err := loadOrigins(ctx, y.k, i.ID, w.Name)
		if err == nil {
			err = y.nameLines(ctx, wo, w.Entries)
		}
		if err == nil {
			err = wo.save(ctx, y.k)
		}
		if err != nil {
			return nil, err
		}
	}
	now, err := y.said(ctx, i, o)
	if err != nil {
		return nil, err
	}
	o.stamp(now, y.me.ID)
	return o, nil
}

// session returns the session as it is created here.
func (m *merge) session() tidemark.Session {
	sess := m.abouts[0].Session
	sess.Title, sess.Tags, sess.Base = "", nil, nil
	want := wanted(m.o.Registers)
	json.Unmarshal(want[regTitle], &sess.Title)
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if tag, is := strings.CutPrefix(key, regTag); is {
			sess.Tags = append(sess.Tags, tag)
		}
	}
	sess.Pinned, sess.OnHold = want[regPin] != nil, want[regHold] != nil
	sess.Handed, sess.Redacted, sess.Charged = false, 0, 0
	return sess
}

// sayCreated notes what the session says because it was created so.
func (m *merge) sayCreated() {
	want := wanted(m.o.Registers)
	m.o.Seen = make(map[string]json.RawMessage)
	for key, value := range want {
		if key == regTitle || key == regPin || key == regHold || strings.HasPrefix(key, regTag) {
			m.o.Seen[key] = value
		}
	}
}
