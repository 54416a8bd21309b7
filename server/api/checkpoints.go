package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
)

func (s *Server) stateRoutes() {
	path := request.SessionsPath + "/{id}/checkpoint"
	huma.Register(s.huma, op("GET", path, "get-checkpoint", "What a restart needs beyond the messages", "state", request.Reader), s.getCheckpoint)
	huma.Register(s.huma, s.takes(op("PUT", path, "put-checkpoint", "Replace what a restart needs", "state", request.Writer)), s.putCheckpoint)
	huma.Register(s.huma, op("GET", path+"s", "list-checkpoints", "The checkpoints of a session, the newest first", "state", request.Reader), s.listCheckpoints)
}

// tagOfJSON is the ETag of something small, made from its content.
func tagOfJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return `"` + hex.EncodeToString(sum[:12]) + `"`
}

// SessionState is a store.Checkpoint as a client sends it: nothing is
// required, and absent fields become empty.
type SessionState struct {
	Name          string              `json:"name,omitempty" maxLength:"200"`
	SavedAt       time.Time           `json:"saved_at,omitzero" doc:"set by the server"`
	Reason        string              `json:"reason,omitempty" maxLength:"1000"`
	Seq           int64               `json:"seq,omitempty" minimum:"0" doc:"the entry that it was taken at; the newest when absent"`
	Approvals     []store.Approval    `json:"approvals,omitempty"`
	Limits        store.Limits        `json:"limits,omitzero"`
	Loops         []store.Loop        `json:"loops,omitempty"`
	Tasks         []store.Task        `json:"tasks,omitempty"`
	DynamicTools  []store.DynamicTool `json:"dynamic_tools,omitempty"`
	WakeTriggers  []store.WakeTrigger `json:"wake_triggers,omitempty"`
	CoreMemory    map[string]string   `json:"core_memory,omitempty"`
	DocumentPaths []string            `json:"document_paths,omitempty"`
	Interpreter   store.Interpreter   `json:"interpreter_state,omitzero"`
	Extra         json.RawMessage     `json:"extra,omitempty"`
}

type getCheckpointInput struct {
	SessionInput
	Name string `query:"name" maxLength:"200" doc:"the one that a resume looks for has none"`
	NoneMatch
}

type checkpointOutput struct {
	Status int
	ETag   string `header:"ETag"`
	Body   *SessionState
}

func (s *Server) getCheckpoint(ctx context.Context, in *getCheckpointInput) (*checkpointOutput, error) {
	st, v, err := s.View(ctx, in.ID)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	c, err := st.Checkpoint(ctx, v.ID, in.Name)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	body := SessionState(c)
	tag := tagOfJSON(body)
	if unchanged(in.IfNoneMatch, tag) {
		return &checkpointOutput{Status: http.StatusNotModified, ETag: tag}, nil
	}
	return &checkpointOutput{Status: http.StatusOK, ETag: tag, Body: &body}, nil
}

type putCheckpointInput struct {
	SessionInput
	Name  string `query:"name" maxLength:"200" doc:"in place of the name in the body"`
	Lease string `header:"Lease-Token" maxLength:"100" doc:"without one the session is attached for this call"`
	Body  SessionState
}

func (s *Server) putCheckpoint(ctx context.Context, in *putCheckpointInput) (*checkpointOutput, error) {
	st, i, err := s.Owned(ctx, in.ID)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	c := store.Checkpoint(in.Body)
	if in.Name != "" {
		c.Name = in.Name
	}
	if c.Seq > i.Entries {
		return nil, request.Fail(ctx, tidemark.Invalidf("seq %d: the newest entry is %d", c.Seq, i.Entries))
	}
	if err := s.write(ctx, st, i.ID, in.Lease, func(w *store.Writer) error { return w.SaveCheckpoint(ctx, c) }); err != nil {
		return nil, request.Fail(ctx, err)
	}
	return s.getCheckpoint(ctx, &getCheckpointInput{SessionInput: in.SessionInput, Name: c.Name})
}

func (s *Server) listCheckpoints(ctx context.Context, in *listInSession) (*madeOf[Page[SessionState]], error) {
	st, v, err := s.View(ctx, in.ID)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	kept, err := st.Checkpoints(ctx, v.ID)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	all := make([]SessionState, len(kept))
	for i, c := range kept {
		all[i] = SessionState(c)
	}
	return pageOf(s, ctx, all, in.PageInput)
}

// attachedSessions answers with the sessions that have a writer now.
func (s *Server) attachedSessions(ctx context.Context, _ *struct{}) (*struct{ Body api.AttachedList }, error) {
	st, err := s.stores.Mine(ctx)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	list := api.AttachedList{OK: true, Sessions: []api.AttachedSession{}}
	var learned map[tidemark.SessionID]int64
	for l, err := range st.Leases(ctx) {
		if err != nil {
			return nil, request.Fail(ctx, err)
		}
		if l.Dead || l.Expired || !l.Held || len(list.Sessions) == s.o.Limits.Page {
			continue
		}
		if learned == nil {
			if learned, err = learnedIn(ctx, st); err != nil {
				return nil, request.Fail(ctx, err)
			}
		}
		a, err := s.attachedSession(ctx, st, l)
		if errors.Is(err, tidemark.ErrNotFound) {
			continue // it ended meanwhile
		}
		if err != nil {
			return nil, request.Fail(ctx, err)
		}
		a.MemoryCount += learned[l.Session()]
		list.Sessions = append(list.Sessions, a)
	}
	return &struct{ Body api.AttachedList }{list}, nil
}

// learnedIn counts what was learned, by session.
func learnedIn(ctx context.Context, st *store.Store) (map[tidemark.SessionID]int64, error) {
	n := make(map[tidemark.SessionID]int64)
	for m, err := range st.Memories(ctx, "") {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue
		}
		if err != nil {
			return nil, err
		}
		n[m.Session]++
	}
	return n, nil
}

func (s *Server) attachedSession(ctx context.Context, st *store.Store, l store.Lease) (api.AttachedSession, error) {
	caller := request.CallerOf(ctx)
	a := api.AttachedSession{Key: caller.Tenant + ":" + caller.User + ":" + string(l.Session()), UserID: caller.User, SessionID: string(l.Session()),
		HeldBy: HolderText(l.Holder), HeldSince: l.Since, HeardAt: l.HeardAt}
	if len(caller.Workspaces) > 0 {
		a.WorkspaceID = caller.Workspaces[0]
	}
	v, err := st.View(ctx, l.Session())
	if err != nil {
		return a, err
	}
	a.Title, a.LogCount, a.UpdatedAt = v.Title, v.Entries, v.UpdatedAt
	if a.HistoryTurns, err = v.TurnCount(ctx); err != nil {
		return a, err
	}
	c, err := st.Checkpoint(ctx, v.ID, "")
	if err != nil && !errors.Is(err, tidemark.ErrNotFound) {
		return a, err
	}
	a.DocumentCount = int64(len(c.DocumentPaths))
	for _, text := range c.CoreMemory {
		if text != "" {
			a.MemoryCount++
		}
	}
	files, err := st.Files(ctx, v.ID)
	for _, f := range files {
		switch folder, _, _ := strings.Cut(f.Name, "/"); folder {
		case "memory":
			a.MemoryCount++
		case "artifacts":
			a.ArtifactCount++
		}
	}
	return a, err
}
