package mcp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/text"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/search"
	"github.com/tidemark-sessions/tidemark/store"
)

const (
	usualMemories = 50
	maxMemories   = 200
	// listedBytes is how much of one memory a list shows.
	listedBytes = 2 << 10
	// maxMemoryBytes bounds what one client can add to the context of every
	// later session.
	maxMemoryBytes = 16 << 10
)

type listMemoryIn struct {
	Query      string `json:"query,omitempty" jsonschema:"only those that this query finds, as in search_sessions"`
	Project    string `json:"project,omitempty" jsonschema:"what was learned in the project in this folder; . or absent: this project"`
	Everywhere bool   `json:"everywhere,omitempty" jsonschema:"what was learned in all projects"`
	N          int    `json:"n,omitempty" jsonschema:"how many at most; 50 when absent, never more than 200"`
}

type learned struct {
	ID      string    `json:"id"`
	Text    string    `json:"text"`
	Cut     bool      `json:"cut,omitempty" jsonschema:"the text is not whole: read_memory has all of it"`
	Project string    `json:"project,omitempty"`
	Session string    `json:"session,omitempty" jsonschema:"where it was learned, or what was handed over"`
	At      time.Time `json:"at"`
	Version int64     `json:"version,omitempty" jsonschema:"what write_memory and remove_memory take, to change only what was read"`
}

func memoryOf(m store.Memory, most int) learned {
	whole := render.Clean(m.Text)
	out := learned{ID: m.ID, Text: text.Clip(whole, most), Project: render.CleanLine(m.Project), Session: render.CleanLine(string(m.Session)), At: m.At}
	out.Cut = len(out.Text) < len(whole)
	return out
}

func keptMemory(m store.KeptMemory) learned {
	out := memoryOf(m.Memory, maxBytes)
	out.Version = m.Version
	return out
}

type listMemoryOut struct {
	Memories []learned `json:"memories"`
	More     bool      `json:"more,omitempty" jsonschema:"there are more: ask with a larger n, or with a query"`
}

func (r *room) listMemory(ctx context.Context, _ *sdk.CallToolRequest, in listMemoryIn) (listMemoryOut, error) {
	out := listMemoryOut{Memories: []learned{}}
	limit, err := atMost(in.N, usualMemories, maxMemories)
	if err != nil {
		return out, err
	}
	project, err := r.scope(in.Project, in.Everywhere)
	if err != nil {
		return out, err
	}
	var query search.Query
	if in.Query != "" {
		if query, err = search.Parse(in.Query); err != nil {
			return out, err
		}
	}
	s, err := r.o.Open(ctx)
	if err != nil {
		return out, err
	}
	left := usualBytes
	for m, err := range s.Memories(ctx, project) {
		if errors.Is(err, tidemark.ErrCorrupt) {
			continue
		}
		if err != nil {
			return out, err
		}
		if in.Query != "" && !query.Match(m.Text) {
			continue
		}
		one := memoryOf(m, listedBytes)
		if left -= len(one.Text) + entryBytes; len(out.Memories) == limit || left < 0 {
			out.More = true
			break
		}
		out.Memories = append(out.Memories, one)
	}
	return out, nil
}

func (o listMemoryOut) text() string {
	var b strings.Builder
	for _, m := range o.Memories {
		m.write(&b)
	}
	switch {
	case len(o.Memories) == 0:
		b.WriteString("Nothing is kept here.\n")
	case o.More:
		b.WriteString("There are more: ask with a larger n, or with a query.\n")
	}
	return b.String()
}

func (m learned) write(b *strings.Builder) {
	fmt.Fprintf(b, "%s  %s", m.ID, stamp(m.At))
	if m.Session != "" {
		fmt.Fprintf(b, "  session %s", m.Session)
	}
	b.WriteByte('\n')
	for line := range strings.SplitSeq(m.Text, "\n") {
		b.WriteString(strings.TrimRight("  "+line, " ") + "\n")
	}
	if m.Cut {
		fmt.Fprintf(b, "[cut: read_memory {\"id\": %q} has all of it]\n", m.ID)
	}
}

func (m learned) text() string {
	var b strings.Builder
	m.write(&b)
	return b.String()
}

type readMemoryIn struct {
	ID string `json:"id" jsonschema:"the id of the memory, or the beginning of it"`
}

