package repl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/text"
	"github.com/tidemark-sessions/tidemark/tool"
)

// The formats of what Once prints.
const (
	FormatText       = "text"
	FormatJSON       = "json"
	FormatStreamJSON = "stream-json"
)

// Prompt is the input of one turn.
type Prompt struct {
	Text string
	// Typed is the part of Text that the person wrote: files and images that it
	// names with @ are sent with it. What was piped in names none.
	Typed  string
	Format string // output format: one of the Format constants
	Yes    bool   // everything that the agent wants to do is approved
	// Allowed are names of tools whose calls are approved, in any case of
	// letters, or as Claude Code calls them. What a person has to decide about
	// each time is not among them.
	Allowed []string
	// Print prints the result in FormatJSON; nil: as a line of JSON.
	Print func(result any) error
}

// Once runs one turn: the answer goes to Out. Nobody is asked. ErrInvalid:
// there is no tool of a name in Allowed; ErrUnfinished: the model may be asked
// only so often, and the agent was not done.
func Once(ctx context.Context, o Options, p Prompt) error {
	if p.Format == FormatStreamJSON {
		gathered := gather(o.Out)
		o.Out = gathered
		defer gathered.Close()
	}
	t := newConversation(o)
	t.screen = &screen{Display: o.Display, side: o.Err, format: p.Format}
	t.Note = o.Say // Out is for the answer
	t.Options.Show, t.Options.Unattended = t.screen.show, true
	t.Options.Approve = func(_ context.Context, a chat.ApprovalRequest) (chat.Decision, error) {
		if p.Yes || slices.ContainsFunc(p.Allowed, func(name string) bool { return strings.EqualFold(tool.Known(name), a.Tool) }) {
			return chat.Once, nil
		}
		o.Say("Denied: %s; nobody is there to ask. Allow it with --allowed-tools %s, or everything with --yes.", askText(a), a.Tool)
		return chat.Deny, nil
	}
	if err := t.attach(ctx, o.Session, o.From); err != nil {
		return err
	}
	if err := t.checkAllowed(p.Allowed); err != nil {
		return errors.Join(err, t.Chat.Close(context.WithoutCancel(ctx)))
	}
	t.withheld()
	began := time.Now()
	turn, err := t.Chat.Send(ctx, append(t.Mentioned(p.Typed), tidemark.Text(p.Text))...)
	if cause := context.Cause(ctx); cause != nil && err == nil {
		err = cause
	}
	closing, stop := context.WithTimeout(context.WithoutCancel(ctx), CloseTimeout)
	defer stop()
	if closeErr := t.Chat.Close(closing); err == nil {
		err = closeErr
	}
	if err == nil && turn.Stop == chat.StopRounds {
		err = hint.With(fmt.Errorf("%w: it came to its limit of %d answer(s) of the model", ErrUnfinished, turn.Rounds), "tidemark chat --resume %.8s -p 'go on'", t.Chat.ID())
	}
	if printErr := t.printTurn(p, turn, time.Since(began), err); err == nil {
		err = printErr
	}
	if t.Chat.Exists() && !errors.Is(err, tidemark.ErrStorage) && !o.Quiet {
		t.saved()
	}
	return err
}

// ErrUnfinished means that a turn of Once ended before the agent was done,
// because the model may be asked only so often. What came of it is kept.
var ErrUnfinished = errors.New("the turn is not done")

// checkAllowed refuses names of tools that there are none of. Those of MCP
// servers are not known before the servers run, and only have to look like it.
func (t *conversation) checkAllowed(names []string) error {
	var known []string
	for _, o := range t.Chat.Tools() {
		known = append(known, o.Name)
	}
	for _, name := range names {
		server, mcp := strings.CutPrefix(name, "mcp__")
		server, called, whole := strings.Cut(server, "__")
		switch {
		case mcp && whole && server != "" && called != "":
		case mcp:
			return hint.With(tidemark.Invalidf("--allowed-tools %s: no name of a tool of a server", name), "name each one: mcp__SERVER__TOOL")
		case strings.Contains(name, "("):
			return hint.With(tidemark.Invalidf("--allowed-tools %s: a tool is approved as a whole", name), "in a chat you can approve forms of a command; see /approvals")
		case tool.Known(name) != name, slices.Contains(known, strings.ToLower(name)), slices.Contains(known, name):
		default:
			err := tidemark.Invalidf("--allowed-tools %s: there is no such tool", name)
			if near := text.Nearest(name, known); near != "" {
				return hint.With(err, "did you mean %s?", near)
			}
			return hint.With(err, "there are %s, and mcp__SERVER__TOOL", strings.Join(known, ", "))
		}
	}
	return nil
}

