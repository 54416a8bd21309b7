package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
)

// The fleet belongs to the tenant: readers see all of it, writers run and
// cancel jobs. The fleet file decides what a job may do.

const fleetGroup = "fleet"

// tagged is a thing with its ETag.
type tagged[T any] struct {
	Status int
	ETag   string `header:"ETag"`
	Body   T
}

// contentTag is a tag for things without a version.
func contentTag(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(b)
	return `"` + hex.EncodeToString(sum[:12]) + `"`
}

// oneThing answers with v, or with 304 if the client has it already.
func oneThing[T any](v T, tag, ifNoneMatch string) *tagged[T] {
	out := &tagged[T]{Status: http.StatusOK, ETag: tag, Body: v}
	if unchanged(ifNoneMatch, tag) {
		out.Status = http.StatusNotModified
	}
	return out
}

// NoneMatch is for clients that may have the thing already.
type NoneMatch struct {
	IfNoneMatch string `header:"If-None-Match" doc:"answers 304 when the thing still has this tag"`
}

// madeOf answers with what was created.
type madeOf[T any] struct{ Body T }

// made is op for calls that create something.
func made(o huma.Operation) huma.Operation {
	o.DefaultStatus = http.StatusCreated
	return o
}

// pageOf cuts a page out of a complete list. Its cursor is a count.
func pageOf[T any](s *Server, ctx context.Context, all []T, in PageInput) (*madeOf[Page[T]], error) {
	var at struct {
		From int `json:"from"`
	}
	caller := request.CallerOf(ctx)
	if in.Cursor != "" {
		if err := s.ParseCursor(caller, in.Cursor, &at); err != nil {
			return nil, request.Fail(ctx, err)
		}
	}
	at.From = min(max(at.From, 0), len(all))
	end := min(at.From+s.limit(in.Limit), len(all))
	out := &madeOf[Page[T]]{}
	out.Body.Items = append([]T{}, all[at.From:end]...)
	if at.From = end; end < len(all) {
		out.Body.Next = s.Cursor(caller, at)
	}
	return out, nil
}

// Asked is this server as a holder named after the caller, for others to read.
func (s *Server) Asked(ctx context.Context) tidemark.Holder {
	h := s.o.Holder
	h.Program = "tidemark serve, for " + request.CallerOf(ctx).Name
	return h
}

// AgentInput is the agent that a call is about.
type AgentInput struct {
	Name string `path:"name" maxLength:"128"`
}

func (s *Server) fleetRoutes() {
	huma.Register(s.huma, op("GET", "/api/v1/fleet", "get-fleet", "The fleet as a whole", fleetGroup, request.Reader), s.getFleet)
	huma.Register(s.huma, op("GET", "/api/v1/agents", "list-agents", "List the agents and what they do", fleetGroup, request.Reader), s.listAgents)
	huma.Register(s.huma, op("GET", "/api/v1/agents/{name}", "get-agent", "Show an agent", fleetGroup, request.Reader), s.getAgent)
	huma.Register(s.huma, op("POST", "/api/v1/agents/{name}/reset", "reset-agent", "Forget the session and the error of an agent", fleetGroup, request.Writer), s.resetAgent)
	huma.Register(s.huma, op("DELETE", "/api/v1/agents/{name}", "remove-agent", "Remove an agent that no fleet has, with its schedules; jobs that wait for it are cancelled", fleetGroup, request.Writer), s.removeAgent)
	huma.Register(s.huma, s.takes(made(op("POST", "/api/v1/agents/{name}/run", "run-agent", "Have an agent do something now", fleetGroup, request.Writer))), s.runAgent)
	huma.Register(s.huma, s.takes(made(op("POST", "/api/v1/agents/{name}/messages", "send-message", "Write to an agent", fleetGroup, request.Writer))), s.sendMessage)
	huma.Register(s.huma, op("GET", "/api/v1/agents/{name}/log", "get-agent-log", "What an agent logged", fleetGroup, request.Reader), s.agentLog)
	s.jobRoutes()
	s.scheduleRoutes()
}

func (s *Server) getFleet(ctx context.Context, _ *struct{}) (*madeOf[api.Fleet], error) {
	st, err := s.stores.Fleet(ctx)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	about, err := st.Fleet(ctx)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	out := &madeOf[api.Fleet]{Body: api.Fleet{StartedAt: about.StartedAt, Daemons: []api.Daemon{}, Running: []api.RunningJob{}}}
	daemons, err := st.Daemons(ctx)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	for _, d := range daemons {
		out.Body.Daemons = append(out.Body.Daemons, api.Daemon{Node: d.Holder.Host, Program: d.Holder.Program, PID: d.Holder.PID, StartedAt: d.StartedAt, Dead: d.Dead})
	}
	running, err := st.Running(ctx, "")
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	for _, id := range running {
		j, err := st.Job(ctx, id)
		if errors.Is(err, tidemark.ErrNotFound) || errors.Is(err, tidemark.ErrCorrupt) {
			continue
		}
		if err != nil {
			return nil, request.Fail(ctx, err)
		}
		out.Body.Running = append(out.Body.Running, api.RunningJob{ID: j.ID, Agent: j.Agent, Node: j.Node})
	}
	agents, err := st.AgentStates(ctx)
	out.Body.Agents = len(agents)
	return out, request.Fail(ctx, err)
}

