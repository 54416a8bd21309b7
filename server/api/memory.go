package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
)

// Memory items are what sessions learned, as tidemark memory shows it.

func (s *Server) memoryRoutes() {
	huma.Register(s.huma, op("GET", "/api/v1/memory", "list-memory", "List what was learned, the newest first", itemGroup, request.Reader), s.listMemory)
	huma.Register(s.huma, made(op("POST", "/api/v1/memory", "create-memory", "Remember something; the same text in the same project is kept once", itemGroup, request.Writer)), s.remember)
	huma.Register(s.huma, op("GET", "/api/v1/memory/{id}", "get-memory", "Show one memory", itemGroup, request.Reader), s.getMemory)
	huma.Register(s.huma, op("PUT", "/api/v1/memory/{id}", "put-memory", "Keep a memory under its id, in place of what is there", itemGroup, request.Writer), s.putMemory)
	huma.Register(s.huma, op("DELETE", "/api/v1/memory/{id}", "delete-memory", "Forget something", itemGroup, request.Writer),
		func(ctx context.Context, in *removeItemInput) (*struct{}, error) {
			return nil, s.forget(ctx, in.ID, Condition{IfMatch: in.IfMatch})
		})
}

func memoryOut(m store.KeptMemory) api.MemoryItem {
	return api.MemoryItem{ID: m.ID, Text: m.Text, Project: m.Project, Session: string(m.Session), CreatedAt: m.At, Version: m.Version}
}

func (s *Server) listMemory(ctx context.Context, in *struct {
	PageInput
	Project string `query:"project" maxLength:"4096" doc:"what was learned there"`
	Session string `query:"session" maxLength:"64" doc:"what was learned in this session"`
}) (*madeOf[Page[api.MemoryItem]], error) {
	st, err := s.stores.Mine(ctx)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	var after store.Mark
	limit, caller := s.limit(in.Limit), request.CallerOf(ctx)
	if in.Cursor != "" {
		if err := s.ParseCursor(caller, in.Cursor, &after); err != nil {
			return nil, request.Fail(ctx, err)
		}
	}
	out := &madeOf[Page[api.MemoryItem]]{Body: Page[api.MemoryItem]{Items: []api.MemoryItem{}}}
	for m, err := range st.MemoriesAfter(ctx, in.Project, after) {
		if errors.Is(err, tidemark.ErrCorrupt) || err == nil && in.Session != "" && string(m.Session) != in.Session {
			continue
		}
		if err != nil {
			return nil, request.Fail(ctx, err)
		}
		if len(out.Body.Items) == limit {
			out.Body.Next = s.Cursor(caller, after)
			break
		}
		out.Body.Items, after = append(out.Body.Items, memoryOut(m)), m.Mark
	}
	return out, nil
}

func (s *Server) remember(ctx context.Context, in *struct{ Body api.PutMemory }) (*tagged[api.MemoryItem], error) {
	st, err := s.stores.Mine(ctx)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	id, err := memorySession(in.Body)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	kept, isNew, err := st.Remember(ctx, store.Memory{Text: in.Body.Text, Project: in.Body.Project, Session: id})
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	m, err := st.MemoryAt(ctx, kept.ID)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	out := oneThing(memoryOut(m), versionTag(m.Version), "")
	if isNew {
		out.Status = http.StatusCreated
	}
	return out, nil
}

func memorySession(in api.PutMemory) (tidemark.SessionID, error) {
	if in.Session == "" {
		return "", nil
	}
	return tidemark.ParseSessionID(in.Session)
}

func (s *Server) getMemory(ctx context.Context, in *getItemInput) (*tagged[api.MemoryItem], error) {
	st, err := s.stores.Mine(ctx)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	m, err := st.MemoryAt(ctx, in.ID)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	return oneThing(memoryOut(m), versionTag(m.Version), in.IfNoneMatch), nil
}

func (s *Server) putMemory(ctx context.Context, in *struct {
	ItemPath
	Condition
	Body api.PutMemory
}) (*tagged[api.MemoryItem], error) {
	st, err := s.stores.Mine(ctx)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	want, err := in.version()
	if err == nil && in.IfMatch == "*" {
		if _, err = st.MemoryAt(ctx, in.ID); errors.Is(err, tidemark.ErrNotFound) {
			err = outdated("the memory")
		}
	}
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	id, err := memorySession(in.Body)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	m, err := st.PutMemory(ctx, store.Memory{ID: in.ID, Text: in.Body.Text, Project: in.Body.Project, Session: id}, want)
	if err != nil {
		return nil, in.Condition.fail(ctx, err)
	}
	out := oneThing(memoryOut(m), versionTag(m.Version), "")
	if m.Version == 1 {
		out.Status = http.StatusCreated
	}
	return out, nil
}

func (s *Server) forget(ctx context.Context, id string, c Condition) error {
	st, err := s.stores.Mine(ctx)
	if err != nil {
		return request.Fail(ctx, err)
	}
	want, err := c.version()
	if err != nil {
		return request.Fail(ctx, err)
	}
	return c.fail(ctx, st.ForgetAt(ctx, id, want))
}
