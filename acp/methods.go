package acp

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/model"
)

// newSession starts a session. Nothing of it is kept before the first message.
func (a *connection) newSession(ctx context.Context, p sdk.NewSessionRequest) (r sdk.NewSessionResponse, err error) {
	folder, err := folderOf(p.Cwd)
	if err != nil {
		return r, err
	}
	unused, err := unusedServers(p.McpServers)
	if err != nil {
		return r, err
	}
	s := newSession(a, "", folder)
	o, err := s.options(ctx, "")
	if err != nil {
		return r, err
	}
	c, err := chat.New(o)
	if err != nil {
		return r, err
	}
	s.id = c.ID()
	if err := a.add(s); err != nil {
		return r, errors.Join(err, c.Close(ctx))
	}
	s.take(c)
	a.wire.after(string(s.id), func() { s.greet(unused) })
	return sdk.NewSessionResponse{SessionId: sdk.SessionId(s.id), ConfigOptions: s.config(), Models: s.models()}, nil
}

// add adds a session to the open ones.
func (a *connection) add(s *session) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closing {
		return tidemark.Conflictf("the agent is about to end")
	}
	a.sessions[s.id] = s
	return nil
}

// unusedServers names the MCP servers that an editor offers. Those that every
// agent is offered are ignored, and the editor is told; one of a kind that
// this agent said it cannot use is an error.
func unusedServers(servers []sdk.McpServer) (names []string, err error) {
	for _, s := range servers {
		if s.Stdio == nil {
			return nil, tidemark.Unsupportedf("MCP servers over HTTP, SSE or ACP are not used by this agent, and it does not say that they are")
		}
		names = append(names, oneLine(s.Stdio.Name))
	}
	return names, nil
}

// greet sends an editor what it should know about a session that it opened.
func (s *session) greet(unused []string) {
	s.announce()
	s.plan()
	if len(unused) > 0 {
		s.screen.note("This agent does not use MCP servers: %s. It has tools of its own.", strings.Join(unused, ", "))
	}
}

// commands are what a prompt that begins with a slash may name now.
func (s *session) commands() []Command {
	if s.a.o.Commands == nil {
		return nil
	}
	return s.a.o.Commands(s.chat(), s.folder)
}

// announce sends the commands that can be used now. A session is greeted beside
// what the editor asks for next.
func (s *session) announce() {
	s.announcing.Lock()
	defer s.announcing.Unlock()
	s.sendCommands()
}

// sendCommands is announce with the lock held.
func (s *session) sendCommands() {
	commands := []sdk.AvailableCommand{}
	if s.chat() == nil {
		commands = append(commands, sdk.AvailableCommand{Name: takeOver, Description: "ask whoever writes to this session to hand it over"})
	}
	s.announced = nil
	for _, c := range s.commands() {
		s.announced = append(s.announced, c.Name)
		ac := sdk.AvailableCommand{Name: c.Name, Description: c.Help}
		if c.Input != "" {
			ac.Input = &sdk.AvailableCommandInput{Unstructured: &sdk.UnstructuredCommandInput{Hint: c.Input}}
		}
		commands = append(commands, ac)
	}
	s.tell(sdk.SessionUpdate{AvailableCommandsUpdate: &sdk.SessionAvailableCommandsUpdate{AvailableCommands: commands}})
}

// announceNew announces commands that came or went: files change, and the prompts
// of a server are known when it has started.
func (s *session) announceNew() {
	var now []string
	for _, c := range s.commands() {
		now = append(now, c.Name)
	}
	s.announcing.Lock()
	defer s.announcing.Unlock()
	if !slices.Equal(now, s.announced) {
		s.sendCommands()
	}
}

// load resumes a session, and shows its past first.
func (a *connection) load(ctx context.Context, p sdk.LoadSessionRequest) (r sdk.LoadSessionResponse, err error) {
	s, unused, err := a.reopen(ctx, p.SessionId, p.Cwd, p.McpServers, true)
	if err != nil {
		return r, err
	}
	s.greet(unused)
	return sdk.LoadSessionResponse{ConfigOptions: s.config(), Models: s.models()}, nil
}

