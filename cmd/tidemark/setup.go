package main

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"

	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/internal/sandbox"
)

// setup is what the conversations of this person on this machine have in
// common, by the environment and a configuration.
func (a *app) setup(c settings) *agent.Setup {
	s := &agent.Setup{
		Default: agent.Choice{Provider: c.Provider, Model: c.Model, BaseURL: c.BaseURL}, Chat: c.Chat,
		Getenv: os.Getenv, Environ: os.Environ(), IsProject: isProject, Home: os.UserHomeDir,
		PrivateFiles: []string{a.keyFile, os.Getenv("TIDEMARK_KEY_FILE"), a.configFile},
		Widening:     c.Sandbox.widening(), Confine: a.confine,
	}
	for _, folder := range []func() (string, error){dataDir, configDir, stateDir} {
		if dir, err := folder(); err == nil {
			s.PrivateDirs = append(s.PrivateDirs, dir)
		}
	}
	if store := a.storePath(); store != "" {
		s.PrivateFiles = append(s.PrivateFiles, store, store+"-wal", store+"-shm", store+"-journal", store+".lock")
	}
	if mode, origin := sandboxMode(c); mode == agent.SandboxOff {
		s.SandboxOffBy = origin
	}
	return s
}

// sandboxSettings is what a configuration file may say of the sandbox that the
// programs of conversations run in.
type sandboxSettings struct {
	Mode  string   `yaml:"mode"`
	Write []string `yaml:"allow_write"`
	Hosts []string `yaml:"allow_hosts"`
}

// sandboxVariable chooses a mode of the sandbox.
const sandboxVariable = "TIDEMARK_SANDBOX"

// isSet reports whether a file says anything of the sandbox.
func (s sandboxSettings) isSet() bool { return s.Mode != "" || s.Write != nil || s.Hosts != nil }

// check completes paths in the home folder, and returns what cannot be meant.
func (s *sandboxSettings) check() error {
	if err := agent.CheckSandboxMode("mode", s.Mode); err != nil {
		return err
	}
	for i, path := range s.Write {
		if rest, ok := strings.CutPrefix(path, "~/"); ok {
			home, err := os.UserHomeDir()
			if err != nil {
				return err
			}
			s.Write[i] = filepath.Join(home, rest)
		}
	}
	return s.widening().Check()
}

func (s sandboxSettings) widening() sandbox.Widening {
	return sandbox.Widening{Write: s.Write, Hosts: s.Hosts}
}

// sandboxMode is whether programs are put into a sandbox where no flag says so,
// and who said it.
func sandboxMode(c settings) (mode, origin string) {
	if env := os.Getenv(sandboxVariable); env != "" {
		return env, "$" + sandboxVariable
	}
	if c.Sandbox.Mode != "" {
		return c.Sandbox.Mode, cmp.Or(c.origins["sandbox"], "default")
	}
	return agent.SandboxOn, "default"
}

// agentSettings are the rows of `config show` about conversations.
func (a *app) agentSettings() []setting {
	row := func(name, variable, configured string) setting {
		if v := os.Getenv(variable); v != "" {
			return setting{name, v, "$" + variable}
		}
		return setting{name, configured, cmp.Or(a.config.origins[name], "default")}
	}
	mode, origin := sandboxMode(a.config)
	return []setting{row("provider", agent.ProviderVariable, a.config.Provider), row("model", agent.ModelVariable, a.config.Model),
		row("base_url", agent.BaseURLVariable, a.config.BaseURL), {"sandbox", mode, origin}}
}
