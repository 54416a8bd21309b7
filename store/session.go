package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// Info is a session together with what its log and its lease say of it.
type Info struct {
	tidemark.Session
	State     string    `json:"state"`
	UpdatedAt time.Time `json:"updated_at"`
	Messages  int64     `json:"messages"` // on the branch that the head is on
	Nodes     int64     `json:"nodes"`
	Entries   int64     `json:"entries"`         // the seq of the newest one
	Owner     string    `json:"owner,omitempty"` // whose it is, where it is another's who shared it

	version int64 // of the record
}

func infoOf(r tidemark.Record) (Info, error) {
	if r.Version == 0 {
		return Info{}, tidemark.NotFoundf("session %s: not found", r.ID)
	}
	i := Info{Owner: r.Owner, State: r.State, UpdatedAt: r.Touched(), version: r.Version,
		Messages: r.Head.Position.Depth, Nodes: r.Head.Position.Nodes, Entries: r.Head.Length}
	if err := records.Decode(r, &i.Session); err != nil {
		i.ID = tidemark.SessionID(r.ID)
		return i, err
	}
	if i.Base != nil {
		i.Entries += i.Base.Seq
	}
	if i.Tool == "" && i.ForeignID != "" {
		i.Tool = toolOf(i.Extra)
	}
	return i, nil
}

// Name is how the session is called in links and references: its id, with its
// owner before it when that is another.
func (i Info) Name() string { return tidemark.SessionName(i.Owner, i.ID) }

// toolOf returns the tool that a session came from as earlier programs kept it.
func toolOf(extra json.RawMessage) string {
	var kept struct {
		Imported struct {
			Tool string `json:"tool"`
		} `json:"imported"`
	}
	if len(extra) == 0 || json.Unmarshal(extra, &kept) != nil {
		return ""
	}
	return kept.Imported.Tool
}

// Session returns one session, also one in the trash: ErrNotFound, or a
// *tidemark.Damage when its record cannot be read.
func (s *Store) Session(ctx context.Context, id tidemark.SessionID) (Info, error) {
	r, err := s.backend.Get(ctx, keyOf(kindSession, id))
	if errors.Is(err, tidemark.ErrNotFound) {
		return Info{}, tidemark.NotFoundf("session %s: not found", id)
	}
	if err != nil {
		return Info{}, err
	}
	return infoOf(r)
}

// sessionOf returns a session of an owner.
func (s *Store) sessionOf(ctx context.Context, owner string, id tidemark.SessionID) (Info, error) {
	of, err := s.of(owner)
	if err != nil {
		return Info{}, err
	}
	return of.Session(ctx, id)
}

// Filter says which sessions to list. Zero fields ask for nothing.
type Filter struct {
	Project string
	Agent   string
	Tool    string // that the session came from; Native: none
	Tag     string // or a label anywhere in the session
	State   string // "": Live. Trash also finds what a purge was interrupted in
	Since   time.Time
	After   *Info // continue behind this session of an earlier listing
	Limit   int
	// Each lists the sessions of all who have one of the same id, and not only
	// the one that the id alone leads to.
	Each bool
}

// SessionsWithPrefix yields living sessions whose id begins so, at most limit. A
// session that cannot be read is yielded as its error, and reading goes on.
func (s *Store) SessionsWithPrefix(ctx context.Context, prefix string, limit int) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		q := tidemark.Query{Kind: kindSession, Prefix: prefix, State: Live, Order: tidemark.ByID, Limit: limit}
		for r, err := range s.backend.List(ctx, q) {
			var i Info
			if err == nil {
				i, err = s.Session(ctx, tidemark.SessionID(r.ID))
			}
			if !yield(i, err) {
				return
			}
		}
	}
}

// HasSessions reports whether a project has a living session.
func (s *Store) HasSessions(ctx context.Context, project string) (bool, error) {
	for _, err := range s.Sessions(ctx, Filter{Project: project, Limit: 1}) {
		return true, err
	}
	return false, nil
}

// Sessions lists sessions, the one that changed last first. One that cannot
// be read is yielded as its id with a *tidemark.Damage, and the listing goes
// on.
func (s *Store) Sessions(ctx context.Context, f Filter) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		labelled, err := s.labelled(ctx, f.Tag, f.Each)
		if err != nil {
			yield(Info{}, err)
			return
		}
		places, err := s.placesOf(ctx, f.Project)
		if err != nil {
			yield(Info{}, err)
			return
		}
		n := 0
		for i, err := range listed(s.inStates(ctx, f.query(), f.State, places)) {
			switch tooOld := i.UpdatedAt.Before(f.Since); {
			case err != nil && !errors.Is(err, tidemark.ErrCorrupt):
				yield(Info{}, err)
				return
			case err != nil: // it may be the one that is looked for
			case tooOld && i.State == purging:
				continue // these come before all others
			case tooOld:
				return // newest first: the rest is older still
			case !f.wants(i, labelled):
				continue
			}
			if !yield(i, err) {
				return
			}
			if n++; n == f.Limit {
				return
			}
		}
	}
}

