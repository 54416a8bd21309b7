package copilotchat

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// replayed is what a log of changes comes to.
type replayed struct {
	fields  convert.Object
	removed []removed // requests that were taken back, as long as the log shows them
	skips   []error
}

// removed is a request that is no longer there, and the one before it.
type removed struct {
	request convert.Object
	after   string
}

// Kinds of changes.
const (
	initial = 0
	set     = 1
	push    = 2 // after cutting the list, where there is an index
	unset   = 3
)

type change struct {
	Kind  int             `json:"kind"`
	Path  []any           `json:"k"`
	Value json.RawMessage `json:"v"`
	At    *int            `json:"i"`
}

// replay reads a chat. A change that does not fit is passed over, and so is one
// that is not written to its end yet.
func replay(ctx context.Context, fsys fs.FS, file string) (*replayed, error) {
	if path.Ext(file) == ".json" {
		b, err := convert.ReadFile(fsys, file)
		if err != nil {
			return nil, err
		}
		log := &replayed{}
		if json.Unmarshal(b, &log.fields) != nil || log.fields == nil {
			return nil, tidemark.Invalidf("is not JSON, or cut off")
		}
		return log, nil
	}
	log, changes := &replayed{}, 0
	var state any
	for l, err := range convert.Lines(fsys, file) {
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case convert.IsSkip(err):
			log.skips = append(log.skips, err)
			continue
		case err != nil:
			return nil, err
		}
		var c change
		if err := json.Unmarshal(l.Text, &c); err != nil {
			if l.Number == 1 {
				return nil, tidemark.Invalidf("does not begin like a chat")
			}
			log.skips = append(log.skips, convert.Skipf(fmt.Sprintf("%s line %d", file, l.Number), "is damaged or cut off"))
			continue
		}
		if c.Kind == initial {
			if log.fields = nil; json.Unmarshal(c.Value, &log.fields) != nil {
				return nil, tidemark.Invalidf("is no chat")
			}
			state = nil // it is decoded when something changes
			changes = 0
			continue
		}
		if log.fields == nil {
			return nil, tidemark.Invalidf("does not begin like a chat")
		}
		if changes++; state == nil {
			state = decode(log.fields)
		}
		if !log.apply(&state, c) {
			log.skips = append(log.skips, convert.Skipf(fmt.Sprintf("%s line %d", file, l.Number), "changes something that is not there"))
		}
	}
	if changes > 0 {
		b, err := convert.Encode(state)
		if err != nil || json.Unmarshal(b, &log.fields) != nil {
			return nil, tidemark.Invalidf("is no chat")
		}
	}
	if log.fields == nil {
		return nil, tidemark.Invalidf("is empty")
	}
	return log, nil
}

// decode returns a value in a form that can be changed, numbers as they were
// written.
func decode(v any) (out any) {
	b, ok := v.(json.RawMessage)
	if !ok {
		b, _ = convert.Encode(v) // it was JSON before
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	if dec.Decode(&out) != nil {
		return nil
	}
	return out
}

// apply makes one change. It is false when its place does not exist.
func (log *replayed) apply(state *any, c change) bool {
	if len(c.Path) == 0 {
		return false
	}
	if c.Kind == push && len(c.Path) == 1 && c.Path[0] == "requests" && c.At != nil {
		log.keep(*state, *c.At)
	}
	return within(state, c.Path, func(slot *any) bool {
		switch c.Kind {
		case set:
			*slot = decode(c.Value)
		case unset:
			*slot = nil
		case push:
			list, _ := (*slot).([]any)
			if c.At != nil {
				if *c.At < 0 || *c.At > len(list) {
					return false
				}
				list = list[:*c.At]
			}
			more, _ := decode(c.Value).([]any)
			*slot = append(list[:len(list):len(list)], more...)
		default:
			return false
		}
		return true
	})
}

// within calls change with the place that a path leads to. A field is made, an
// element of a list only right behind the last.
func within(at *any, path []any, change func(*any) bool) bool {
	if len(path) == 0 {
		return change(at)
	}
	switch step := path[0].(type) {
	case string:
		m, ok := (*at).(map[string]any)
		if !ok {
			return false
		}
		inner, there := m[step]
		if !there && len(path) > 1 || !within(&inner, path[1:], change) {
			return false
		}
		m[step] = inner
		return true
	case float64:
		list, ok := (*at).([]any)
		i := int(step)
		if !ok || float64(i) != step || i < 0 || i > len(list) {
			return false
		}
		if i == len(list) {
			list = append(list, nil)
		}
		if !within(&list[i], path[1:], change) {
			return false
		}
		*at = list
		return true
	}
	return false
}

// keep keeps requests that are about to be removed: somebody asked them.
func (log *replayed) keep(state any, from int) {
	m, _ := state.(map[string]any)
	list, _ := m["requests"].([]any)
	for i := max(from, 0); i < len(list); i++ {
		b, err := convert.Encode(list[i])
		one := removed{request: asObject(b)}
		if i > 0 {
			before, _ := list[i-1].(map[string]any)
			one.after, _ = before["requestId"].(string)
		}
		if err == nil && one.request.Text("requestId") != "" {
			log.removed = append(log.removed, one)
		}
	}
}

// asObject reads an object, empty for anything else.
func asObject(raw json.RawMessage) (o convert.Object) {
	if json.Unmarshal(raw, &o) != nil || o == nil {
		return convert.Object{}
	}
	return o
}
