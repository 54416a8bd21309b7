package tidemark

import (
	"encoding/json"
	"time"
)

// Fleet is what is known of a fleet as a whole.
type Fleet struct {
	StartedAt time.Time       `json:"started_at,omitzero"`
	Extra     json.RawMessage `json:"extra,omitempty"`
}

// Agent is a configured agent, as people see it: what it does now, what it did
// last, and what comes next.
type Agent struct {
	Name          string          `json:"name"` // the agents of a fleet inside a fleet have dots: ops.auditor
	Status        string          `json:"status"`
	CurrentJob    string          `json:"current_job,omitempty"`
	LastJob       string          `json:"last_job,omitempty"` // the last one that was completed
	NextSchedule  string          `json:"next_schedule,omitempty"`
	NextTriggerAt time.Time       `json:"next_trigger_at,omitzero"`
	ContainerID   string          `json:"container_id,omitempty"`
	Node          string          `json:"node,omitempty"` // the host that runs the current job
	ErrorMessage  string          `json:"error_message,omitempty"`
	FailedJob     string          `json:"failed_job,omitempty"` // the job that ErrorMessage is about
	Session       *AgentSession   `json:"session,omitempty"`    // the one its next run continues
	Extra         json.RawMessage `json:"extra,omitempty"`
}

// The states of an agent; a schedule is idle, running or disabled.
const (
	Idle     = "idle"
	Running  = "running"
	Failing  = "error"
	Disabled = "disabled"
)

// AgentSession is the session that an agent continues.
type AgentSession struct {
	ID               string          `json:"session_id"` // a session here, or the id that the agent's own program knows
	CreatedAt        time.Time       `json:"created_at"`
	LastUsedAt       time.Time       `json:"last_used_at"`
	Jobs             int64           `json:"job_count"`
	RunMode          string          `json:"mode"` // autonomous, interactive, review
	WorkingDirectory string          `json:"working_directory,omitempty"`
	Extra            json.RawMessage `json:"extra,omitempty"`
}

// Schedule is when an agent is due.
type Schedule struct {
	Agent     string          `json:"agent"`
	Name      string          `json:"name"`
	Status    string          `json:"status"`
	Type      string          `json:"type,omitempty"` // interval, cron, webhook, chat
	Every     string          `json:"interval,omitempty"`
	Cron      string          `json:"cron,omitempty"`
	Zone      string          `json:"zone,omitempty"`    // the time zone of Cron
	Jitter    string          `json:"jitter,omitempty"`  // an instant comes up to this much later
	Missed    string          `json:"missed,omitempty"`  // skip, once, all
	Overlap   string          `json:"overlap,omitempty"` // skip, queue, replace
	From      string          `json:"from,omitempty"`    // start, completion
	Resume    bool            `json:"resume,omitempty"`  // continues the agent's session
	By        string          `json:"by,omitempty"`      // who made it: file, agent, person
	Enabled   *bool           `json:"enabled,omitempty"` // as the file says, and again each time it is read; nil: it does not say
	Prompt    string          `json:"prompt,omitempty"`
	Session   string          `json:"session_id,omitempty"` // the session that it wakes, "": the agent's
	Once      bool            `json:"once,omitempty"`
	CreatedAt time.Time       `json:"created_at,omitzero"`
	LastRunAt time.Time       `json:"last_run_at,omitzero"`
	NextRunAt time.Time       `json:"next_run_at,omitzero"`
	SettledAt time.Time       `json:"settled_at,omitzero"` // while NextRunAt waits: up to here, every other instant is settled
	Job       string          `json:"job,omitempty"`       // the job that it made last
	LastError string          `json:"last_error,omitempty"`
	MAC       string          `json:"mac,omitempty"` // of a schedule that is in no file, under the key of the fleet that may run it
	Extra     json.RawMessage `json:"extra,omitempty"`
}

// Job is one run of an agent. Its output is the log of the same key.
type Job struct {
	ID              string           `json:"id"` // job-2026-11-15-3y0e8d
	Agent           string           `json:"agent"`
	Schedule        string           `json:"schedule,omitempty"`
	Trigger         string           `json:"trigger_type"`
	Status          string           `json:"status"`
	ExitReason      string           `json:"exit_reason,omitempty"`
	SessionID       string           `json:"session_id,omitempty"` // here, or as the agent's own program knows it
	ForkedFrom      string           `json:"forked_from,omitempty"`
	Resume          *Resume          `json:"resume,omitempty"`    // what somebody asked for; nil: nobody did
	Occurrence      time.Time        `json:"occurrence,omitzero"` // the instant of its schedule
	Attempt         int              `json:"attempt,omitempty"`   // from 1, where it may be tried again
	NotBefore       time.Time        `json:"not_before,omitzero"` // a pending one waits until then
	RunsUntil       time.Time        `json:"runs_until,omitzero"` // of an interrupted one whose owner went silent: its program may run on there
	Node            string           `json:"node,omitempty"`      // the host that runs it
	Process         json.RawMessage  `json:"process,omitempty"`   // by which its runner finds the agent's program
	ContainerID     string           `json:"container_id,omitempty"`
	ErrorMessage    string           `json:"error_message,omitempty"`
	StartedAt       time.Time        `json:"started_at"`
	FinishedAt      time.Time        `json:"finished_at,omitzero"`
	DurationSeconds float64          `json:"duration_seconds,omitempty"`
	Prompt          string           `json:"prompt,omitempty"`
	Summary         string           `json:"summary,omitempty"`
	OutputFile      string           `json:"output_file,omitempty"`
	Turns           int64            `json:"num_turns,omitempty"`
	CostUSD         float64          `json:"total_cost_usd,omitempty"`
	Usage           map[string]Usage `json:"usage,omitempty"` // by model
	Spent           *Usage           `json:"spent,omitempty"` // of its whole session, from programs that report it that way
	Extra           json.RawMessage  `json:"extra,omitempty"`
}

