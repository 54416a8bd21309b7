package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/manual"
)

// topics returns the help topics, as commands that do nothing: `tidemark help refs`.
func topics() (all []*cobra.Command) {
	for _, t := range manual.Topics() {
		all = append(all, &cobra.Command{Use: t.Name, Short: t.Short, Long: t.Text})
	}
	return all
}

// helpCommand shows the help of a command or a topic. Unlike that of cobra it
// returns ErrInvalid if there is no such command or topic.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND | TOPIC]",
		Short:   "Show the help of a command or a topic",
		Example: "  tidemark help show\n  tidemark help refs",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) (found []string, _ cobra.ShellCompDirective) {
			if about, _, err := cmd.Root().Find(args); err == nil {
				for _, c := range about.Commands() {
					if !c.Hidden && strings.HasPrefix(c.Name(), typed) {
						found = append(found, cobra.CompletionWithDesc(c.Name(), c.Short))
					}
				}
			}
			return found, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return hint.With(tidemark.Invalidf("help: there is no command or topic %q", strings.Join(args, " ")), "see what there is with: tidemark help")
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}
