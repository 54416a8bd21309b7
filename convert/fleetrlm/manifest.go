package fleetrlm

import (
	"encoding/json"
	"iter"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// The shapes of a manifest.
const (
	nested = "nested" // documented, and written up to 0.5.0: the data for a restart is in state
	flat   = "flat"   // later, and in exports: it is beside the rest
)

// stateKeys are the keys of a state; in a flat manifest they separate it from
// the rest.
func stateKeys() []string {
	return []string{"core_memory", "document_paths", "interpreter_state", "daytona", "documents", "document_access_order", "active_alias"}
}

// historyKeys are the keys of the turns.
func historyKeys() []string { return []string{"history", "turns"} }

// history records where the turns of a manifest were.
type history struct {
	Key     string   `json:"key"`
	Top     bool     `json:"top,omitempty"`     // of a nested manifest: outside its state
	Wrapper object   `json:"wrapper,omitempty"` // the rest of an object that has the turns under messages
	Keys    spelling `json:"keys"`
}

// messagesKey is where a serialized dspy.History has its turns.
const messagesKey = "messages"

// orDefault returns where to write turns: where they were, or where they are
// documented to be. The stored value may have been tampered with.
func (h *history) orDefault() history {
	if h == nil || !slices.Contains(historyKeys(), h.Key) || !slices.Contains(userKeys(), h.Keys.Request) || !slices.Contains(answerKeys(), h.Keys.Answer) {
		return history{Key: historyKeys()[0], Keys: spellingOf(nil)}
	}
	return *h
}

// manifest is a parsed session of fleet-rlm.
type manifest struct {
	shape   string
	rest    object // without state, turns and block
	state   object // without turns
	history *history
	turns   []json.RawMessage
	block   block
}

// block is what Tidemark writes into a manifest under its own name, because it
// fits nowhere else.
type block struct {
	Title     string               `json:"title,omitempty"`
	Model     string               `json:"model,omitempty"`
	Project   string               `json:"project,omitempty"`
	Tags      []string             `json:"tags,omitempty"`
	CreatedAt time.Time            `json:"created_at,omitzero"`
	Row       object               `json:"row,omitempty"`   // of the sidecar database
	Turns     map[string]blockTurn `json:"turns,omitempty"` // by the id of their first entry
}

// blockTurn is what a turn has besides its texts.
type blockTurn struct {
	At         time.Time       `json:"at,omitzero"`
	AnsweredAt time.Time       `json:"answered_at,omitzero"`
	Model      string          `json:"model,omitempty"`
	Usage      *tidemark.Usage `json:"usage,omitempty"`
	Latency    int64           `json:"latency_ms,omitempty"`
}

const blockKey = "tidemark"

// parseManifest reads a manifest of any shape. An empty object is a valid one.
func parseManifest(b []byte) (*manifest, error) {
	top, err := parseObject(b)
	if err != nil {
		return nil, err
	}
	return takeApart(top), nil
}

func takeApart(top object) *manifest {
	m := &manifest{rest: top, state: object{}}
	if raw, ok := top[blockKey]; ok && json.Unmarshal(raw, &m.block) == nil {
		delete(top, blockKey)
	} else {
		m.block = block{}
	}
	if state, ok := top.Object("state"); ok {
		m.shape, m.state = nested, state
		delete(top, "state")
		if !m.takeHistory(m.state, false) {
			m.takeHistory(m.rest, true)
		}
		return m
	}
	if m.takeHistory(m.rest, false) || anyIn(top, append(stateKeys(), "schema_version")...) {
		m.shape = flat
		for _, k := range stateKeys() {
			if raw, ok := top[k]; ok {
				m.state[k] = raw
				delete(top, k)
			}
		}
	}
	return m
}

func anyIn(o object, keys ...string) bool {
	return slices.ContainsFunc(keys, func(k string) bool { _, ok := o[k]; return ok })
}

// takeHistory moves the turns out of o.
func (m *manifest) takeHistory(o object, top bool) bool {
	for _, key := range historyKeys() {
		h := history{Key: key, Top: top}
		list := o[key]
		if in, ok := o.Object(key); ok && isList(in[messagesKey]) {
			h.Wrapper, list = in.Without(messagesKey), in[messagesKey]
		}
		if isList(list) {
			delete(o, key)
			m.turns = slices.Collect(convert.Elements(list))
			h.Keys = spellingOf(m.turns)
			m.history = &h
			return true
		}
	}
	return false
}

// decode returns the turns with the times from the log of the manifest.
func (m *manifest) decode() []turn {
	turns := make([]turn, len(m.turns))
	keys := spelling{}
	if m.history != nil {
		keys = m.history.Keys
	}
	for i, raw := range m.turns {
		turns[i] = keys.decodeTurn(raw)
	}
	m.logTimes(turns)
	if len(m.block.Turns) == 0 {
		return turns
	}
	s := &speaker{said: map[string]int{}}
	for i := range turns {
		t := &turns[i]
		extra, ok := m.block.Turns[s.entries(*t)[0].ID]
		if !ok {
			continue
		}
		t.at = firstTime(inStore(extra.At), t.at)
		t.answeredAt, t.model, t.usage, t.note.Latency = inStore(extra.AnsweredAt), extra.Model, extra.Usage, extra.Latency
	}
	return turns
}

// inStore is a time at the store's precision.
func inStore(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// maxAstray bounds how many log messages without a turn are skipped to find that
// of a turn.
const maxAstray = 8

// logTimes gives turns the times of their messages in the log. The log is never
// truncated, so both are compared from their ends.
func (m *manifest) logTimes(turns []turn) {
	type logged struct {
		text string
		at   time.Time
	}
	var logs []logged
	for raw := range convert.Elements(m.rest["logs"]) {
		var o object
		if json.Unmarshal(raw, &o) == nil {
			logs = append(logs, logged{o.Text("user_message"), timeAt(o, "timestamp")})
		}
	}
	at := len(logs) - 1
	for i := len(turns) - 1; i >= 0; i-- {
		for j := at; j >= 0 && j > at-maxAstray; j-- {
			if logs[j].text == turns[i].request {
				turns[i].at, at = logs[j].at, j-1
				break
			}
		}
	}
}

// updatedAt is when the manifest was written.
func (m *manifest) updatedAt() time.Time {
	metadata, _ := m.rest.Object("metadata")
	if t := timeAt(metadata, "updated_at"); !t.IsZero() {
		return t
	}
	return timeAt(m.rest, "timestamp")
}

// createdAt is when the first message was logged, as far as it is known.
func (m *manifest) createdAt() time.Time {
	if at := inStore(m.block.CreatedAt); !at.IsZero() {
		return at
	}
	for raw := range convert.Elements(m.rest["logs"]) {
		var o object
		if json.Unmarshal(raw, &o) == nil {
			if t := timeAt(o, "timestamp"); !t.IsZero() {
				return t
			}
		}
		break
	}
	return m.updatedAt()
}

// note is what is kept with a session to write its manifest again. What may
// change with each turn and is needed for a restart is in the checkpoint.
type note struct {
	Session   string   `json:"session,omitempty"` // its id, when the foreign id includes its owner
	Workspace string   `json:"workspace,omitempty"`
	User      string   `json:"user,omitempty"`
	Shape     string   `json:"shape,omitempty"`
	History   *history `json:"history,omitempty"`
	Turns     int      `json:"turns,omitempty"`    // how many there were
	Timeless  bool     `json:"timeless,omitempty"` // no times were given; the turns have the time of the import
	Manifest  object   `json:"manifest"`           // nil: there was none
	Row       object   `json:"row,omitempty"`      // of the sidecar database
}

// each yields turns that are in memory.
func each(turns []turn) iter.Seq2[turn, error] {
	return func(yield func(turn, error) bool) {
		for _, t := range turns {
			if !yield(t, nil) {
				return
			}
		}
	}
}

// session returns the session of a manifest, without an id.
func (m *manifest) session() *convert.Session {
	s := &convert.Session{UpdatedAt: m.updatedAt()}
	s.Title, s.Model, s.Project, s.Tags = m.block.Title, m.block.Model, m.block.Project, m.block.Tags
	s.CreatedAt = m.createdAt()
	s.Checkpoint, s.Remote = readState(m.state, s.UpdatedAt), decodeState(m.state).Interpreter.RepoURL
	s.Entries = speak(each(m.decode()), s.CreatedAt)
	return s
}
