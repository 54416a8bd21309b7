package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-sessions/tidemark/internal/manual"
)

func manCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages into a folder",
		Long: `Writes a page for the man program for each command and each help topic into a
folder, which is made if need be: tidemark.1, tidemark-show.1 and so on. Pages that
are there are replaced. Like everything that this program writes they can be read
by you alone; widen their modes to share them.`,
		Example: "  tidemark man ~/.local/share/man/man1\n  man tidemark-show",
		Args:    usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			files := []string{}
			err := manual.Write(args[0], manualPages(cmd.Root()), func(file string) { files = append(files, file) })
			return errors.Join(err, a.print(files, func(w io.Writer) error {
				for _, p := range files {
					fmt.Fprintln(w, p)
				}
				return nil
			}))
		},
	}
}

// manualPages returns the pages of a command and of all commands below it.
func manualPages(cmd *cobra.Command) []manual.Page {
	if cmd.Hidden {
		return nil
	}
	all := []manual.Page{manualPage(cmd)}
	for _, c := range cmd.Commands() {
		all = append(all, manualPages(c)...)
	}
	return all
}

func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// manualPage returns the page of one command.
func manualPage(cmd *cobra.Command) manual.Page {
	p := manual.Page{Name: pageName(cmd), Short: cmd.Short, Version: version, Text: cmp.Or(cmd.Long, cmd.Short+"."), Example: cmd.Example}
	if cmd.HasParent() {
		p.Inherited = pageName(cmd.Root())
		p.Also = append(p.Also, pageName(cmd.Parent()))
	} else {
		p.Exit = manual.ExitCodes()
	}
	for _, c := range cmd.Commands() {
		if !c.Hidden {
			p.Also = append(p.Also, pageName(c))
		}
	}
	if !cmd.Runnable() {
		return p
	}
	p.Command, p.Args = cmd.CommandPath(), strings.TrimPrefix(cmd.UseLine(), cmd.CommandPath())
	cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			value, about := pflag.UnquoteUsage(f)
			p.Flags = append(p.Flags, manual.Flag{Name: f.Name, Shorthand: f.Shorthand, Value: value, Optional: f.NoOptDefVal != "", Text: about})
		}
	})
	return p
}
