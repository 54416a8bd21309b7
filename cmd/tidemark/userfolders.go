package main

import (
	"os"

	"github.com/tidemark-sessions/tidemark/internal/project"
	"github.com/tidemark-sessions/tidemark/open"
)

// The folders of the user who runs this program.

func configDir() (string, error) { return open.ConfigDir(os.Environ()) }

func dataDir() (string, error) { return open.DataDir(os.Environ()) }

func stateDir() (string, error) { return open.StateDir(os.Environ()) }

// project returns the folder of the current project, to which new sessions belong.
func (a *app) project() string {
	here, err := os.Getwd()
	if err != nil {
		return ""
	}
	return projectAt(here)
}

// projectAt returns the project that a folder is in, for this user.
func projectAt(folder string) string { return project.At(folder, homeDir()) }

// isProject reports whether a folder may be a project, for this user.
func isProject(folder string) bool { return project.Allowed(folder, homeDir()) }

// homeDir returns the home folder, "" if it is not known.
func homeDir() string {
	home, _ := os.UserHomeDir()
	return home
}
