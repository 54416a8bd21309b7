package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// found is what came of one trial.
type found struct {
	Day     string
	Version string   `json:",omitempty"` // of the agent
	From    string   `json:",omitempty"` // the version of the agent that a session came from
	Carried *carried `json:",omitempty"` // of a session that went on elsewhere
	Killed  *killed  `json:",omitempty"` // while a watcher was killed
	Lost    []string `json:",omitempty"` // what the agent's format has no place for
	Said    string   `json:",omitempty"` // what was counted, or how a session was refused
	Wrong   []string `json:",omitempty"`
}

// anywhere is a text without the folders of this machine.
func (w *workshop) anywhere(text string) string {
	return strings.NewReplacer(w.scratch, "SCRATCH", w.agents, "AGENTS", filepath.Dir(w.program), "BIN").Replace(text)
}

// load reads what earlier runs found, and what runs beside this one did. A trial that
// is there is not repeated; of two findings the later one counts.
func (w *workshop) load(beside ...string) error {
	w.found = make(map[string]found)
	for _, file := range append([]string{w.state}, beside...) {
		b, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) && file == w.state {
			continue
		}
		var more map[string]found
		if err == nil {
			err = json.Unmarshal(b, &more)
		}
		if err != nil {
			return err
		}
		for id, one := range more {
			if one.Day >= w.found[id].Day {
				w.found[id] = one
			}
		}
	}
	return nil
}

// save keeps what was found, a trial on a line: a file that people compare.
func (w *workshop) save() error {
	var b bytes.Buffer
	between := "{\n"
	for _, id := range slices.Sorted(maps.Keys(w.found)) {
		name, err := json.Marshal(id)
		if err != nil {
			return err
		}
		one, err := json.Marshal(w.found[id])
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s%s: %s", between, name, one)
		between = ",\n"
	}
	b.WriteString("\n}\n")
	dir, err := durable.OpenDir(filepath.Dir(w.state))
	if err != nil {
		return err
	}
	defer dir.Close()
	name := filepath.Base(w.state)
	return durable.Replace(dir, name+".tmp", name, b.Bytes())
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
		if words[0] == "in" {
			one.From = w.versions[words[3]]
		}
	}
	for _, texts := range [][]string{one.Wrong, one.Lost} {
		for i := range texts {
			texts[i] = w.anywhere(texts[i])
		}
	}
	one.Said = w.anywhere(one.Said)
	said := "fine"
	if len(one.Wrong) > 0 {
		said = strings.Join(one.Wrong, "; ")
	}
	fmt.Fprintf(w.log, "%s %s: %s %s\n", time.Now().Format(time.TimeOnly), id, one.Said, said)
	w.found[id] = one
	return w.save()
}
