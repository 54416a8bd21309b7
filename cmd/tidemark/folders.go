package main

import (
	"cmp"
	"os"
	"path/filepath"
	"runtime"

	"github.com/tidemark-sessions/tidemark"
)

// dataDir is where this platform keeps the data of programs.
func dataDir() (string, error) {
	return userDir("XDG_DATA_HOME", "APPDATA", map[string]string{
		"windows": "AppData/Roaming/tidemark",
		"darwin":  "Library/Application Support/tidemark",
		"":        ".local/share/tidemark",
	})
}

// stateDir is where this platform keeps what programs know of one machine, and
// what does not move with a person's data.
func stateDir() (string, error) {
	return userDir("XDG_STATE_HOME", "LOCALAPPDATA", map[string]string{
		"windows": "AppData/Local/tidemark",
		"darwin":  "Library/Application Support/tidemark/state",
		"":        ".local/state/tidemark",
	})
}

// userDir is a folder of ours that a variable names, else its usual place below
// the home folder; "" is that of all systems that are not listed. On Windows the
// system sets a variable of its own. A relative XDG path is not valid and is to
// be ignored.
func userDir(xdg, windows string, usual map[string]string) (string, error) {
	dir := os.Getenv(xdg)
	if runtime.GOOS == "windows" {
		dir = os.Getenv(windows)
	}
	if filepath.IsAbs(dir) {
		return filepath.Join(dir, "tidemark"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", tidemark.Invalidf("no home folder: %w", err)
	}
	return filepath.Join(home, filepath.FromSlash(cmp.Or(usual[runtime.GOOS], usual[""]))), nil
}
