package fleet

// The runners.
const (
	RunnerBuiltin = "builtin"
	RunnerClaude  = "claude"
	RunnerCodex   = "codex"
	RunnerACP     = "acp"
	RunnerCommand = "command"
)

// The run modes: how an agent deals with people.
const (
	RunAutonomous  = "autonomous"  // it never asks
	RunInteractive = "interactive" // it may put questions to a person
	RunReview      = "review"      // every side effect waits for a person
)

// The types of schedules.
const (
	TypeInterval = "interval"
	TypeCron     = "cron"
	TypeWebhook  = "webhook"
	TypeChat     = "chat"
)

// What an interval is counted from.
const (
	FromStart      = "start"      // the instants are Every apart, however long runs take
	FromCompletion = "completion" // the next instant is Every after the end of the last run
)

// What happens to instants that were missed because no daemon ran.
const (
	MissedSkip = "skip" // none runs
	MissedOnce = "once" // the newest runs for all of them
	MissedAll  = "all"  // each runs
)

// What happens to an instant that comes while the run of an earlier one goes on.
const (
	OverlapSkip    = "skip"    // it does not run
	OverlapQueue   = "queue"   // it waits for the end; only one does
	OverlapReplace = "replace" // it runs, and the earlier run is cancelled
)

// Who made a schedule.
const (
	ByFile   = "file"
	ByAgent  = "agent"
	ByPerson = "person"
)
