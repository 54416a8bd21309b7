package fleetrlm

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// object is a JSON object with raw values.
type object = convert.Object

// maxManifest bounds a manifest, which is held in memory whole. It includes the
// text of the documents, so it may be large.
const maxManifest = 32 << 20

// maxParts bounds the keys and elements of a manifest: three bytes in a file may
// be hundreds in memory.
const maxParts = 600_000

const byteOrderMark = "\uFEFF"

// parseObject returns the object that a file consists of.
func parseObject(b []byte) (object, error) {
	b = bytes.TrimPrefix(b, []byte(byteOrderMark))
	if !utf8.Valid(b) {
		b = bytes.ToValidUTF8(b, []byte("\uFFFD"))
	}
	switch {
	case len(bytes.TrimSpace(b)) == 0:
		return nil, tidemark.Invalidf("is empty")
	case len(b) > maxManifest:
		return nil, tidemark.Invalidf("is larger than %d bytes", maxManifest)
	case convert.Parts(b) > maxParts:
		return nil, tidemark.Invalidf("has more than %d parts", maxParts)
	}
	var o object
	if err := json.Unmarshal(b, &o); err != nil {
		return nil, tidemark.Invalidf("is not a manifest: %w", err)
	}
	if o == nil {
		return nil, tidemark.Invalidf("is not a manifest: it is null")
	}
	return o, nil
}

// said returns the string under the first of the keys that has one, and that
// key.
func said(o object, keys []string) (text, key string) {
	for _, k := range keys {
		if text, ok := convert.Text(o[k]); ok {
			return text, k
		}
	}
	return "", ""
}

// texts returns the strings in the list under a key; nil for anything else.
func texts(o object, key string) (all []string) {
	if json.Unmarshal(o[key], &all) != nil {
		return nil
	}
	return all
}

// whole returns the integer under a key, even if it is a string.
func whole(o object, key string) (n int64) {
	if json.Unmarshal(o[key], &n) == nil {
		return n
	}
	if json.Unmarshal([]byte(o.Text(key)), &n) != nil {
		return 0
	}
	return n
}

// timeAt returns the time under a key: text, or seconds since 1970.
func timeAt(o object, key string) time.Time {
	var seconds float64
	if json.Unmarshal(o[key], &seconds) == nil && seconds > 0 && seconds < 253402300800 {
		return time.UnixMicro(int64(math.Round(seconds * 1e6))).UTC()
	}
	return parseTime(o.Text(key))
}

// parseTime reads a time as Python writes it. One without an offset is UTC.
func parseTime(s string) time.Time {
	s = strings.Replace(s, " ", "T", 1)
	if t := convert.ParseTime(s); !t.IsZero() {
		return t
	}
	return convert.ParseTime(s + "Z")
}

// stamp writes a time as Python does.
func stamp(t time.Time) string {
	layout := "2006-01-02T15:04:05"
	if t.Nanosecond() != 0 {
		layout += ".000000"
	}
	return t.UTC().Format(layout + "+00:00")
}

// isList reports whether a value is a list.
func isList(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) > 0 && raw[0] == '['
}

// keep wraps what is kept for an Extra.
func keep(v any) json.RawMessage {
	b, err := convert.Encode(map[string]any{toolName: v})
	if err != nil {
		return nil
	}
	return b
}

// kept reads what keep wrapped; false for what came from elsewhere.
func kept(extra json.RawMessage, v any) bool {
	var tools object
	return json.Unmarshal(extra, &tools) == nil && tools[toolName] != nil && json.Unmarshal(tools[toolName], v) == nil
}
