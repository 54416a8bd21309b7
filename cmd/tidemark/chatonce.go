package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/chat"
)

// maxPromptBytes bounds what is piped into a prompt.
const maxPromptBytes = 32 << 20

// once is one turn: the answer goes to stdout.
func (t *talk) once(ctx context.Context, id tidemark.SessionID, seq int64) error {
	prompt, err := t.fullPrompt()
	if err != nil {
		return err
	}
	t.screen = &chatScreen{app: t.app, side: t.err, format: t.f.format}
	if t.f.format == "stream-json" {
		gathered := gather(t.out)
		t.out = gathered
		defer gathered.Close()
	}
	t.approve = func(_ context.Context, a chat.ApprovalRequest) (chat.Decision, error) {
		if t.f.yes {
			return chat.Once, nil
		}
		t.say("Denied: %s; nobody is there to ask. Allow everything with --yes.", askText(a))
		return chat.Deny, nil
	}
	t.unattended = true
	t.hearUnlessIgnored(syscall.SIGHUP) // a terminal that goes leaves no tool running behind
	if err := t.attach(ctx, id, seq); err != nil {
		return err
	}
	t.withheld()
	began := time.Now()
	turn, err := t.c.Send(ctx, tidemark.Text(prompt))
	if cause := context.Cause(ctx); cause != nil && err == nil {
		err = cause
	}
	closing, stop := context.WithTimeout(context.WithoutCancel(ctx), closePatience)
	defer stop()
	if closeErr := t.c.Close(closing); err == nil {
		err = closeErr
	}
	if printErr := t.printTurn(turn, time.Since(began), err); err == nil {
		err = printErr
	}
	if err == nil && turn.Stop == chat.StopRounds {
		t.say("Stopped after %d rounds of tools.", turn.Rounds)
	}
	if t.c.Exists() && !errors.Is(err, tidemark.ErrStorage) {
		t.saved()
	}
	return err
}

// gatherer writes what came while the last write was under way in one go: a
// model says a thousand words in a second, and nobody reads them one by one.
type gatherer struct {
	to   io.Writer
	mu   sync.Mutex
	more sync.Cond
	buf  []byte
	err  error
	end  bool
	done chan struct{}
}

func gather(to io.Writer) *gatherer {
	g := &gatherer{to: to, done: make(chan struct{})}
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
	}
}

// Close returns when all is written.
func (g *gatherer) Close() error {
	g.mu.Lock()
	g.end = true
	g.more.Signal()
	g.mu.Unlock()
	<-g.done
	return g.err
}

// fullPrompt is the prompt, and what was piped in.
func (t *talk) fullPrompt() (string, error) {
	prompt := t.f.prompt
	if info, err := os.Stdin.Stat(); err == nil && (info.Mode()&os.ModeNamedPipe != 0 || info.Mode().IsRegular()) {
		b, err := io.ReadAll(io.LimitReader(t.in, maxPromptBytes+1))
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

func (t *talk) printTurn(turn chat.Turn, took time.Duration, err error) error {
	if t.f.format == "text" {
		if turn.Text == "" {
			return nil
		}
		_, err := fmt.Fprintln(t.out, t.screen.plain(turn.Text))
		return err
	}
	r := turnResult{Type: "result", Session: t.c.ID(), Result: turn.Text, Stop: turn.Stop, Turns: turn.Rounds, Usage: turn.Usage,
		Model: t.provider.model, DurationMS: took.Milliseconds()}
	if err != nil {
		r.IsError, r.Error = true, err.Error()
	}
	return t.jsonLine(r)
}

func (a *app) jsonLine(v any) error {
	enc := json.NewEncoder(a.out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// saved says where to find the session again.
func (t *talk) saved() {
	t.screen.note("Session saved: %s (%s)", t.c.ID(), t.encrypted())
	t.screen.note("Resume: tidemark chat --resume %s", t.c.ID())
}
