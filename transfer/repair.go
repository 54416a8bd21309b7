package transfer

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"iter"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/dialogue"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/project"
	"github.com/tidemark-sessions/tidemark/store"
)

// Repair finds what makes a tool, or the model behind it, refuse a session, and
// writes a copy without that. The original is only read.
type Repair struct {
	Tool convert.Tool
	// Folder is where the copy is written; nil: it is only said what is wrong.
	Folder *Folder
	// DropThinking leaves out all thinking with a signature: one that looks right may
	// be dead, and only its provider can tell.
	DropThinking bool

	// Found is what was wrong, and ForeignID the id of the copy, "" if there is
	// none. Lost is what the copy does not have.
	Found     []dialogue.Fault
	ForeignID string
	Lost      []string
	// Load is the command line that has the tool take in the copy; nil: it finds it.
	Load []string
}

// CanRepair reports whether sessions of a tool can be repaired.
func CanRepair(t convert.Tool) bool { return t.Import != nil && t.Export != nil && t.Handover != nil }

// Named repairs the session in a file, or, where there is no such file, the one that
// find returns.
func (r *Repair) Named(ctx context.Context, name string, find func() (*store.Store, store.Point, error)) error {
	if project.Exists(name) {
		return r.File(ctx, name)
	}
	s, p, err := find()
	if err != nil {
		return err
	}
	return r.Session(ctx, s, p)
}

// File repairs the session in a file of the tool.
func (r *Repair) File(ctx context.Context, path string) error {
	p, done, err := openSource(path, nil)
	if err != nil {
		return err
	}
	defer done()
	var found *convert.Session
	for s, err := range r.Tool.Import(ctx, p) {
		switch {
		case convert.IsSkip(err):
			r.damaged(err)
		case err != nil:
			return err
		case found != nil:
			return hint.With(tidemark.Invalidf("%s: there are several sessions", path), "name the file of one session")
		default:
			found = s
		}
	}
	if found == nil {
		return tidemark.Invalidf("%s: there is no session of %s that can be read", path, r.Tool.Title)
	}
	return r.session(ctx, found)
}

// Session repairs a session of a store.
func (r *Repair) Session(ctx context.Context, s *store.Store, p store.Point) error {
	f, err := Outgoing(ctx, s, p, r.Tool)
	if err != nil {
		return err
	}
	return r.session(ctx, f)
}

func (r *Repair) damaged(err error) {
	r.Found = append(r.Found, dialogue.Fault{Kind: dialogue.FaultDamaged, What: err.Error()})
}

// session looks for faults, and writes the copy.
func (r *Repair) session(ctx context.Context, s *convert.Session) error {
	whole := *s
	var all []convert.Entry
	whole.Entries = r.noting(s.Entries, &all)
	takes := asIs
	takes.Files = func(string) bool { return true }
	if r.DropThinking {
		takes.Signed = func(tidemark.Block) (bool, string) { return false, "may be dead: it is left out, as you wish" }
	}
	d, err := dialogue.Of(ctx, &whole, takes)
	if err != nil {
		return err
	}
	for _, f := range d.Faults {
		if f.Kind != dialogue.FaultDamaged { // each of them was noted
			r.Found = append(r.Found, f)
		}
	}
	if adrift := r.Tool.Handover.Adrift; adrift != nil {
		for _, a := range adrift(all) {
			r.Found = append(r.Found, dialogue.Fault{Kind: dialogue.FaultPlace, Entry: a.ID, What: a.Why})
		}
	}
	if len(r.Found) == 0 || r.Folder == nil {
		return nil
	}
	mended := &convert.Session{Session: tidemark.Session{Title: s.Title, Project: s.Project, Model: s.Model, CreatedAt: s.CreatedAt}, UpdatedAt: s.UpdatedAt}
	mended.ID, mended.ForeignID = tidemark.NewSessionID(), newID(r.Tool)
	if id, err := tidemark.ParseSessionID(mended.ForeignID); err == nil {
		mended.ID = id
	}
	mended.Entries = convert.All(entriesOf(d))
	lost, err := r.Tool.Export(ctx, r.Folder, mended)
	if err != nil {
		return err
	}
	r.ForeignID, r.Lost = mended.ForeignID, append(d.Lost.List(), lost...)
	if load := r.Tool.Handover.Load; load != nil {
		r.Load = load(r.Folder.full(r.Folder.created[0]))
	}
	return nil
}

