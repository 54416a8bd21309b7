// Package due answers when a schedule is due, and what becomes of instants at
// which it could not run.
//
// The instants of a [Timing] are absolute, whatever the clocks of its zone do:
// each wall-clock time that a cron expression names is one instant, also on the
// days on which clocks are put forward or back. A [Book] is asked for the next
// one, and for a [Plan] of those that have come. It has no clock of its own and
// keeps nothing but expressions and zones that it read.
//
//	plan, err := new(due.Book).Due(timing, "agent/schedule", standing, time.Now())
package due
