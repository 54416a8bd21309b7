package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/coder/acp-go-sdk"

	"github.com/tidemark-sessions/tidemark"
)

// ACP returns the Runner of any agent that speaks the Agent Client Protocol
// over its standard input and output. argv is its program with its arguments;
// Task.Args follow them.
//
// The agent works in Task.Dir, which has to be absolute. It is offered neither
// files nor terminals of this side: it has its own. Each of its permission
// requests goes to Task.Ask, in every mode. The protocol has no place for a
// system prompt, so Task.System is the first text of a fresh session; nor does
// it have a limit of turns. An agent that cannot resume sessions is
// ErrSession; one that cannot copy them is ErrUnsupported.
//
// The agent chooses the ids of its sessions. The tokens that it reports
// count for the run, the cost for the session.
func ACP(argv []string) Runner { return agent{argv} }

type agent struct{ argv []string }

func (a agent) Run(ctx context.Context, t Task) (Outcome, error) {
	switch {
	case len(a.argv) == 0:
		return failed(tidemark.Invalidf("agent %s: an ACP agent without a program", t.Agent))
	case t.Entry != 0:
		return failed(t.cannotBranch("an ACP agent"))
	case !filepath.IsAbs(t.Dir):
		return failed(tidemark.Invalidf("agent %s: an ACP agent needs an absolute working directory, not %q", t.Agent, t.Dir))
	}
	r, ctx, cancel, err := begin(ctx, t)
	if err != nil {
		return failed(err)
	}
	defer cancel(nil)
	c := newACPTalk(r)
	e, err := r.do(ctx, program{
		argv:   append(append([]string{}, a.argv...), t.Args...),
		talk:   c.talk,
		out:    c.line,
		closed: func() { c.toSDK.CloseWithError(io.EOF) },
		errs:   r.stderrLine,
		over:   c.over,
		linger: r.t.Grace,
		quit:   c.quit,
	})
	c.fromAgent.Close()
	c.emit(c.stream.end())
	o := c.outcome(t)
	if err != nil {
		return r.outcome(o, e, fmt.Errorf("agent %s: %w", t.Agent, err))
	}
	reason, failure := c.judge(e)
	o.ExitReason = reason
	if failure != nil {
		failure = fmt.Errorf("agent %s: %w", t.Agent, failure)
	}
	return r.outcome(o, e, failure)
}

// acpTalk is the conversation with one agent.
type acpTalk struct {
	r      *run
	stream acpStream
	over   chan struct{} // closed when the conversation is over
	ready  chan struct{} // closed when the SDK reads

	fromAgent *io.PipeReader // the agent's lines that are meant for the SDK
	toSDK     *io.PipeWriter

	conn    *acp.ClientSideConnection
	session acp.SessionId // valid once conn is set and known is closed
	known   chan struct{} // closed when the session is known
	refused atomic.Bool   // the agent answered a request with an error

	// Set by talk before over is closed.
	stop  acp.StopReason
	usage *acp.Usage
	err   error
}

func newACPTalk(r *run) *acpTalk {
	c := &acpTalk{r: r, over: make(chan struct{}), ready: make(chan struct{}), known: make(chan struct{})}
	c.fromAgent, c.toSDK = io.Pipe()
	return c
}

func (c *acpTalk) emit(events []tidemark.Event) {
	for _, e := range events {
		c.r.sink.emit(e)
	}
}

// line handles one line of the agent: session updates go to the stream,
// requests and answers to the SDK, and the rest is noise.
func (c *acpTalk) line(line []byte, left int64) {
	if len(bytes.TrimSpace(line)) == 0 {
		return
	}
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
		Error  json.RawMessage `json:"error"`
	}
	switch err := json.Unmarshal(line, &m); {
	case left > 0:
		// The cut line may have been the answer that the conversation waits
		// for.
		c.r.sink.cut(left)
		c.toSDK.CloseWithError(fmt.Errorf("the agent wrote a message of more than %d bytes", maxLine))
	case err != nil || m.Method == "" && m.ID == nil:
		c.r.sink.notice(subtypeStdout, "%s", line)
	case m.Method == acp.ClientMethodSessionUpdate && m.ID == nil:
		c.emit(c.stream.update(m.Params))
	default:
		if m.Method == "" && given(m.Error) {
			c.refused.Store(true)
		}
		select {
		case <-c.ready:
			c.toSDK.Write(append(bytes.Clone(line), '\n')) // nobody reads when the conversation is over
		case <-c.r.there.Done():
		}
	}
}

// talk runs the conversation from the first message to the end of the turn.
func (c *acpTalk) talk(in io.Writer) {
	defer close(c.over)
	c.conn = acp.NewClientSideConnection(acpClient{c}, in, c.fromAgent)
	c.conn.SetLogger(slog.New(slog.DiscardHandler))
	close(c.ready)
	ctx := c.r.there
	caps, err := c.hello(ctx)
	if err != nil {
		c.err = err
		return
	}
	id, err := c.open(ctx, caps)
	if err != nil {
		c.err = err
		return
	}
	c.session = id
	close(c.known)
	c.r.inSession(string(id))
	c.choose(ctx)
	answer, err := c.conn.Prompt(ctx, acp.PromptRequest{SessionId: id, Prompt: c.r.t.blocks()})
	if err != nil {
		c.err = fmt.Errorf("its turn: %w", err)
		return
	}
	c.stop, c.usage = answer.StopReason, answer.Usage
	c.emit(c.stream.end()) // everything that belongs to the turn came before its end
}

