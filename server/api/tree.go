package api

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
)

func (s *Server) treeRoutes() {
	huma.Register(s.huma, op("GET", request.SessionsPath+"/{id}/tree", "get-tree", "The turns of a session with all branches", "tree", request.Reader), s.getTree)
	huma.Register(s.huma, status(s.takes(op("POST", request.SessionsPath+"/{id}/branch", "branch-session", "Go on from an earlier point of a session", "tree", request.Writer)), http.StatusCreated), s.BranchSession)
	huma.Register(s.huma, status(s.takes(op("POST", request.SessionsPath+"/{id}/fork", "fork-session", "Make a session that shares the past of another", "tree", request.Writer)), http.StatusCreated), s.ForkSession)
	huma.Register(s.huma, status(s.takes(op("POST", request.SessionsPath+"/{id}/labels", "label-entry", "Give a point of a session a name", "tree", request.Writer)), http.StatusCreated), s.LabelEntry)
}

type treeInput struct {
	SessionInput
	NoneMatch
	Limit  int    `query:"limit" minimum:"0" doc:"how many nodes, at most; all of them when absent"`
	Cursor string `query:"cursor" maxLength:"2048" doc:"next of the page before"`
}

type treeOutput struct {
	Status int
	ETag   string `header:"ETag"`
	Body   *treeBody
}

type treeBody struct {
	Nodes   []store.Node `json:"nodes" nullable:"false"`
	Workers []string     `json:"workers" nullable:"false"`
	Next    string       `json:"next,omitempty" doc:"the cursor of the next page; absent on the last"`
}

// treeCursor is where the nodes of a session continue. A node never gets another
// number.
type treeCursor struct {
	Session tidemark.SessionID `json:"session"`
	Node    int64              `json:"node"`
}

func (s *Server) getTree(ctx context.Context, in *treeInput) (*treeOutput, error) {
	_, v, err := s.View(ctx, in.ID)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	nodes, next, err := s.treePage(ctx, v, in)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	workers, err := v.Workers(ctx)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	out := &treeOutput{Status: http.StatusOK, Body: &treeBody{Nodes: append([]store.Node{}, nodes...), Workers: append([]string{}, workers...), Next: next}}
	if out.ETag = tagOfJSON(out.Body); unchanged(in.IfNoneMatch, out.ETag) {
		return &treeOutput{Status: http.StatusNotModified, ETag: out.ETag}, nil
	}
	return out, nil
}

// treePage returns the nodes that a call asks for, and the cursor of those after
// them.
func (s *Server) treePage(ctx context.Context, v *store.View, in *treeInput) (nodes []store.Node, next string, err error) {
	if in.Limit == 0 && in.Cursor == "" {
		nodes, err = v.Tree(ctx)
		return nodes, "", err
	}
	c := treeCursor{Session: v.ID}
	if in.Cursor != "" {
		if err := s.ParseCursor(request.CallerOf(ctx), in.Cursor, &c); err != nil {
			return nil, "", err
		}
		if c.Session != v.ID {
			return nil, "", tidemark.Invalidf("cursor: of another session; begin again without it")
		}
	}
	limit := in.Limit
	if limit == 0 {
		limit = s.o.Limits.Page
	}
	nodes, more, err := v.TreePage(ctx, c.Node, s.limit(limit))
	if err == nil && more {
		c.Node = nodes[len(nodes)-1].Number + 1
		next = s.Cursor(request.CallerOf(ctx), c)
	}
	return nodes, next, err
}

// BranchInput says where to continue from.
type BranchInput struct {
	SessionInput
	IdempotencyInput
	Body struct {
		At    string `json:"at" minLength:"1" maxLength:"1000" doc:"a node (n3), an entry (12) or a label; with ~2, two turns before it"`
		Lease string `json:"lease,omitempty" maxLength:"100"`
	}
}

type branchOutput struct {
	Body struct {
		Head int64 `json:"head" doc:"the seq that the next entry follows"`
		Seq  int64 `json:"seq" doc:"the seq of the entry that says so"`
	}
}