// resume resumes a session whose past the editor already has.
func (a *connection) resume(ctx context.Context, p sdk.ResumeSessionRequest) (r sdk.ResumeSessionResponse, err error) {
	s, unused, err := a.reopen(ctx, p.SessionId, p.Cwd, p.McpServers, false)
	if err != nil {
		return r, err
	}
	s.greet(unused)
	return sdk.ResumeSessionResponse{ConfigOptions: s.config(), Models: s.models()}, nil
}

// reopen opens a stored session, and names the MCP servers that are not used.
func (a *connection) reopen(ctx context.Context, id sdk.SessionId, cwd string, servers []sdk.McpServer, past bool) (*session, []string, error) {
	folder, err := folderOf(cwd)
	if err != nil {
		return nil, nil, err
	}
	unused, err := unusedServers(servers)
	if err != nil {
		return nil, nil, err
	}
	known, err := tidemark.ParseSessionID(string(id))
	if err != nil {
		return nil, nil, tidemark.NotFoundf("session %.80q: not found", id)
	}
	s, err := a.enter(known, folder)
	if err != nil {
		return nil, nil, err
	}
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err = s.move(folder); err == nil {
		err = s.open(ctx, past)
	}
	end()
	if err != nil {
		return nil, nil, errors.Join(err, s.close())
	}
	return s, unused, nil
}

// forkRequest is the request of session/fork, without the fields that are
// ignored.
type forkRequest struct {
	SessionID sdk.SessionId   `json:"sessionId"`
	Cwd       string          `json:"cwd"`
	Servers   []sdk.McpServer `json:"mcpServers"`
}

// fork makes a new session that shares the past of another one, and opens it.
func (a *connection) fork(ctx context.Context, p forkRequest) (r sdk.NewSessionResponse, err error) {
	id, err := tidemark.ParseSessionID(string(p.SessionID))
	if err != nil {
		return r, tidemark.NotFoundf("session %.80q: not found", p.SessionID)
	}
	i, err := a.o.Store.Fork(ctx, id, 0, "")
	if err != nil {
		return r, err
	}
	s, unused, err := a.reopen(ctx, sdk.SessionId(i.ID), p.Cwd, p.Servers, false)
	if err != nil {
		// Nobody knows the fork yet, and it holds nothing of its own.
		return r, errors.Join(err, a.o.Store.Trash(ctx, i.ID))
	}
	a.wire.after(string(s.id), func() { s.greet(unused) })
	return sdk.NewSessionResponse{SessionId: sdk.SessionId(i.ID), ConfigOptions: s.config(), Models: s.models()}, nil
}

// prompt runs one turn, or a command.
func (a *connection) prompt(ctx context.Context, p sdk.PromptRequest) (r sdk.PromptResponse, err error) {
	s, err := a.find(p.SessionId)
	if err != nil {
		return r, err
	}
	blocks, typed, err := blocksOf(p.Prompt)
	if err != nil {
		return r, err
	}
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return r, err
	}
	defer end()
	name, input := "", ""
	if len(p.Prompt) > 0 && p.Prompt[0].Text != nil && strings.HasPrefix(typed, "/") {
		name, input, _ = strings.Cut(strings.TrimSpace(typed[1:]), " ")
	}
	if name == takeOver && s.chat() == nil {
		if err = s.ask(ctx); err == nil {
			s.screen.say("This session is written to from here now.")
		}
		return a.outcome(ctx, chat.Turn{Stop: model.StopEnd}, err)
	}
	err = s.goOn(ctx)
	if err == nil {
		err = s.consent(ctx)
	}
	if err != nil {
		return a.outcome(ctx, chat.Turn{}, err)
	}
	commands := s.commands()
	i := slices.IndexFunc(commands, func(c Command) bool { return c.Name == name })
	if i >= 0 {
		err = s.command(ctx, commands[i], strings.TrimSpace(input))
		return a.outcome(ctx, chat.Turn{Stop: model.StopEnd}, err)
	}
	s.typed = typed
	turn, err := s.chat().Send(ctx, blocks...)
	s.settled(ctx)
	s.announceNew()
	if errors.Is(err, tidemark.ErrConflict) {
		// The session now belongs to somebody else.
		err = errors.Join(err, s.release())
		s.readAlong()
		s.announce()
	}
	return a.outcome(ctx, turn, err)
}

