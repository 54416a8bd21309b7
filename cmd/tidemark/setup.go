package main

import (
	"cmp"
	"os"
	"path/filepath"

	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/agent/config"
	"github.com/tidemark-sessions/tidemark/internal/instructions"
)

// setup returns what all conversations of this user on this machine share, from the
// environment and a configuration.
func (a *app) setup(c config.Config) *agent.Setup {
	s := &agent.Setup{
		Default: agent.Choice{Provider: c.Provider, Model: c.Model, BaseURL: c.BaseURL}, Chat: c.Chat,
		Getenv: os.Getenv, Environ: os.Environ(), IsProject: isProject, Home: os.UserHomeDir,
		PrivateFiles: []string{a.keyFile, os.Getenv("TIDEMARK_KEY_FILE"), a.configFile},
		Widening:     c.Sandbox.Widening(), Confine: a.confine,
	}
	for _, folder := range []func() (string, error){dataDir, configDir, stateDir} {
		if dir, err := folder(); err == nil {
			s.PrivateDirs = append(s.PrivateDirs, dir)
		}
	}
	if dir, err := configDir(); err == nil {
		s.OwnInstructions, s.OwnFolder = filepath.Join(dir, instructions.Names[0]), dir
	}
	s.ClaudeFolder = claudeFolder()
	if store := a.storePath(); store != "" {
		s.PrivateFiles = append(s.PrivateFiles, store, store+"-wal", store+"-shm", store+"-journal", store+".lock")
	}
	if mode, origin := c.SandboxMode(os.Getenv); mode == agent.SandboxOff {
		s.SandboxOffBy = origin
	}
	return s
}

// claudeFolder is the user's folder for Claude Code, "" when there is no home.
func claudeFolder() string {
	home, err := os.UserHomeDir()
	if err != nil {
		return os.Getenv("CLAUDE_CONFIG_DIR")
	}
	return cmp.Or(os.Getenv("CLAUDE_CONFIG_DIR"), filepath.Join(home, ".claude"))
}

// agentSettings returns the rows of `config show` about conversations.
func (a *app) agentSettings() []setting {
	row := func(name, variable, configured string) setting {
		if v := os.Getenv(variable); v != "" {
			return setting{name, v, "$" + variable}
		}
		return setting{name, configured, cmp.Or(a.config.Origin(name), "default")}
	}
	mode, origin := a.config.SandboxMode(os.Getenv)
	return []setting{row("provider", agent.ProviderVariable, a.config.Provider), row("model", agent.ModelVariable, a.config.Model),
		row("base_url", agent.BaseURLVariable, a.config.BaseURL), {"sandbox", mode, origin}}
}