// BranchSession continues from an entry before the newest.
func (s *Server) BranchSession(ctx context.Context, in *BranchInput) (*branchOutput, error) {
	st, i, err := s.Owned(ctx, in.ID)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	v, err := st.View(ctx, i.ID)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	seq, err := v.At(ctx, in.Body.At)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	marks := []tidemark.Entry{{Kind: tidemark.KindBranch, Position: tidemark.Position{Parent: seq}}}
	if in.Key != "" {
		if _, err := idempotent(ctx, st, "branch-session/"+string(i.ID), in.Key, in.Body.At); err != nil {
			return nil, request.Fail(ctx, err)
		}
		keyed(marks, in.Key)
	}
	var out branchOutput
	err = s.write(ctx, st, i.ID, in.Body.Lease, func(w *store.Writer) error {
		seqs, err := w.Append(ctx, marks...)
		if err == nil {
			out.Body.Head, out.Body.Seq = seq, seqs[0]
		}
		return err
	})
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	return &out, nil
}

// ForkInput says what a new session begins with.
type ForkInput struct {
	SessionInput
	IdempotencyInput
	Body struct {
		At    string `json:"at,omitempty" maxLength:"1000" doc:"a node (n3), an entry (12) or a label; the head when absent"`
		Title string `json:"title,omitempty" maxLength:"1000"`
		Agent string `json:"agent,omitempty" maxLength:"256"`
		Model string `json:"model,omitempty" maxLength:"256"`
	}
}

// ForkSession creates a session that begins with the past of another.
func (s *Server) ForkSession(ctx context.Context, in *ForkInput) (*sessionOutput, error) {
	// Only its owner can fork a shared session: a fork depends on the past of
	// its source, and the source can be made private again.
	st, i, err := s.Owned(ctx, in.ID)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	if err := CheckSize("title", in.Body.Title); err != nil {
		return nil, request.Fail(ctx, err)
	}
	var c *keyedCall
	if in.Key != "" {
		if c, err = idempotent(ctx, st, "fork-session/"+string(i.ID), in.Key, in.Body); err != nil {
			return nil, request.Fail(ctx, err)
		}
		var before tidemark.SessionID
		if c.answer != nil && json.Unmarshal(c.answer, &before) == nil {
			if i, err = st.Session(ctx, before); err != nil {
				return nil, request.Fail(ctx, err)
			}
			return answerSession(ctx, st, i, http.StatusCreated)
		}
	}
	v, err := st.View(ctx, i.ID)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	seq, err := v.At(ctx, in.Body.At)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	forked, err := st.ForkAs(ctx, i.ID, seq, tidemark.Session{Title: in.Body.Title, Agent: in.Body.Agent, Model: in.Body.Model})
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	if c != nil {
		c.keep(ctx, forked.ID)
	}
	if forked, err = st.Session(ctx, forked.ID); err != nil {
		return nil, request.Fail(ctx, err)
	}
	return answerSession(ctx, st, forked, http.StatusCreated)
}

// LabelInput says which entry gets which label.
type LabelInput struct {
	SessionInput
	Body struct {
		At   string `json:"at,omitempty" maxLength:"1000" doc:"a node (n3), an entry (12) or another label; the head when absent"`
		Text string `json:"text" minLength:"1" maxLength:"1000" doc:"a label leads to one entry, the one that got it last"`
	}
}

type labelOutput struct {
	Body struct {
		Seq  int64  `json:"seq"`
		Text string `json:"text"`
	}
}

// LabelEntry puts a label on an entry.
func (s *Server) LabelEntry(ctx context.Context, in *LabelInput) (*labelOutput, error) {
	st, i, err := s.Owned(ctx, in.ID)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	v, err := st.View(ctx, i.ID)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	seq, err := s.end(ctx, v, in.Body.At)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	if err := st.Label(ctx, i.ID, seq, in.Body.Text); err != nil {
		return nil, request.Fail(ctx, err)
	}
	var out labelOutput
	out.Body.Seq, out.Body.Text = seq, in.Body.Text
	return &out, nil
}
