// Package runner runs an agent once: it starts the agent's program, turns its
// output into typed events as it streams, and reports how it ended.
//
// There is one Runner for each kind of program. Command runs anything that
// reads a prompt and writes lines, Claude runs Claude Code, Codex runs Codex,
// ACP runs whatever speaks the Agent Client Protocol over its standard input
// and output. Each of them can run in a container (Task.Container). Builtin,
// which runs no program but a chat of its own, implements the same interface.
//
// The package keeps nothing, decides nothing about schedules and limits, and
// reads neither the environment nor a configuration: whatever a run needs is
// in its Task. It never lets a program outlive its run: the program gets a
// group of its own, and when the run ends, for whatever reason, every
// process in it is asked to end and then killed. A process left behind
// because this very process died is found again by its Process, and ended by
// End.
//
//	out, err := runner.Claude("claude").Run(ctx, runner.Task{Job: id, Prompt: "tidy up", Environ: env, Emit: log})
package runner

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/sandbox"
)

// Runner runs an agent.
//
// Run returns when the agent has ended and nothing of it runs any more. The
// Outcome holds what is known, whether or not there is an error: a run that
// was cancelled has its session and what it used. The error is nil when the
// agent ended by itself and did not fail, that is with the exit reasons
// success, end_turn, stop_sequence and max_turns. Otherwise it says why:
//
//   - ErrSession: Task.Session cannot be resumed. The caller may run the
//     agent again with a fresh session. A program that begins another session
//     instead of saying so is ended as soon as it names that one.
//   - tidemark.ErrNotFound: the agent's program is not there.
//   - tidemark.ErrInvalid, tidemark.ErrUnsupported: the task asks for something
//     that cannot be, or that this agent's program cannot do. Nothing ran.
//   - the cause of ctx: it was cancelled, and the agent was ended.
//   - the error of Task.Emit or Task.Running: the agent was ended.
//
// A Runner may be used by many goroutines at once.
type Runner interface {
	Run(ctx context.Context, t Task) (Outcome, error)
}

// Errors of this package.
var (
	// ErrSession means that the agent's program does not know the session to
	// resume, or cannot resume any.
	ErrSession = errors.New("the session cannot be gone on with")

	// ErrInterrupted is the cause for cancelling a run whose owner has to
	// stop: the run ends with the reason interrupt, and can be resumed. With
	// any other cause except a deadline the run is cancelled.
	ErrInterrupted = errors.New("the owner of the run was told to stop")
)

// Task is one run of an agent.
type Task struct {
	Job    string // names the run to people, and labels its container
	Agent  string
	Prompt string
	System string   // added to the program's own system prompt; "": nothing
	Model  string   // "": the program's own choice
	Args   []string // additional arguments, such as what it may do

	Dir     string   // where the agent works; absolute, or "" for that of this process
	Environ []string // the whole environment, except for the TIDEMARK_ variables that this package adds
	Mark    string   // from NewMark; End finds leftover processes by it. "": one is made

	Session string // session to resume, "" for a fresh one
	Fork    bool   // resume a copy of Session, which stays as it is
	Entry   int64  // entry of Session to continue from; 0: its end. ErrUnsupported for programs that keep their own sessions
	Mint    string // the id for a fresh or copied session, where the program lets us choose: a UUID that was never used

	// Spent is the usage of Session before this run: the Outcome.Spent of the
	// previous run. Programs that count over a whole session need it, so that
	// nothing is counted twice. nil: not known.
	Spent *tidemark.Usage

	MaxTurns int    // 0: no limit
	RunMode  string // autonomous, interactive, review; "" is autonomous

	// Ask answers a permission request of the agent's program. It is called by
	// one goroutine at a time for Claude and by several for ACP, and its
	// context ends with the run. nil denies. Claude Code asks only in the modes
	// interactive and review; in autonomous mode its flags (Args) decide.
	Ask func(context.Context, Question) (Answer, error)

	// Running is called when the program has started, and again whenever more
	// is known of it: its container (before that starts), its session. The
	// caller keeps the Process, so that End finds the program again. A caller
	// that chose the Mark and kept it before the run leaves no gap: what was
	// started and not yet recorded is found by the mark.
	Running func(Process) error

	// Emit receives each event as it comes, one call at a time. nil drops them.
	Emit func(tidemark.Event) error

	OutputBytes int64         // bounds the events that are kept; 0 is DefaultOutputBytes
	Grace       time.Duration // between asking to end and killing; 0 is DefaultGrace
	Container   *Container    // nil: on this machine as it is

	// Sandbox is what the program may do, apart from reading its own files.
	// nil: whatever this process or its container may. A policy that this
	// machine cannot enforce is sandbox.ErrNone, and nothing runs.
	Sandbox *sandbox.Policy
}

