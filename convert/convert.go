// Package convert is the contract between Tidemark and the tools whose sessions
// it imports and exports. Each tool has a package of its own below this one;
// this one has what they share, and knows none of them.
//
// A converter reads a Source and never writes to it, follows no link out of it,
// and reads no credential. What it cannot read it yields as a *Skip, and
// continues. It knows nothing about stores: the caller stores what it yields.
//
// A Source may grow while its tool works. An entry that could still become
// another one is yielded as a Draft, and so are all that follow it in its log.
// What is final at one moment is a prefix of what is final later, and of what a
// reading of the finished Source yields: the same entries, byte for byte, except
// that Usage.CostUSD may become known later. A converter decides that by the
// content alone, by a mark of completion or by a later record, and never by the
// clock. What it takes from later records it takes only until such a mark, also
// when everything is there at once.
//
//	for s, err := range claudecode.Tool().Import(ctx, place) { … }
package convert

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// Tool is a foreign tool.
type Tool struct {
	Name  string // as people type it: claude-code
	Title string // as people call it: Claude Code

	// Homes are the default locations of its stores in a home folder, as
	// slash-separated paths.
	Homes []string

	// Moved are where its stores are instead when a variable of the environment is
	// set.
	Moved []Moved

	// Offered returns where in a home the sessions are that the tool offers to go on
	// with in a project, as a slash-separated path. Nil: it offers all of them
	// everywhere.
	Offered func(project string) string

	// Local is the folder of its sessions inside a project, for a tool that
	// keeps them there without naming the project; "": it does not.
	Local string

	// Detect reports whether the Source holds data of this tool. It looks only
	// at names and first bytes, and is false when in doubt.
	Detect func(ctx context.Context, p Source) bool

	// Import yields the sessions at the Source, originals before their forks;
	// nil: import is not supported. An error that is a *Skip stands for one item
	// that could not be imported, and more may follow; any other error ends it.
	Import func(ctx context.Context, p Source) iter.Seq2[*Session, error]

	// Grows says that the tool only appends to its files. A session of it that is
	// imported in steps ends as if it were imported at once.
	Grows bool

	// Files lists the files that the sessions at the Source are made of, as they
	// are found without opening them. An import of a folder whose files are all as
	// they were reads none of them. Nil: a Source is always read.
	Files func(ctx context.Context, p Source) iter.Seq2[SourceFile, error]

	// Kin returns, by the State of a unit, the names of its session, and those of
	// sessions that it says it came from or works for. One that has no name in common
	// with others is read as it is, whether they are there or not. Nil: what is new is
	// placed among all sessions.
	Kin func(state []byte) (names, others []string)

	// Salvages says that the tool keeps prompts apart from its sessions, so that
	// Import yields what is left of sessions that it deleted.
	Salvages bool

	// Retention returns what the tool deletes by itself at the Source; nil: nothing.
	Retention func(p Source) Retention

	// Export writes a session as the tool would have, and returns what the tool
	// has no place for. Nil: export is not supported.
	Export func(ctx context.Context, out Out, s *Session) ([]string, error)

	// Handover says how the tool is given a session that it goes on with; nil: it
	// cannot be. What it adds to one keeps the names of what is there.
	Handover *Handover

	// Fleet returns the agents, schedules and jobs at the Source, of a tool that
	// runs agents; nil: it does not. ExportFleet writes them as the tool would
	// have, and returns what it has no place for.
	Fleet       func(ctx context.Context, p Source) (*Fleet, error)
	ExportFleet func(ctx context.Context, out Out, f *Fleet) ([]string, error)
}

// Handover is how a tool is given a session.
type Handover struct {
	// NewID makes an id as the tool does. Nil: a random UUID.
	NewID func() string
	// InNames returns what of an id is in the names of its files. Nil: all.
	InNames func(id string) string
	// Load returns the command line that has the tool take in the file that Export
	// wrote, for one that keeps its sessions where nobody else can write. Nil: it
	// finds the file itself.
	Load func(file string) []string
	// Waits returns where in a home the session with an id waits to be taken in; nil
	// without Load.
	Waits func(id string) string
	// Note is what a person should know before the tool goes on with a session.
	Note string
	// AsIs says that Export writes entries as they are, also what a model refuses:
	// who gives the tool a session from elsewhere mends that before.
	AsIs bool
	// Adrift returns the entries, of all of a session, that the tool kept and whose
	// place it no longer finds. Nil: it finds all of them.
	Adrift func(entries []Entry) []Adrift
}

// Adrift is an entry whose place its tool no longer finds.
type Adrift struct {
	ID  string
	Why string // for people
}

// Moved is a store that a variable of the environment moves.
type Moved struct {
	Variable string // which names a folder
	Below    string // where the store is in it, "": it is the folder
}

