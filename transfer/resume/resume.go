// Package resume goes on with a session in another tool: it finds the tool on this
// machine, has the session written where the tool looks, says how the tool is
// started on it, and takes in what the tool added. It starts nothing but the tool's
// own question for its version, and never touches the terminal: who calls it starts
// the tool.
//
//	start, err := resume.Prepare(ctx, resume.Request{Point: p, In: "codex", Dir: dir, Environ: environ})
package resume

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/expression"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/project"
	"github.com/tidemark-sessions/tidemark/internal/text"
	"github.com/tidemark-sessions/tidemark/runner"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/transfer"
)

// Chat is the built-in agent, as the name of a tool.
const Chat = "chat"

// client is how a tool is started on a session that it has.
type client struct {
	tool, program string
	tried         string // the version that the form was tried with
	install       string // what installs it
	args          func(id string, more []string) []string
}

// clients are the tools that go on with sessions. A tool joins by a row here, once
// transfer can hand sessions over to it.
var clients = []client{
	{"claude-code", "claude", "2.1.326", "npm install -g @anthropic-ai/claude-code", with("--resume")},
	{"codex", "codex", "0.169.0", "npm install -g @openai/codex", func(id string, more []string) []string {
		if len(more) > 0 && more[0] == "exec" { // without a screen
			return append([]string{"exec", "resume", id}, more[1:]...)
		}
		return append([]string{"resume", id}, more...)
	}},
	{"opencode", "opencode", "1.18.33", "npm install -g opencode-ai", withOrRun("-s")},
	{"kilo-cli", "kilo", "7.7.9", "npm install -g @kilocode/cli", withOrRun("-s")},
	{"pi", "pi", "0.87.1", "npm install -g @earendil-works/pi-coding-agent", with("--session")},
	{"qwen-code", "qwen", "0.24.4", "npm install -g @qwen-code/qwen-code", with("--resume")},
	{"kimi-code", "kimi", "2.1.0", "npm install -g @moonshot-ai/kimi-code", with("-S")},
	{"gemini-cli", "gemini", "0.61.0", "npm install -g @google/gemini-cli", with("--resume")},
}

// with starts a tool that takes the id of a session behind a flag.
func with(flag string) func(id string, more []string) []string {
	return func(id string, more []string) []string { return append([]string{flag, id}, more...) }
}

// withOrRun is with for a tool that works without a screen when its first argument is
// run.
func withOrRun(flag string) func(id string, more []string) []string {
	return func(id string, more []string) []string {
		if len(more) > 0 && more[0] == "run" {
			return append([]string{"run", flag, id}, more[1:]...)
		}
		return append([]string{flag, id}, more...)
	}
}

// CommandOf is the command line that starts a tool on one of its sessions, with more
// arguments; nil for a tool that sessions do not go on in.
func CommandOf(tool, foreign string, more []string) []string {
	c, ok := clientOf(tool)
	if !ok {
		return nil
	}
	return append([]string{c.program}, c.args(foreign, more)...)
}

// Tools are the names of the tools that go on with sessions, Chat among them.
func Tools() (names []string) {
	for _, c := range clients {
		names = append(names, c.tool)
	}
	return append(names, Chat)
}

// clientOf returns the client of a tool.
func clientOf(tool string) (client, bool) {
	for _, c := range clients {
		if c.tool == tool {
			return c, true
		}
	}
	return client{}, false
}

// Request says which session is to go on, and in what.
type Request struct {
	Point   store.Point // with a Seq, from there
	In      string      // one of Tools; "": the tool it came from if it is installed, else Chat
	Dir     string      // the folder that the tool works in
	Args    []string    // more arguments for the tool
	Environ []string
	State   string // a folder to remember the versions of tools in; "": they are asked each time
	Holder  tidemark.Holder
}

