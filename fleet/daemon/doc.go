// Package daemon runs the agents of a fleet file. For each time at which a schedule
// is due, the agent runs once, or the store says why it did not.
//
// A [Daemon] creates jobs for schedules that are due, webhooks, messages in an inbox
// and wakes, and runs them within the limits of the file. It asks people where an
// agent must not decide alone, and ends the programs that a daemon left behind when
// it died. Any number of daemons may work on one store, which holds all their state.
// The package reads no environment and prints nothing. It writes files only in
// inboxes and in a mirror.
//
//	d := daemon.New(daemon.Options{Store: s, File: f, Runner: newRunner})
//	err := d.Run(ctx)
package daemon