// Source is a file or folder of another tool, opened to be read.
type Source struct {
	FS   fs.FS  // of a folder; no link leads out of it
	Path string // in FS: "." for the folder itself, or a file in it

	// SQL opens an SQLite database in FS, with its -wal file, or a copy of it. The
	// original is not written to, and nothing is created beside it.
	SQL func(ctx context.Context, path string) (Database, error)

	// Getenv looks up an environment variable of a tool, such as a passphrase.
	// Nil: nothing is set.
	Getenv func(string) string

	// Known returns what a session left in Units for a unit of files, if the
	// files are as they were then. Nil: nothing is known.
	Known func(unit string) (state []byte, ok bool)

	// Left returns what a session left in Units for a unit that is rows of a database,
	// with the Stamp of the rows then. Nil: nothing is known.
	Left func(unit string) (stamp string, state []byte, ok bool)

	// Growth returns the Bookmark that a session left in Units for a unit, if the
	// file that the unit is named for only became longer since, or the unit is rows of
	// a database, whatever became of them. Nil: there is none.
	Growth func(unit string) (Growth, bool)
}

// SourceFile is a file of a Source.
type SourceFile struct {
	Path string
	// Unit names the files that one session is made of, such as by its
	// transcript. A session may have several, and several may share one.
	Unit string
	// Shared says that other sessions may be made of it, too.
	Shared bool
	// Beside says that it holds none of the entries, and is read whenever it
	// changed: a reading of the others goes on at a Bookmark.
	Beside bool
	// Apart says that it is of sessions that have no files of their own, so that it
	// is read together with all others.
	Apart bool
	// Entry is the file in the list of its folder.
	Entry fs.DirEntry
}

// Unit is what a session leaves for a later import about a unit of files.
type Unit struct {
	Name   string
	State  []byte // returned by Known; at most 64 KiB
	Shared bool   // other sessions are made of it, too
	// Stamp shows whether the rows that a SessionUnit stands for were changed. It is
	// taken before they are read.
	Stamp string

	// Bookmark returns, once all entries were read, where a later reading of the
	// file that the unit is named for goes on; ok is false if the one before is the
	// better one. Nil: such a file is read from its beginning.
	Bookmark func() (at Bookmark, ok bool) `json:"-"`
}

// SessionUnit begins the name of a unit that is no files: it stands for a session,
// whose id follows, in a file that has many.
const SessionUnit = "session:"

// Unchanged reports whether the files of all these units are as they were when
// their sessions were last imported.
func (p Source) Unchanged(units ...string) bool {
	for _, unit := range units {
		if _, ok := p.State(unit); !ok {
			return false
		}
	}
	return true
}

// State is Known, which may be nil.
func (p Source) State(unit string) (state []byte, ok bool) {
	if p.Known == nil {
		return nil, false
	}
	return p.Known(unit)
}

// Env returns a variable of the environment, "" when it is not set.
func (p Source) Env(name string) string {
	if p.Getenv == nil {
		return ""
	}
	return p.Getenv(name)
}

// Database is a foreign database.
type Database interface {
	// Query yields the rows of one statement. Values are int64, float64,
	// string, []byte or nil.
	Query(ctx context.Context, statement string, args ...any) iter.Seq2[[]any, error]
	// Exec runs one statement; in a Source it is ErrUnsupported.
	Exec(ctx context.Context, statement string, args ...any) error
	Close() error
}

// Out is a folder to export into.
type Out interface {
	// Create makes a file, with missing folders, that gets its name when it is
	// closed. It replaces an existing one.
	Create(name string) (File, error)
	// SQL makes a new SQLite database, or opens one that an earlier session
	// was exported into.
	SQL(ctx context.Context, name string) (Database, error)
	// There is what is in the folder already; nil: nothing. What is written to be
	// copied into another folder finds that one here.
	There() fs.FS
	// Getenv is as for a Source.
	Getenv(string) string
}

// File is a file being exported.
type File interface {
	io.WriteCloser
	// CloseWithError discards the file: what was there before stays.
	CloseWithError(error) error
}

