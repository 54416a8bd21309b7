package agent

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/internal/grant"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/store"
)

// GrantRow is a grant, or a proposal, as people see it.
type GrantRow struct {
	Session   tidemark.SessionID `json:"session_id"`
	Project   string             `json:"project"`
	Kind      grant.Kind         `json:"kind"`
	State     string             `json:"state"`
	Text      string             `json:"text,omitempty"`
	Hash      string             `json:"sha256"`
	GrantedAt time.Time          `json:"granted_at,omitzero"`
}

// The states of a row.
const (
	Granted  = "granted"
	Declined = "declined"
	Proposed = "proposed"
)

// GrantRows are the matching grants in a book, described as far as the store
// knows them. Without a store, nil, only the hashes are known.
func GrantRows(ctx context.Context, book *grant.Book, s *store.Store, matches func(grant.Grant) bool) ([]GrantRow, error) {
	all, err := book.All()
	if errors.Is(err, grant.ErrUntrusted) {
		return nil, hint.With(tidemark.Deniedf("%w", err), "look at the file; the next grant puts it aside")
	}
	if err != nil {
		return nil, err
	}
	rows := []GrantRow{}
	known := make(map[tidemark.SessionID][]chat.Proposal)
	for _, g := range all {
		if !matches(g) {
			continue
		}
		what := ""
		if w, ok := g.Widens(); ok {
			what = "programs in this project may " + w.String()
		}
		if g.Kind == grant.Program {
			what = g.Label
		}
		r := GrantRow{Text: what, Session: g.Session, Project: g.Project, Kind: g.Kind, State: Granted, Hash: g.Hash, GrantedAt: g.At}
		if g.Declined {
			r.State = Declined
		}
		if _, ok := known[g.Session]; !ok && s != nil && g.Session != "" {
			known[g.Session] = claimsOf(ctx, s, g.Session)
		}
		if i := slices.IndexFunc(known[g.Session], func(p chat.Proposal) bool { return p.Thing == g.Thing }); i >= 0 {
			r.Text = known[g.Session][i].Text
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// claimsOf is everything that a session asks for.
func claimsOf(ctx context.Context, s *store.Store, id tidemark.SessionID) []chat.Proposal {
	c, err := s.Checkpoint(ctx, id, "")
	if err == nil {
		c, err = s.RevealCheckpoint(ctx, id, c)
	}
	if err != nil {
		return nil
	}
	return chat.ProposalsOf(c, "", nil)
}

// ProposedRows are what sessions ask for in a project and were not granted;
// without ids, all sessions of the project.
func ProposedRows(ctx context.Context, book *grant.Book, s *store.Store, project string, ids ...tidemark.SessionID) ([]GrantRow, error) {
	if len(ids) == 0 {
		for i, err := range s.Sessions(ctx, store.Filter{Project: project}) {
			if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
				return nil, err
			}
			if err == nil {
				ids = append(ids, i.ID)
			}
		}
	}
	rows := []GrantRow{}
	for _, id := range ids {
		open, err := proposals(ctx, book, s, id, project)
		if err != nil {
			return nil, err
		}
		for _, p := range open {
			r := GrantRow{Session: id, Project: project, Kind: p.Kind, State: Proposed, Text: p.Text, Hash: p.Hash}
			if p.Declined {
				r.State = Declined
			}
			rows = append(rows, r)
		}
	}
	return rows, nil
}

// proposals are what a session asks for in a project and was not granted.
func proposals(ctx context.Context, book *grant.Book, s *store.Store, id tidemark.SessionID, project string) ([]chat.Proposal, error) {
	c, err := s.Checkpoint(ctx, id, "")
	if errors.Is(err, tidemark.ErrNotFound) || errors.Is(err, tidemark.ErrCorrupt) {
		return nil, nil
	}
	if err == nil {
		c, err = s.RevealCheckpoint(ctx, id, c)
	}
	if err != nil {
		return nil, err
	}
	said, err := book.For(project).Of(id)
	if errors.Is(err, grant.ErrUntrusted) {
		err = nil // it grants nothing
	}
	return chat.ProposalsOf(c, project, said), err
}
