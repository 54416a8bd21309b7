package store

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// Checkpoint is what a restart needs beyond the messages. Loading one replaces
// the whole state: what the checkpoint does not mention is empty afterwards, so
// that nothing of another session is left.
type Checkpoint struct {
	Name          string            `json:"name,omitempty"`
	SavedAt       time.Time         `json:"saved_at"`
	Reason        string            `json:"reason,omitempty"`
	Seq           int64             `json:"seq,omitempty"` // the entry that it was taken at
	Approvals     []Approval        `json:"approvals,omitempty"`
	Limits        Limits            `json:"limits"`
	Loops         []Loop            `json:"loops,omitempty"`
	Tasks         []Task            `json:"tasks,omitempty"`
	DynamicTools  []DynamicTool     `json:"dynamic_tools,omitempty"`
	WakeTriggers  []WakeTrigger     `json:"wake_triggers,omitempty"`
	CoreMemory    map[string]string `json:"core_memory,omitempty"`
	DocumentPaths []string          `json:"document_paths,omitempty"`
	Interpreter   Interpreter       `json:"interpreter_state"`
	Extra         json.RawMessage   `json:"extra,omitempty"`
}

// Approval is a tool that may be used without asking again.
type Approval struct {
	Tool  string `json:"tool"`
	Scope string `json:"scope,omitempty"`
}

// Limits bound one turn of the agent loop. Zero means the agent's default.
type Limits struct {
	ToolRounds     int `json:"tool_rounds,omitempty"`
	OutputBytes    int `json:"output_bytes,omitempty"`
	ToolsInContext int `json:"tools_in_context,omitempty"`
}

// Loop is a goal that is worked on repeatedly; without a Goal, the task list is.
type Loop struct {
	ID            string    `json:"id"`
	Goal          string    `json:"goal,omitempty"`
	EverySeconds  int64     `json:"every_seconds"`
	NextAt        time.Time `json:"next_at,omitzero"`
	TimesFinished int64     `json:"times_finished,omitempty"`
}

// Task is something to do in the session; a Loop without a Goal works through
// them.
type Task struct {
	ID   int    `json:"id"`
	Text string `json:"text"`
	Done bool   `json:"done,omitempty"`
}

// DynamicTool is a tool that was defined while the session ran.
type DynamicTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"`
	Command     string          `json:"command,omitempty"`
}

// The kinds of wake triggers.
const (
	WakeTimer   = "timer"
	WakeMessage = "message"
)

// WakeTrigger is what wakes a hibernated session: a time, or a message from
// somewhere.
type WakeTrigger struct {
	Kind string    `json:"kind"`
	At   time.Time `json:"at,omitzero"`
	From string    `json:"from,omitempty"`
}

// Interpreter is where code of the session runs.
type Interpreter struct {
	SandboxID     string   `json:"sandbox_id,omitempty"`
	WorkspacePath string   `json:"workspace_path,omitempty"`
	RepoURL       string   `json:"repo_url,omitempty"`
	RepoRef       string   `json:"repo_ref,omitempty"`
	ContextPaths  []string `json:"context_paths,omitempty"`
	VolumeName    string   `json:"volume_name,omitempty"`
	VolumeSubpath string   `json:"volume_subpath,omitempty"`
}

// coreMemory is the core memory of a session that has none yet.
var coreMemory = map[string]string{
	"persona":    "",
	"human":      "",
	"scratchpad": "",
}

func (s *Store) checkpointKey(id tidemark.SessionID, name string) tidemark.Key {
	if name == "" {
		return keyOf(kindCheckpoint, id)
	}
	return keyOf(kindCheckpoint, id, s.k.Hash("checkpoint", fold(name)))
}

