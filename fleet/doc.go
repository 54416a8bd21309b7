// Package fleet has the vocabulary and the rules of a fleet: the agents of a
// fleet file, when each is due, which jobs ran, and who may start them.
//
// A [Store] keeps agents, schedules, jobs and reviews beside the sessions of a
// store. It decides who runs a job and how many run at once, and makes one job of
// each occurrence of a schedule. These rules are preconditions of commits, so
// they hold across all processes and machines. With its [Key] a fleet recognizes
// the schedules and wakes that it made itself. The constants name the runners,
// run modes and types of schedules; functions check names and parse lengths of
// time.
//
// The packages below share it: fleet/file reads fleet.yaml, fleet/due answers
// when a schedule is due, and fleet/daemon runs the agents. Nothing here runs a
// program, reads a fleet file or looks into a session.
//
//	jobs := fleet.Over(s) // the fleet in a *store.Store
//	job, err := jobs.RequestJob(ctx, fleet.JobRequest{Agent: "coder", Prompt: "Tidy up."})
package fleet
