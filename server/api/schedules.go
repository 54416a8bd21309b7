package api

import (
	"context"
	"errors"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/server/request"
)

// ScheduleInput is the schedule that a call is about.
type ScheduleInput struct {
	Agent string `path:"agent" maxLength:"128"`
	Name  string `path:"name" maxLength:"256"`
}

func (s *Server) scheduleRoutes() {
	const path = "/api/v1/schedules/{agent}/{name}"
	huma.Register(s.huma, op("GET", "/api/v1/schedules", "list-schedules", "List the schedules and when they are due", fleetGroup, request.Reader), s.listSchedules)
	huma.Register(s.huma, op("GET", path, "get-schedule", "Show a schedule", fleetGroup, request.Reader), s.getSchedule)
	huma.Register(s.huma, op("POST", path+"/enable", "enable-schedule", "Let a schedule run", fleetGroup, request.Writer), s.turnSchedule(tidemark.Idle))
	huma.Register(s.huma, op("POST", path+"/disable", "disable-schedule", "Keep a schedule from running, also after a reload", fleetGroup, request.Writer), s.turnSchedule(tidemark.Disabled))
	huma.Register(s.huma, made(op("POST", path+"/run-now", "run-schedule", "Do what a schedule does, now", fleetGroup, request.Writer)), s.runSchedule)
	huma.Register(s.huma, op("GET", path+"/skips", "list-skips", "What of a schedule did not run and why, the newest first", fleetGroup, request.Reader), s.listSkips)
}

func (s *Server) listSchedules(ctx context.Context, in *struct {
	PageInput
	Agent string `query:"agent" maxLength:"128" doc:"those of this agent"`
}) (*madeOf[Page[tidemark.Schedule]], error) {
	st, err := s.stores.Fleet(ctx)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	var all []tidemark.Schedule
	for d, err := range st.Schedules(ctx, in.Agent) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue // verify reports it
		}
		if err != nil {
			return nil, request.Fail(ctx, err)
		}
		all = append(all, d)
	}
	return pageOf(s, ctx, all, in.PageInput)
}

// ScheduleOf returns a schedule of the caller's fleet, and the store that it is
// in.
func (s *Server) ScheduleOf(ctx context.Context, in ScheduleInput) (*fleet.Store, tidemark.Schedule, error) {
	st, err := s.stores.Fleet(ctx)
	if err != nil {
		return nil, tidemark.Schedule{}, err
	}
	if tidemark.CheckID(in.Agent) != nil {
		return nil, tidemark.Schedule{}, tidemark.NotFoundf("schedule %.40s/%.40s: not found", in.Agent, in.Name)
	}
	d, err := st.Schedule(ctx, in.Agent, in.Name)
	return st, d, err
}

func (s *Server) getSchedule(ctx context.Context, in *struct {
	ScheduleInput
	NoneMatch
}) (*tagged[tidemark.Schedule], error) {
	_, d, err := s.ScheduleOf(ctx, in.ScheduleInput)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	return oneThing(d, contentTag(d), in.IfNoneMatch), nil
}

func (s *Server) turnSchedule(status string) func(context.Context, *ScheduleInput) (*madeOf[tidemark.Schedule], error) {
	return func(ctx context.Context, in *ScheduleInput) (*madeOf[tidemark.Schedule], error) {
		st, _, err := s.ScheduleOf(ctx, *in)
		if err != nil {
			return nil, request.Fail(ctx, err)
		}
		now, _, err := st.TurnSchedule(ctx, nil, in.Agent, in.Name, status)
		if err != nil {
			return nil, request.Fail(ctx, err)
		}
		return &madeOf[tidemark.Schedule]{now}, nil
	}
}

func (s *Server) runSchedule(ctx context.Context, in *ScheduleInput) (*madeOf[tidemark.Job], error) {
	st, d, err := s.ScheduleOf(ctx, *in)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	j, err := st.AddJob(ctx, tidemark.Job{Agent: d.Agent, Schedule: d.Name, Trigger: tidemark.TriggerManual, Prompt: d.Prompt})
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	return &madeOf[tidemark.Job]{Shown(j)}, nil
}

func (s *Server) listSkips(ctx context.Context, in *struct {
	ScheduleInput
	Limit int `query:"limit" minimum:"1" default:"50" doc:"how many, at most"`
}) (*madeOf[Page[fleet.Skipped]], error) {
	st, _, err := s.ScheduleOf(ctx, in.ScheduleInput)
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	skips, err := st.Skips(ctx, in.Agent, in.Name, s.limit(in.Limit))
	if err != nil {
		return nil, request.Fail(ctx, err)
	}
	return &madeOf[Page[fleet.Skipped]]{Page[fleet.Skipped]{Items: append([]fleet.Skipped{}, skips...)}}, nil
}
