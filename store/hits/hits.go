// Package hits is a search as people and programs get its answer: each hit with
// its reference, a snippet and what to mark in it, made harmless. The command line,
// the pages, HTTP, MCP and the chat all show these hits; what is found, and in which
// order, package store decides.
//
//	query, err := search.Parse("connection refused")
//	answer, err := hits.Search(ctx, s, query, store.Question{}, hits.Width)
package hits

import (
	"context"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/search"
	"github.com/tidemark-sessions/tidemark/store"
)

// How many characters of an entry are shown for a hit: to people, and to models,
// which see nothing else before they ask for the entry.
const (
	Width      = 160
	ModelWidth = 240
)

// How long a search looks before it answers with what it has, and says where to go
// on: for a program that waits for a call, and for somebody who is typing.
const (
	Patience      = 10 * time.Second
	TypedPatience = 2 * time.Second
)

// Hit is one thing that was found. Its texts are harmless on a terminal; a page
// escapes them as any other text.
type Hit struct {
	Ref     string             `json:"ref" doc:"leads to the entry: SESSION@12, OWNER:SESSION@12 in a session that OWNER shared" jsonschema:"what read_session takes as session"`
	Session tidemark.SessionID `json:"session"`
	Owner   string             `json:"owner,omitempty" doc:"whose the session is, when it is another's" jsonschema:"whose the session is, when it is another's"`
	Title   string             `json:"title,omitempty"`
	Seq     int64              `json:"seq,omitempty" doc:"the number of the entry; absent: a title or tag" jsonschema:"the number of the entry; absent: a title or tag"`
	Draft   bool               `json:"draft,omitempty" doc:"another tool is still writing it: it is not kept yet, and may change" jsonschema:"another tool is still writing it, it may change: read_session of the session shows it at the end"`
	Worker  string             `json:"worker,omitempty" doc:"the entry is in the log of this worker" jsonschema:"the entry is in the log of this worker: read_session takes it as worker, with seq as entry"`
	Role    string             `json:"role" doc:"who said it; of anything else than a message its kind: title, label, tag, context, compaction, …" jsonschema:"who said it; of anything else than a message its kind: title, label, tag, context, compaction"`
	At      time.Time          `json:"at" doc:"when it was said; of a title, label or tag when it was given"`
	Snippet string             `json:"snippet" doc:"a part of the text around what was asked for, on one line"`
	Marks   [][2]int           `json:"marks" nullable:"false" doc:"the bytes of the snippet that were asked for: from, to" jsonschema:"the bytes of the snippet that were asked for: from, to"`
}

// Who is the role, for people: with a mark when it may still change.
func (h Hit) Who() string {
	if h.Draft {
		return h.Role + " (draft)"
	}
	return h.Role
}

// InSession is a session with hits in an answer.
type InSession struct {
	Session tidemark.SessionID `json:"session"`
	Owner   string             `json:"owner,omitempty" doc:"whose the session is, when it is another's"`
	Title   string             `json:"title,omitempty"`
	Project string             `json:"project,omitempty"`
	Agent   string             `json:"-"`
	At      time.Time          `json:"-"` // when it was changed last
	Listed  int                `json:"listed" doc:"how many of its hits are in the answer"`
	More    store.Count        `json:"more" doc:"how many more of its hits stand among these and are not listed; ask for the session alone to have them"`
}

// Name is the session as references name it: with its owner before it, when that
// is another.
func (i InSession) Name() string { return tidemark.SessionName(i.Owner, i.Session) }

// Answer is what a search found; the fields are those of store.Answer.
type Answer struct {
	Hits     []Hit // never nil
	Sessions []InSession
	Next     string
	Cut      bool // there is more, or may be
	Stopped  bool
	Until    time.Time
	Behind   int64
	Waiting  int64
	LeftOut  store.Count
	Facets   []store.Facet
	Damage   error
}

// Search asks a store about a query. The errors are those of store.Search.
func Search(ctx context.Context, s *store.Store, query search.Query, q store.Question, width int) (Answer, error) {
	found, err := s.Search(ctx, q.About(query))
	a := Answer{Hits: make([]Hit, 0, len(found.Found)), Next: found.Next, Cut: found.Cut(), Stopped: found.Stopped, Until: found.Until,
		Behind: found.Behind, Waiting: found.Waiting, LeftOut: found.LeftOut, Facets: found.Facets, Damage: found.Damage}
	for _, f := range found.Found {
		a.Hits = append(a.Hits, Of(query, f, width))
	}
	for _, g := range found.Sessions {
		a.Sessions = append(a.Sessions, InSession{Session: g.Info.ID, Owner: g.Info.Owner, Title: render.CleanLine(g.Info.Title),
			Project: render.CleanLine(g.Info.Project), Agent: render.CleanLine(g.Info.Agent), At: g.Info.UpdatedAt, Listed: g.Listed, More: g.More})
	}
	for i := range a.Facets {
		for j, v := range a.Facets[i].Values {
			a.Facets[i].Values[j].Value = render.CleanLine(v.Value)
		}
	}
	return a, err
}

// Of returns one hit, with as many characters of its text as width says.
func Of(query search.Query, f store.Found, width int) Hit {
	h := Hit{Ref: f.Ref(), Session: f.Info.ID, Owner: f.Info.Owner, Title: render.CleanLine(f.Info.Title), Seq: f.Seq,
		Draft: f.Entry.Draft, Worker: render.CleanLine(f.Worker), Role: render.CleanLine(f.Role()), At: f.At, Marks: [][2]int{}}
	var marks [][2]int
	h.Snippet, marks = query.Snippet(render.Clean(search.Text(f.Entry)), width)
	h.Marks = append(h.Marks, marks...)
	return h
}
