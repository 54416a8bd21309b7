// Package grant keeps what the person at this machine has granted to sessions:
// approvals, armed loops, wakes, defined tools, variables of a shell, paths
// outside the project, limits. A session says what it would like to have, and
// travels; what it was granted stays here, in one file of this user's state
// folder that nothing which reads sessions can write. In force is what both
// have. What a file of a project would start is kept in the same way, for the
// project.
//
// The file holds no content: a grant is the SHA-256 of the exact thing, with
// the user, the absolute project, and the session that it is for. What programs
// of a project may have beyond their sandbox is for all its sessions, and
// written out: no session keeps it. The book never decides: whoever asks the
// person writes down the answer here.
//
//	book := grant.Open(dir, user)
//	mine := book.For("/home/ada/src/tide")
//	err := mine.Add(ctx, session, grant.Of(grant.Approval, approval))
package grant

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/internal/sandbox"
)

// Kind is what a thing is.
type Kind string

// The kinds of things that are granted.
const (
	Approval Kind = "approval" // a tool and a scope that may be used without asking
	Loop     Kind = "loop"     // a goal that is repeated
	Wake     Kind = "wake"     // what goes on with a session that sleeps
	Tool     Kind = "tool"     // a command that the model may call by a name
	Variable Kind = "variable" // of the shell's environment
	Path     Kind = "path"     // a document, or where the shell is, outside the project
	Limit    Kind = "limit"    // more than what is configured
	Sandbox  Kind = "sandbox"  // what programs of a project may have beyond their sandbox
	Program  Kind = "program"  // what a file of the project starts
)

// Thing is exactly one thing, by its kind and its hash.
type Thing struct {
	Kind Kind   `json:"kind"`
	Hash string `json:"sha256"`
}

// Of returns the thing that a value is. Two values are the same thing when
// their JSON says the same, in whatever order and spacing.
func Of(kind Kind, value any) Thing {
	sum := sha256.Sum256(canonical(map[string]any{"kind": kind, "value": value}))
	return Thing{kind, hex.EncodeToString(sum[:])}
}

// canonical is JSON with the keys of objects in order, and numbers as they are
// written.
func canonical(value any) []byte {
	b, err := json.Marshal(value)
	if err != nil {
		// What cannot be written is no thing that a checkpoint could hold. It is
		// told apart from everything that can, and so is never granted.
		return fmt.Appendf(nil, "%#v", value)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var plain any
	if d.Decode(&plain) != nil {
		return b
	}
	if ordered, err := json.Marshal(plain); err == nil {
		return ordered
	}
	return b
}

// Grant is an answer of the person: yes, or with Declined no.
type Grant struct {
	User    string             `json:"user"`
	Project string             `json:"project"`
	Session tidemark.SessionID `json:"session_id"`
	Thing
	At       time.Time `json:"granted_at"`
	Declined bool      `json:"declined,omitempty"`
	// Widening is what a grant of the kind Sandbox is for, in JSON. Session is
	// "" then.
	Widening string `json:"widening,omitempty"`
	// Label says what a grant of the kind Program is for, to people; the hash
	// alone decides. Session is "" then.
	Label string `json:"label,omitempty"`
}

// ErrUntrusted is a file that somebody else could have written, or that is
// damaged: it grants nothing.
var ErrUntrusted = errors.New("not trusted")

// Book is the file with all grants of a user. Its methods may be called
// concurrently, also by several processes.
type Book struct {
	dir, user string
	mu        sync.Mutex // one change at a time in this process
}

// The names in the folder. A file that is not trusted is put aside when a
// grant is added, so that a person can look at it.
const (
	fileName  = "grants.json"
	lockName  = "grants.lock"
	asideName = "grants.json.refused"
)

// maxFile bounds the file that is read: some hundred thousand grants.
const maxFile = 64 << 20

// Open returns the book of a user in a folder. Nothing is read or made yet.
func Open(dir, user string) *Book { return &Book{dir: dir, user: user} }

// File is where the grants are.
func (b *Book) File() string { return filepath.Join(b.dir, fileName) }

// content is what the file holds.
type content struct {
	Version int     `json:"version"`
	Grants  []Grant `json:"grants"`
}

const version = 1

// All returns the grants of the user, oldest first; none when there is no
// file. ErrUntrusted: there is one, and it grants nothing.
func (b *Book) All() ([]Grant, error) {
	all, err := b.read()
	return slices.DeleteFunc(all, func(g Grant) bool { return g.User != b.user }), err
}

// read returns everything in the file.
func (b *Book) read() ([]Grant, error) {
	if !filepath.IsAbs(b.dir) {
		return nil, nil // there is no folder for it
	}
	untrusted := func(why error) error { return fmt.Errorf("%s grants nothing: %w: %w", b.File(), ErrUntrusted, why) }
	err := errors.Join(durable.Ours(b.dir), durable.OursAlone(b.File()))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, untrusted(err)
	}
	dir, err := durable.OpenDir(b.dir)
	if err != nil {
		return nil, untrusted(err)
	}
	defer dir.Close()
	info, err := dir.Stat(fileName)
	if err == nil && info.Size > maxFile {
		err = fmt.Errorf("it has %d bytes", info.Size)
	}
	if err != nil {
		return nil, untrusted(err)
	}
	data, err := durable.ReadFile(dir, fileName)
	if err != nil {
		return nil, untrusted(err)
	}
	var c content
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, untrusted(err)
	}
	if c.Version != version {
		return nil, untrusted(fmt.Errorf("it has version %d", c.Version))
	}
	return c.Grants, nil
}