// outcome is the answer to a prompt. A turn cancelled by the editor is no
// error.
func (a *connection) outcome(ctx context.Context, turn chat.Turn, err error) (r sdk.PromptResponse, _ error) {
	if err != nil && (ctx.Err() == nil || !errors.Is(err, context.Canceled)) {
		return r, err
	}
	switch turn.Stop {
	case model.StopMaxTokens:
		r.StopReason = sdk.StopReasonMaxTokens
	case model.StopRefusal:
		r.StopReason = sdk.StopReasonRefusal
	case chat.StopRounds, model.StopPause, model.StopUnknown:
		// The work is not done: an editor may ask to continue. A note says why.
		r.StopReason = sdk.StopReasonMaxTurnRequests
	default:
		r.StopReason = sdk.StopReasonEndTurn
	}
	if err != nil || turn.Stop == chat.StopCancelled {
		r.StopReason = sdk.StopReasonCancelled
	}
	if u := turn.Usage; u.InputTokens+u.OutputTokens > 0 {
		r.Usage = &sdk.Usage{InputTokens: int(u.InputTokens), OutputTokens: int(u.OutputTokens), CachedReadTokens: sdk.Ptr(int(u.CacheReadTokens)),
			CachedWriteTokens: sdk.Ptr(int(u.CacheWriteTokens)), TotalTokens: int(u.InputTokens + u.OutputTokens + u.CacheReadTokens + u.CacheWriteTokens)}
	}
	return r, nil
}

// settled sends what a turn changed about the session.
func (s *session) settled(ctx context.Context) {
	s.plan()
	i, err := s.a.o.Store.Session(context.WithoutCancel(ctx), s.id)
	if err != nil {
		return // there is none yet, or it is sent with the next turn
	}
	u := &sdk.SessionSessionInfoUpdate{UpdatedAt: stamp(i.UpdatedAt)}
	if i.Title != "" {
		u.Title = &i.Title
	}
	s.tell(sdk.SessionUpdate{SessionInfoUpdate: u})
}

// command runs a command and shows its output, which is not part of the
// conversation.
func (s *session) command(ctx context.Context, do Command, input string) error {
	c := s.chat()
	before := s.config()
	var out bytes.Buffer
	err := do.Run(ctx, c, s.folder, input, &out)
	if err != nil && ctx.Err() == nil {
		out.WriteString(err.Error() + "\n")
		if hint := s.a.hint(err); hint != "" {
			out.WriteString("hint: " + hint + "\n")
		}
	}
	if text := strings.ToValidUTF8(out.String(), "\uFFFD"); strings.Count(text, "\n") > 1 {
		s.screen.say(fenced(text))
	} else if text != "" {
		s.screen.say(text) // one line needs no fence
	}
	s.settled(ctx)
	if now := s.config(); current(now) != current(before) {
		s.tell(sdk.SessionUpdate{ConfigOptionUpdate: &sdk.SessionConfigOptionUpdate{ConfigOptions: now}})
	}
	return ctx.Err()
}

// fenced quotes text so that an editor shows it unchanged: editors render
// messages as Markdown.
func fenced(text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + "\n" + strings.TrimSuffix(text, "\n") + "\n" + fence + "\n"
}

// cancel ends what is in progress in a session, if anything.
func (a *connection) cancel(_ context.Context, p sdk.CancelNotification) (any, error) {
	if s, err := a.find(p.SessionId); err == nil {
		s.interrupt()
	}
	return nil, nil
}

// close closes a session, like every other way of leaving a chat.
func (a *connection) close(_ context.Context, p sdk.CloseSessionRequest) (r sdk.CloseSessionResponse, err error) {
	s, err := a.find(p.SessionId)
	if err != nil {
		return r, err
	}
	return r, s.close()
}

type deleteRequest struct {
	SessionID sdk.SessionId `json:"sessionId"`
}

// remove moves a session to the trash; one that is open here is closed first.
func (a *connection) remove(ctx context.Context, p deleteRequest) (struct{}, error) {
	none := struct{}{}
	if s, err := a.find(p.SessionID); err == nil {
		c := s.chat()
		if err := s.close(); err != nil {
			return none, err
		}
		if c != nil && !c.Exists() {
			return none, nil // nothing was ever said
		}
	}
	id, err := tidemark.ParseSessionID(string(p.SessionID))
	if err != nil {
		return none, tidemark.NotFoundf("session %.80q: not found", p.SessionID)
	}
	return none, a.o.Store.Trash(ctx, id)
}
