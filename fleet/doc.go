// Package fleet has the words and the rules of a fleet: agents that run by a
// file, when each is due, what ran, and who may say so.
//
// A [Store] keeps agents, schedules, jobs and reviews beside the sessions of a
// store. Who runs a job, how many run at once, and that each occurrence of a
// schedule becomes one job over all processes and machines is decided there, by
// what a commit requires. With its [Key] a fleet knows its own schedules and
// wakes again. The words say which runners, run modes and types of schedules there
// are, what a name looks like and how a length of time is written.
//
// The rooms below share it: fleet/file reads fleet.yaml, fleet/due answers when a
// schedule is due, and fleet/daemon runs the agents. Nothing here runs a program,
// reads a fleet file or looks into a session.
//
//	jobs := fleet.Over(s) // the fleet in a *store.Store
//	job, err := jobs.RequestJob(ctx, fleet.JobRequest{Agent: "coder", Prompt: "Tidy up."})
package fleet
