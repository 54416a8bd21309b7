package due

import (
	"fmt"
	"strconv"
	"strings"
)

// field is a field of a cron expression: its values, and their names.
type field struct {
	low, high int
	names     []string // of low and those that follow
}

// fields are those of an expression, in order. Weekdays have an eighth value,
// which is the first again.
var fields = [...]field{
	{low: 0, high: 59}, {low: 0, high: 59}, {low: 0, high: 23}, {low: 1, high: 31},
	{low: 1, high: 12, names: []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{low: 0, high: 7, names: []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

// cronNames are the named expressions.
var cronNames = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

// readWalls reads a cron expression in lower case: five fields, six with
// seconds first, or a name such as @daily.
func readWalls(text string) (w walls, err error) {
	if strings.HasPrefix(text, "@") {
		named, ok := cronNames[text]
		if !ok {
			return w, fmt.Errorf("unrecognized name %.40q: there is @hourly, @daily, @weekly, @monthly and @yearly", text)
		}
		text = named
	}
	parts := strings.Fields(text)
	switch len(parts) {
	case len(fields):
	case len(fields) - 1:
		parts = append([]string{"0"}, parts...)
	default:
		return w, fmt.Errorf("expected 5 to 6 fields, found %d: %s", len(parts), parts)
	}
	var anyDom, anyDow bool
	for i, into := range []struct {
		set *uint64
		any *bool
	}{{&w.second, new(bool)}, {&w.minute, new(bool)}, {&w.hour, new(bool)}, {&w.dom, &anyDom}, {&w.month, new(bool)}, {&w.dow, &anyDow}} {
		if *into.set, *into.any, err = fields[i].read(parts[i]); err != nil {
			return w, fmt.Errorf("field %.20q: %w", parts[i], err)
		}
	}
	const sunday = 1 << 7
	if w.dow&sunday != 0 {
		w.dow = w.dow&^sunday | 1
	}
	w.either = !anyDom && !anyDow
	return w, nil
}

// read returns the values that a list names, and whether one of its parts names
// all of them.
func (f field) read(list string) (set uint64, all bool, err error) {
	for part := range strings.SplitSeq(list, ",") {
		values, every, err := f.part(part)
		if err != nil {
			return 0, false, err
		}
		set, all = set|values, all || every
	}
	return set, all, nil
}

// part reads a part such as 5, 1-5, * or ?, optionally with a step after a
// slash. A range may wrap around: 22-2, fri-mon.
func (f field) part(part string) (set uint64, all bool, err error) {
	span, stepText, stepped := strings.Cut(part, "/")
	from, to, ranged := strings.Cut(span, "-")
	first, last, step := f.low, f.high, 1
	if all = span == "*" || span == "?"; !all {
		if first, err = f.value(from); err != nil {
			return 0, false, err
		}
		switch {
		case ranged:
			if last, err = f.value(to); err != nil {
				return 0, false, err
			}
		case !stepped:
			last = first
		}
	}
	size := last - first + 1
	if last < first {
		size += f.high - f.low + 1
	}
	if stepped {
		step, err = strconv.Atoi(stepText)
		if err != nil || step < 1 || step > 1 && step >= size {
			return 0, false, fmt.Errorf("step %.20q: want a number from 1 to %d", stepText, max(1, size-1))
		}
	}
	for i := 0; i < size; i += step {
		at := first + i
		if at > f.high {
			at -= f.high - f.low + 1
		}
		set |= 1 << at
	}
	return set, all && step == 1, nil
}

// value reads one value, a number or a name.
func (f field) value(text string) (int, error) {
	for i, name := range f.names {
		if text == name {
			return f.low + i, nil
		}
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < f.low || n > f.high {
		return 0, fmt.Errorf("%.20q: want %d to %d", text, f.low, f.high)
	}
	return n, nil
}
