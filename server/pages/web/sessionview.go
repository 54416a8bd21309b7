package web

import (
	"cmp"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// Every text in the views below was made harmless by the code that filled
// them in: characters that could hide or reorder text are written out.

// SessionView is one session.
type SessionView struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"` // as in links
	Title     string    `json:"title,omitempty"`
	Project   string    `json:"project,omitempty"`
	Agent     string    `json:"agent,omitempty"`
	Model     string    `json:"model,omitempty"`
	Mode      string    `json:"mode,omitempty"`
	ForeignID string    `json:"foreign_id,omitempty"`
	Tags      []string  `json:"tags,omitempty"`
	State     string    `json:"state"`
	Pinned    bool      `json:"pinned,omitempty"`
	OnHold    bool      `json:"on_hold,omitempty"`
	Gone      bool      `json:"gone,omitempty"` // its tool does not have it any more
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	Machine   string    `json:"machine,omitempty"` // another one that it was last written on
	Met       []Meeting `json:"met,omitempty"`
	Writer    string    `json:"writer,omitempty"` // another machine that writes to it, as far as a server among the remotes says
	Turns     int64     `json:"turns"`
	Messages  int64     `json:"messages"`
	Length    int64     `json:"length"` // the seq of the newest entry

	Usage Used         `json:"usage"`
	End   SessionEnd   `json:"end"`
	Mine  bool         `json:"mine"` // it is not only shared with the viewer
	Base  *SessionRef  `json:"base,omitempty"`
	Forks []SessionRef `json:"forks,omitempty"`

	Workers []string `json:"workers,omitempty"`
	Worker  string   `json:"worker,omitempty"` // whose log is shown
	Node    string   `json:"node,omitempty"`   // whose branch is shown
	At      int64    `json:"at,omitempty"`     // the requested entry
	From    int64    `json:"-"`                // where jumps begin
	Beside  bool     `json:"beside,omitempty"` // and it is on another branch than the head

	NoneFollows string `json:"none_follows,omitempty"` // what was to be jumped to, if there is none

	Part PartView `json:"part"`
	Live string   `json:"-"` // address for new entries; "": this is not the end

	Talk    *TalkView `json:"talk,omitempty"`    // what is being said; nil: nobody here would know
	Compose bool      `json:"compose,omitempty"` // the viewer may talk in it
	Folder  string    `json:"folder,omitempty"`  // where the agent would work then
	// An image that goes with a message: its bytes, in words, too, and how many go with one.
	ImageBytes int    `json:"-"`
	ImageMost  string `json:"-"`
	ImageCount int    `json:"-"`

	Growing string `json:"-"` // address of the page, if another tool may change its drafts; "": none can

	Tree        *TreeView       `json:"-"`
	TreeLater   bool            `json:"-"` // it takes a while to draw
	Checkpoints []CheckpointRow `json:"checkpoints,omitempty"`
	Files       []FileRow       `json:"files,omitempty"`

	Find     string     `json:"find,omitempty"`
	Hits     []FoundHit `json:"hits,omitempty"`
	Cut      bool       `json:"cut,omitempty"`
	MoreHits string     `json:"more_hits,omitempty"` // the address with the next of them
	Problem  string     `json:"problem,omitempty"`
	Previous int64      `json:"previous,omitempty"`
	Next     int64      `json:"next,omitempty"`

	Damage []string `json:"damage,omitempty"` // what cannot be read, besides entries
	// ColdAway means that older entries are at a place that does not answer.
	ColdAway bool       `json:"cold_away,omitempty"`
	Formats  []string   `json:"-"`
	Agents   []string   `json:"-"` // that it can go on in
	Share    *ShareView `json:"share,omitempty"`
}

// TalkView is what is being said in a session right now.
type TalkView struct {
	Session   string         `json:"-"`
	Running   bool           `json:"running"`
	Shell     bool           `json:"shell,omitempty"` // what runs is a command of the person
	Here      bool           `json:"here,omitempty"`  // the viewer can stop it and answer
	Turn      string         `json:"turn,omitempty"`  // names what they stop
	Pieces    []TalkPiece    `json:"pieces,omitempty"`
	Questions []TalkQuestion `json:"questions,omitempty"`
	Notice    string         `json:"notice,omitempty"`
	Told      string         `json:"told,omitempty"` // what a command answered
	Held      string         `json:"held,omitempty"` // who else holds the session
}

// Command is what somebody can type after a slash.
type Command struct {
	Name string `json:"name"`
	Args string `json:"args,omitempty"`
	Help string `json:"help"`
}

// TalkPiece is a part of it: text, thinking, output.
type TalkPiece struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
}

// TalkQuestion is a call that waits for the viewer.
type TalkQuestion struct {
	Shown  string `json:"shown"` // the digest of what is shown
	Worker string `json:"worker,omitempty"`
	Tool   string `json:"tool"`
	Lines  []Line `json:"lines"`
	Always string `json:"always,omitempty"` // what can be allowed beyond this call
}