// Start is a session that a tool was given, and how to start the tool on it.
type Start struct {
	transfer.Handed
	Title   string   `json:"title"` // of the tool
	Version string   `json:"version,omitempty"`
	Dir     string   `json:"dir"`
	Command []string `json:"command"`
	// Notes are what a person should know before, such as what the tool has no place
	// for.
	Notes []string `json:"notes,omitempty"`

	client transfer.Client
	store  *store.Store
}

// Prepare gives a session to a tool. What the tool, or another one, added to it
// before is taken in first. For Chat nothing is written. ErrHeld: somebody else has
// the session open. ErrNotFound: the tool is not installed. ErrInvalid, ErrUnsupported:
// there is no such tool, or it cannot be given sessions.
func Prepare(ctx context.Context, r Request) (*Start, error) {
	if r.Point.State != store.Live {
		return nil, hint.With(tidemark.Invalidf("session %s is in the trash", r.Point.ID), "tidemark restore %.8s", r.Point.ID)
	}
	c, program, err := choose(r)
	if err != nil {
		return nil, err
	}
	start := &Start{Handed: transfer.Handed{Session: r.Point.ID, Tool: c.tool}, Dir: r.Dir, store: r.Point.Store()}
	if c.tool == Chat {
		ref := string(r.Point.ID)
		if r.Point.Seq != 0 {
			ref += fmt.Sprintf("@%d", r.Point.Seq)
		}
		start.Title, start.Notes = "Tidemark", notes(ctx, r, "Tidemark")
		start.Command = append([]string{"tidemark", "chat", "--resume", ref}, r.Args...)
		return start, nil
	}
	if start.client, err = transfer.NewClient(c.tool, r.Dir, r.Environ, r.Holder); err != nil {
		return nil, err
	}
	start.Title = start.client.Tool.Title
	if err := free(ctx, r.Point); err != nil {
		return nil, err
	}
	if err := start.takeInAll(ctx, r); err != nil {
		return nil, err
	}
	point := r.Point
	if point.Seq == 0 {
		if point.View, err = start.store.View(ctx, point.ID); err != nil {
			return nil, err
		}
	}
	var lost []string
	if start.Handed, lost, err = start.client.HandOver(ctx, point); err != nil {
		return nil, err
	}
	start.Notes = notes(ctx, r, start.Title)
	if start.Note != "" {
		start.Notes = append(start.Notes, start.Note)
	}
	if len(start.Load) > 0 {
		start.Load[0] = program
	}
	start.Version = versionOf(ctx, program, r)
	if note := c.untried(start.Title, start.Version); note != "" {
		start.Notes = append(start.Notes, note)
	}
	for _, l := range lost {
		start.Notes = append(start.Notes, fmt.Sprintf("not in the %s format: %s", start.Title, l))
	}
	start.Command = CommandOf(c.tool, start.ForeignID, r.Args)
	start.Command[0] = program
	return start, nil
}

// choose returns the client to go on in, and the path of its program.
func choose(r Request) (c client, program string, err error) {
	name := r.In
	if name == "" {
		if c, ok := clientOf(transfer.OriginTool(r.Point.Session)); ok {
			if program, err := runner.FindProgram(c.program, r.Dir, r.Environ); err == nil {
				return c, program, nil
			}
		}
		name = Chat
	}
	if name == Chat {
		return client{tool: Chat}, "", nil
	}
	c, ok := clientOf(name)
	if !ok {
		if _, err := transfer.ToolNamed(name); err == nil {
			return c, "", tidemark.Unsupportedf("sessions do not go on in %s; they do in %s", name, strings.Join(Tools(), ", "))
		}
		return c, "", tidemark.Invalidf("tool %q: want one of %s", name, strings.Join(Tools(), ", "))
	}
	if program, err = runner.FindProgram(c.program, r.Dir, r.Environ); err != nil {
		return c, "", hint.With(err, "install it with: %s, or go on here with: --in chat", c.install)
	}
	return c, program, nil
}

