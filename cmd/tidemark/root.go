package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
)

// rootCommand builds the commands that a run with these arguments may need: one
// that is named first, or all of them. Building all takes longer than most
// commands do.
func rootCommand(a *app, args ...string) *cobra.Command {
	root := &cobra.Command{
		Use:   "tidemark",
		Short: "Durable sessions for AI agents",
		Long: `Tidemark keeps the sessions of AI agents: every entry that was acknowledged is
there after a crash or a power cut, can be branched, forked and found again.

A SESSION is an id, a unique prefix of one (4 or more digits), a title, a
foreign id, "last" or "@-1". SESSION@n3 is a node of its tree, SESSION@12 an
entry, SESSION@label a label, SESSION~2 two turns up.`,
		Example: `  tidemark chat --provider demo
  tidemark chat -c
  tidemark -c                     # short for tidemark chat -c; so is -s SESSION
  tidemark ls
  tidemark show last
  tidemark tree last
  tidemark branch last@n0 --label "another way"`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		Args:              usage(cobra.NoArgs),
		RunE:              help,
		PersistentPreRunE: func(*cobra.Command, []string) error { return a.prepare() },
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: false},
	}
	root.SetOut(a.out)
	root.SetErr(a.err)
	a.flags(root)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return hint.With(tidemark.Invalidf("%w", err), "%s --help", cmd.CommandPath())
	})
	root.AddGroup(&cobra.Group{ID: "talk", Title: "Talk:"}, &cobra.Group{ID: "fleet", Title: "Run a fleet:"}, &cobra.Group{ID: "read", Title: "Look:"}, &cobra.Group{ID: "change", Title: "Change:"},
		&cobra.Group{ID: "serve", Title: "Serve a team:"}, &cobra.Group{ID: "move", Title: "Move and protect:"},
		&cobra.Group{ID: "plumbing", Title: "Plumbing, for scripts and other programs:"})
	one := namedFirst(args)
	for _, c := range commands {
		if one == "" || slices.Contains(c.names, one) {
			made := c.build(a)
			made.GroupID = c.group
			root.AddCommand(made)
		}
	}
	if one != "" {
		return root
	}
	root.AddCommand(topics()...)
	root.SetHelpCommand(helpCommand())
	return root
}

// chatArgs makes tidemark -c short for tidemark chat -c, and tidemark -s SESSION
// for tidemark chat -s SESSION, as users of other agents expect: it inserts chat
// where such a flag comes before any command.
func chatArgs(root *cobra.Command, args []string) []string {
	for i := 0; i < len(args); i++ {
		arg := args[i]
		name, _, hasValue := strings.Cut(arg, "=")
		switch {
		case name == "--continue", name == "--resume", name == "--session", len(arg) > 1 && (strings.HasPrefix(arg, "-c") || strings.HasPrefix(arg, "-s")):
			return slices.Insert(slices.Clone(args), i, "chat")
		case !strings.HasPrefix(arg, "-") || arg == "--":
			return args
		}
		// A global flag; its value may be the next argument.
		if f := root.PersistentFlags().Lookup(strings.TrimPrefix(name, "--")); f != nil && !hasValue && f.NoOptDefVal == "" {
			i++
		}
	}
	return args
}

// help is what a command does that only has subcommands.
func help(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// usage makes the errors of check ErrInvalid, with a hint at --help or, if a
// subcommand was mistyped, at those that may be meant.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		if err == nil {
			return nil
		}
		if cmd.HasSubCommands() && len(args) > 0 {
			cmd.SuggestionsMinimumDistance = 2
			if meant := cmd.SuggestionsFor(args[0]); len(meant) > 0 {
				slices.Sort(meant)
				return hint.With(tidemark.Invalidf("%w", err), "did you mean %s %s?", cmd.CommandPath(), strings.Join(meant, " or "))
			}
		}
		return hint.With(tidemark.Invalidf("%w", err), "%s --help", cmd.CommandPath())
	}
}
