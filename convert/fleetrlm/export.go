package fleetrlm

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// export writes the manifest of a session to its documented place, and its files
// beside it. The manifest comes last, so that whoever finds it finds the rest.
func export(ctx context.Context, out convert.Out, s *convert.Session) ([]string, error) {
	lost := convert.Losses{}
	var n note
	if own := kept(s.Extra, &n); !own && says(s.Extra) {
		lost.Add("what other tools keep with the session")
	}
	id := element(cmp.Or(n.Session, s.ForeignID, string(s.ID)), "default-session")
	name := path.Join(metaFolder, workspacesFolder, element(n.Workspace, "default"), usersFolder, element(n.User, "default"), manifestBegin+id+manifestEnd)
	body, err := writeManifest(ctx, s, n, lost)
	if err != nil {
		return nil, err
	}
	for _, file := range slices.Sorted(maps.Keys(s.Files)) {
		as, ok := fileOut(file)
		if !ok {
			lost.Add("files outside of " + strings.Join(durableFolders(), ", "))
			continue
		}
		if err := write(out, as, s.Files[file]); err != nil {
			return nil, fmt.Errorf("%s: %w", as, err)
		}
	}
	if err := write(out, name, body); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return lost.List(), nil
}

// element returns name as one element of a path, changed only if it cannot be
// one.
func element(name, otherwise string) string {
	if name == "" || name == "." || len(name) > 2*tidemark.MaxIDBytes || strings.ContainsAny(name, `/\:`) || !fs.ValidPath(name) || checkFile(name) != nil {
		return safeName(name, otherwise)
	}
	return name
}

// fileOut returns where a file of a session goes. A manifest is refused: it
// would create another session.
func fileOut(name string) (as string, ok bool) {
	as, legacy := strings.CutPrefix(name, legacyFolder)
	top, _, below := strings.Cut(as, "/")
	if _, is := sessionOf(as); is && ownerOf(as) != (owner{}) || checkFile(as) != nil || !below {
		return "", false
	}
	return as, legacy && top == workspacesFolder || !legacy && slices.Contains(durableFolders(), top)
}

func write(out convert.Out, name string, b []byte) error {
	f, err := out.Create(name)
	if err != nil {
		return err
	}
	if _, err := f.Write(b); err != nil {
		f.CloseWithError(err)
		return err
	}
	return f.Close()
}

// writeManifest returns the manifest of a session: the original one if it came
// from fleet-rlm and did not change, else one in the documented shape.
func writeManifest(ctx context.Context, s *convert.Session, n note, lost convert.Losses) ([]byte, error) {
	listLost(s, lost)
	branch, err := convert.BranchTo(ctx, s.Entries, s.Head)
	if err != nil {
		return nil, err
	}
	for range branch.Beside {
		lost.Add("entries of other branches")
	}
	for range branch.Damaged {
		lost.Add("damaged entries")
	}
	w := &writing{session: s, note: n, turns: turnsOf(branch.Entries, lost), fresh: n.Manifest == nil}
	var c checkpoint
	if len(s.Checkpoint) > 0 && json.Unmarshal(s.Checkpoint, &c) != nil {
		lost.Add("the checkpoint, which cannot be read")
	}
	top := w.compose(writeState(c, w.fresh))
	if b := w.block(top); !b.isEmpty() {
		top.Set(blockKey, b)
	}
	raw, err := convert.Encode(top)
	if err != nil || n.Shape != flat {
		return raw, err
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, raw, "", "  "); err != nil {
		return nil, err
	}
	return pretty.Bytes(), nil
}

// says is false for a value that is always present but empty.
func says(raw json.RawMessage) bool {
	switch string(bytes.TrimSpace(raw)) {
	case "", `""`, "[]", "{}", "null", "0":
		return false
	}
	return true
}

func listLost(s *convert.Session, lost convert.Losses) {
	for _, l := range []struct {
		what  string
		there bool
	}{
		{"workers", len(s.Workers) > 0},
		{"labels", len(s.Labels) > 0},
		{"where it was forked", s.Fork != nil || s.Copied != ""},
		{"agent " + s.Agent, s.Agent != "" && s.Agent != toolName},
		{"that it is remote", s.Mode == tidemark.ModeRemote},
	} {
		if l.there {
			lost.Add(l.what)
		}
	}
	var checkpoint object
	if json.Unmarshal(s.Checkpoint, &checkpoint) != nil {
		return
	}
	for _, k := range []string{"name", "reason", "approvals", "limits", "loops", "dynamic_tools", "wake_triggers"} {
		if says(checkpoint[k]) {
			lost.Add("of the checkpoint: " + k)
		}
	}
}

// writing is a manifest being written.
type writing struct {
	session *convert.Session
	note    note
	turns   []turn
	fresh   bool // it was not imported from a manifest
}

// compose puts the parts of a manifest where they were, or where they are
// documented to be.
func (w *writing) compose(state object) object {
	top := w.note.Manifest.Without()
	h := w.note.History.orDefault()
	if w.fresh {
		w.begin(top)
	} else if len(w.turns) != w.note.Turns {
		w.grow(top)
	}
	said := make([]any, len(w.turns))
	for i, t := range w.turns {
		said[i] = h.Keys.encode(t)
	}
	holder := state
	switch {
	case w.note.Shape == flat:
		maps.Copy(top, state)
		holder = top
	case h.Top:
		holder = top
	}
	if w.note.History != nil || len(said) > 0 || w.fresh {
		if h.Wrapper != nil {
			wrapped := h.Wrapper.Without()
			wrapped.Set(messagesKey, said)
			holder.Set(h.Key, wrapped)
		} else {
			holder.Set(h.Key, said)
		}
	}
	if w.note.Shape == nested || w.note.Shape == "" && len(state) > 0 {
		top.Set("state", state)
	}
	return top
}

