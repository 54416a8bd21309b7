package agent

import (
	"cmp"
	"context"
	"errors"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/compact"
	"github.com/tidemark-sessions/tidemark/internal/extension"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/instructions"
	"github.com/tidemark-sessions/tidemark/internal/sandbox"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/tool"
)

// Assembly is a conversation that is put together and not started: the
// options of its chat, its model, and what confines its programs. The caller
// may change Chat before Begin.
type Assembly struct {
	Chat  chat.Options
	Model Model
	Fence Fence
}

// Assemble puts a conversation together. ErrInvalid means that no model is
// available; the error of Options.Instructions is returned unchanged.
func (s *Setup) Assemble(ctx context.Context, o Options) (Assembly, error) {
	var a Assembly
	var err error
	if o.Model != nil {
		a.Model = *o.Model
	} else if a.Model, err = s.Choose(o.Choice, lastModel(ctx, o.Store, o.Session)); err != nil {
		return a, err
	}
	p := s.ProgramsFor(o)
	a.Fence = p.Fence
	a.Chat = s.chatOptions(o, p, a)
	if o.System == "" {
		a.Chat.Extensions = func() chat.Extensions {
			where := s.Extensions(o.Project)
			return chat.Extensions{Skills: extension.Skills(where), Agents: extension.Agents(where)}
		}
		a.Chat.Instructions = func() instructions.Set { return s.projectInstructions(o, a.Fence) }
		a.Chat.System, err = s.systemPrompt(ctx, o, a.Fence)
	}
	return a, err
}

// lastModel is the model that a session was last used with, as far as known.
func lastModel(ctx context.Context, s *store.Store, id tidemark.SessionID) (last Choice) {
	if id == "" {
		return last
	}
	if c, err := s.Checkpoint(ctx, id, ""); err == nil {
		last.Provider, last.Model = chat.ModelOf(c)
	}
	return last
}

// ProgramsFor returns how a conversation starts programs.
func (s *Setup) ProgramsFor(o Options) Programs {
	p := Programs{Project: o.Project, IsProject: s.IsProject(o.Project), Environ: o.Environ, Variables: s.toolEnviron()}
	if o.Fence != nil {
		p.Fence = *o.Fence
	} else {
		p.Fence = s.FenceFor(o)
	}
	if p.Environ == nil {
		if p.Environ = p.Variables; p.Fence.Sandbox != nil {
			p.Environ = sandbox.Environ(p.Environ)
		}
	}
	return p
}

func (s *Setup) chatOptions(o Options, p Programs, a Assembly) chat.Options {
	set := s.Chat
	session := tidemark.Session{Title: o.Title, Agent: cmp.Or(o.Agent, "tidemark"), Project: o.Project}
	if o.AllowRemote {
		session.Mode = tidemark.ModeRemote
	}
	var more chat.ToolSource
	if o.Source != nil {
		more = o.Source(p)
	}
	var hooks chat.Hooks
	if o.Hooks != nil {
		hooks = o.Hooks(p)
	}
	return chat.Options{
		More: more, Hooks: hooks, Store: o.Store, Holder: o.Holder, Model: a.Model.Client, Name: a.Model.Name, Provider: a.Model.Provider, Remote: a.Model.Remote,
		Thinking: set.Thinking, Workers: set.Workers, Title: Title, System: o.System, Session: session, Root: o.Project,
		Allow: o.AllowRemote, Grants: o.Grants, Unattended: o.Unattended, Approve: o.Approve, AskForm: o.AskForm, Show: o.Show, FreshInterpreter: o.FreshInterpreter,
		SnapshotFile: set.SnapshotFile, SnapshotSession: set.SnapshotSession,
		Rounds: o.Rounds, Fenced: a.Fence.Sandbox != nil && a.Fence.Unfenced == "",
		Limits: store.Limits{ToolRounds: set.ToolRounds, OutputBytes: set.OutputBytes, ToolsInContext: set.ToolsInContext},
		Compact: compact.Options{Strategy: cmp.Or(o.Compaction, set.Compaction), MaxMessages: set.MaxMessages, MaxBytes: set.MaxBytes, MaxTokens: set.MaxTokens,
			Keep: set.Keep, Budgets: compact.Budgets{Tool: set.ToolBudget, User: set.UserBudget, Assistant: set.AnswerBudget}},
		Box: func(state tool.State, files tool.Files, limits store.Limits, output func(string, []byte)) (*tool.Box, error) {
			return tool.New(tool.Options{Root: o.Project, Start: cmp.Or(o.Folder, o.Project), AskToLook: !p.IsProject, Environ: p.Environ,
				Sandbox: a.Fence.Sandbox, Unfenced: a.Fence.Unfenced, Hidden: a.Fence.Hidden, State: state, Files: files,
				OutputBytes: limits.OutputBytes, Output: output})
		},
	}
}

// maxTitle bounds a title made from a message.
const maxTitle = 80

// Title is the title of a session with this first message.
func Title(first string) string { return render.FirstLine(first, maxTitle) }

// Resume says which conversation to resume, and from where.
type Resume struct {
	Session tidemark.SessionID
	From    int64 // the entry to branch from; 0: continue at the end
	// Asking is called when the holder of the session is asked to hand it
	// over, with the reason. Nil: the holder is not asked, and the session is
	// ErrHeld.
	Asking func(held error)
}

// Begin starts the conversation, or resumes one. The errors are those of
// chat.New and chat.Resume, with a hint for the person.
func (a Assembly) Begin(ctx context.Context, r *Resume) (*chat.Chat, error) {
	if r == nil || r.Session == "" {
		return chat.New(a.Chat)
	}
	c, err := chat.Resume(ctx, a.Chat, r.Session)
	if errors.Is(err, tidemark.ErrHeld) && r.Asking != nil {
		r.Asking(err)
		c, err = a.takeOver(ctx, r.Session)
	}
	var holder *store.HeldError
	if errors.As(err, &holder) {
		err = hint.With(err, "read along with: tidemark tail -f %.8s, or ask for it: tidemark chat --resume %.8s --take-over", r.Session, r.Session)
	}
	if err == nil && r.From != 0 {
		if err = c.Branch(ctx, r.From); err != nil {
			err = errors.Join(err, c.Close(context.WithoutCancel(ctx)))
		}
	}
	if err != nil {
		if errors.Is(err, tidemark.ErrLocalOnly) {
			err = hint.With(err, "allow it with --remote, or say with --base-url where it is on this machine")
		}
		return nil, err
	}
	return c, nil
}

// takeOver asks the holder of a session for it and waits.
func (a Assembly) takeOver(ctx context.Context, id tidemark.SessionID) (c *chat.Chat, err error) {
	err = a.Chat.Store.AwaitHandover(ctx, id, a.Chat.Holder, func(ctx context.Context) error {
		c, err = chat.Resume(ctx, a.Chat, id)
		return err
	})
	return c, err
}
