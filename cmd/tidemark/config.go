package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/internal/yaml"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/redact"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/store/upkeep"
)

// settings is what a configuration file may say. A flag beats the
// environment, that beats the project's file, and that beats the user's.
type settings struct {
	Store string `yaml:"store"`
	Color *bool  `yaml:"color"`
	// Retention is how long a session stays that nobody changes, before gc moves
	// it to the trash.
	Retention string `yaml:"retention"`
	// Redact is what happens to secrets that are about to be written: off,
	// warn, mask or vault.
	Redact      string        `yaml:"redact"`
	RedactRules []redact.Rule `yaml:"redact_rules"`
	// Provider, Model and BaseURL are the model that chat talks to.
	Provider string `yaml:"provider"`
	Model    string `yaml:"model"`
	BaseURL  string `yaml:"base_url"`
	// Prices is a file that says what models cost.
	Prices string `yaml:"prices"`
	// Chat is how chat behaves.
	Chat agent.Settings `yaml:"chat"`
	// Sandbox is what programs of conversations run in.
	Sandbox sandboxSettings `yaml:"sandbox"`

	origins map[string]string
}

// projectFile is a project's own configuration, at its root.
const projectFile = ".tidemark.yaml"

// loadSettings reads the user's file, or the one named, and the project's.
func loadSettings(named, project string) (settings, error) {
	s := settings{origins: make(map[string]string)}
	file := named
	if file == "" {
		dir, err := configDir()
		if err != nil {
			return s, err
		}
		file = filepath.Join(dir, "config.yaml")
	}
	if err := s.read(file, named != ""); err != nil {
		return s, err
	}
	if project == "" {
		return s, nil
	}
	var p settings
	p.origins = make(map[string]string)
	local := filepath.Join(project, projectFile)
	if err := p.read(local, false); err != nil {
		return s, err
	}
	// A project comes from strangers, who do not decide where sessions go, how
	// long they stay, what of them is masked, who reads them, and what programs
	// may do.
	for name, set := range map[string]bool{"store": p.Store != "", "retention": p.Retention != "", "redact": p.Redact != "", "redact_rules": p.RedactRules != nil,
		"provider": p.Provider != "", "model": p.Model != "", "base_url": p.BaseURL != "", "prices": p.Prices != "", "chat": p.Chat != (agent.Settings{}),
		"sandbox": p.Sandbox.isSet()} {
		if set {
			return s, tidemark.Invalidf("%s: %s: only your own configuration can set it", local, name)
		}
	}
	if p.Color != nil {
		s.Color, s.origins["color"] = p.Color, local
	}
	return s, nil
}

// read adds what a file says; one that must be there and is not is an error.
func (s *settings) read(file string, required bool) error {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) && !required {
		return nil
	}
	if err != nil {
		return tidemark.Invalidf("configuration: %w", err)
	}
	defer f.Close()
	// A sandbox that runs in the project holds the name by an empty folder.
	if info, err := f.Stat(); err == nil && info.IsDir() && !required {
		return nil
	}
	if err := yaml.ReadSettings("configuration", file, f, s); err != nil {
		return err
	}
	if s.Store != "" {
		s.origins["store"] = file
	}
	if s.Color != nil {
		s.origins["color"] = file
	}
	for name, value := range map[string]string{"provider": s.Provider, "model": s.Model, "base_url": s.BaseURL, "prices": s.Prices} {
		if value != "" {
			s.origins[name] = file
		}
	}
	if err := s.Sandbox.check(); err != nil {
		return tidemark.Invalidf("configuration %s: sandbox: %w", file, err)
	}
	if s.Sandbox.isSet() {
		s.origins["sandbox"] = file
	}
	switch store.Redaction(s.Redact) {
	case "":
	case store.RedactOff, store.RedactWarn, store.RedactMask, store.RedactVault:
		s.origins["redact"] = file
	default:
		return tidemark.Invalidf("configuration %s: redact: %q: want off, warn, mask or vault", file, s.Redact)
	}
	if s.Retention != "" {
		s.origins["retention"] = file
		if _, err := upkeep.ParseAge(s.Retention); err != nil {
			return tidemark.Invalidf("configuration %s: retention: %w", file, err)
		}
	}
	return nil
}

// retention is how long sessions stay, for people to read.
func (s settings) retention() string { return cmp.Or(s.Retention, "off") }

// redaction is what happens to secrets that are about to be written.
func (s settings) redaction() store.Redaction {
	return store.Redaction(cmp.Or(s.Redact, string(store.RedactWarn)))
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
				{"retention", a.config.retention(), cmp.Or(a.config.origins["retention"], "default")},
				{"redact", string(a.config.redaction()), cmp.Or(a.config.origins["redact"], "default")}}
			rows = append(rows, a.agentSettings()...)
			t := a.table("NAME", "VALUE")
			if origin {
				t = a.table("NAME", "VALUE", "ORIGIN")
			}
			for _, r := range rows {
				t.row(r.Name, r.Value, r.Origin)
			}
			return a.print(rows, t.print)
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
	case a.config.origins["color"] != "":
		return a.config.origins["color"]
	}
	return "default"
}
