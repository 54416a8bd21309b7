package convert

import "time"

// lastMilli is the end of the year 9999, after which times cannot be written as
// RFC 3339.
const lastMilli = 253402300799999

// ParseTime reads RFC 3339 as tools write it, to the precision of the store:
// microseconds in UTC, in the years 1 to 9999. It is zero for anything else.
func ParseTime(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if t = t.UTC(); err != nil || t.Year() < 1 || t.Year() > 9999 {
		return time.Time{}
	}
	return t.Truncate(time.Microsecond)
}

// Milli returns a time from milliseconds since 1970, zero for an impossible one.
func Milli(ms float64) time.Time {
	if !(ms > 0 && ms <= lastMilli) {
		return time.Time{}
	}
	return time.UnixMilli(int64(ms)).UTC()
}

// FormatTime writes a time as tools do that are written in JavaScript: in
// milliseconds and UTC.
func FormatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// ToMilli is the opposite of Milli.
func ToMilli(t time.Time) int64 { return max(0, t.UnixMilli()) }