// listed reads records of sessions. One that cannot be read is its id and its
// owner.
func listed(records iter.Seq2[tidemark.Record, error]) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		for r, err := range records {
			i := Info{Session: tidemark.Session{ID: tidemark.SessionID(r.ID)}, Owner: r.Owner}
			if err == nil {
				i, err = infoOf(r)
			}
			if !yield(i, err) {
				return
			}
		}
	}
}

// query is as much of a filter as a Backend knows.
func (f *Filter) query() tidemark.Query {
	q := tidemark.Query{Kind: kindSession, Each: f.Each}
	if f.Agent == "" && f.Tag == "" && f.Tool == "" {
		q.Limit = f.Limit
	}
	if f.After != nil {
		q.After = &tidemark.Record{Key: keyOf(kindSession, f.After.ID), UpdatedAt: f.After.UpdatedAt, Owner: f.After.Owner}
	}
	return q
}

// wants reports whether what is said of a session is what the filter asks for.
func (f *Filter) wants(i Info, labelled map[string]bool) bool {
	return (f.Agent == "" || f.Agent == i.Agent) &&
		(f.Tool == "" || f.Tool == cmp.Or(i.Tool, Native)) &&
		(f.Tag == "" || labelled[i.Name()] || hasTag(i.Session, f.Tag))
}

// inStates lists what q asks for in the states that people mean by one word,
// and in the projects at these places.
func (s *Store) inStates(ctx context.Context, q tidemark.Query, state string, places []string) iter.Seq2[tidemark.Record, error] {
	states := []string{state}
	switch state {
	case "":
		states[0] = Live
	case Trash:
		if states = []string{purging, Trash}; q.After != nil {
			states = states[1:] // those were listed before all others
		}
	}
	groups := make([]string, len(places))
	for i, place := range places {
		groups[i] = s.projectGroup(place)
	}
	return func(yield func(tidemark.Record, error) bool) {
		for _, q.State = range states {
			for r, err := range s.inGroups(ctx, q, groups) {
				if !yield(r, err) {
					return
				}
			}
		}
	}
}

// labelled returns the names of the sessions in which something has the given label.
func (s *Store) labelled(ctx context.Context, label string, each bool) (map[string]bool, error) {
	if label == "" {
		return nil, nil
	}
	found := make(map[string]bool)
	for n, err := range s.names(ctx, tidemark.Query{Group: s.nameGroup(classLabel, label), Each: each}) {
		if err != nil {
			return nil, err
		}
		found[tidemark.SessionName(n.owner, n.Session)] = true
	}
	return found, nil
}

func hasTag(s tidemark.Session, tag string) bool {
	for _, t := range s.Tags {
		if t == tag {
			return true
		}
	}
	return false
}

// projectGroup is how sessions of one project are found together.
func (s *Store) projectGroup(project string) string {
	if project == "" {
		return ""
	}
	return s.k.Hash("project", project)
}

// record returns the record that keeps a session, to replace one at version.
func (s *Store) record(sess tidemark.Session, state string, version int64) (tidemark.Record, error) {
	r, err := records.Put(keyOf(kindSession, sess.ID), version, sess)
	r.Group, r.State = s.projectGroup(sess.Project), state
	return r, err
}

// SetOrigin replaces the tool that a session came from, and what that keeps with
// it. It needs no lease.
func (s *Store) SetOrigin(ctx context.Context, id tidemark.SessionID, tool string, extra json.RawMessage) error {
	if err := s.vault.Keep(ctx, string(id), s.vault.Redact(string(id), nil, &extra)); err != nil {
		return err
	}
	return s.update(ctx, id, func(i *Info, b *tidemark.Batch) error {
		i.Tool, i.Extra = tool, extra
		return s.fileForeign(ctx, b, i.Session)
	})
}

// fileForeign adds the names of a foreign id that earlier programs did not make.
func (s *Store) fileForeign(ctx context.Context, b *tidemark.Batch, sess tidemark.Session) error {
	for n, err := range s.namesOf(ctx, sess.ID) {
		if err != nil || n.Class == classBegin {
			return err
		}
	}
	return s.addBeginnings(b, sess)
}

// SetExtra replaces what other tools keep with a session. It needs no lease.
func (s *Store) SetExtra(ctx context.Context, id tidemark.SessionID, extra json.RawMessage) error {
	if err := s.vault.Keep(ctx, string(id), s.vault.Redact(string(id), nil, &extra)); err != nil {
		return err
	}
	return s.update(ctx, id, func(i *Info, _ *tidemark.Batch) error {
		i.Extra = extra
		return nil
	})
}

// update changes a session's record together with whatever else change adds to
// the batch, and tries again when somebody else changed it meanwhile.
func (s *Store) update(ctx context.Context, id tidemark.SessionID, change func(*Info, *tidemark.Batch) error) error {
	return records.Retry(ctx, func() error {
		i, err := s.Session(ctx, id)
		if err != nil {
			return err
		}
		var b tidemark.Batch
		if err := change(&i, &b); err != nil {
			return err
		}
		r, err := s.record(i.Session, i.State, i.version)
		if err != nil {
			return err
		}
		b.Puts = append(b.Puts, r)
		_, err = s.k.Commit(ctx, b)
		return err
	})
}
