package fleet

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

var errSpan = errors.New("not a length of time")

// ParseSpan parses a length of time such as 90s, 5m, 1h30m, 2d or 1w: whole
// numbers with a unit, longer units first.
func ParseSpan(s string) (time.Duration, error) {
	const units = "wdhms"
	lengths := []time.Duration{7 * 24 * time.Hour, 24 * time.Hour, time.Hour, time.Minute, time.Second}
	if s == "0" {
		return 0, nil
	}
	var total time.Duration
	from := 0
	for s != "" {
		digits := len(s) - len(strings.TrimLeft(s, "0123456789"))
		if digits == 0 || digits == len(s) || digits > 9 {
			return 0, errSpan
		}
		n, _ := strconv.ParseInt(s[:digits], 10, 64)
		unit := strings.IndexByte(units, s[digits])
		if unit < from {
			return 0, errSpan
		}
		// Five parts of at most an eighth of the range each cannot overflow, and
		// what is cut here is too long for any use.
		total += time.Duration(min(n, math.MaxInt64/8/int64(lengths[unit]))) * lengths[unit]
		from = unit + 1
		s = s[digits+1:]
	}
	if from == 0 {
		return 0, errSpan
	}
	return total, nil
}

// SpanText formats a length of time as ParseSpan reads it.
func SpanText(d time.Duration) string {
	if d < time.Second {
		return "0s"
	}
	var b strings.Builder
	for _, u := range []struct {
		name   string
		length time.Duration
	}{{"w", 7 * 24 * time.Hour}, {"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}} {
		if n := d / u.length; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, u.name)
			d -= n * u.length
		}
	}
	return b.String()
}