// begin fills in what a manifest has besides the state.
func (w *writing) begin(top object) {
	top.Set("rev", 1)
	top.Set("generated_docs", []string{})
	top.Set("artifacts", []string{})
	w.log(top, 0)
	metadata := object{}
	metadata.Set("history_turns", len(w.turns))
	metadata.Set("document_count", 0)
	metadata.Set("artifact_count", 0)
	if at := firstTime(w.session.UpdatedAt, w.lastTime()); !at.IsZero() {
		metadata.Set("updated_at", stamp(at))
	}
	top.Set("metadata", metadata)
}

// grow records turns that were added or left out since the manifest was read.
func (w *writing) grow(top object) {
	at := firstTime(w.lastTime(), w.session.UpdatedAt)
	if w.note.Shape == flat {
		if _, there := top["timestamp"]; there && !at.IsZero() {
			top.Set("timestamp", json.Number(fmt.Sprintf("%d.%06d", at.Unix(), at.Nanosecond()/1000)))
		}
		return
	}
	top.Set("rev", whole(top, "rev")+1)
	w.log(top, w.note.Turns)
	metadata, _ := top.Object("metadata")
	metadata.Set("history_turns", len(w.turns))
	if !at.IsZero() {
		metadata.Set("updated_at", stamp(at))
	}
	top.Set("metadata", metadata)
}

func (w *writing) lastTime() (at time.Time) {
	for _, t := range w.turns {
		at = firstTime(t.answeredAt, t.at, at)
	}
	return at
}

// maxRemembered is how much of a message fleet-rlm remembers.
const maxRemembered = 400

// log adds the messages of turns to the log and the memory of a manifest.
func (w *writing) log(top object, from int) {
	logs, memory := slices.Collect(convert.Elements(top["logs"])), slices.Collect(convert.Elements(top["memory"]))
	for i := max(from, 0); i < len(w.turns); i++ {
		t := w.turns[i]
		if t.request == "" || t.isSummary() {
			continue
		}
		content := []rune(t.request)
		entry, remembered := object{}, object{}
		entry.Set("user_message", t.request)
		entry.Set("history_turns", i+1)
		remembered.Set("content", string(content[:min(len(content), maxRemembered)]))
		if !t.at.IsZero() {
			entry.Set("timestamp", stamp(t.at))
			remembered.Set("timestamp", stamp(t.at))
		}
		raw, _ := convert.Encode(entry)
		logs = append(logs, raw)
		raw, _ = convert.Encode(remembered)
		memory = append(memory, raw)
	}
	for key, all := range map[string][]json.RawMessage{"logs": logs, "memory": memory} {
		if all == nil {
			all = []json.RawMessage{}
		}
		top.Set(key, all)
	}
}

// block returns what a reader of the manifest could not find in it otherwise.
func (w *writing) block(top object) block {
	m := takeApart(top.Without())
	s := w.session
	b := block{Title: s.Title, Model: s.Model, Project: s.Project, Tags: s.Tags, Row: w.note.Row, Turns: map[string]blockTurn{}}
	if w.isFirstPrompt(s.Title) {
		b.Title = ""
	}
	if !w.note.Timeless && !s.CreatedAt.Equal(m.createdAt()) {
		b.CreatedAt = s.CreatedAt.UTC()
	}
	sp := &speaker{said: map[string]int{}, last: firstTime(b.CreatedAt, m.createdAt())}
	for i, found := range m.decode() {
		if i == len(w.turns) {
			break
		}
		t := w.turns[i]
		if w.note.Timeless && i < w.note.Turns {
			t.at, t.answeredAt = time.Time{}, time.Time{}
		}
		entries := sp.entries(found)
		extra := blockTurn{Model: t.model, Usage: t.usage, Latency: t.note.Latency}
		first, last := entries[0], entries[len(entries)-1]
		if !t.at.IsZero() && !t.at.Equal(first.At) {
			extra.At = t.at.UTC()
			sp.last = extra.At
		}
		if !t.answeredAt.IsZero() && !t.answeredAt.Equal(firstTime(extra.At, last.At)) {
			extra.AnsweredAt = t.answeredAt.UTC()
		}
		if extra != (blockTurn{}) {
			b.Turns[first.ID] = extra
		}
	}
	return b
}

func (b block) isEmpty() bool {
	return b.Title == "" && b.Model == "" && b.Project == "" && len(b.Tags) == 0 && b.CreatedAt.IsZero() && len(b.Row) == 0 && len(b.Turns) == 0
}

// isFirstPrompt reports whether a title is only the first line of the first
// prompt, whole or truncated, which is the name of a session without a title.
func (w *writing) isFirstPrompt(title string) bool {
	for _, t := range w.turns {
		if t.request != "" && !t.isSummary() {
			line, _, _ := strings.Cut(strings.TrimSpace(t.request), "\n")
			begin, cut := strings.CutSuffix(title, "…")
			return title == line || cut && strings.HasPrefix(line, begin)
		}
	}
	return false
}
