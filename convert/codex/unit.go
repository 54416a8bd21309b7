package codex

import (
	"encoding/json"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark/convert"
)

// unitState is what an import leaves in the ledger of a rollout: its head, so that it
// can be placed among others without being opened, and how its thread was read.
type unitState struct {
	ID       string    `json:"id"`
	Meta     meta      `json:"meta"`
	Nickname string    `json:"nickname,omitempty"`
	Path     string    `json:"path,omitempty"`
	Model    string    `json:"model,omitempty"`
	Title    string    `json:"title,omitempty"`
	Created  time.Time `json:"created,omitzero"`
	Updated  time.Time `json:"updated,omitzero"`

	Session string `json:"session"`          // the thread that it was imported with
	Named   string `json:"named,omitempty"`  // the title of its thread, which may be from elsewhere
	Before  string `json:"before,omitempty"` // what its thread continues from, and what is missing of that
}

// headOf returns the head of a rollout, from an earlier import if its file did not
// change since.
func headOf(p convert.Source, file string) (*rollout, error) {
	state, ok := p.State(file)
	var k unitState
	if !ok || json.Unmarshal(state, &k) != nil || k.ID == "" {
		return readHead(p.FS, file)
	}
	r := &rollout{path: file, id: k.ID, thread: k.Meta.ID, meta: k.Meta, model: k.Model, title: k.Title, created: k.Created, updated: k.Updated,
		archived: isArchived(file), was: &k}
	r.meta.spawnNickname, r.meta.spawnAgentPath = k.Nickname, k.Path
	return r, nil
}

// kinOf is the Kin of the tool: a thread names what it continues from, what it was
// copied from, and what it works for.
func kinOf(state []byte) (names, others []string) {
	var k unitState
	if json.Unmarshal(state, &k) != nil {
		return nil, nil
	}
	others = []string{k.Session, k.Meta.ForkedFrom, k.Meta.ParentThread}
	if base := k.Meta.HistoryBase; base != nil {
		others = append(others, base.File)
	}
	return []string{k.ID, k.Meta.ID}, others
}

// isArchived reports whether a rollout is among those that were put away.
func isArchived(file string) bool { return path.Base(path.Dir(file)) == "archived_sessions" }

// family are the threads that a session is made of: its own and those of its
// helper agents.
func (t *thread) family() []*thread { return append([]*thread{t}, t.children...) }

// before says what a thread continues from, and what of that is not there.
func (t *thread) before() string {
	var all []string
	for _, r := range t.files {
		if base := t.bases[r]; base != nil {
			all = append(all, r.id+" after "+base.file.id)
		}
	}
	return strings.Join(append(all, t.lost...), "\n")
}

// unchanged reports whether a session would be read as it was. What it continues
// from is the beginning of a file that only grows.
func (t *thread) unchanged() bool {
	return !slices.ContainsFunc(t.family(), func(one *thread) bool {
		before := one.before()
		return slices.ContainsFunc(one.files, func(r *rollout) bool {
			return r.was == nil || r.was.Session != t.id || r.was.Named != one.title || r.was.Before != before
		})
	})
}

// units are what the session leaves in the ledger, one for each file.
func (t *thread) units() (all []convert.Unit) {
	for _, one := range t.family() {
		before := one.before()
		for _, r := range one.files {
			k := unitState{ID: r.id, Meta: r.meta, Nickname: r.meta.spawnNickname, Path: r.meta.spawnAgentPath, Model: r.model, Title: r.title,
				Created: r.created, Updated: r.updated, Session: t.id, Named: one.title, Before: before}
			k.Meta.Source = nil // what is needed of it is in the others
			state, err := json.Marshal(k)
			if err != nil { // of a year that JSON has no form for: it is read each time
				state = nil
			}
			all = append(all, convert.Unit{Name: r.path, State: state})
		}
	}
	return all
}
