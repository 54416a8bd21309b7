package agsh

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// envelope is what `meka session export --format json` writes: a session and
// its helpers with their events.
type envelope struct {
	FormatVersion int             `json:"format_version"`
	Sessions      []envelopeEntry `json:"sessions"`
}

type envelopeEntry struct {
	ID               string            `json:"id"`
	ParentID         string            `json:"parent_id"`
	CreatedAt        string            `json:"created_at"`
	UpdatedAt        string            `json:"updated_at"`
	Cwd              string            `json:"cwd"`
	Permission       string            `json:"permission"`
	CapabilitiesJSON string            `json:"capabilities_json"`
	AdditionalRoots  []string          `json:"additional_roots"`
	SubagentSpecJSON string            `json:"subagent_spec_json"`
	Stats            map[string]any    `json:"stats"`
	Events           []envelopeEvent   `json:"events"`
	ToolOutputs      map[string]string `json:"tool_outputs"`
}

type envelopeEvent struct {
	At    string                     `json:"at"`
	Event map[string]json.RawMessage `json:"event"`
}

// isEnvelope recognizes an export by its first fields.
func isEnvelope(b []byte) bool {
	b = bytes.TrimSpace(b)
	return bytes.HasPrefix(b, []byte("{")) && bytes.Contains(b, []byte(`"format_version"`)) && bytes.Contains(b, []byte(`"meka_version"`))
}

// importEnvelope yields the sessions of an exported file.
func importEnvelope(ctx context.Context, p convert.Source, name string) iter.Seq2[*convert.Session, error] {
	return func(yield func(*convert.Session, error) bool) {
		env, err := readEnvelope(p.FS, name)
		if err != nil {
			yield(nil, &convert.Skip{What: name, Why: err})
			return
		}
		l := envelopeLog{}
		var all []*session
		for i, e := range env.Sessions {
			if l[e.ID] == nil {
				l[e.ID] = &env.Sessions[i]
			}
			all = append(all, e.session())
		}
		nobody := func(*session) string { return "" }
		family(all, func(s *session, helpers []*session, err error) bool {
			if err != nil {
				return yield(nil, err)
			}
			return yield(take(ctx, l, s, helpers, true, nobody), nil)
		})
	}
}

func readEnvelope(fsys fs.FS, name string) (envelope, error) {
	var env envelope
	b, err := convert.ReadFile(fsys, name)
	if err != nil {
		return env, err
	}
	if !isEnvelope(b[:min(len(b), headBytes)]) {
		return env, tidemark.Invalidf("it is neither a database nor an export of meka")
	}
	if err := json.Unmarshal(b, &env); err != nil {
		return env, tidemark.Invalidf("%w", err)
	}
	if env.FormatVersion != 1 {
		return env, tidemark.Unsupportedf("format version %d of an export of meka; 1 is known", env.FormatVersion)
	}
	return env, nil
}

// session returns the row that the database would have for it.
func (e envelopeEntry) session() *session {
	s := &session{id: e.ID, parent: e.ParentID, createdAt: e.CreatedAt, updatedAt: e.UpdatedAt, columns: map[string]any{}}
	for name, v := range map[string]string{"cwd": e.Cwd, "permission": e.Permission,
		"capabilities_json": e.CapabilitiesJSON, "subagent_spec_json": e.SubagentSpecJSON} {
		if v != "" {
			s.columns[name] = v
		}
	}
	if len(e.AdditionalRoots) > 0 {
		s.columns["additional_roots_json"] = string(marshal(e.AdditionalRoots))
	}
	for name, v := range e.Stats {
		if n, ok := v.(float64); ok && n != 0 {
			s.columns["stat_"+name] = int64(n)
		}
	}
	return s
}

// envelopeLog is the log of the sessions of an export, by id.
type envelopeLog map[string]*envelopeEntry

// rows yields the events as the rows that the database would have for them,
// numbered from 1.
func (l envelopeLog) rows(_ context.Context, id string) iter.Seq2[row, error] {
	return func(yield func(row, error) bool) {
		e := l[id]
		if e == nil {
			return
		}
		for i, ev := range e.Events {
			w, err := ev.row(strconv.Itoa(i + 1))
			if err != nil {
				err = &convert.Skip{What: fmt.Sprintf("session %s: event %d", id, i+1), Why: err}
			}
			if !yield(w, err) {
				return
			}
		}
	}
}

func (ev envelopeEvent) row(id string) (row, error) {
	if raw, ok := ev.Event["Append"]; ok {
		var m message
		if err := json.Unmarshal(raw, &m); err != nil {
			return row{}, tidemark.Invalidf("%w", err)
		}
		m.Content = compact(m.Content)
		return m.row(id, ev.At), nil
	}
	w := row{id: id, role: "event", content: string(compact(marshal(ev.Event))), at: ev.At}
	for name, role := range map[string]string{"CompactBoundary": roleBoundary, "Repair": roleRepair} {
		if _, ok := ev.Event[name]; ok {
			w.role = role
		}
	}
	if len(ev.Event) != 1 {
		return w, tidemark.Invalidf("it is %d events", len(ev.Event))
	}
	return w, nil
}

func (l envelopeLog) eventful(_ context.Context, id string) bool {
	for _, ev := range l[id].Events {
		if ev.Event["CompactBoundary"] != nil || ev.Event["Repair"] != nil {
			return true
		}
	}
	return false
}

func (l envelopeLog) readOutputs(_ context.Context, id, folder string, files map[string][]byte) (lost []string) {
	for _, name := range slices.Sorted(maps.Keys(l[id].ToolOutputs)) {
		if !fs.ValidPath(folder+name) || strings.ContainsAny(name, `/\`) || name == "" || name[0] == '.' {
			lost = append(lost, fmt.Sprintf("the large tool output %.60q: not a name of a file", name))
			continue
		}
		files[folder+name] = []byte(l[id].ToolOutputs[name])
	}
	return lost
}

// compact removes the white space from JSON, so that it compares with what is in
// a database.
func compact(raw json.RawMessage) json.RawMessage {
	var buf bytes.Buffer
	if json.Compact(&buf, raw) != nil {
		return raw
	}
	return buf.Bytes()
}