const (
	// DefaultOutputBytes bounds the events of one run. It is far above the
	// output of an agent in a day, and far below what a program in a loop can
	// produce.
	DefaultOutputBytes = 256 << 20

	// DefaultGrace is long enough for a program to save its state.
	DefaultGrace = 5 * time.Second
)

// The modes of a run.
const (
	Autonomous  = "autonomous"  // never asks a person
	Interactive = "interactive" // may put questions to a person
	Review      = "review"      // every side effect waits for a person
)

// Question is a permission request of the agent's program.
type Question struct {
	ID    string          // id of the call, unique in the run
	Tool  string          // the tool, or the kind of tool
	Title string          // what it would do, in the program's words
	Input json.RawMessage // input of the tool, null if unknown
	// Text is everything that would be done, as render.ApprovalText formats
	// it; "" where only the program knows.
	Text string
}

// Answer allows what a Question asks for, or denies it.
type Answer struct {
	Allow  bool
	Always bool   // for the rest of the session, where the program can remember it
	Reason string // told to the agent when it is denied
}

// Outcome is how a run ended.
//
// Its exit reason is
//
//   - success, when a program ended with 0 (Command), or said itself that it
//     succeeded (Claude);
//   - end_turn, when all that was said is that the turn is over (Codex, ACP);
//   - stop_sequence, max_tokens and max_turns, when the program says so (Claude, ACP);
//   - timeout, when ctx ran into a deadline; interrupt, when its cause is
//     ErrInterrupted; cancelled, when it ended for any other cause. This holds
//     even if the program made a good end of it after it was asked to;
//   - error, otherwise.
type Outcome struct {
	ExitReason string // one of the Exit constants of tidemark
	ExitCode   int    // exit code of the program; -1 when it was killed or never ran
	Session    string // session that it ran in, "" where the program has none
	Summary    string // the agent's last text
	Turns      int64
	CostUSD    float64
	Usage      map[string]tidemark.Usage // by model, of this run alone
	Spent      *tidemark.Usage           // of the whole session, from programs that count that way
	LeftOut    int64                     // bytes of output that were not kept
}

// reasonOf returns the exit reason of a run that was ended from outside.
func reasonOf(cause error) string {
	switch {
	case errors.Is(cause, ErrInterrupted):
		return tidemark.ExitInterrupt
	case errors.Is(cause, context.DeadlineExceeded):
		return tidemark.ExitTimeout
	default:
		return tidemark.ExitCancelled
	}
}

// bound fills in the defaults.
func (t Task) bound() Task {
	if t.OutputBytes <= 0 {
		t.OutputBytes = DefaultOutputBytes
	}
	if t.Grace <= 0 {
		t.Grace = DefaultGrace
	}
	return t
}

// maxArgument bounds one argument or variable: Linux refuses 128 KiB.
const maxArgument = 120 << 10

// valid refuses values that a program would misread. A value that begins with
// a dash would be taken as an option.
func (t Task) valid() error {
	for _, v := range []struct{ name, value string }{{"session", t.Session}, {"new session", t.Mint}, {"model", t.Model}} {
		if strings.HasPrefix(v.value, "-") || strings.ContainsAny(v.value, "\x00\n") {
			return tidemark.Invalidf("the %s %.60q cannot be handed to a program", v.name, v.value)
		}
	}
	switch t.RunMode {
	case "", Autonomous, Interactive, Review:
	default:
		return tidemark.Invalidf("run mode %.40q: want autonomous, interactive or review", t.RunMode)
	}
	switch {
	case t.Mark != "" && (len(t.Mark) < 16 || strings.ContainsAny(t.Mark, "=\x00\n ")):
		return tidemark.Invalidf("the mark %.40q of a run is not one of NewMark", t.Mark)
	case (t.Fork || t.Entry != 0) && t.Session == "":
		return tidemark.Invalidf("a copy, or a point to go on from, needs a session")
	case len(t.System) > maxArgument:
		return tidemark.Invalidf("the system prompt has %d bytes, at most %d can be handed to a program", len(t.System), maxArgument)
	case strings.ContainsRune(t.System, 0):
		return tidemark.Invalidf("the system prompt holds a zero byte")
	}
	return nil
}

// cannotBranch refuses to continue from an earlier entry with a program that
// cannot be told to: it would continue from the end.
func (t Task) cannotBranch(program string) error {
	if t.Entry == 0 {
		return nil
	}
	return tidemark.Unsupportedf("agent %s: %s goes on where session %s ends, not from entry %d", t.Agent, program, t.Session, t.Entry)
}

// cannotAsk refuses to review a program that cannot ask: it would just act.
func (t Task) cannotAsk(program string) error {
	if t.RunMode != Review {
		return nil
	}
	return tidemark.Unsupportedf("agent %s: %s does not ask before it acts, so it cannot run in review mode", t.Agent, program)
}
