package file

import (
	"fmt"
	"reflect"
	"strings"
)

// The kinds of changes.
const (
	Added   = "added"
	Removed = "removed"
	Changed = "changed"
)

// Change is one difference in a newer fleet file.
type Change struct {
	Kind     string   `json:"kind"`               // one of the constants
	Agent    string   `json:"agent,omitempty"`    // "": the fleet itself changed
	Schedule string   `json:"schedule,omitempty"` // "": the agent itself, not one of its schedules
	Keys     []string `json:"keys,omitempty"`     // changed: the keys, as in the file, like limits.timeout
}

// String is the change in words: agent reporter: changed model, limits.timeout.
func (c Change) String() string {
	what := "fleet"
	switch {
	case c.Schedule != "":
		what = "schedule " + c.Agent + "/" + c.Schedule
	case c.Agent != "":
		what = "agent " + c.Agent
	}
	if len(c.Keys) == 0 {
		return what + ": " + c.Kind
	}
	return fmt.Sprintf("%s: %s %s", what, c.Kind, strings.Join(c.Keys, ", "))
}

// Changes returns what has to be done to go from old to f: the fleet's own
// changes first, then those of each agent of f and its schedules in the order
// of the file, then removals. Agents and schedules are identified by their
// names, and a mere move is no change. The schedules of an added or removed
// agent are listed, too. With a nil old everything is added.
func (f *File) Changes(old *File) []Change {
	var all []Change
	if old == nil {
		old = &File{Version: f.Version, Fleet: f.Fleet, Limits: f.Limits, Webhooks: f.Webhooks, Mirror: f.Mirror, Metrics: f.Metrics, Keep: f.Keep}
	}
	if keys := different("", *f, *old); len(keys) > 0 {
		all = append(all, Change{Kind: Changed, Keys: keys})
	}
	before := byName(old.Agents, func(a Agent) string { return a.Name })
	for _, a := range f.Agents {
		was, ok := before[a.Name]
		if !ok {
			all = append(all, Change{Kind: Added, Agent: a.Name})
		} else if keys := different("", a, was); len(keys) > 0 {
			all = append(all, Change{Kind: Changed, Agent: a.Name, Keys: keys})
		}
		all = append(all, a.changes(was)...)
	}
	now := byName(f.Agents, func(a Agent) string { return a.Name })
	for _, a := range old.Agents {
		if _, ok := now[a.Name]; !ok {
			all = append(all, Agent{Name: a.Name}.changes(a)...)
			all = append(all, Change{Kind: Removed, Agent: a.Name})
		}
	}
	return all
}

// changes returns the differences in the schedules of an agent.
func (a Agent) changes(was Agent) (all []Change) {
	before := byName(was.Schedules, func(s Schedule) string { return s.Name })
	for _, s := range a.Schedules {
		old, ok := before[s.Name]
		if !ok {
			all = append(all, Change{Kind: Added, Agent: a.Name, Schedule: s.Name})
		} else if keys := different("", s, old); len(keys) > 0 {
			all = append(all, Change{Kind: Changed, Agent: a.Name, Schedule: s.Name, Keys: keys})
		}
	}
	now := byName(a.Schedules, func(s Schedule) string { return s.Name })
	for _, s := range was.Schedules {
		if _, ok := now[s.Name]; !ok {
			all = append(all, Change{Kind: Removed, Agent: a.Name, Schedule: s.Name})
		}
	}
	return all
}

func byName[T any](all []T, name func(T) string) map[string]T {
	m := make(map[string]T, len(all))
	for _, v := range all {
		m[name(v)] = v
	}
	return m
}

// different returns the keys of two structs whose values differ, with the
// key of a nested struct before its own. Agents and Schedules are compared
// one by one elsewhere.
func different[T any](under string, a, b T) []string {
	return differentValues(under, reflect.ValueOf(a), reflect.ValueOf(b))
}

func differentValues(under string, a, b reflect.Value) (keys []string) {
	for i := range a.NumField() {
		field := a.Type().Field(i)
		if !field.IsExported() || field.Name == "Agents" || field.Name == "Schedules" {
			continue
		}
		key := keyName(field)
		x, y := a.Field(i), b.Field(i)
		switch {
		case reflect.DeepEqual(x.Interface(), y.Interface()):
		case field.Type.Kind() == reflect.Struct && field.Type != reflect.TypeFor[System]():
			keys = append(keys, differentValues(under+key+".", x, y)...)
		default:
			keys = append(keys, under+key)
		}
	}
	return keys
}

// keyName returns the key of a field in the file.
func keyName(field reflect.StructField) string {
	if key := field.Tag.Get("key"); key != "" {
		return key
	}
	return strings.ToLower(field.Name)
}
