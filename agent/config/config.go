// Package config reads what a person configured for the program: their own
// config.yaml, and the few settings that a project may have.
//
// It reads no environment: the caller says which file is the person's, and
// passes in variables that override it.
//
//	c, err := config.Load(config.Files{User: file, Project: project, Home: os.UserHomeDir})
package config

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/internal/sandbox"
	"github.com/tidemark-sessions/tidemark/internal/yaml"
	"github.com/tidemark-sessions/tidemark/redact"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/store/upkeep"
)

// Config is the content of a configuration file. A flag overrides the
// environment, that overrides the project's file, and that the user's.
type Config struct {
	Store string `yaml:"store"`
	Color *bool  `yaml:"color"`
	// Retention is how long an unchanged session stays before gc moves it to the
	// trash.
	Retention string `yaml:"retention"`
	// Redact is what happens to secrets that are about to be written: off,
	// warn, mask or vault.
	Redact      string        `yaml:"redact"`
	RedactRules []redact.Rule `yaml:"redact_rules"`
	// Provider, Model and BaseURL are the model that chat talks to.
	Provider string `yaml:"provider"`
	Model    string `yaml:"model"`
	BaseURL  string `yaml:"base_url"`
	// Prices is a file with the prices of models.
	Prices string `yaml:"prices"`
	// Cold is the URL of the place that tidemark cold move moves to.
	Cold string `yaml:"cold"`
	// Chat is how chat behaves.
	Chat agent.Settings `yaml:"chat"`
	// Sandbox is what programs of conversations run in.
	Sandbox Sandbox `yaml:"sandbox"`
	// Watch is how the sessions of other tools are kept.
	Watch Watch `yaml:"watch"`

	origins map[string]string
}

// Watch configures tidemark watch.
type Watch struct {
	// MaxBytes is how large the store may become before nothing more is taken in;
	// 0: any size.
	MaxBytes int64 `yaml:"max_bytes"`
}

// Files are the locations of a configuration.
type Files struct {
	User     string // the person's own
	Required bool   // it must exist: somebody named it
	Project  string // the folder of a project, "" without one
	Home     func() (string, error)
}

// projectFile is a project's own configuration, at its root.
const projectFile = ".tidemark.yaml"

// Load reads the user's file and the project's. ErrInvalid says what is wrong in
// which one.
func Load(f Files) (Config, error) {
	s := Config{origins: make(map[string]string)}
	if err := s.read(f.User, f.Required, f.Home); err != nil {
		return s, err
	}
	if f.Project == "" {
		return s, nil
	}
	var p Config
	p.origins = make(map[string]string)
	local := filepath.Join(f.Project, projectFile)
	if err := p.read(local, false, f.Home); err != nil {
		return s, err
	}
	// A project comes from strangers, who must not decide where sessions are
	// kept, how long they stay, what is masked in them, which model reads them,
	// and what programs may do.
	for name, set := range map[string]bool{"store": p.Store != "", "retention": p.Retention != "", "redact": p.Redact != "", "redact_rules": p.RedactRules != nil,
		"provider": p.Provider != "", "model": p.Model != "", "base_url": p.BaseURL != "", "prices": p.Prices != "", "cold": p.Cold != "", "chat": p.Chat != (agent.Settings{}),
		"sandbox": p.Sandbox.isSet(), "watch": p.Watch != (Watch{})} {
		if set {
			return s, tidemark.Invalidf("%s: %s: only your own configuration can set it", local, name)
		}
	}
	if p.Color != nil {
		s.Color, s.origins["color"] = p.Color, local
	}
	return s, nil
}

// read adds the settings of a file; a missing required one is an error.
func (s *Config) read(file string, required bool, home func() (string, error)) error {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) && !required {
		return nil
	}
	if err != nil {
		return tidemark.Invalidf("configuration: %w", err)
	}
	defer f.Close()
	// A sandbox that runs in the project reserves the name with an empty
	// folder.
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
	for name, value := range map[string]string{"provider": s.Provider, "model": s.Model, "base_url": s.BaseURL, "prices": s.Prices, "cold": s.Cold} {
		if value != "" {
			s.origins[name] = file
		}
	}
	if err := s.Sandbox.check(home); err != nil {
		return tidemark.Invalidf("configuration %s: sandbox: %w", file, err)
	}
	if s.Sandbox.isSet() {
		s.origins["sandbox"] = file
	}
	if s.Chat.Learn != "" && s.Chat.Learn != agent.LearnOff && s.Chat.Learn != "on" {
		return tidemark.Invalidf("configuration %s: chat: learn: %q: want on or off", file, s.Chat.Learn)
	}
	if s.Chat.SnapshotFile < 0 || s.Chat.SnapshotSession < 0 {
		return tidemark.Invalidf("configuration %s: chat: snapshot_file_bytes and snapshot_session_bytes are numbers of bytes", file)
	}
	if s.Watch.MaxBytes < 0 {
		return tidemark.Invalidf("configuration %s: watch: max_bytes is a number of bytes", file)
	}
	if s.Watch != (Watch{}) {
		s.origins["watch"] = file
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

// Origin is the file that a setting comes from, "" if none.
func (s Config) Origin(name string) string { return s.origins[name] }

// RetentionText is how long sessions stay, for people to read.
func (s Config) RetentionText() string { return cmp.Or(s.Retention, "off") }

// Redaction is what happens to secrets that are about to be written.
func (s Config) Redaction() store.Redaction {
	return store.Redaction(cmp.Or(s.Redact, string(store.RedactWarn)))
}

// Sandbox configures the sandbox that the programs of conversations
// run in.
type Sandbox struct {
	Mode  string   `yaml:"mode"`
	Write []string `yaml:"allow_write"`
	Hosts []string `yaml:"allow_hosts"`
}

// SandboxVariable is the environment variable with the mode of the sandbox.
const SandboxVariable = "TIDEMARK_SANDBOX"

// isSet reports whether a file configures the sandbox.
func (s Sandbox) isSet() bool { return s.Mode != "" || s.Write != nil || s.Hosts != nil }

// check resolves paths in the home folder, and returns an error for invalid
// values.
func (s *Sandbox) check(home func() (string, error)) error {
	if err := agent.CheckSandboxMode("mode", s.Mode); err != nil {
		return err
	}
	for i, path := range s.Write {
		if rest, ok := strings.CutPrefix(path, "~/"); ok {
			home, err := home()
			if err != nil {
				return err
			}
			s.Write[i] = filepath.Join(home, rest)
		}
	}
	return s.Widening().Check()
}

// Widening is what programs may have beyond the sandbox.
func (s Sandbox) Widening() sandbox.Widening {
	return sandbox.Widening{Write: s.Write, Hosts: s.Hosts}
}

// SandboxMode is the mode of the sandbox when no flag sets it, and where it
// comes from.
func (s Config) SandboxMode(getenv func(string) string) (mode, origin string) {
	if env := getenv(SandboxVariable); env != "" {
		return env, "$" + SandboxVariable
	}
	if s.Sandbox.Mode != "" {
		return s.Sandbox.Mode, cmp.Or(s.origins["sandbox"], "default")
	}
	return agent.SandboxOn, "default"
}