func (r *room) readMemory(ctx context.Context, _ *sdk.CallToolRequest, in readMemoryIn) (learned, error) {
	s, err := r.o.Open(ctx)
	if err != nil {
		return learned{}, err
	}
	found, err := s.Memory(ctx, in.ID)
	if err != nil {
		return learned{}, err
	}
	m, err := s.MemoryAt(ctx, found.ID)
	return keptMemory(m), err
}

type writeMemoryIn struct {
	Text    string `json:"text" jsonschema:"what later sessions should know, in a sentence or a few"`
	ID      string `json:"id,omitempty" jsonschema:"the memory to replace; absent: a new one. The same text in the same project is kept once"`
	Version int64  `json:"version,omitempty" jsonschema:"with id: replace it only if this version stands"`
	Project string `json:"project,omitempty" jsonschema:"the folder of the project that it is about; . or absent: this project"`
	Session string `json:"session,omitempty" jsonschema:"the session in which it was learned, as read_session takes it"`
}

type writeMemoryOut struct {
	Memory learned `json:"memory"`
	Known  bool    `json:"known,omitempty" jsonschema:"it was there already"`
}

func (o writeMemoryOut) text() string {
	if o.Known {
		return "It is known already.\n" + o.Memory.text()
	}
	return "Kept.\n" + o.Memory.text()
}

func (r *room) writeMemory(ctx context.Context, _ *sdk.CallToolRequest, in writeMemoryIn) (out writeMemoryOut, err error) {
	ctx = r.doing(ctx, "write_memory")
	defer func() { r.wrote(ctx, "write_memory", out.Memory.ID, err) }()
	if len(in.Text) > maxMemoryBytes {
		return out, tidemark.Invalidf("a memory of %d bytes, at most %d are allowed: keep what matters", len(in.Text), maxMemoryBytes)
	}
	m := store.Memory{Text: strings.ToValidUTF8(in.Text, "\uFFFD"), Project: r.o.Project}
	if in.Project != "" {
		if m.Project, err = r.project(in.Project); err != nil {
			return out, err
		}
	}
	s, err := r.o.Open(ctx)
	if err != nil {
		return out, err
	}
	if in.Session != "" {
		_, p, err := r.find(ctx, in.Session)
		if err != nil {
			return out, err
		}
		m.Session = p.ID
	}
	if in.ID != "" {
		kept, err := replaceMemory(ctx, s, in, m)
		return writeMemoryOut{Memory: keptMemory(kept)}, err
	}
	kept, isNew, err := s.Remember(ctx, m)
	return writeMemoryOut{Memory: memoryOf(kept, maxBytes), Known: !isNew}, err
}

// replaceMemory changes the text of a memory. Fields that the client does
// not name keep their value.
func replaceMemory(ctx context.Context, s *store.Store, in writeMemoryIn, m store.Memory) (store.KeptMemory, error) {
	old, err := s.MemoryAt(ctx, in.ID)
	if err != nil {
		return old, err
	}
	m.ID = old.ID
	if in.Project == "" {
		m.Project = old.Project
	}
	if in.Session == "" {
		m.Session = old.Session
	}
	want := old.Version
	if in.Version != 0 {
		want = in.Version
	}
	return s.PutMemory(ctx, m, want)
}

type removeMemoryIn struct {
	ID      string `json:"id" jsonschema:"the whole id of the memory"`
	Version int64  `json:"version,omitempty" jsonschema:"remove it only if this version stands"`
}

type removeMemoryOut struct {
	Removed string `json:"removed" jsonschema:"the id of what is gone"`
}

func (o removeMemoryOut) text() string { return "Forgot " + o.Removed + ".\n" }

func (r *room) removeMemory(ctx context.Context, _ *sdk.CallToolRequest, in removeMemoryIn) (out removeMemoryOut, err error) {
	ctx = r.doing(ctx, "remove_memory")
	defer func() { r.wrote(ctx, "remove_memory", text.Clip(in.ID, tidemark.MaxIDBytes), err) }()
	s, err := r.o.Open(ctx)
	if err != nil {
		return out, err
	}
	want := in.Version
	if want == 0 {
		want = store.AnyVersion
	}
	return removeMemoryOut{Removed: in.ID}, s.ForgetAt(ctx, in.ID, want)
}
