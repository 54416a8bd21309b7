package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// Info is a session together with its state and the size of its log.
type Info struct {
	tidemark.Session
	State     string    `json:"state"`
	UpdatedAt time.Time `json:"updated_at"`
	Messages  int64     `json:"messages"` // on the branch that the head is on, with those that may still change
	Nodes     int64     `json:"nodes"`
	Entries   int64     `json:"entries"`           // the seq of the newest one
	Owner     string    `json:"owner,omitempty"`   // if that is somebody else, who shared it
	Machine   string    `json:"machine,omitempty"` // another one that it was last written on; see SetMachines

	version int64 // of the record
	depth   int64 // the messages before the newest entry of the log, and with it
}

func infoOf(r tidemark.Record) (Info, error) {
	if r.Version == 0 {
		return Info{}, tidemark.NotFoundf("session %s: not found", r.ID)
	}
	i := Info{Owner: r.Owner, State: r.State, UpdatedAt: r.Touched(), version: r.Version,
		Messages: r.Head.Position.Depth, Nodes: r.Head.Position.Nodes, Entries: r.Head.Length, depth: r.Head.Position.Depth}
	if known, ok := tidemark.ParseSession(r.Body); ok {
		i.Session = known
	} else if err := records.Decode(r, &i.Session); err != nil {
		i.ID = tidemark.SessionID(r.ID)
		return i, err
	}
	if i.Draft != nil && i.Draft.After != r.Head.Length {
		i.Draft = nil
	}
	if i.Draft != nil {
		i.Messages = i.Draft.Messages
	}
	if i.Base != nil {
		i.Entries += i.Base.Seq
	}
	if i.Tool == "" && i.ForeignID != "" {
		i.Tool = toolOf(i.Extra)
	}
	return i, nil
}

// UnusualMode is the mode of the session if it is not the usual one, which is remote
// for a session of another tool and else local-only; otherwise "".
func (i Info) UnusualMode() string {
	usual := tidemark.ModeLocal
	if i.Tool != "" {
		usual = tidemark.ModeRemote
	}
	if i.Mode == usual {
		return ""
	}
	return i.Mode
}

// Name is what links and references call the session: its id, with the owner
// before it when that is somebody else.
func (i Info) Name() string { return tidemark.SessionName(i.Owner, i.ID) }

// toolOf returns the tool that a session came from, from where earlier versions
// of this program kept it.
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

// Filter says which sessions to list. A zero field does not restrict the list.
type Filter struct {
	Project string
	Agent   string
	Tool    string // that the session came from; Native: begun here
	Tag     string // of the session, or a label on any of its entries
	Gone    bool   // only those that the tool that they came from does not have any more
	State   string // "": Live. Trash includes sessions whose purge was interrupted
	Since   time.Time
	After   *Info // continue after this session of an earlier listing
	Limit   int
	// Each lists all sessions of the same id, whoever owns them, and not only the
	// one that the id alone means.
	Each bool
}

// SessionsWithPrefix yields at most limit live sessions whose id begins with
// prefix. A session that cannot be read is yielded as its error, and the listing
// goes on.
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

// SessionsByID yields the sessions of all states in the order of their ids, for who has
// to look at each: they are read as they lie, several times as fast as by their age. A
// session that cannot be read is yielded as its id with a *tidemark.Damage.
func (s *Store) SessionsByID(ctx context.Context) iter.Seq2[Info, error] {
	return infosOf(s.backend.List(ctx, tidemark.Query{Kind: kindSession, Order: tidemark.ByID}))
}

// HasSessions reports whether a project has a live session.
func (s *Store) HasSessions(ctx context.Context, project string) (bool, error) {
	for _, err := range s.Sessions(ctx, Filter{Project: project, Limit: 1}) {
		return true, err
	}
	return false, nil
}