// noting notes entries that cannot be read, and adds the others to all.
func (r *Repair) noting(entries iter.Seq2[convert.Entry, error], all *[]convert.Entry) iter.Seq2[convert.Entry, error] {
	return func(yield func(convert.Entry, error) bool) {
		for e, err := range entries {
			if convert.IsSkip(err) {
				r.damaged(err)
			} else if err == nil {
				*all = append(*all, e)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// entriesOf are the entries of a dialogue.
func entriesOf(d *dialogue.Dialogue) (all []convert.Entry) {
	for n, m := range d.Messages {
		if m.Summary {
			m.Kind, m.Role = convert.KindCompaction, ""
		}
		for i := range m.Blocks {
			if m.Blocks[i].Type == tidemark.BlockToolResult {
				m.Blocks[i].Name = "" // only writers want it
			}
		}
		m.ID = fmt.Sprint("m", n)
		all = append(all, m.Entry)
	}
	return all
}

// signature reports whether a block of thinking has a signature that may be valid.
// Nobody but the provider can tell whether it is.
func signature(b tidemark.Block) (keep bool, wrong string) {
	var raw struct {
		Type      string  `json:"type"`
		Signature *string `json:"signature"`
	}
	if json.Unmarshal([]byte(b.Raw), &raw) != nil {
		return false, "cannot be read"
	}
	if raw.Type != "thinking" {
		return true, ""
	}
	if raw.Signature == nil || *raw.Signature == "" {
		return false, "is empty"
	}
	if _, err := base64.StdEncoding.DecodeString(*raw.Signature); err != nil {
		return false, "was cut off or changed"
	}
	return true, ""
}

// Repaired is a Repair for programs.
type Repaired struct {
	Tool      string           `json:"tool"`
	Found     []dialogue.Fault `json:"found"`
	ForeignID string           `json:"foreign_id,omitempty"`
	Folder    string           `json:"folder,omitempty"`
	Load      []string         `json:"load,omitempty"`
	Lost      []string         `json:"lost,omitempty"`
}

// Result returns what was found and written.
func (r *Repair) Result() Repaired {
	out := Repaired{Tool: r.Tool.Name, Found: r.Found, ForeignID: r.ForeignID, Load: r.Load, Lost: r.Lost}
	if out.Found == nil {
		out.Found = []dialogue.Fault{}
	}
	if r.ForeignID != "" {
		out.Folder = r.Folder.path
	}
	return out
}

// Lines tells people what was found and written.
func (r *Repair) Lines() (all []string) {
	for _, f := range r.Found {
		where := ""
		if f.Entry != "" {
			where = " (at " + f.Entry + ")"
		}
		all = append(all, f.What+where)
	}
	switch {
	case len(r.Found) == 0:
		all = append(all, "Nothing was found that "+r.Tool.Title+" would refuse.")
	case r.ForeignID != "":
		all = append(all, fmt.Sprintf("A copy without that is in %s, as session %s.", r.Folder.path, r.ForeignID))
	}
	for _, l := range r.Lost {
		all = append(all, "not in the copy: "+l)
	}
	if len(r.Load) > 0 {
		all = append(all, r.Tool.Title+" takes it in with: "+strings.Join(r.Load, " "))
	}
	return all
}

// OpenRepair returns a Repair that writes into a folder; "": none. Close it.
func OpenRepair(tool, folder string, environ []string) (*Repair, error) {
	t, err := ToolNamed(tool)
	if err != nil {
		return nil, err
	}
	if !CanRepair(t) {
		return nil, tidemark.Unsupportedf("%s: its sessions cannot be written", t.Title)
	}
	r := &Repair{Tool: t}
	if folder != "" {
		r.Folder, err = OpenFolder(folder, environ)
	}
	return r, err
}

// Close closes the folder.
func (r *Repair) Close() error {
	if r.Folder == nil {
		return nil
	}
	return r.Folder.Close()
}
