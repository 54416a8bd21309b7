package file

import (
	"io/fs"
	"time"

	"github.com/tidemark-sessions/tidemark/fleet/due"
	"github.com/tidemark-sessions/tidemark/internal/yaml"
)

// File is the content of a fleet file, with the defaults filled in: it is
// complete by itself.
//
// The section defaults of the file is merged into every agent, and its key
// schedule into every schedule, like this:
//
//   - A key that the agent does not have is taken from the defaults.
//   - Where both have a mapping (limits, env, permissions, retries, hooks,
//     container, sandbox, self_schedule, system with a file), the mappings are merged in
//     the same way, key by key.
//   - Everything else that the agent has, texts, numbers and whole lists,
//     replaces what the defaults have: a list is never extended.
//   - A key that the agent has with null, or with nothing after its colon,
//     removes the default, and the built-in value applies.
//   - A default that means nothing for an agent or a schedule is left out
//     there: provider for a runner other than builtin, review_timeout outside
//     of review, zone without cron, from without an interval. Written into the
//     agent or the schedule itself, it is a mistake. The default command goes
//     with the default runner, and with no other; a default jitter is at most
//     half of an interval.
//
// The built-in value is given at each field; it applies where neither the
// agent nor the defaults have one.
type File struct {
	Version  int // 1
	Fleet    Info
	Limits   FleetLimits
	Agents   []Agent // in the order of the file
	Webhooks Webhooks
	Mirror   Mirror
	Metrics  Metrics
	Keep     Keep // for agents without their own

	defaults *yaml.Node // the section, for schedules that are added at run time
}

// Info is the name and the description of the fleet.
type Info struct {
	Name, Description string
}

// FleetLimits apply to all agents together.
type FleetLimits struct {
	MaxConcurrent int           `key:"max_concurrent"` // concurrent jobs, 0: as many as the agents may
	AbandonAfter  time.Duration `key:"abandon_after"`  // how long a job waits for an agent that is in no file, 0: 10 minutes
}

// Webhooks is where webhooks are received.
type Webhooks struct {
	Listen    string // host:port, "": fleet up does not listen
	SecretEnv string `key:"secret_env"` // for schedules without one of their own
}

// Mirror is the folder that is kept in the form of herdctl.
type Mirror struct {
	Dir string // "": none
}

// Metrics is where /metrics and the health check are served while the fleet is
// up.
type Metrics struct {
	Listen string // host:port, "": nowhere
}

// Keep says which ended jobs are kept; the others are removed with their
// output. Zero keeps all.
type Keep struct {
	Jobs int // the newest, per agent
	Days int // after their end
}

// Agent is one agent of the file.
type Agent struct {
	Name           string
	Description    string
	Runner         string   // one of the Runner constants; default builtin
	Command        []string // acp and command: what to start; claude and codex: the program, when it is not in PATH under its name
	Provider       string   // builtin: one of model.Providers; "": as in chat
	Model          string
	BaseURL        string `key:"base_url"`
	System         System
	Dir            string            // where it works; default the file's folder
	Env            map[string]string // variables that it gets
	PassEnv        []string          `key:"pass_env"` // names of variables passed from the daemon's environment
	Permissions    Permissions
	Limits         Limits
	RunMode        string        `key:"run_mode"`        // one of the Run constants; default autonomous
	ReviewTimeout  time.Duration `key:"review_timeout"`  // review: how long a question waits before it is denied; default a day
	SessionTimeout time.Duration `key:"session_timeout"` // after which a session is no longer resumed; default a day
	Retries        Retries
	Hooks          Hooks
	Container      *Container // nil: none
	Sandbox        Sandbox
	SelfSchedule   SelfSchedule `key:"self_schedule"`
	Keep           Keep         // default that of the file
	Schedules      []Schedule   // in the order of the file
}

// System is the system prompt of an agent.
type System struct {
	Text string // also what was read from File
	File string // relative to the fleet file's folder; "" when the text is in the fleet file
}

// Permissions are the tools that an agent may use without asking. Deny wins
// over Allow.
type Permissions struct {
	Allow, Deny []Permission
}

// Permission is a tool, or a part of what it can do.
type Permission struct {
	Tool  string // "*": all
	Scope string // as the tool distinguishes calls: a program, a folder, a host; "": everything
}

func (p Permission) String() string {
	if p.Scope == "" {
		return p.Tool
	}
	return p.Tool + "(" + p.Scope + ")"
}