// AgentOf is an agent with where its job runs.
func AgentOf(ctx context.Context, st *fleet.Store, a tidemark.Agent) api.Agent {
	out := api.Agent{Agent: a}
	if a.CurrentJob != "" {
		if j, err := st.Job(ctx, a.CurrentJob); err == nil {
			out.Node = j.Node
		}
	}
	return out
}

func (s *Server) listAgents(ctx context.Context, in *PageInput) (*madeOf[Page[api.Agent]], error) {
	st, err := s.stores.Fleet(ctx)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	agents, err := st.AgentStates(ctx)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	all := make([]api.Agent, len(agents))
	for i, a := range agents {
		all[i] = AgentOf(ctx, st, a)
	}
	return pageOf(s, ctx, all, *in)
}

func (s *Server) getAgent(ctx context.Context, in *struct {
	AgentInput
	NoneMatch
}) (*tagged[api.Agent], error) {
	st, err := s.stores.Fleet(ctx)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	a, err := st.Agent(ctx, in.Name)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	out := AgentOf(ctx, st, a)
	return oneThing(out, contentTag(out), in.IfNoneMatch), nil
}

func (s *Server) resetAgent(ctx context.Context, in *AgentInput) (*madeOf[api.Agent], error) {
	st, err := s.stores.Fleet(ctx)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	if err := tidemark.CheckID(in.Name); err != nil {
		return nil, request.Fail(ctx, err)
	}
	if err := st.ResetAgent(ctx, in.Name); err != nil {
		return nil, request.Fail(ctx, err)
	}
	a, err := st.Agent(ctx, in.Name)
	return &madeOf[api.Agent]{AgentOf(ctx, st, a)}, request.Fail(ctx, err)
}

func (s *Server) removeAgent(ctx context.Context, in *AgentInput) (*madeOf[api.RemovedAgent], error) {
	st, err := s.stores.Fleet(ctx)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	if err := tidemark.CheckID(in.Name); err != nil {
		return nil, request.Fail(ctx, err)
	}
	gone, err := st.RemoveAgent(ctx, in.Name, s.Asked(ctx))
	return &madeOf[api.RemovedAgent]{api.RemovedAgent(gone)}, request.Fail(ctx, err)
}

func (s *Server) runAgent(ctx context.Context, in *struct {
	AgentInput
	Body api.RunAgent
}) (*madeOf[tidemark.Job], error) {
	st, err := s.stores.Tenant(ctx)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	wanted := fleet.JobRequest{Agent: in.Name, Prompt: in.Body.Prompt, Schedule: in.Body.Schedule}
	// In this order, so that of two missing things always the same is named.
	for _, named := range []struct {
		ref string
		id  *tidemark.SessionID
	}{{in.Body.Resume, &wanted.Resume}, {in.Body.Fork, &wanted.Fork}} {
		if named.ref == "" {
			continue
		}
		session, point, _ := strings.Cut(named.ref, "@")
		var v *store.View
		if *named.id, err = tidemark.ParseSessionID(session); err == nil {
			v, err = st.View(ctx, *named.id)
		}
		if err == nil && point != "" {
			wanted.Entry, err = v.At(ctx, point)
		}
		if err != nil {
			return nil, request.Fail(ctx, err)
		}
	}
	j, err := fleet.Over(st).RequestJob(ctx, wanted)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	return &madeOf[tidemark.Job]{Shown(j)}, nil
}

func (s *Server) sendMessage(ctx context.Context, in *struct {
	AgentInput
	Body api.AgentMessage
}) (*madeOf[tidemark.Job], error) {
	st, err := s.stores.Fleet(ctx)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	j, err := st.SendMessage(ctx, s.Asked(ctx), in.Name, in.Body.Text)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	return &madeOf[tidemark.Job]{Shown(j)}, nil
}

func (s *Server) agentLog(ctx context.Context, in *struct {
	AgentInput
	OutputInput
}) (*madeOf[api.JobOutput], error) {
	st, err := s.stores.Fleet(ctx)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	if _, err := st.AgentRecord(ctx, in.Name); err != nil {
		return nil, request.Fail(ctx, err)
	}
	length, err := st.AgentLogLength(ctx, in.Name)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	span := in.span(s, length)
	out, err := outputOf(st.NumberedAgentLog(ctx, in.Name, span), length)
	return out, request.Fail(ctx, err)
}