// PartView is a run of entries.
type PartView struct {
	Session    string      `json:"-"`
	Entries    []EntryView `json:"entries"`
	Drafts     []EntryView `json:"drafts,omitempty"` // at the end, which may still change
	Items      []ItemView  `json:"-"`                // the entries as a conversation
	DraftItems []ItemView  `json:"-"`
	Older      string      `json:"older,omitempty"` // the address of the page with earlier entries
	OlderPart  string      `json:"-"`               // and of only that part
	Newer      string      `json:"newer,omitempty"` // the address of the page with later entries
	NewerPart  string      `json:"-"`               // and of only that part
	ToEnd      string      `json:"-"`               // the address of the end, when this is not it
}

// ItemView is a part of a conversation: an entry, a run of entries that nobody
// said, or what a turn used.
type ItemView struct {
	Entry *EntryView
	Quiet []EntryView // context, settings, bookkeeping
	Open  bool        // they are unfolded
	Turn  *TurnView
}

// Count is how many entries of a quiet run there are to read.
func (i ItemView) Count() int {
	n := 0
	for _, e := range i.Quiet {
		if !e.Entry.Empty() {
			n++
		}
	}
	return n
}

// Kinds names what is in a quiet run, if that is not only context.
func (i ItemView) Kinds() string {
	var all []string
	for _, e := range i.Quiet {
		if kind := e.KindWords(); !e.Entry.Empty() && !slices.Contains(all, kind) {
			all = append(all, kind)
		}
	}
	if len(all) == 1 && all[0] == tidemark.KindContext {
		return ""
	}
	return strings.Join(all, ", ")
}

// TurnView is what a turn used.
type TurnView struct {
	Used
	Begun, Ended time.Time
}

// Took is how long the turn took, 0 if that is not known.
func (t TurnView) Took() time.Duration {
	if t.Begun.IsZero() || t.Ended.Before(t.Begun) {
		return 0
	}
	return t.Ended.Sub(t.Begun)
}

// EntryView is one entry as it is shown.
type EntryView struct {
	HTML    template.HTML  `json:"-"` // what a quiet one holds, or all of a damaged one
	Pieces  []PieceView    `json:"-"`
	Class   string         `json:"-"`
	Who     string         `json:"-"` // "": the same as before
	Label   string         `json:"-"`
	Session string         `json:"-"`
	Worker  string         `json:"-"`
	Seq     int64          `json:"-"`
	Entry   tidemark.Entry `json:"entry"`
	Damage  string         `json:"damage,omitempty"`
	Bytes   int            `json:"bytes,omitempty"` // of the whole entry, when less is shown
	Mine    bool           `json:"-"`
	Stopped bool           `json:"-"` // it is the beginning of an answer that somebody stopped
}

// KindWords says what a quiet entry is: who it is given as, or its kind.
func (e EntryView) KindWords() string {
	return strings.ReplaceAll(cmp.Or(string(e.Entry.Role), e.Entry.Kind), "_", " ")
}

// Damaged is the first entry of the part that cannot be read, 0 if all can.
func (p PartView) Damaged() int64 {
	for _, e := range p.Entries {
		if e.Damage != "" {
			return e.Seq
		}
	}
	return 0
}

// Prompt reports whether the user says it.
func (e EntryView) Prompt() bool { return e.Class == string(tidemark.User) }

// PieceView is a part of an entry: text, or a row for a call.
type PieceView struct {
	HTML template.HTML
	Call *CallView
}

// CallView is the call of a tool with its result, in one row that unfolds.
type CallView struct {
	ID       string
	Icon     string
	Name     string
	Argument string // a file as it is called in the project
	Whole    string // as the call has it
	Added    int    // lines
	Removed  int
	Input    template.HTML
	Output   template.HTML
	Done     bool // there is a result
	Failed   bool
	Result   bool          // it is a result whose call is not here
	Seq      int64         // of the entry with the result, if this is its first
	Bytes    int           // of that entry, when less is shown
	At       time.Time     // of the call
	Took     time.Duration // 0: not known
	Open     bool
	Block    tidemark.Block // the call itself
}

// plainFormats are exports for people and programs, not for another tool.
var plainFormats = []string{"md", "html", "text", "json", "ndjson"}

// Plain are the formats of exports that belong to no tool.
func (v SessionView) Plain() []string { return v.formats(true) }

// Foreign are the formats of exports that are those of tools.
func (v SessionView) Foreign() []string { return v.formats(false) }

func (v SessionView) formats(plain bool) (some []string) {
	for _, f := range v.Formats {
		if slices.Contains(plainFormats, f) == plain {
			some = append(some, f)
		}
	}
	return some
}

// CheckpointRow is one checkpoint.
type CheckpointRow struct {
	Name    string    `json:"name,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	Seq     int64     `json:"seq,omitempty"`
	SavedAt time.Time `json:"saved_at"`
}

// FileRow is one file of a session.
type FileRow struct {
	Name       string    `json:"name"`
	Path       string    `json:"path"` // address to download it
	Size       int64     `json:"size"`
	ModifiedAt time.Time `json:"modified_at"`
}

// ShareView is who else may read a session.
type ShareView struct {
	With       string   `json:"with"`
	Workspace  string   `json:"workspace,omitempty"`
	Workspaces []string `json:"workspaces,omitempty"` // of the viewer
}