// SaveCheckpoint keeps c under its name, and replaces an earlier one of that name.
// A resume loads the one without a name. ErrConflict: the lease is lost.
func (w *Writer) SaveCheckpoint(ctx context.Context, c Checkpoint) error {
	w.held.Lock()
	defer w.held.Unlock()
	if !w.held.IsTaken() {
		return tidemark.NotFoundf("session %s: nothing was said yet", w.id)
	}
	b := tidemark.Batch{At: w.s.k.Now()}
	c.SavedAt = b.At
	if c.Seq == 0 {
		c.Seq = w.main.newest.Seq
	}
	key := w.s.checkpointKey(w.id, c.Name)
	c, secrets, err := w.s.redactCheckpoint(w.id, c)
	if err != nil {
		return tidemark.Invalidf("%s: %w", key, err)
	}
	if err := w.s.vault.Add(ctx, &b, string(w.id), secrets); err != nil {
		return err
	}
	old, err := w.s.k.Get(ctx, key, &Checkpoint{})
	if err != nil && !(errors.Is(err, tidemark.ErrCorrupt) && old.Version > 0) {
		return err // a damaged one is replaced
	}
	r, err := records.Put(key, old.Version, c)
	if err != nil {
		return err
	}
	if c.Name == "" {
		r.Due = c.wakesAt()
	}
	b.Puts = append(b.Puts, r)
	if err := w.held.Guard(&b, false); err != nil {
		return err
	}
	_, err = w.s.k.Commit(ctx, b)
	return w.held.Lost(ctx, err)
}

// wakesAt is when the first timer of a checkpoint fires; zero: never.
func (c Checkpoint) wakesAt() time.Time {
	var first time.Time
	for _, t := range c.WakeTriggers {
		if t.Kind == WakeTimer && !t.At.IsZero() && (first.IsZero() || t.At.Before(first)) {
			first = records.Keepable(t.At)
		}
	}
	return first
}

// Sleepers lists the sessions whose checkpoint asks to be woken by now, that
// nobody has open, and that may allows to be woken. A checkpoint alone is no
// permission, so may is called before anything else of the session is read.
func (s *Store) Sleepers(ctx context.Context, now time.Time, may func(tidemark.SessionID) bool) ([]tidemark.SessionID, error) {
	var ids []tidemark.SessionID
	for r, err := range s.backend.List(ctx, tidemark.Query{Kind: kindCheckpoint, DueBy: records.Keepable(now), Order: tidemark.ByDue}) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue // verify names it
		}
		if err != nil {
			return ids, err
		}
		id, _ := sessionOf(r.Key)
		if !may(id) {
			continue
		}
		i, err := s.Session(ctx, id)
		if err != nil || i.State != Live {
			continue // it is in the trash, or gone
		}
		l, err := s.Lease(ctx, id)
		if err != nil {
			return ids, err
		}
		if !l.Living() {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// Checkpoint returns the checkpoint of a name: ErrNotFound. What it does not
// mention has its default, core memory included.
func (s *Store) Checkpoint(ctx context.Context, id tidemark.SessionID, name string) (Checkpoint, error) {
	var c Checkpoint
	r, err := s.k.Get(ctx, s.checkpointKey(id, name), &c)
	if err != nil {
		return Checkpoint{}, err
	}
	if r.Version == 0 {
		return Checkpoint{}, tidemark.NotFoundf("session %s: checkpoint %q: not found", id, name)
	}
	memory := maps.Clone(coreMemory)
	maps.Copy(memory, c.CoreMemory)
	c.CoreMemory = memory
	return c, nil
}

// Checkpoints lists the checkpoints of a session, newest first.
func (s *Store) Checkpoints(ctx context.Context, id tidemark.SessionID) ([]Checkpoint, error) {
	var all []Checkpoint
	for r, err := range s.backend.List(ctx, tidemark.Query{Kind: kindCheckpoint, Prefix: string(id)}) {
		if err != nil {
			return all, err
		}
		var c Checkpoint
		if err := records.Decode(r, &c); err != nil {
			return all, err
		}
		all = append(all, c)
	}
	return all, nil
}
