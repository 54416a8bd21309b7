package fleetrlm

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/tidemark-sessions/tidemark/convert"
)

// checkpoint is the part of a store's checkpoint that fleet-rlm has too.
type checkpoint struct {
	SavedAt       time.Time         `json:"saved_at"`
	CoreMemory    map[string]string `json:"core_memory,omitempty"`
	DocumentPaths []string          `json:"document_paths,omitempty"`
	Interpreter   interpreter       `json:"interpreter_state"`
	Extra         json.RawMessage   `json:"extra,omitempty"`
}

type interpreter struct {
	SandboxID     string   `json:"sandbox_id,omitempty"`
	WorkspacePath string   `json:"workspace_path,omitempty"`
	RepoURL       string   `json:"repo_url,omitempty"`
	RepoRef       string   `json:"repo_ref,omitempty"`
	ContextPaths  []string `json:"context_paths,omitempty"`
	VolumeName    string   `json:"volume_name,omitempty"`
	VolumeSubpath string   `json:"volume_subpath,omitempty"`
}

// texts are the string fields of an interpreter, by their keys.
func (i *interpreter) texts() map[string]*string {
	return map[string]*string{"sandbox_id": &i.SandboxID, "workspace_path": &i.WorkspacePath, "repo_url": &i.RepoURL,
		"repo_ref": &i.RepoRef, "volume_name": &i.VolumeName, "volume_subpath": &i.VolumeSubpath}
}

// The keys of a state. What the documentation calls interpreter_state is daytona
// in the files, and includes the document paths.
const (
	memoryKey      = "core_memory"
	documentsKey   = "document_paths"
	loadedKey      = "loaded_document_paths"
	contextKey     = "context_paths"
	interpreterKey = "interpreter_state"
	daytonaKey     = "daytona"
)

// readState returns the checkpoint of a state. There always is one: what a state
// lacks is empty after a restart and is not taken from elsewhere.
func readState(state object, at time.Time) json.RawMessage {
	c := decodeState(state)
	c.SavedAt = at
	if len(state) > 0 {
		c.Extra = keep(state)
	}
	b, err := convert.Encode(c)
	if err != nil {
		return json.RawMessage("{}")
	}
	return b
}

func decodeState(state object) checkpoint {
	var c checkpoint
	memory, _ := state.Object(memoryKey)
	for k, raw := range memory {
		if len(raw) > 0 && raw[0] == '"' {
			if c.CoreMemory == nil {
				c.CoreMemory = map[string]string{}
			}
			c.CoreMemory[k] = memory.Text(k)
		}
	}
	in, ok := state.Object(interpreterKey)
	if !ok {
		in, _ = state.Object(daytonaKey)
	}
	for k, to := range c.Interpreter.texts() {
		*to = in.Text(k)
	}
	c.Interpreter.ContextPaths = texts(in, contextKey)
	c.DocumentPaths = documentPaths(state, in)
	return c
}

func documentPaths(state, in object) []string {
	if isList(state[documentsKey]) {
		return texts(state, documentsKey)
	}
	if in[loadedKey] == nil {
		in, _ = state.Object(daytonaKey)
	}
	return texts(in, loadedKey)
}

// writeState returns the state for c. What did not change since it was read is
// written verbatim.
func writeState(c checkpoint, fresh bool) object {
	state := object{}
	if !kept(c.Extra, &state) || state == nil {
		state = object{}
	}
	was := decodeState(state)
	writeMemory(state, c.CoreMemory, fresh)
	_, documented := state.Object(interpreterKey)
	_, real := state.Object(daytonaKey)
	moved := !was.Interpreter.equal(c.Interpreter)
	loaded := !slices.Equal(was.DocumentPaths, c.DocumentPaths)
	for key, there := range map[string]bool{interpreterKey: documented, daytonaKey: real} {
		if moved && (there || !documented && !real) || loaded && there || fresh && !there {
			in, _ := state.Object(key)
			writeInterpreter(in, c.Interpreter)
			if (loaded || fresh) && (key == daytonaKey || in[loadedKey] != nil) {
				in.Set(loadedKey, list(c.DocumentPaths))
			}
			state.Set(key, in)
		}
	}
	if _, there := state[documentsKey]; loaded && (there || !real) || fresh && !there {
		state.Set(documentsKey, list(c.DocumentPaths))
	}
	return state
}

func (i interpreter) equal(j interpreter) bool {
	a, b := i.texts(), j.texts()
	for k, text := range a {
		if *text != *b[k] {
			return false
		}
	}
	return slices.Equal(i.ContextPaths, j.ContextPaths)
}

// writeMemory sets what changed. An empty memory and a missing one are the same
// to a restart.
func writeMemory(state object, now map[string]string, fresh bool) {
	memory, there := state.Object(memoryKey)
	changed := fresh && !there
	for k, raw := range memory {
		if _, stays := now[k]; !stays && len(raw) > 0 && raw[0] == '"' && memory.Text(k) != "" {
			delete(memory, k)
			changed = true
		}
	}
	for k, text := range now {
		if memory.Text(k) != text {
			memory.Set(k, text)
			changed = true
		}
	}
	if changed {
		state.Set(memoryKey, memory)
	}
}

func writeInterpreter(in object, now interpreter) {
	for k, text := range now.texts() {
		switch {
		case in.Text(k) == *text:
		case *text == "":
			in.Set(k, nil)
		default:
			in.Set(k, *text)
		}
	}
	if !slices.Equal(texts(in, contextKey), now.ContextPaths) {
		in.Set(contextKey, list(now.ContextPaths))
	}
}

// list is never null in JSON.
func list(all []string) []string {
	if all == nil {
		return []string{}
	}
	return all
}
