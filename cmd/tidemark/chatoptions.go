package main

import (
	"cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/compact"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/tool"
	"github.com/tidemark-sessions/tidemark/transfer"
)

// surroundings are where a conversation takes place, and whose it is.
type surroundings struct {
	store    *store.Store
	holder   tidemark.Holder
	provider provider
	root     string // the workspace
	start    string // the folder in it that tools start in; "": root
	environ  []string
	fence    fence // what holds its programs
}

// chatOptions are what every conversation gets of what the person configured:
// in a chat, with -p, in an editor, on the server, and when a fleet goes on with
// one. Who talks adds who is asked, and who is shown.
func (a *app) chatOptions(in surroundings) chat.Options {
	set := a.config.Chat
	return chat.Options{
		Store: in.store, Holder: in.holder, Model: in.provider.client, Name: in.provider.model, Provider: in.provider.name, Remote: in.provider.remote,
		Thinking: set.Thinking, Workers: set.Workers, Title: transfer.TitleOf, System: defaultSystem, Root: in.root,
		Limits: store.Limits{ToolRounds: set.ToolRounds, OutputBytes: set.OutputBytes, ToolsInContext: set.ToolsInContext},
		Compact: compact.Options{Strategy: set.Compaction, MaxMessages: set.MaxMessages, MaxBytes: set.MaxBytes, MaxTokens: set.MaxTokens,
			Keep: set.Keep, Budgets: compact.Budgets{Tool: set.ToolBudget, User: set.UserBudget, Assistant: set.AnswerBudget}},
		Box: func(state tool.State, files tool.Files, limits store.Limits, output func(string, []byte)) (*tool.Box, error) {
			return tool.New(tool.Options{Root: in.root, Start: cmp.Or(in.start, in.root), AskToLook: !isProject(in.root), Environ: in.environ,
				Sandbox: in.fence.sandbox, Unfenced: in.fence.unfenced, Hidden: in.fence.hidden, State: state, Files: files,
				OutputBytes: limits.OutputBytes, Output: output})
		},
	}
}
