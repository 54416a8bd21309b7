package fleet

import (
	"cmp"
	"fmt"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// ScheduleText says when a schedule is due: its cron line, or every 5m.
func ScheduleText(d tidemark.Schedule) string {
	switch {
	case d.Cron != "":
		return d.Cron
	case d.Every != "":
		return "every " + d.Every
	}
	return cmp.Or(d.Type, "-")
}

// TurnedText says what enabling or disabling a schedule has changed.
func TurnedText(d tidemark.Schedule, now time.Time) string {
	on, at := d.Status != tidemark.Disabled, d.NextRunAt.Local().Format(time.RFC3339)
	text := "is disabled: it is not due until somebody enables it."
	switch {
	case on && d.NextRunAt.IsZero():
		text = "is enabled."
	case on && d.NextRunAt.After(now):
		text = "is enabled, and next due at " + at + "."
	case on:
		text = "is enabled. It was due at " + at + ", while it was disabled: what of that runs now is for missed: " + cmp.Or(d.Missed, MissedOnce) + " to say."
	}
	if d.Enabled != nil && *d.Enabled != on {
		text += fmt.Sprintf("\nThe fleet file says enabled: %t, which holds again as soon as the file is read: at the next reload, or start, of the fleet. Change it there to keep it so.", *d.Enabled)
	}
	return text
}