// free returns a HeldError while somebody else has the session open.
func free(ctx context.Context, p store.Point) error {
	lease, err := p.Store().Lease(ctx, p.ID)
	if err == nil && lease.Held && !lease.Dead && !lease.Expired {
		return &store.HeldError{Lease: lease, Now: time.Now()}
	}
	return err
}

// notes are what is different where a session goes on.
func notes(ctx context.Context, r Request, title string) (all []string) {
	if is := otherProject(ctx, r); is != "" {
		all = append(all, fmt.Sprintf("The session is about %s, and %s works in %s: go there first, or name a folder with --dir.", is, title, r.Dir))
	}
	if r.Point.Mode == tidemark.ModeLocal && r.In != "" && r.In != Chat {
		all = append(all, fmt.Sprintf("It was local-only here: %s asks the model that it is set up for.", title))
	}
	return all
}

// otherProject returns the project of a session that is not the one of the folder to
// work in, "" if it is the same: also elsewhere, by its remote or the beginning of its
// history.
func otherProject(ctx context.Context, r Request) string {
	is := r.Point.Project
	if is == "" || strings.HasPrefix(r.Dir, is+string(filepath.Separator)) {
		return ""
	}
	if same, err := r.Point.Store().SameProject(ctx, is, project.At(r.Dir, "")); same && err == nil {
		return ""
	}
	return is
}

// takeInAll takes in what the tools that have the session added to it.
func (s *Start) takeInAll(ctx context.Context, r Request) error {
	has := make(map[string][]string) // foreign ids, by tool
	if from := transfer.OriginTool(r.Point.Session); from != "" {
		has[from] = append(has[from], r.Point.ForeignID)
	}
	for h, err := range s.store.Handovers(ctx, r.Point.ID) {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return err
		}
		if err == nil {
			has[h.Tool] = append(has[h.Tool], h.ForeignID)
		}
	}
	for _, c := range clients {
		for _, id := range has[c.tool] {
			from, err := transfer.NewClient(c.tool, r.Dir, r.Environ, r.Holder)
			if err != nil {
				return err
			}
			if _, err := from.TakeIn(ctx, s.store, id, time.Time{}); err != nil {
				return err
			}
		}
	}
	return nil
}

// Give has the tool take in the session that was written, if it does not find it by
// itself.
func (s *Start) Give(ctx context.Context, environ []string) error {
	if len(s.Load) == 0 {
		return nil
	}
	cmd := exec.CommandContext(ctx, s.Load[0], s.Load[1:]...)
	cmd.Dir, cmd.Env = s.Dir, environ
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s does not take the session: %w: %s", s.Title, err, text.ShortLine(string(said), maxSaid))
	}
	return nil
}

// maxSaid is how much of what a tool says is repeated.
const maxSaid = 400

// TakeIn takes in what the tool added to the session since it was started, and says
// for people what came of it.
func (s *Start) TakeIn(ctx context.Context, started time.Time) (said string, err error) {
	i, err := s.client.TakeIn(ctx, s.store, s.ForeignID, started)
	switch {
	case err != nil:
		return "", fmt.Errorf("what %s added is not here yet: %w", s.Title, err)
	case i.Waiting > 0:
		return fmt.Sprintf("Session %.8s is open here: what %s added comes with the next import.", s.Session, s.Title), nil
	}
	n := 0
	for _, r := range i.Results {
		n += r.Entries + r.Drafts
	}
	return fmt.Sprintf("%d new entries of %s are in session %.8s.", n, s.Title, s.Session), nil
}

// Shell returns the command for a shell, from the folder on.
func (s *Start) Shell() string {
	line := "cd " + quoted(s.Dir)
	for _, command := range [][]string{s.Load, s.Command} {
		for i, word := range command {
			if i == 0 {
				line += " &&"
			}
			line += " " + quoted(word)
		}
	}
	return line
}

// plain is a word that a shell takes as it is.
var plain = expression.WhenNeeded(`^[-+./:=@%,\w]+$`)

func quoted(word string) string {
	if plain().MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