// Session is a session of another tool. ID and Base of the embedded one are not
// used on import; ForeignID is the tool's own id, which is required. A converter
// leaves a Session alone after it yielded it: its entries are read, in order and
// before the next session, while another goroutine reads the rest of it.
type Session struct {
	tidemark.Session

	// Entries are the entries in an order in which each comes after its parent.
	// A damaged one may be yielded as a *Skip.
	Entries iter.Seq2[Entry, error]
	// Workers are helper agents with transcripts of their own.
	Workers []Worker
	// Labels are names of entries, by the ID of the entry.
	Labels map[string]string
	// Fork says that the session continues from an entry of another one, by
	// reference; its Entries are then only its own. A tool that copies a fork's
	// past yields all of it and sets Copied.
	Fork *Fork
	// Copied is the id of the session that the beginning was copied from.
	Copied string
	// LocalTo is the folder of the Source whose sessions have ids of their own,
	// for a tool that counts them: another folder has another session of the same
	// ForeignID. "": it has its id everywhere.
	LocalTo string
	// Head is the ID of the entry that the session is at, Root where its history
	// is empty, "" for the last one.
	Head string
	// Checkpoint is what a restart needs beyond the messages, in the JSON of
	// store.Checkpoint. Nil: nothing.
	Checkpoint json.RawMessage
	// Files are durable files of the session, by slash-separated name: below
	// memory, artifacts, buffers, meta, or a folder that is named for the tool.
	// Not nil: they are complete, and replace the existing ones.
	Files map[string][]byte
	// PromptsOf is the id of a session that is gone at the Source, and of which only
	// the prompts are left. The ForeignID is then that id followed by PromptsOnly.
	PromptsOf string
	// Remote is the git remote of the session's project; "": not known.
	Remote string
	// UpdatedAt is when the tool last changed it, zero: not known.
	UpdatedAt time.Time
	// Lost lists, for people, what of the session could not be imported or
	// exported.
	Lost []string

	// Units are the units of files that it was made of, of those that Files
	// lists. Nil: the session is read at every import that reads its Source.
	Units []Unit
	// Unchanged says that all its Units are as they were: it has nothing besides
	// its ForeignID.
	Unchanged bool

	// From is where Entries go on; nil: at the beginning. Workers are then as they
	// were, and so are Files if they are nil, and Labels have only what was said
	// since. Costs are what entries before it cost, by ID, where that became known
	// since. Whole returns the session as it is read from the beginning.
	From  *Bookmark                `json:"-"`
	Costs map[string]float64       `json:"-"`
	Whole func() (*Session, error) `json:"-"`
}

// PromptsOnly follows the id of a session in the ForeignID of what is left of it.
const PromptsOnly = "/prompts"

// Retention is how long a tool keeps its sessions.
type Retention struct {
	Days   int      // after its last change a session is deleted; 0: never
	Change string   // how a person changes that
	Spares []string // units that it leaves alone
}

// WorkFolder is the folder that a tool goes on with the session in: its project, or
// the root where it has none.
func (s *Session) WorkFolder() string { return cmp.Or(s.Project, "/") }

// MaxKin bounds with how many other sessions one is compared to find where it was
// copied from, in a tool that does not say so: a script may make thousands of copies of
// one session, and their import takes only so much longer for each.
const MaxKin = 32

// Fork is where a session branched off another one.
type Fork struct {
	Session string // its ForeignID
	Entry   string // the ID of the last entry that is shared; "": all of it
}

// Entry is one entry in transit. Seq and Position of the embedded one are not
// used; the importer derives Key from ID. Once one entry is a Draft, so are all
// that follow it.
type Entry struct {
	tidemark.Entry
	ID     string // unique in the session or worker, and the same at every import
	Parent string // the ID of the entry that it follows; "": the one before; Root: none
}

// Root, as the Parent of an Entry, makes it a root of its own.
const Root = "\x00root"

// Worker is a helper agent inside a session.
type Worker struct {
	Name    string // as the tool calls it; need not be fit for an id
	Call    string // the id of the tool call that started it, "": not known
	Entries iter.Seq2[Entry, error]
}

// Fleet is the agents of a tool that runs them, and what they did.
type Fleet struct {
	tidemark.Fleet
	Agents    []Agent
	Schedules []tidemark.Schedule
	// Jobs are runs, the oldest first. An unreadable one is yielded as a *Skip,
	// and more may follow; any other error ends it.
	Jobs iter.Seq2[Job, error]
	// Transcripts are sessions kept with the fleet in the format of another
	// tool.
	Transcripts []Transcript
	// Skipped and Lost list what could not be read, and what cannot be
	// represented here.
	Skipped []*Skip
	Lost    []string
}

// Agent is an agent of a fleet, with its log; nil: none.
type Agent struct {
	tidemark.Agent
	Log iter.Seq2[tidemark.Event, error]
}

// Job is one run, with its output. A damaged event may be yielded as a *Skip.
type Job struct {
	tidemark.Job
	Output iter.Seq2[tidemark.Event, error]
}

// Transcript is a session file of another tool.
type Transcript struct {
	Tool string // the Name of that tool
	Path string // in the FS of the Source
}

// Skip is something that could not be imported.
type Skip struct {
	What string // which file, session or line
	Why  error
}

func (s *Skip) Error() string { return fmt.Sprintf("%s: %v", s.What, s.Why) }
func (s *Skip) Unwrap() error { return s.Why }

// Skipf returns a *Skip with a formatted reason.
func Skipf(what, why string, args ...any) error { return &Skip{what, tidemark.Invalidf(why, args...)} }

// IsSkip reports whether err stands for one item and not for the end.
func IsSkip(err error) bool {
	var s *Skip
	return errors.As(err, &s)
}

// All yields entries that are in memory.
func All(entries []Entry) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for _, e := range entries {
			if !yield(e, nil) {
				return
			}
		}
	}
}