// Limits of an agent. They apply to every trigger. Zero means no limit of
// the fleet: the runner's own applies.
type Limits struct {
	MaxConcurrent int           `key:"max_concurrent"` // concurrent jobs of this agent; default 1
	MaxTurns      int           `key:"max_turns"`      // of the model in a job
	Timeout       time.Duration // of a job
	ToolRounds    int           `key:"tool_rounds"`  // consecutive rounds of tool calls in a turn
	OutputBytes   int64         `key:"output_bytes"` // kept output of a job
}

// Retries says what follows a job that failed.
type Retries struct {
	Attempts    int           // total attempts of a job; default 1
	Backoff     time.Duration // before the second attempt, doubled for each further one; default 30 s
	Interrupted bool          // also of a job whose daemon died or fell silent
	Fence       time.Duration // after so long without the store a daemon ends its programs; default 2 m
}

// Hooks are run when a job has ended.
type Hooks struct {
	AfterRun []Hook `key:"after_run"` // always
	OnError  []Hook `key:"on_error"`  // when it failed, after those
}

// Hook is a command or a webhook; one of the two is set.
type Hook struct {
	Command   []string
	Webhook   string        // an http or https URL
	SecretEnv string        `key:"secret_env"` // the variable that a webhook is signed with, "": not signed
	Timeout   time.Duration // default 1 minute
}

// Container is what an agent runs in.
type Container struct {
	Engine  string // docker or podman; default docker
	Image   string
	Mounts  []Mount
	Network string  // as the engine calls it, "": its default
	Memory  int64   // bytes, 0: no limit
	CPUs    float64 // 0: no limit
}

// Mount is a folder of the machine that a container sees.
type Mount struct {
	Source, Target string
	ReadOnly       bool
}

// SelfSchedule says how far an agent may change its own schedules.
type SelfSchedule struct {
	Max         int           // how many schedules it may add; default 0: none
	MinInterval time.Duration `key:"min_interval"` // between two of their instants; default 1 minute
}

// Schedule says when an agent is due.
type Schedule struct {
	Name      string
	Type      string        // one of the Type constants; default interval with Every and cron with Cron
	Every     time.Duration // interval: at least 1 s
	Cron      string        // cron: 5 or 6 fields, or a name such as @daily
	Zone      string        // cron: zone of Cron; default UTC
	Jitter    time.Duration // interval and cron: largest delay of an instant
	Missed    string        // interval and cron, instants at which nothing ran: one of the Missed constants; default once
	Overlap   string        // while the last run continues: one of the Overlap constants; default skip, and queue for webhook and chat, of which each waits
	From      string        // interval: one of the From constants; default start
	Prompt    string        // webhook and chat: precedes what came in
	Resume    bool          // resume the agent's session; default a fresh one
	SecretEnv string        `key:"secret_env"` // webhook: the variable with the secret of its signature; default that of Webhooks
	Enabled   *bool         // nil: not in the file, and enabled unless a person disabled it
}

// Timing returns when a schedule created at created is due. It is for
// intervals and cron; the others are due when somebody calls or writes.
func (s Schedule) Timing(created time.Time) due.Timing {
	return due.Timing{Every: s.Every, Anchor: created, Cron: s.Cron, Zone: s.Zone, Jitter: s.Jitter, From: s.From, Missed: s.Missed, Overlap: s.Overlap}
}

// Options are how Parse reaches the files around a fleet file. Without them,
// nil, it reaches none.
type Options struct {
	// Files is the folder of the file, from which prompts are read. Without it
	// System.File is set and System.Text is not.
	Files fs.FS
	// Dir resolves a folder written in the file, absolute or relative to the
	// file's folder. Without it folders are kept as written.
	Dir func(written string) (string, error)
}

// Parse reads a fleet file. The error is a *Problems with everything that is
// wrong, which matches tidemark.ErrInvalid; name is the file's name in it.
// It reads the disk only through Options, starts nothing, and looks up no
// environment variable: whether a program or a secret exists is checked when
// it is needed.
func Parse(name string, data []byte, o *Options) (*File, error) {
	c := newChecker(name, o)
	file := c.file(c.load(data))
	if err := c.err(); err != nil {
		return nil, err
	}
	return file, nil
}

// ParseSchedule reads one more schedule for an agent at run time: data is a
// mapping of YAML or JSON like one of the file's schedules. The defaults of
// the file apply to it. The error is a *Problems; the caller limits the
// number of schedules.
func (f *File) ParseSchedule(agent Agent, data []byte) (Schedule, error) {
	c := newChecker("schedule", nil)
	root := c.load(data)
	var s Schedule
	if root != nil {
		s = c.schedule(c.fill(root, f.defaults.Get("schedule")), &agent, f.Webhooks.SecretEnv)
	}
	return s, c.err()
}
