// Package daemon runs the agents of a fleet file, and knows of every due
// instant whether it ran, once, or why it did not.
//
// A [Daemon] makes jobs of schedules that are due, of webhooks, of messages in
// an inbox and of wakes, runs them within the limits of the file, has people
// asked where an agent must not decide alone, and ends what a daemon that died
// left behind. Any number of them may work on one store: what is kept, is kept
// there. It reads no environment and prints nothing; files it makes only in an
// inbox and in a mirror.
//
//	d := daemon.New(daemon.Options{Store: s, File: f, Runner: newRunner})
//	err := d.Run(ctx)
package daemon
