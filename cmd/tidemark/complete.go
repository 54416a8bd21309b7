package main

import (
	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark/agent/picker"
	"github.com/tidemark-sessions/tidemark/open"
)

// completeSession offers sessions for what was typed.
func completeSession(a *app) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		a.noInput = true // nobody expects a question while typing
		if err := a.prepare(); err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		s, err := a.open(cmd.Context(), open.Read)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var found []string
		for _, o := range picker.Complete(cmd.Context(), s, typed) {
			found = append(found, cobra.CompletionWithDesc(o.Text, o.About))
		}
		return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}
