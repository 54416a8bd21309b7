// Package due decides when a schedule is due, and what happens to instants at
// which it could not run.
//
// The instants of a [Timing] are absolute, whatever the clocks of its zone do:
// each wall-clock time that a cron expression names is one instant, also on the
// days on which clocks are put forward or back. A [Book] returns the next
// instant, and a [Plan] for those that have come. It has no clock of its own
// and caches only parsed expressions and zones.
//
//	plan, err := new(due.Book).Due(timing, "agent/schedule", standing, time.Now())
package due
