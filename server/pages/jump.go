package pages

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// jumpReads is how many entries a jump to the next prompt or error looks at; who
// finds none can go on from there.
const jumpReads = 20_000

// jump finds the entry that an address describes: on=DAY, or from=SEQ&to=prompt
// or to=error.
func (l *looking) jump(ctx context.Context, q url.Values) error {
	if on := q.Get("on"); on != "" {
		day, err := time.Parse(time.DateOnly, on)
		if err != nil {
			return tidemark.Invalidf("on %.20q: want a day like 2026-11-15", on)
		}
		l.at, err = l.onDay(ctx, day)
		return err
	}
	to := q.Get("to")
	if to == "" {
		return nil
	}
	from, err := strconv.ParseInt(q.Get("from"), 10, 64)
	if err != nil || from < 1 {
		return tidemark.Invalidf("from %.20q: want the number of an entry", q.Get("from"))
	}
	var is func(tidemark.Entry) bool
	switch to {
	case "prompt":
		is = isPrompt
	case "error":
		is = failed
	default:
		return tidemark.Invalidf("to %.20q: want prompt or error", to)
	}
	l.at = from
	left := jumpReads
	for e, err := range l.log.PathRange(ctx, l.tip, from+1, 0) {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return err
		}
		if left--; err == nil && is(e) || left == 0 {
			l.at = e.Seq
			return nil
		}
	}
	l.none = to
	return nil
}

// onDay is the first entry of a day or after it, or the last one before it. Time
// goes on along a log, but for entries that were imported later; so a search in
// halves finds the place, or one near it.
func (l *looking) onDay(ctx context.Context, day time.Time) (int64, error) {
	low, high := int64(1), max(l.log.Entries, 1)
	for low < high {
		mid := low + (high-low)/2
		e, err := entryAt(ctx, l.log, mid)
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return 0, err
		}
		if e.At.Before(day) {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low, nil
}

// failed reports whether an entry tells of an error.
func failed(e tidemark.Entry) bool {
	if e.Kind == "error" || e.Kind == "api_error" || e.Kind == "interrupted" {
		return true
	}
	for _, b := range e.Blocks {
		if b.Type == tidemark.BlockToolResult && b.IsError {
			return true
		}
	}
	return false
}