// turnResult is how a turn ended, for programs.
type turnResult struct {
	Type       string             `json:"type"`
	Session    tidemark.SessionID `json:"session_id"`
	Result     string             `json:"result"`
	Stop       string             `json:"stop_reason"`
	Turns      int                `json:"num_turns"`
	Usage      tidemark.Usage     `json:"usage"`
	Model      string             `json:"model"`
	DurationMS int64              `json:"duration_ms"`
	IsError    bool               `json:"is_error"`
	Error      string             `json:"error,omitempty"`
}

func (t *conversation) printTurn(p Prompt, turn chat.Turn, took time.Duration, err error) error {
	if p.Format == FormatText {
		if turn.Text == "" {
			return nil
		}
		_, err := fmt.Fprintln(t.o.Out, t.screen.plain(turn.Text))
		return err
	}
	r := turnResult{Type: "result", Session: t.Chat.ID(), Result: turn.Text, Stop: turn.Stop, Turns: turn.Rounds, Usage: turn.Usage,
		Model: t.Model.Name, DurationMS: took.Milliseconds()}
	if err != nil {
		r.IsError, r.Error = true, err.Error()
	}
	if p.Format == FormatJSON && p.Print != nil {
		return p.Print(r)
	}
	return writeJSON(t.o.Out, r)
}

// maxPromptBytes bounds what is piped into a prompt.
const maxPromptBytes = 32 << 20

// FullPrompt is a prompt followed by what was piped in, nil for
// nothing. ErrInvalid: it is too long, or empty.
func FullPrompt(prompt string, piped io.Reader) (string, error) {
	if piped != nil {
		b, err := io.ReadAll(io.LimitReader(piped, maxPromptBytes+1))
		if err != nil {
			return "", tidemark.Storagef("stdin: %w", err)
		}
		if len(b) > maxPromptBytes {
			return "", tidemark.Invalidf("stdin is over %d bytes", maxPromptBytes)
		}
		prompt = strings.TrimSpace(prompt + "\n\n" + strings.ToValidUTF8(string(b), "\uFFFD"))
	}
	if strings.TrimSpace(prompt) == "" {
		return "", tidemark.Invalidf("-p: nothing to say")
	}
	return prompt, nil
}

// gatherPause is how long a gatherer waits between two writes: shorter than
// anybody notices, and long enough that most words share one.
const gatherPause = 4 * time.Millisecond

// gatherer combines what arrives shortly after a write into the next one: a
// model produces a thousand words in a second, and nobody reads them one by one.
// What comes after a pause is written at once.
type gatherer struct {
	to   io.Writer
	mu   sync.Mutex
	more sync.Cond
	buf  []byte
	err  error
	end  bool
	last chan struct{} // closed with the end
	done chan struct{}
}

func gather(to io.Writer) *gatherer {
	g := &gatherer{to: to, last: make(chan struct{}), done: make(chan struct{})}
	g.more.L = &g.mu
	go g.run()
	return g
}

func (g *gatherer) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return 0, g.err
	}
	g.buf = append(g.buf, p...)
	g.more.Signal()
	return len(p), nil
}

func (g *gatherer) run() {
	defer close(g.done)
	var out []byte
	for {
		g.mu.Lock()
		for len(g.buf) == 0 && !g.end {
			g.more.Wait()
		}
		if len(g.buf) == 0 || g.err != nil {
			g.mu.Unlock()
			return
		}
		out, g.buf = g.buf, out[:0]
		g.mu.Unlock()
		if _, err := g.to.Write(out); err != nil {
			g.mu.Lock()
			g.err = err
			g.mu.Unlock()
		}
		select {
		case <-time.After(gatherPause):
		case <-g.last:
		}
	}
}

// Close returns when everything is written.
func (g *gatherer) Close() error {
	g.mu.Lock()
	g.end = true
	close(g.last)
	g.more.Signal()
	g.mu.Unlock()
	<-g.done
	return g.err
}
