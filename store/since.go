package store

import (
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// ParseSince reads a point in time as people write it, for a Filter: RFC 3339, a
// date, or an age like 36h, 7d. ErrInvalid: it is none.
func ParseSince(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, s, time.Local); err == nil {
			return t, nil
		}
	}
	age := s
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil {
			age = strconv.Itoa(n*24) + "h"
		}
	}
	if d, err := time.ParseDuration(age); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	return time.Time{}, tidemark.Invalidf("time %q: want a date like 2026-11-15, RFC 3339, or an age like 36h or 7d", s)
}

// ParseLife reads how long something lasts, like 12h or 30d; 0 for never, which means
// that it does not end. ErrInvalid: it is neither.
func ParseLife(text string) (time.Duration, error) {
	if text == "never" {
		return 0, nil
	}
	now := time.Now()
	at, err := ParseSince(text, now)
	if err != nil || !at.Before(now) || strings.Contains(text, "-") {
		return 0, tidemark.Invalidf("--expires %q: want a time like 12h or 30d, or never", text)
	}
	return now.Sub(at), nil
}
