// Package fleet has the words and the rules of a fleet: agents that run by a
// file, when each is due, and who may say so.
//
// It says which runners, run modes and types of schedules there are, what a
// name looks like, how a length of time is written, and with which [Key] a
// fleet knows its own schedules and wakes again. The rooms below share it:
// fleet/file reads fleet.yaml, fleet/due answers when a schedule is due, and
// fleet/daemon runs the agents. Nothing here runs, reads a fleet file, or looks
// into a store.
//
//	key, err := fleet.OpenKey(stateFolder)
package fleet
