package render

import (
	"bufio"
	"errors"
	"io"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// Document is what Markdown and HTML show of a session besides its
// entries. Only what is set appears.
type Document struct {
	Session    tidemark.Session
	State      string // state of a session that is not in use, like trash
	UpdatedAt  time.Time
	Messages   int64
	Node       string           // the part that is shown, like n3; empty: all of it
	Tree       []Node           // the nodes of the session; with Seq, they link to their entries
	Labels     map[int64]string // labels by the seq of their entry
	Workers    []Worker         // helper agents, whose transcripts follow the entries
	ExportedAt time.Time
	Framed     bool   // the page is the srcdoc of a frame: links elsewhere open a window of their own
	Words      *Words // the page's own words; nil: English
}

// Worker is a helper agent inside a session, with a transcript of its own.
type Worker struct {
	Name    string // the session's name for it
	Call    string // the id of the tool call that started it, "" if unknown
	Entries iter.Seq2[tidemark.Entry, error]
}

// callers maps the calls that started workers to these workers.
func (d *Document) callers() map[string]int {
	found := make(map[string]int)
	for i, w := range d.Workers {
		if w.Call != "" {
			found[w.Call] = i
		}
	}
	return found
}

// documentTree limits the tree to the width of code on a page.
var documentTree = TreeOptions{Width: 100}

// bufferSize is how much of a document is buffered. Memory holds no more
// than that and one entry, however long the session is.
const bufferSize = 64 << 10

// transcribe passes on each entry, and each damaged one with its error. The
// first damage is returned after all entries are written; any other error ends
// it at once.
func transcribe(all iter.Seq2[tidemark.Entry, error], entry func(tidemark.Entry), damaged func(tidemark.Entry, error), w *bufio.Writer) error {
	var damage error
	for e, err := range all {
		switch {
		case errors.Is(err, tidemark.ErrCorrupt):
			if damage == nil {
				damage = err
			}
			damaged(e, err)
		case err != nil:
			return errors.Join(err, w.Flush())
		default:
			entry(e)
		}
		// A bufio.Writer keeps its first error; checking it here ends an
		// export into a closed pipe before the rest of a long log is read.
		if _, err := w.Write(nil); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return damage
}

func buffered(w io.Writer) *bufio.Writer { return bufio.NewWriterSize(w, bufferSize) }

// fact is a line of the table at the top of a document.
type fact struct{ name, value string }

// facts are the known facts about the session, in the order of the table.
func (d *Document) facts(s *Words) []fact {
	var all []fact
	add := func(name, value string) {
		if value != "" {
			all = append(all, fact{name, value})
		}
	}
	add(s.Session, string(d.Session.ID))
	add(s.Part, d.Node)
	add(s.State, d.State)
	add(s.Agent, d.Session.Agent)
	add(s.Model, d.Session.Model)
	add(s.Mode, d.Session.Mode)
	add(s.Project, d.Session.Project)
	add(s.Tags, strings.Join(d.Session.Tags, ", "))
	if b := d.Session.Base; b != nil {
		add(s.ForkedFrom, string(b.Session)+"@"+strconv.FormatInt(b.Seq, 10))
	}
	add(s.ForeignID, d.Session.ForeignID)
	if d.Messages > 0 {
		add(s.Messages, strconv.FormatInt(d.Messages, 10))
	}
	add(s.Created, clock(d.Session.CreatedAt))
	add(s.Updated, clock(d.UpdatedAt))
	add(s.Exported, clock(d.ExportedAt))
	return all
}

func (d *Document) title(s *Words) string {
	if strings.TrimSpace(d.Session.Title) == "" {
		return s.NoTitle
	}
	return d.Session.Title
}

// clock formats a time in UTC, "" for one that is unknown.
func clock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// who is the name shown for an entry: that of its role, or its kind.
func (s *Words) who(e *tidemark.Entry) string {
	switch e.Role {
	case tidemark.System:
		return s.System
	case tidemark.User:
		return s.User
	case tidemark.Assistant:
		return s.Assistant
	case tidemark.Tool:
		return s.Tool
	}
	switch {
	case e.Role != "":
		return string(e.Role)
	case e.Kind == tidemark.KindBranch:
		return s.Branch
	case e.Kind == tidemark.KindGap:
		return s.Gap
	}
	return e.Kind
}

// draft says that an entry may still change.
func (s *Words) draft(e *tidemark.Entry) string {
	if !e.Draft {
		return ""
	}
	return s.Draft
}

// cost says how many tokens an answer took.
func (s *Words) cost(u *tidemark.Usage) string {
	if u == nil || u.InputTokens == 0 && u.OutputTokens == 0 {
		return ""
	}
	return strconv.FormatInt(u.InputTokens, 10) + " " + s.TokensIn + ", " +
		strconv.FormatInt(u.OutputTokens, 10) + " " + s.TokensOut
}

// about describes an image, a file or a block of another type in one line.
func (s *Words) about(b *tidemark.Block) string {
	kind := b.Type
	switch b.Type {
	case tidemark.BlockImage:
		kind = s.Image
	case tidemark.BlockFile:
		kind = s.File
	case "":
		kind = s.Untyped
	}
	parts := []string{kind}
	for _, p := range []string{b.Name, b.MediaType} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	switch {
	case len(b.Data) > 0:
		parts = append(parts, size(len(b.Data)))
	case b.Raw != "":
		parts = append(parts, size(len(b.Raw)))
	}
	return CleanLine(strings.Join(parts, " · "))
}

// sealedThinking stands for thinking that only its provider can read.
func (s *Words) sealedThinking(b *tidemark.Block) string {
	return s.ThinkingSealed + " (" + CleanLine(or(b.Provider, s.Provider)) + ", " + size(len(b.Raw)) + ")"
}
