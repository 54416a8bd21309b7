package main

import (
	"context"

	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/server"
	"github.com/tidemark-sessions/tidemark/server/request"
	"github.com/tidemark-sessions/tidemark/store"
)

// conversation opens a conversation for a client of the server: a new session,
// or one to go on with. Its tools work in the folder that the server was
// started in. A model in the options is taken instead of one that is chosen.
func (a *app) conversation(ctx context.Context, s *store.Store, o server.ChatOptions, model *agent.Model) (server.Conversation, error) {
	set := agent.Options{Store: s, Holder: a.holderNamed("tidemark serve, for " + request.CallerOf(ctx).Name), Session: o.Session,
		Choice: agent.Choice{Model: o.Model}, Model: model, Project: a.project(), Folder: currentFolder()}
	if o.ForceNew {
		set.FreshInterpreter = "asked for with force_new_session"
	}
	c, err := a.setup(a.config).OpenRemote(ctx, set, o.Emit)
	if err != nil {
		return nil, err
	}
	return c, nil
}