func (c *acpTalk) hello(ctx context.Context) (acp.AgentCapabilities, error) {
	a, err := c.conn.Initialize(ctx, acp.InitializeRequest{
		ProtocolVersion: acp.ProtocolVersionNumber,
		ClientInfo:      &acp.Implementation{Name: "tidemark", Version: "1"},
	})
	switch {
	case err != nil:
		return a.AgentCapabilities, fmt.Errorf("its greeting: %w", err)
	case a.ProtocolVersion != acp.ProtocolVersionNumber:
		return a.AgentCapabilities, tidemark.Unsupportedf("it speaks version %d of the protocol, not %d", a.ProtocolVersion, acp.ProtocolVersionNumber)
	}
	return a.AgentCapabilities, nil
}

// open creates the session of the task, or resumes it.
func (c *acpTalk) open(ctx context.Context, can acp.AgentCapabilities) (acp.SessionId, error) {
	t := c.r.t
	old := acp.SessionId(t.Session)
	var err error
	switch {
	case t.Session == "":
		var a acp.NewSessionResponse
		a, err = c.conn.NewSession(ctx, acp.NewSessionRequest{Cwd: t.Dir, McpServers: []acp.McpServer{}})
		if err != nil {
			return "", fmt.Errorf("a new session: %w", err)
		}
		return a.SessionId, nil
	case t.Fork && can.SessionCapabilities.Fork == nil:
		return "", tidemark.Unsupportedf("it cannot go on with a copy of a session")
	case t.Fork:
		var a acp.UnstableForkSessionResponse
		a, err = c.conn.UnstableForkSession(ctx, acp.UnstableForkSessionRequest{SessionId: old, Cwd: t.Dir})
		old = a.SessionId
	case can.SessionCapabilities.Resume != nil:
		_, err = c.conn.ResumeSession(ctx, acp.ResumeSessionRequest{SessionId: old, Cwd: t.Dir})
	case can.LoadSession:
		c.stream.replaying(true)
		_, err = c.conn.LoadSession(ctx, acp.LoadSessionRequest{SessionId: old, Cwd: t.Dir, McpServers: []acp.McpServer{}})
		c.stream.replaying(false)
	default:
		return "", fmt.Errorf("session %s: %w: the agent keeps none", t.Session, ErrSession)
	}
	// The SDK has one kind of error for an agent that refuses and for one that
	// does not answer because it crashed.
	if err != nil && c.refused.Load() {
		return "", fmt.Errorf("session %s: %w: %s", t.Session, ErrSession, short(err.Error()))
	}
	if err != nil {
		return "", fmt.Errorf("session %s: %w", t.Session, err)
	}
	return old, nil
}

// choose requests settings that an agent need not support, and continues
// without them.
func (c *acpTalk) choose(ctx context.Context) {
	t := c.r.t
	if t.MaxTurns > 0 {
		c.r.sink.notice(subtypeIgnored, "the protocol has no limit of turns: %d is not kept to", t.MaxTurns)
	}
	if t.Model == "" {
		return
	}
	_, err := c.conn.UnstableSetSessionModel(ctx, acp.UnstableSetSessionModelRequest{SessionId: c.session, ModelId: acp.UnstableModelId(t.Model)})
	if err != nil {
		c.r.sink.notice(subtypeIgnored, "the agent does not take the model %s: %s", t.Model, short(err.Error()))
	}
}

// blocks is the prompt as content blocks.
func (t Task) blocks() (blocks []acp.ContentBlock) {
	if t.System != "" && t.Session == "" {
		blocks = append(blocks, acp.TextBlock(t.System))
	}
	return append(blocks, acp.TextBlock(t.Prompt))
}

// quit cancels the turn as the protocol prescribes, and waits until the agent
// confirms it.
func (c *acpTalk) quit(wait time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	select {
	case <-c.known:
	default:
		return
	}
	// The write may block on an agent that reads nothing.
	go c.conn.Cancel(ctx, acp.CancelNotification{SessionId: c.session})
	select {
	case <-c.over:
	case <-ctx.Done():
	}
}

// judge returns how the conversation ended.
func (c *acpTalk) judge(e ending) (reason string, failure error) {
	switch {
	case c.err != nil && e.stderr != "" && !errors.Is(c.err, ErrSession):
		return "", fmt.Errorf("%w; its program %s", c.err, e)
	case c.err != nil:
		return "", c.err
	}
	switch c.stop {
	case acp.StopReasonEndTurn:
		return tidemark.ExitEndTurn, nil
	case acp.StopReasonMaxTurnRequests:
		return tidemark.ExitMaxTurns, nil
	case acp.StopReasonMaxTokens:
		return tidemark.ExitMaxTokens, nil
	case acp.StopReasonRefusal:
		return "", errors.New("it refused to go on")
	}
	return "", fmt.Errorf("its turn ended with %q", c.stop)
}

func (c *acpTalk) outcome(t Task) (o Outcome) {
	said, cost := c.stream.last()
	o.Summary = said
	if c.stop != "" {
		o.Turns = 1
	}
	if u := c.usage; u != nil {
		use := tidemark.Usage{InputTokens: int64(u.InputTokens), OutputTokens: int64(u.OutputTokens)}
		if u.CachedReadTokens != nil {
			use.CacheReadTokens = int64(*u.CachedReadTokens)
		}
		if u.CachedWriteTokens != nil {
			use.CacheWriteTokens = int64(*u.CachedWriteTokens)
		}
		o.use(t.Model, use)
	}
	if cost != nil {
		o.Spent = &tidemark.Usage{CostUSD: saneUSD(*cost)}
		if before := t.before(); before != nil {
			o.CostUSD = max(0, o.Spent.CostUSD-before.CostUSD)
		}
	}
	return o
}
