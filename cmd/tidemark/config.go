package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark/agent/config"
	"github.com/tidemark-sessions/tidemark/open"
)

// loadSettings reads the user's configuration, or the named file instead, and that
// of the project.
func loadSettings(named, project string) (config.Config, error) {
	f := config.Files{User: named, Required: named != "", Project: project, Home: os.UserHomeDir}
	if named == "" {
		dir, err := configDir()
		if err != nil {
			return config.Config{}, err
		}
		f.User = filepath.Join(dir, "config.yaml")
	}
	return config.Load(f)
}

// setting is one row of `config show`.
type setting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
}

func configCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "What is configured, and where", Args: usage(cobra.NoArgs), RunE: help}
	var origin bool
	show := &cobra.Command{
		Use:     "show",
		Short:   "Show the configuration in force",
		Example: "  tidemark config show --origin",
		Args:    usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			url, from, err := a.location()
			if err != nil {
				return err
			}
			rows := []setting{{"store", open.WithoutPassword(url), from}, {"color", fmt.Sprint(a.color), a.colorOrigin()},
				{"retention", a.config.RetentionText(), cmp.Or(a.config.Origin("retention"), "default")},
				{"redact", string(a.config.Redaction()), cmp.Or(a.config.Origin("redact"), "default")}}
			rows = append(rows, a.agentSettings()...)
			t := a.table("NAME", "VALUE")
			if origin {
				t = a.table("NAME", "VALUE", "ORIGIN")
			}
			for _, r := range rows {
				t.Row(r.Name, r.Value, r.Origin)
			}
			return a.print(rows, t.Print)
		},
	}
	show.Flags().BoolVar(&origin, "origin", false, "say where each value comes from")
	cmd.AddCommand(show)
	return cmd
}

func (a *app) colorOrigin() string {
	switch {
	case a.noColor:
		return "flag --no-color"
	case !a.terminal:
		return "no terminal"
	case a.config.Origin("color") != "":
		return a.config.Origin("color")
	}
	return "default"
}