// Resume is the session that a job was told to continue. If it cannot, the job
// fails: it never begins a fresh session instead.
type Resume struct {
	Session string `json:"session_id"`      // here, or as the agent's own program knows it
	Entry   int64  `json:"entry,omitempty"` // to continue from; 0: from where the session is
	Fork    bool   `json:"fork,omitempty"`  // continue with a copy
}

// Next is the Resume of another job that continues this one; nil when this one
// has no session. A copy that was never made is still to be made.
func (j Job) Next() *Resume {
	if j.SessionID == "" {
		return nil
	}
	next := Resume{Session: j.SessionID}
	if j.Resume != nil && j.Resume.Session == j.SessionID {
		next = *j.Resume
	}
	return &next
}

// What starts a job.
const (
	TriggerManual   = "manual"
	TriggerSchedule = "schedule"
	TriggerWebhook  = "webhook"
	TriggerChat     = "chat"
	TriggerFork     = "fork"
	TriggerSpawned  = "spawned"
)

// The states of a job. A job whose owner died is interrupted, and can be
// resumed; a pending one that nobody will run is abandoned.
const (
	JobPending     = "pending"
	JobRunning     = "running"
	JobCompleted   = "completed"
	JobFailed      = "failed"
	JobCancelled   = "cancelled"
	JobInterrupted = "interrupted"
	JobAbandoned   = "abandoned"
)

// JobStatuses lists the states of a job, in the order in which it may pass
// through them.
func JobStatuses() []string {
	return []string{JobPending, JobRunning, JobCompleted, JobFailed, JobCancelled, JobInterrupted, JobAbandoned}
}

// Why a job ended.
const (
	ExitSuccess      = "success"       // the agent said that it is done
	ExitEndTurn      = "end_turn"      // its model ended the turn
	ExitStopSequence = "stop_sequence" // its model met a stop sequence
	ExitMaxTokens    = "max_tokens"    // its last answer was cut off at the length limit
	ExitMaxTurns     = "max_turns"
	ExitTimeout      = "timeout"
	ExitCancelled    = "cancelled"
	ExitInterrupt    = "interrupt" // its owner died, or was told to stop
	ExitError        = "error"
)

// Event is one line of the output of a job or an agent.
type Event struct {
	Type      string          `json:"type"` // one of the Event constants
	Subtype   string          `json:"subtype,omitempty"`
	Content   string          `json:"content,omitempty"` // system, assistant
	Partial   bool            `json:"partial,omitempty"` // assistant: more of it follows
	Usage     *Usage          `json:"usage,omitempty"`
	ToolName  string          `json:"tool_name,omitempty"`
	ToolUseID string          `json:"tool_use_id,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Success   *bool           `json:"success,omitempty"`
	Error     string          `json:"error,omitempty"`   // tool_result
	Message   string          `json:"message,omitempty"` // error
	Code      string          `json:"code,omitempty"`
	Stack     string          `json:"stack,omitempty"`
	Extra     json.RawMessage `json:"extra,omitempty"`
	Timestamp time.Time       `json:"timestamp"`
}

// The types of events.
const (
	EventSystem     = "system"
	EventAssistant  = "assistant"
	EventToolUse    = "tool_use"
	EventToolResult = "tool_result"
	EventError      = "error"
)

// Line returns the line that keeps e, without a Seq and a Sum.
func (e Event) Line() (Line, error) {
	switch e.Type {
	case EventSystem, EventAssistant, EventToolUse, EventToolResult, EventError:
	default:
		return Line{}, Invalidf("event of type %.40q: want system, assistant, tool_use, tool_result or error", e.Type)
	}
	at := e.Timestamp.UTC().Truncate(time.Microsecond)
	e.Timestamp = at
	body, err := json.Marshal(e)
	if err != nil {
		return Line{}, Invalidf("event: %w", err)
	}
	return Line{Kind: e.Type, At: at, Body: body}, nil
}

// EventOf returns the event that a line keeps. A body that is not an event's
// is ErrCorrupt.
func EventOf(l Line) (Event, error) {
	var e Event
	if err := json.Unmarshal(l.Body, &e); err != nil {
		return Event{Type: l.Kind, Timestamp: l.At}, Errorf(ErrCorrupt, "line %d: its body is not an event's: %w", l.Seq, err)
	}
	return e, nil
}

// MaxApprovalBytes is the most that a person can be shown of a call of a tool.
// Whoever asks them to approve it refuses what is longer: nobody approves what
// they have not seen.
const MaxApprovalBytes = 256 << 10