// change replaces the grants by what f makes of them, durably, under a lock
// that all processes of the user share.
func (b *Book) change(ctx context.Context, f func([]Grant) []Grant) error {
	if !filepath.IsAbs(b.dir) {
		return tidemark.Storagef("grants: there is no folder to keep them in")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := durable.MakeDir(b.dir); err != nil {
		return tidemark.Storagef("grants: %w", err)
	}
	lock, err := durable.OpenLock(filepath.Join(b.dir, lockName))
	if err != nil {
		return tidemark.Storagef("grants: %w", err)
	}
	defer lock.Close()
	if err := lock.Acquire(ctx); err != nil {
		return err
	}
	dir, err := durable.OpenDir(b.dir)
	if err != nil {
		return tidemark.Storagef("grants: %w", err)
	}
	defer dir.Close()
	was, err := b.read()
	if errors.Is(err, ErrUntrusted) {
		err = dir.Rename(fileName, asideName)
	}
	if err != nil {
		return tidemark.Storagef("grants: %w", err)
	}
	now := f(slices.Clone(was))
	if slices.Equal(was, now) {
		return nil
	}
	data, err := json.MarshalIndent(content{version, now}, "", " ")
	if err == nil {
		// Whoever died while writing left one; in a container all have one number.
		fresh := fmt.Sprintf("%s.%d.tmp", fileName, os.Getpid())
		if gone := dir.Remove(fresh); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
			return tidemark.Storagef("grants: %w", gone)
		}
		err = durable.Replace(dir, fresh, fileName, append(data, '\n'))
	}
	if err != nil {
		return tidemark.Storagef("grants: %w", err)
	}
	return nil
}

// Revoke takes back what matches, and returns it.
func (b *Book) Revoke(ctx context.Context, matches func(Grant) bool) ([]Grant, error) {
	var revoked []Grant
	err := b.change(ctx, func(all []Grant) []Grant {
		revoked = nil
		return slices.DeleteFunc(all, func(g Grant) bool {
			take := g.User == b.user && matches(g)
			if take {
				revoked = append(revoked, g)
			}
			return take
		})
	})
	return revoked, err
}

// For is the part of the book for one project. A path that is not absolute
// has none: what is granted to no project would be granted to all.
func (b *Book) For(project string) *Scope {
	if !filepath.IsAbs(project) {
		return nil
	}
	return &Scope{b, filepath.Clean(project)}
}

// Scope is what is granted in one project. A nil Scope has nothing and takes
// nothing: whoever has none, as a server or a fleet, makes no standing grants.
type Scope struct {
	book    *Book
	project string
}

// Widen grants the programs of the project something beyond their sandbox, in
// all sessions; when it returns nil, that is durable.
func (s *Scope) Widen(ctx context.Context, w sandbox.Widening) error {
	if s == nil || w.Empty() {
		return nil
	}
	t := Of(Sandbox, w)
	return s.book.change(ctx, func(all []Grant) []Grant {
		if slices.ContainsFunc(all, func(g Grant) bool { return s.has(g, "") && g.Thing == t }) {
			return all
		}
		return append(all, Grant{User: s.book.user, Project: s.project, Thing: t, At: time.Now().UTC().Truncate(time.Second), Widening: string(canonical(w))})
	})
}

