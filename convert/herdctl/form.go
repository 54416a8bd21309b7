package herdctl

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark/convert"
)

// field is a key that herdctl knows, and what its schema accepts as its value.
// null is checked separately.
type field struct {
	name string
	fits func(json.RawMessage) bool
	null bool // may be null
}

// form is a kind of object in herdctl's files: its keys in the order in which
// herdctl writes them.
type form []field

func (f form) find(name string) (field, bool) {
	i := slices.IndexFunc(f, func(k field) bool { return k.name == name })
	if i < 0 {
		return field{}, false
	}
	return f[i], true
}

// marshal writes an object: keys of the form in its order, then the others, and
// a timestamp last of all.
func (f form) marshal(o object) json.RawMessage {
	var names []string
	for _, k := range f {
		if _, there := o[k.name]; there && k.name != "timestamp" {
			names = append(names, k.name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if _, known := f.find(name); !known {
			names = append(names, name)
		}
	}
	if _, there := o["timestamp"]; there {
		names = append(names, "timestamp")
	}
	b := []byte{'{'}
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, quoted(name)...), ':'), compact(o[name])...)
	}
	return append(b, '}')
}

// kept returns what would be missing of source if it were written as again:
// unknown keys, and values in another spelling.
func kept(source, again object) object {
	var rest object
	for key, value := range source {
		if same(value, again[key]) {
			continue
		}
		if rest == nil {
			rest = object{}
		}
		rest[key] = value
	}
	return rest
}

// restore puts what was kept into an object for export: unknown keys, and
// original values that, as read interprets them, still equal the current ones
// and that herdctl accepts. It returns the keys whose values herdctl does not
// accept.
func (f form) restore(o, rest object, read func(object) object) (out object, refused []string) {
	out = maps.Clone(o)
	for _, key := range slices.Sorted(maps.Keys(rest)) {
		value := rest[key]
		k, known := f.find(key)
		if !known {
			out[key] = value
			continue
		}
		if isNull(value) && !k.null || !isNull(value) && !k.fits(value) {
			refused = append(refused, key)
			continue
		}
		try := maps.Clone(o)
		try[key] = value
		if len(kept(read(try), o)) == 0 && len(kept(o, read(try))) == 0 {
			out[key] = value
		}
	}
	return out, refused
}

// same reports whether two values mean the same; a missing one is null.
func same(a, b json.RawMessage) bool {
	if isNull(a) || isNull(b) {
		return isNull(a) && isNull(b)
	}
	return convert.SameJSON(a, b)
}

func isNull(raw json.RawMessage) bool {
	return len(raw) == 0 || string(bytes.TrimSpace(raw)) == "null"
}

// extra wraps what only herdctl knows; nil when there is nothing.
func extra(o object) json.RawMessage {
	if len(o) == 0 {
		return nil
	}
	return form(nil).marshal(object{toolName: form(nil).marshal(o)})
}

// extraOf returns what extra wrapped, and whether there is data of other tools.
func extraOf(raw json.RawMessage) (o object, others bool) {
	all := sub(raw)
	o = sub(all[toolName])
	_, own := all[toolName]
	return o, len(all) > 1 || len(all) == 1 && !own
}

// sub returns an object inside another one, or nil.
func sub(raw json.RawMessage) object {
	var o object
	if json.Unmarshal(raw, &o) != nil {
		return nil
	}
	return o
}

func quoted(s string) json.RawMessage {
	b, _ := convert.Encode(s) // a string cannot fail
	return b
}

// text returns a value as text; anything but a string as its JSON.
func text(raw json.RawMessage) string {
	var s string
	switch {
	case isNull(raw):
		return ""
	case json.Unmarshal(raw, &s) == nil:
		return s
	}
	return string(compact(raw))
}

// maxNumber is the largest integer up to which JavaScript is exact.
const maxNumber = 1 << 53

// number returns a value as a number, 0 when it is not a valid one.
func number(raw json.RawMessage) float64 {
	f, err := strconv.ParseFloat(text(raw), 64)
	if err != nil || !(math.Abs(f) <= maxNumber) {
		return 0
	}
	return f
}

// count returns a value as a count, which is never below 0.
func count(raw json.RawMessage) int64 { return max(0, int64(number(raw))) }

// when returns a value as a time, zero when it is not one. A time without a zone
// is UTC.
func when(raw json.RawMessage) time.Time {
	s := strings.TrimSpace(text(raw))
	for _, layout := range []string{"2006-01-02T15:04:05", time.DateTime, time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil && t.Year() > 0 {
			return t.Truncate(time.Microsecond)
		}
	}
	return convert.ParseTime(s)
}

// The reverse. Zero values become null.

func orNull(s string) json.RawMessage {
	if s == "" {
		return json.RawMessage("null")
	}
	return quoted(s)
}

func timeOrNull(t time.Time) json.RawMessage {
	if t.IsZero() {
		return json.RawMessage("null")
	}
	return quoted(stamp(t))
}

// stamp writes a time as JavaScript does: UTC, with milliseconds; with
// microseconds where there are some.
func stamp(t time.Time) string {
	t = t.UTC()
	if t.Nanosecond()%int(time.Millisecond) == 0 {
		return t.Format("2006-01-02T15:04:05.000Z")
	}
	return t.Format("2006-01-02T15:04:05.000000Z")
}

// numeral writes a number without an exponent, which not every reader of YAML
// takes for one.
func numeral[N int64 | float64](n N) json.RawMessage {
	f, broken := any(n).(float64)
	switch {
	case !broken:
		return strconv.AppendInt(nil, int64(n), 10)
	case math.IsNaN(f) || math.IsInf(f, 0):
		return json.RawMessage("0")
	}
	return strconv.AppendFloat(nil, f, 'f', -1, 64)
}

// What the schemas of herdctl require of a value.

func isText(raw json.RawMessage) bool {
	var s string
	return json.Unmarshal(raw, &s) == nil
}

func isBool(raw json.RawMessage) bool {
	var b bool
	return json.Unmarshal(raw, &b) == nil
}

func isCount(raw json.RawMessage) bool {
	var n float64
	return json.Unmarshal(raw, &n) == nil && n >= 0 && n <= maxNumber && !bytes.ContainsAny(raw, "eE")
}

func isObject(raw json.RawMessage) bool { return sub(raw) != nil }

func isAny(json.RawMessage) bool { return true }

// isNever is for a value that follows from another one.
func isNever(json.RawMessage) bool { return false }

func isTime(raw json.RawMessage) bool {
	_, err := time.Parse(time.RFC3339, text(raw))
	return isText(raw) && err == nil
}

// isUTC requires what zod calls a datetime: with a Z, without an offset.
func isUTC(raw json.RawMessage) bool { return isTime(raw) && strings.HasSuffix(text(raw), "Z") }

func oneOf(words ...string) func(json.RawMessage) bool {
	return func(raw json.RawMessage) bool { return isText(raw) && slices.Contains(words, text(raw)) }
}
