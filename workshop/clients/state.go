package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// found is what came of one trial.
type found struct {
	Day     string
	Version string   `json:",omitempty"` // of the agent
	Carried *carried `json:",omitempty"` // of a session that went on elsewhere
	Lost    []string `json:",omitempty"` // what the agent's format has no place for
	Said    string   `json:",omitempty"` // what was counted, or how a session was refused
	Wrong   []string `json:",omitempty"`
}

// load reads what earlier runs found. A trial that is there is not repeated.
func (w *workshop) load() error {
	w.found = make(map[string]found)
	b, err := os.ReadFile(w.state)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(b, &w.found)
	}
	return err
}

// due reports whether a trial is wanted, and was not made yet. Its id begins with
// what is tried; the second word is the agent, if it is about one.
func (w *workshop) due(id string) bool {
	_, there := w.found[id]
	return w.only.MatchString(id) && (w.again || !there)
}

// note keeps what came of a trial, unless the trial was interrupted.
func (w *workshop) note(ctx context.Context, id string, one found) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	one.Day = time.Now().UTC().Format(time.DateOnly)
	if words := strings.Fields(id); len(words) > 1 {
		one.Version = w.versions[words[1]]
	}
	said := "fine"
	if len(one.Wrong) > 0 {
		said = strings.Join(one.Wrong, "; ")
	}
	fmt.Fprintf(w.log, "%s %s: %s %s\n", time.Now().Format(time.TimeOnly), id, one.Said, said)
	w.found[id] = one
	b, err := json.MarshalIndent(w.found, "", " ")
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(filepath.Dir(w.state), 0o700), os.WriteFile(w.state, b, 0o600))
}