// AddProgram grants that a file of the project starts something, in all
// sessions; when it returns nil, that is durable.
func (s *Scope) AddProgram(ctx context.Context, t Thing, label string) error {
	return s.answerProgram(ctx, t, label, true)
}

// DeclineProgram writes down that the person does not want it started.
func (s *Scope) DeclineProgram(ctx context.Context, t Thing, label string) error {
	return s.answerProgram(ctx, t, label, false)
}

func (s *Scope) answerProgram(ctx context.Context, t Thing, label string, yes bool) error {
	if s == nil {
		return nil
	}
	return s.book.change(ctx, func(all []Grant) []Grant {
		all = slices.DeleteFunc(all, func(g Grant) bool { return s.has(g, "") && g.Thing == t })
		return append(all, Grant{User: s.book.user, Project: s.project, Thing: t, At: time.Now().UTC().Truncate(time.Second), Declined: !yes, Label: label})
	})
}

// Widenings returns what the programs of the project were granted. A file that
// is not trusted grants nothing.
func (s *Scope) Widenings() (all []sandbox.Widening) {
	if s == nil {
		return nil
	}
	grants, err := s.book.All()
	if err != nil {
		return nil
	}
	for _, g := range grants {
		if w, ok := g.Widens(); ok && s.has(g, "") {
			all = append(all, w)
		}
	}
	return all
}

// Widens returns what a grant lets the programs of its project have, if it is
// one of those and says what its hash is of.
func (g Grant) Widens() (w sandbox.Widening, ok bool) {
	if g.Kind != Sandbox || g.Declined || json.Unmarshal([]byte(g.Widening), &w) != nil {
		return w, false
	}
	return w, Of(Sandbox, w) == g.Thing && w.Check() == nil
}

// Answers are what the person said to things of one session.
type Answers map[Thing]bool

// Of returns what was said of a session. ErrUntrusted comes with no answers.
func (s *Scope) Of(session tidemark.SessionID) (Answers, error) {
	if s == nil {
		return nil, nil
	}
	all, err := s.book.All()
	answers := make(Answers)
	for _, g := range all {
		if s.has(g, session) {
			answers[g.Thing] = !g.Declined
		}
	}
	return answers, err
}

func (s *Scope) has(g Grant, session tidemark.SessionID) bool {
	return g.User == s.book.user && g.Project == s.project && g.Session == session
}

// Holds reports whether a thing is granted now: somebody may have revoked it
// since it was.
func (s *Scope) Holds(session tidemark.SessionID, t Thing) bool {
	answers, err := s.Of(session)
	return err == nil && answers[t]
}

// Add grants things to a session; when it returns nil, that is durable.
func (s *Scope) Add(ctx context.Context, session tidemark.SessionID, things ...Thing) error {
	return s.answer(ctx, session, true, things)
}

// Decline writes down that the person does not want things, so that they are
// not asked again.
func (s *Scope) Decline(ctx context.Context, session tidemark.SessionID, things ...Thing) error {
	return s.answer(ctx, session, false, things)
}

func (s *Scope) answer(ctx context.Context, session tidemark.SessionID, yes bool, things []Thing) error {
	if s == nil || len(things) == 0 {
		return nil
	}
	return s.book.change(ctx, func(all []Grant) []Grant {
		at := time.Now().UTC().Truncate(time.Second)
		for _, t := range things {
			i := slices.IndexFunc(all, func(g Grant) bool { return s.has(g, session) && g.Thing == t })
			if i < 0 {
				all = append(all, Grant{User: s.book.user, Project: s.project, Session: session, Thing: t, At: at, Declined: !yes})
				continue
			}
			if all[i].Declined == yes {
				all[i].At, all[i].Declined = at, !yes
			}
		}
		return all
	})
}

// Revoke takes back what was granted to a session, in every project: a person
// who clears an approval means the approval.
func (s *Scope) Revoke(ctx context.Context, session tidemark.SessionID, things ...Thing) error {
	if s == nil || len(things) == 0 {
		return nil
	}
	_, err := s.book.Revoke(ctx, func(g Grant) bool { return g.Session == session && slices.Contains(things, g.Thing) })
	return err
}
