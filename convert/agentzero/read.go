package agentzero

import (
	"encoding/json"
	"errors"
	"io/fs"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// reading is the state of reading one session's files.
type reading struct {
	fsys  fs.FS
	base  string // path of the files without suffix
	id    string
	keys  *passphrases
	skips []error
	parts int
}

// source is one file that holds a conversation.
type source struct {
	fields object    // without the messages
	end    int       // of the conversation, in the forest
	at     time.Time // when the file was changed
}

// modes maps AgentZero's words for the modes of a session.
var modes = map[string]string{"local-only": tidemark.ModeLocal, "default": tidemark.ModeRemote}

// session returns the session, nil when none of its files can be read. AgentZero
// resumes from the checkpoint if there is one, so that is where the session is;
// what the other files have beyond it is on branches.
func (r *reading) session() *convert.Session {
	f := newForest()
	t := r.loadTree(f) // first, because it knows the order of the branches
	checkpointed := r.load(f, checkpointEnd, nil)
	plain := r.load(f, plainEnd, nil)
	sealed := r.load(f, sealedEnd, r.keys.open)

	head := nowhere
	if src := firstSource(checkpointed, plain, sealed); src != nil {
		head = src.end
	} else if len(f.all) == 0 {
		return nil
	} else if at := t.byID[t.current]; at != nil && at.state == placed {
		head = at.end
	} else {
		head = len(f.all) - 1
	}
	s := &convert.Session{Lost: t.settle(f, head), Labels: t.labels(f)}
	s.ForeignID = r.id
	if head != nowhere && head != len(f.all)-1 {
		s.Head = f.id(head)
	}
	saved := firstSource(plain, sealed)
	if saved == nil {
		saved = &source{fields: object{}}
	}
	r.describe(s, checkpointed, saved, t)
	s.Entries = f.entries(s.CreatedAt)
	return s
}

func firstSource(all ...*source) *source {
	for _, src := range all {
		if src != nil {
			return src
		}
	}
	return nil
}

// describe fills in the fields of the session as a whole.
func (r *reading) describe(s *convert.Session, checkpointed, saved *source, t *tree) {
	s.Title = t.fields.Text("title")
	s.Model, s.UpdatedAt = saved.fields.Text("model"), saved.at
	s.CreatedAt = saved.at
	if checkpointed != nil {
		describeCheckpoint(s, checkpointed)
	}
	for key, at := range map[string]*time.Time{"created_at": &s.CreatedAt, "updated_at": &s.UpdatedAt} {
		if given := timeAt(t.fields, key); !given.IsZero() {
			*at = given
		}
	}
	extra := object{}
	mode := saved.fields.Text("mode")
	known := false
	if s.Mode, known = modes[mode]; !known {
		// What is not marked as remote stays local.
		s.Mode = tidemark.ModeLocal
		if saved.fields["mode"] != nil {
			extra["mode"] = saved.fields["mode"]
		}
	}
	if given := saved.fields.Text("session_id"); given != r.id && given != "" {
		s.Lost = append(s.Lost, "the session id inside the file, which is not the file's")
	}
	if rest := saved.fields.Without("session_id", "model", "mode", "message_count"); len(rest) > 0 {
		extra.Set("session", rest)
	}
	if rest := t.rest(); len(rest) > 0 {
		extra.Set("tree", rest)
	}
	s.Extra = extraOf(extra)
}

func describeCheckpoint(s *convert.Session, src *source) {
	if m := src.fields.Text("model"); m != "" {
		if s.Model != "" && s.Model != m {
			s.Lost = append(s.Lost, "the model of the session file, which is not the checkpoint's")
		}
		s.Model = m
	}
	if _, none := src.fields[made]; none {
		return
	}
	c := readCheckpoint(src.fields)
	if s.UpdatedAt = c.SavedAt; c.SavedAt.IsZero() {
		s.UpdatedAt = src.at
	}
	if s.CreatedAt.IsZero() || s.UpdatedAt.Before(s.CreatedAt) {
		s.CreatedAt = s.UpdatedAt
	}
	c.Extra = extraOf(src.fields.Without("session_id", "model"))
	s.Checkpoint, _ = convert.Encode(c)
}

// load reads one of the files that hold a conversation into a forest. It is nil
// when the file is missing or unreadable.
func (r *reading) load(f *forest, end string, open func([]byte) ([]byte, error)) *source {
	b, at, err := r.file(end)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && open != nil {
		b, err = open(b)
	}
	var fields object
	if err == nil {
		fields, err = r.parse(b)
	}
	if err != nil {
		r.skip(end, err)
		return nil
	}
	src := &source{fields: fields.Without("messages"), end: nowhere, at: at}
	bad := 0
	for raw := range convert.Elements(fields["messages"]) {
		var m object
		if json.Unmarshal(raw, &m) != nil || m == nil {
			bad++
			continue
		}
		src.end = f.add(src.end, m)
	}
	if bad > 0 {
		r.skip(end, tidemark.Invalidf("%d messages are no objects", bad))
	}
	return src
}

// parse returns the fields of a file that has messages.
func (r *reading) parse(b []byte) (fields object, err error) {
	if len(b) == 0 {
		return nil, tidemark.Invalidf("is empty")
	}
	if err := r.admit(b); err != nil {
		return nil, err
	}
	if json.Unmarshal(b, &fields) != nil || fields == nil {
		return nil, tidemark.Invalidf("is no whole JSON object")
	}
	if m := fields["messages"]; len(m) == 0 || m[0] != '[' {
		return nil, tidemark.Invalidf("is no session of AgentZero: it has no messages")
	}
	return fields, nil
}

// loadTree reads the tree and adds its messages to f. A session without one has
// an empty one.
func (r *reading) loadTree(f *forest) *tree {
	empty := &tree{byID: map[string]*node{}, fields: object{}}
	b, _, err := r.file(treeEnd)
	if errors.Is(err, fs.ErrNotExist) {
		return empty
	}
	if err == nil {
		err = r.admit(b)
	}
	var t *tree
	if err == nil {
		t, err = parseTree(b)
	}
	if err != nil {
		r.skip(treeEnd, err)
		return empty
	}
	if err := t.grow(f); err != nil {
		r.skip(treeEnd, err)
	}
	return t
}

func (r *reading) file(end string) (b []byte, at time.Time, err error) {
	info, err := fs.Stat(r.fsys, r.base+end)
	if err != nil {
		return nil, at, err
	}
	switch {
	case !info.Mode().IsRegular():
		return nil, at, tidemark.Invalidf("is no file")
	case info.Size() > maxFile:
		return nil, at, tidemark.Invalidf("is larger than %d bytes", maxFile)
	}
	b, err = convert.ReadFile(r.fsys, r.base+end)
	return b, info.ModTime().UTC().Truncate(time.Microsecond), err
}

func (r *reading) skip(end string, err error) {
	if !convert.IsSkip(err) {
		err = &convert.Skip{What: r.base + end, Why: err}
	}
	r.skips = append(r.skips, err)
}