// Sessions lists sessions, the most recently changed first. One that cannot be
// read is yielded as its id with a *tidemark.Damage, and the listing goes on.
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
		for i, err := range infosOf(s.inStates(ctx, f.query(), f.State, places)) {
			switch tooOld := i.UpdatedAt.Before(f.Since); {
			case err != nil && !errors.Is(err, tidemark.ErrCorrupt):
				yield(Info{}, err)
				return
			case err != nil: // a damaged session may match, so it is yielded
			case tooOld && i.State == purging:
				continue // these are listed first, so newer ones may follow
			case tooOld:
				return // newest first: the rest is older still
			case !f.matches(i, labelled):
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

// infosOf decodes records of sessions. Of one that cannot be read, only the id
// and the owner are set.
func infosOf(records iter.Seq2[tidemark.Record, error]) iter.Seq2[Info, error] {
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

// query returns the part of the filter that a Backend can apply.
func (f *Filter) query() tidemark.Query {
	q := tidemark.Query{Kind: kindSession, Each: f.Each}
	if f.Agent == "" && f.Tag == "" && f.Tool == "" && !f.Gone {
		q.Limit = f.Limit
	}
	if f.After != nil {
		q.After = &tidemark.Record{Key: keyOf(kindSession, f.After.ID), UpdatedAt: f.After.UpdatedAt, Owner: f.After.Owner}
	}
	return q
}

// matches reports whether a session has the agent, tool and tag of the filter.
func (f *Filter) matches(i Info, labelled map[string]bool) bool {
	return (f.Agent == "" || f.Agent == i.Agent) &&
		(f.Tool == "" || f.Tool == cmp.Or(i.Tool, Native)) &&
		(!f.Gone || !i.Gone.IsZero()) &&
		(f.Tag == "" || labelled[i.Name()] || hasTag(i.Session, f.Tag))
}

// inStates lists the records that match q, in each state that the given word
// covers, and in the projects at the given places.
func (s *Store) inStates(ctx context.Context, q tidemark.Query, state string, places []string) iter.Seq2[tidemark.Record, error] {
	states := []string{state}
	switch state {
	case "":
		states[0] = Live
	case Trash:
		if states = []string{purging, Trash}; q.After != nil {
			states = states[1:] // those that are being purged were on the first page
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

// labelled returns the names of the sessions that have an entry with the label.
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

// Labelled returns the names of the sessions that a list of a tag has because of a
// label on one of their entries, whoever owns them.
func (s *Store) Labelled(ctx context.Context, label string) (map[string]bool, error) {
	return s.labelled(ctx, label, true)
}

func hasTag(s tidemark.Session, tag string) bool {
	for _, t := range s.Tags {
		if t == tag {
			return true
		}
	}
	return false
}

// projectGroup is the Group of the records of one project.
func (s *Store) projectGroup(project string) string {
	if project == "" {
		return ""
	}
	return s.k.Hash("project", project)
}

// record returns the record of a session, to replace the one at version.
func (s *Store) record(sess tidemark.Session, state string, version int64) (tidemark.Record, error) {
	r, err := records.Put(keyOf(kindSession, sess.ID), version, sess)
	r.Group, r.State = s.projectGroup(sess.Project), state
	return r, err
}

// SetOrigin replaces what the tool that a session came from says about it: Tool,
// Extra, Title, Agent, Model, Mode, Project and CreatedAt are those of from. It
// needs no lease.
func (s *Store) SetOrigin(ctx context.Context, id tidemark.SessionID, from tidemark.Session) error {
	kept := s.vault.ValuesIn(from.Title, from.Agent, from.Model)
	extra := slices.Clone(from.Extra)
	maps.Copy(kept, s.vault.Redact(string(id), nil, &extra))
	if err := s.vault.Keep(ctx, string(id), kept); err != nil {
		return err
	}
	if s.vault.Redaction().Masks() {
		from = s.MaskSession(from)
	}
	return s.update(ctx, id, func(i *Info, b *tidemark.Batch) error {
		if i.Project != from.Project || i.Agent != from.Agent {
			if err := s.renewAll(ctx, b, id); err != nil {
				return err
			}
		}
		i.Tool, i.Extra, i.Agent, i.Model, i.Mode, i.Project = from.Tool, from.Extra, from.Agent, from.Model, from.Mode, from.Project
		i.CreatedAt = records.Keepable(from.CreatedAt)
		if i.Title != from.Title {
			if err := s.retitle(ctx, i, b, from.Title); err != nil {
				return err
			}
		}
		return s.addMissingBeginnings(ctx, b, i.Session)
	})
}

// SetGone keeps since when the tool that a session came from does not have it any
// more; zero: it has it. It needs no lease, and the session was not changed by it.
func (s *Store) SetGone(ctx context.Context, id tidemark.SessionID, since time.Time) error {
	i, err := s.Session(ctx, id)
	if err != nil || i.Gone.IsZero() == since.IsZero() {
		return err
	}
	return s.ChangedAt(func() time.Time { return i.UpdatedAt }).update(ctx, id, func(i *Info, _ *tidemark.Batch) error {
		i.Gone = time.Time{}
		if !since.IsZero() {
			i.Gone = records.Keepable(since)
		}
		return nil
	})
}

// addMissingBeginnings adds the names for the beginnings of a foreign id, which
// earlier versions of this program did not make.
func (s *Store) addMissingBeginnings(ctx context.Context, b *tidemark.Batch, sess tidemark.Session) error {
	for n, err := range s.namesOf(ctx, sess.ID) {
		if err != nil || n.Class == classBegin {
			return err
		}
	}
	return s.addBeginnings(b, sess)
}

// SetExtra replaces the Extra of a session, which other tools keep with it. It
// needs no lease.
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
// the batch, and starts again when somebody else changed the record meanwhile.
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
