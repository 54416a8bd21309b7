package api

import (
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// Fleet is the fleet of a tenant as a whole.
type Fleet struct {
	StartedAt time.Time    `json:"started_at,omitzero"`
	Daemons   []Daemon     `json:"daemons" nullable:"false" doc:"the processes that run it"`
	Running   []RunningJob `json:"running" nullable:"false" doc:"the jobs that run now"`
	Agents    int          `json:"agents" doc:"how many there are"`
}

// Daemon is a process that runs a fleet.
type Daemon struct {
	Node      string    `json:"node" doc:"the machine that it runs on"`
	Program   string    `json:"program,omitempty"`
	PID       int       `json:"pid,omitempty"`
	StartedAt time.Time `json:"started_at"`
	Dead      bool      `json:"dead" doc:"it is proven dead"`
}

// RunningJob is a job that runs, and where.
type RunningJob struct {
	ID    string `json:"id"`
	Agent string `json:"agent"`
	Node  string `json:"node,omitempty" doc:"the machine that runs it"`
}

// Agent is an agent with the machine that runs its job.
type Agent struct {
	tidemark.Agent
	Node string `json:"node,omitempty" doc:"the machine that runs its current job"`
}

// RemovedAgent lists what was removed with an agent.
type RemovedAgent struct {
	Agent     string   `json:"agent"`
	Schedules []string `json:"schedules" nullable:"false" doc:"those that it had"`
	Cancelled []string `json:"cancelled" nullable:"false" doc:"jobs that waited for it"`
}

// RunAgent is a request to run an agent now.
type RunAgent struct {
	Prompt   string `json:"prompt,omitempty" maxLength:"1048576" doc:"what to do"`
	Schedule string `json:"schedule,omitempty" maxLength:"256" doc:"as this schedule of the agent would; its prompt, when there is no other"`
	Resume   string `json:"resume,omitempty" doc:"goes on with this session, or with ID@n3, ID@12 or ID@label from that point of it"`
	Fork     string `json:"fork,omitempty" doc:"goes on with a copy of this session, up to the point that is named as for resume"`
}

// RepeatJob is what changes when a job is repeated.
type RepeatJob struct {
	Prompt string `json:"prompt,omitempty" maxLength:"1048576" doc:"what to do, instead of what the old one was to do"`
}

// AgentMessage is a message to an agent.
type AgentMessage struct {
	Text string `json:"text" minLength:"1" maxLength:"1048576"`
}

// Cancelled is the outcome of a request to end a job.
type Cancelled struct {
	ID    string `json:"id"`
	Ended bool   `json:"ended" doc:"it had not begun and is cancelled; else whoever runs it was told"`
}

// JobOutput is a part of the output of a job or an agent.
type JobOutput struct {
	Items  []OutputEvent `json:"items" nullable:"false"`
	Length int64         `json:"length" doc:"how many events there are in all"`
	Next   int64         `json:"next,omitempty" doc:"the offset of what follows; absent at the end"`
}

// OutputEvent is an event with its number, from 1.
type OutputEvent struct {
	Seq int64 `json:"seq"`
	tidemark.Event
}

// ReviewAnswer answers the question of a job.
type ReviewAnswer struct {
	Answer string `json:"answer" enum:"approve,deny"`
	Reason string `json:"reason,omitempty" maxLength:"1024" doc:"told to the agent when it is denied"`
	Shown  string `json:"shown,omitempty" maxLength:"64" doc:"the shown of the review that you decided by: an approval counts for nothing else"`
}

// ReviewAnswered says how a question was answered.
type ReviewAnswered struct {
	Job   string `json:"job"`
	Call  string `json:"call"`
	State string `json:"state"`
}
