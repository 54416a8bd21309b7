package herdctl

import (
	"encoding/json"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// agentForm is an agent in state.yaml, without its schedules.
func agentForm() form {
	return form{
		{"status", isNever, false},
		{"current_job", isText, true},
		{"last_job", isText, true},
		{"next_schedule", isText, true},
		{"next_trigger_at", isTime, true},
		{"container_id", isText, true},
		{"error_message", isText, true},
		{"schedules", isNever, false},
	}
}

func agentOf(name string, o object) tidemark.Agent {
	a := tidemark.Agent{
		Name: name, Status: known(text(o["status"]), agentStates()),
		CurrentJob: text(o["current_job"]), LastJob: text(o["last_job"]),
		NextSchedule: text(o["next_schedule"]), NextTriggerAt: when(o["next_trigger_at"]),
		ContainerID: text(o["container_id"]), ErrorMessage: text(o["error_message"]),
	}
	if a.Status == "" {
		a.Status = tidemark.Idle
	}
	return a
}

func agentStates() []string { return []string{tidemark.Idle, tidemark.Running, tidemark.Failing} }

// agentObject returns an agent as in state.yaml; herdctl omits keys without a
// value.
func agentObject(a tidemark.Agent) object {
	o := object{"status": quoted(a.Status)}
	if known(a.Status, agentStates()) == "" {
		o["status"] = quoted(tidemark.Idle)
	}
	for key, s := range map[string]string{"current_job": a.CurrentJob, "last_job": a.LastJob, "next_schedule": a.NextSchedule,
		"container_id": a.ContainerID, "error_message": a.ErrorMessage} {
		if s != "" {
			o[key] = quoted(s)
		}
	}
	if !a.NextTriggerAt.IsZero() {
		o["next_trigger_at"] = timeOrNull(a.NextTriggerAt)
	}
	return o
}

// sessionForm is sessions/<agent>.json.
func sessionForm() form {
	return form{
		{"agent_name", isNever, false},
		{"session_id", isText, false},
		{"created_at", isUTC, false},
		{"last_used_at", isUTC, false},
		{"job_count", isCount, false},
		{"mode", isNever, false},
		{"working_directory", isText, false},
	}
}

func runModes() []string { return []string{"autonomous", "interactive", "review"} }

func readSession(agent string, o object) (*tidemark.AgentSession, error) {
	s := sessionOf(o)
	if s.ID == "" {
		return nil, tidemark.Invalidf("has no session_id")
	}
	s.Extra = extra(kept(o, sessionObject(agent, s)))
	return &s, nil
}

func sessionOf(o object) tidemark.AgentSession {
	s := tidemark.AgentSession{
		ID: text(o["session_id"]), CreatedAt: when(o["created_at"]), LastUsedAt: when(o["last_used_at"]),
		Jobs: count(o["job_count"]), RunMode: known(text(o["mode"]), runModes()), WorkingDirectory: text(o["working_directory"]),
	}
	if s.RunMode == "" {
		s.RunMode = runModes()[0]
	}
	if s.CreatedAt.IsZero() {
		s.CreatedAt = s.LastUsedAt
	}
	if s.LastUsedAt.IsZero() {
		s.LastUsedAt = s.CreatedAt
	}
	return s
}

func sessionObject(agent string, s tidemark.AgentSession) object {
	o := object{
		"agent_name": quoted(agent), "session_id": quoted(s.ID), "created_at": timeOrNull(s.CreatedAt),
		"last_used_at": timeOrNull(s.LastUsedAt), "job_count": numeral(max(0, s.Jobs)), "mode": quoted(s.RunMode),
	}
	if known(s.RunMode, runModes()) == "" {
		o["mode"] = quoted(runModes()[0])
	}
	if s.WorkingDirectory != "" {
		o["working_directory"] = quoted(s.WorkingDirectory)
	}
	return o
}

// scheduleForm is a schedule of an agent in state.yaml.
func scheduleForm() form {
	return form{
		{"last_run_at", isTime, true},
		{"next_run_at", isTime, true},
		{"status", isNever, false},
		{"last_error", isText, true},
	}
}

func scheduleStates() []string { return []string{tidemark.Idle, tidemark.Running, tidemark.Disabled} }

func readSchedule(agent, name string, o object) tidemark.Schedule {
	s := scheduleOf(agent, name, o)
	s.Extra = extra(kept(o, scheduleObject(s)))
	return s
}

func scheduleOf(agent, name string, o object) tidemark.Schedule {
	s := tidemark.Schedule{
		Agent: agent, Name: name, Status: known(text(o["status"]), scheduleStates()),
		LastRunAt: when(o["last_run_at"]), NextRunAt: when(o["next_run_at"]), LastError: text(o["last_error"]),
	}
	if s.Status == "" {
		s.Status = tidemark.Idle
	}
	return s
}

func scheduleObject(s tidemark.Schedule) object {
	o := object{"last_run_at": timeOrNull(s.LastRunAt), "next_run_at": timeOrNull(s.NextRunAt),
		"status": quoted(s.Status), "last_error": orNull(s.LastError)}
	if known(s.Status, scheduleStates()) == "" {
		o["status"] = quoted(tidemark.Idle)
	}
	return o
}

// wakeForm is a wake in state.yaml: a session that asked to be continued.
func wakeForm() form {
	return form{
		{"id", isNever, false},
		{"agent", isNever, false},
		{"sessionId", isText, false},
		{"schedule", isText, false},
		{"recurring", isBool, false},
		{"prompt", isText, false},
		{"nextRunAt", isTime, false},
		{"createdAt", isTime, false},
	}
}

// keyWake, in a schedule's Extra, says that it is a wake.
const keyWake = "wake"

func readWake(id string, o object) (tidemark.Schedule, error) {
	s := wakeOf(id, o)
	if err := checkWake(s); err != nil {
		return s, err
	}
	rest := kept(o, wakeObject(s))
	if rest == nil {
		rest = object{}
	}
	s.Extra = extra(object{keyWake: form(nil).marshal(rest)})
	return s, nil
}

// checkWake requires what herdctl requires of a wake.
func checkWake(s tidemark.Schedule) error {
	switch {
	case s.Agent == "" || s.Session == "" || s.Cron == "":
		return tidemark.Invalidf("has no agent, session or schedule")
	case s.NextRunAt.IsZero():
		return tidemark.Invalidf("does not say when it is due")
	}
	return nil
}

func wakeOf(id string, o object) tidemark.Schedule {
	return tidemark.Schedule{
		Agent: text(o["agent"]), Name: id, Status: tidemark.Idle, Type: "cron", Cron: text(o["schedule"]),
		Session: text(o["sessionId"]), Once: string(o["recurring"]) != "true", Prompt: text(o["prompt"]),
		NextRunAt: when(o["nextRunAt"]), CreatedAt: when(o["createdAt"]),
	}
}

func wakeObject(s tidemark.Schedule) object {
	recurring := json.RawMessage("true")
	if s.Once {
		recurring = json.RawMessage("false")
	}
	created := s.CreatedAt
	if created.IsZero() {
		created = s.NextRunAt
	}
	return object{"id": quoted(s.Name), "agent": quoted(s.Agent), "sessionId": quoted(s.Session), "schedule": quoted(s.Cron),
		"recurring": recurring, "prompt": quoted(s.Prompt), "nextRunAt": timeOrNull(s.NextRunAt), "createdAt": timeOrNull(created)}
}

// fleetForm is the fleet in state.yaml.
func fleetForm() form { return form{{"started_at", isTime, false}} }

func fleetObject(startedAt time.Time) object {
	if startedAt.IsZero() {
		return object{}
	}
	return object{"started_at": timeOrNull(startedAt)}
}
