package file

import (
	"io/fs"
	"time"

	"github.com/tidemark-sessions/tidemark/fleet/due"
	"github.com/tidemark-sessions/tidemark/internal/yaml"
)

// File is what a fleet file says, with the defaults filled in: nothing in it
// needs to be looked up elsewhere.
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
//     takes the default away, and what is built in holds.
//   - A default that means nothing for an agent or a schedule is left out
//     there: provider for a runner other than builtin, review_timeout outside
//     of review, zone without cron, from without an interval. Written into the
//     agent or the schedule itself, it is a mistake. The default command goes
//     with the default runner, and with no other; a default jitter is at most
//     half of an interval.
//
// What is built in is said at each field; it holds where neither the agent nor
// the defaults say anything.
type File struct {
	Version  int // 1
	Fleet    Info
	Limits   FleetLimits
	Agents   []Agent // in the order of the file
	Webhooks Webhooks
	Mirror   Mirror
	Metrics  Metrics
	Keep     Keep // of agents that do not say it themselves

	defaults *yaml.Node // the section, for schedules that are added at run time
}

// Info is what people call the fleet.
type Info struct {
	Name, Description string
}

// FleetLimits hold for all agents together.
type FleetLimits struct {
	MaxConcurrent int           `key:"max_concurrent"` // jobs at a time, 0: as many as the agents may
	AbandonAfter  time.Duration `key:"abandon_after"`  // how long a job waits for an agent that is in no file, 0: 10 minutes
}

// Webhooks is where webhooks come in.
type Webhooks struct {
	Listen    string // host:port, "": fleet up does not listen
	SecretEnv string `key:"secret_env"` // for schedules without one of their own
}

// Mirror is the folder that is kept like one of herdctl.
type Mirror struct {
	Dir string // "": none
}

// Metrics is where /metrics and the health check are served while up.
type Metrics struct {
	Listen string // host:port, "": nowhere
}

// Keep says which jobs that have ended are kept; the others are removed with
// their output. Zero keeps all.
type Keep struct {
	Jobs int // of an agent, the newest
	Days int // after their end
}

// Agent is one agent of the file.
type Agent struct {
	Name           string
	Description    string
	Runner         string   // one of the Runner constants; default builtin
	Command        []string // acp and command: what to start; claude and codex: the program, when it is not in PATH under its name
	Provider       string   // builtin: anthropic, openai, ollama, demo; "": as in chat
	Model          string
	BaseURL        string `key:"base_url"`
	System         System
	Dir            string            // where it works; default the file's folder
	Env            map[string]string // variables that it gets
	PassEnv        []string          `key:"pass_env"` // names of variables that it gets from the daemon's environment
	Permissions    Permissions
	Limits         Limits
	RunMode        string        `key:"run_mode"`        // one of the Run constants; default autonomous
	ReviewTimeout  time.Duration `key:"review_timeout"`  // review: after which what waits is denied; default a day
	SessionTimeout time.Duration `key:"session_timeout"` // after which a session is not resumed any more; default a day
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

// Permissions are the tools that an agent may use without being asked about.
// Deny wins over Allow.
type Permissions struct {
	Allow, Deny []Permission
}

// Permission is a tool, or a part of what it can do.
type Permission struct {
	Tool  string // "*": all
	Scope string // as the tool tells calls apart: a program, a folder, a host; "": everything
}

func (p Permission) String() string {
	if p.Scope == "" {
		return p.Tool
	}
	return p.Tool + "(" + p.Scope + ")"
}

// Limits of an agent. They hold for every trigger. Zero is no limit of the
// fleet's: the runner's own holds.
type Limits struct {
	MaxConcurrent int           `key:"max_concurrent"` // jobs of this agent at a time; default 1
	MaxTurns      int           `key:"max_turns"`      // of the model in a job
	Timeout       time.Duration // of a job
	ToolRounds    int           `key:"tool_rounds"`  // calls of tools, one after the other, in a turn
	OutputBytes   int64         `key:"output_bytes"` // that are kept of what a job puts out
}

// Retries says what follows a job that failed.
type Retries struct {
	Attempts int           // how often a job is tried in all; default 1
	Backoff  time.Duration // before the second attempt, doubled for each further one; default 30 s
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
	Max         int           // schedules that it may have added; default 0: none
	MinInterval time.Duration `key:"min_interval"` // between two of their instants; default 1 minute
}

// Schedule says when an agent is due.
type Schedule struct {
	Name      string
	Type      string        // one of the Type constants; default interval with Every and cron with Cron
	Every     time.Duration // interval: at least 1 s
	Cron      string        // cron: 5 or 6 fields, or a name such as @daily
	Zone      string        // cron: that Cron is read in; default UTC
	Jitter    time.Duration // interval and cron: an instant is up to so much later
	Missed    string        // interval and cron, instants of a time in which nothing ran: one of the Missed constants; default once
	Overlap   string        // while the last run goes on: one of the Overlap constants; default skip, and queue for webhook and chat, of which each waits
	From      string        // interval: one of the From constants; default start
	Prompt    string        // webhook and chat: before what came in
	Resume    bool          // go on with the agent's session; default a fresh one
	SecretEnv string        `key:"secret_env"` // webhook: the variable with the secret of its signature; default that of Webhooks
	Enabled   *bool         // nil: the file does not say, and it is enabled unless a person disabled it
}

// Timing returns when a schedule is due that came to be at created. It is for
// intervals and cron; the others are due when somebody calls or writes.
func (s Schedule) Timing(created time.Time) due.Timing {
	return due.Timing{Every: s.Every, Anchor: created, Cron: s.Cron, Zone: s.Zone, Jitter: s.Jitter, From: s.From, Missed: s.Missed, Overlap: s.Overlap}
}

// Options are the surroundings of a fleet file. A nil *Options has none.
type Options struct {
	// Files is the folder of the file, from which prompts are read. Without it
	// System.File is set and System.Text is not.
	Files fs.FS
	// Dir makes of a folder as it is written in the file, absolute or relative
	// to the file's folder, the one that is meant. Without it folders are
	// kept as they are written.
	Dir func(written string) (string, error)
}

// Parse reads a fleet file. The error is a *Problems with all that is wrong,
// which answers to tidemark.ErrInvalid; name is what that calls the file. It
// looks at no disk but through Options, starts nothing, and asks for no
// environment variable: whether there is a program or a secret is seen when
// it is needed.
func Parse(name string, data []byte, o *Options) (*File, error) {
	c := newChecker(name, o)
	file := c.file(c.load(data))
	if err := c.found(); err != nil {
		return nil, err
	}
	return file, nil
}

// ParseSchedule reads one more schedule for an agent, as at run time: data is
// a mapping of YAML or JSON like one of the file's schedules. The defaults of
// the file hold for it. The error is a *Problems; how many schedules there
// may be is the caller's to know.
func (f *File) ParseSchedule(agent Agent, data []byte) (Schedule, error) {
	c := newChecker("schedule", nil)
	root := c.load(data)
	var s Schedule
	if root != nil {
		s = c.schedule(c.fill(root, f.defaults.Get("schedule")), &agent, f.Webhooks.SecretEnv)
	}
	return s, c.found()
}
