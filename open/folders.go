package open

import (
	"cmp"
	"errors"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/tidemark-sessions/tidemark"
)

// Getenv returns a variable of an environment, like os.Getenv.
func Getenv(environ []string, name string) string {
	for _, e := range environ {
		key, value, _ := strings.Cut(e, "=")
		if key == name || runtime.GOOS == "windows" && strings.EqualFold(key, name) {
			return value
		}
	}
	return ""
}

// DataDir is where this platform keeps the data of programs; it contains the
// default store.
func DataDir(environ []string) (string, error) {
	return userDir(environ, "XDG_DATA_HOME", "APPDATA", map[string]string{
		"windows": "AppData/Roaming/tidemark",
		"darwin":  "Library/Application Support/tidemark",
		"":        ".local/share/tidemark",
	})
}

// StateDir is where this platform keeps state of programs that belongs to one
// machine and does not move with a person's data.
func StateDir(environ []string) (string, error) {
	return userDir(environ, "XDG_STATE_HOME", "LOCALAPPDATA", map[string]string{
		"windows": "AppData/Local/tidemark",
		"darwin":  "Library/Application Support/tidemark/state",
		"":        ".local/state/tidemark",
	})
}

// userDir returns our folder: below the one that the variable xdg names, or else at
// its usual place in the home folder, where "" stands for all systems that are not
// listed. On Windows the variable is another one, which the system sets. A relative
// XDG path is invalid and has to be ignored.
func userDir(environ []string, xdg, windows string, usual map[string]string) (string, error) {
	dir := Getenv(environ, xdg)
	if runtime.GOOS == "windows" {
		dir = Getenv(environ, windows)
	}
	if filepath.IsAbs(dir) {
		return filepath.Join(dir, "tidemark"), nil
	}
	home, err := homeDir(environ)
	if err != nil {
		return "", tidemark.Invalidf("no home folder: %w", err)
	}
	return filepath.Join(home, filepath.FromSlash(cmp.Or(usual[runtime.GOOS], usual[""]))), nil
}

// homeDir is os.UserHomeDir for a given environment.
func homeDir(environ []string) (string, error) {
	name, shown := "HOME", "$HOME"
	if runtime.GOOS == "windows" {
		name, shown = "USERPROFILE", "%userprofile%"
	}
	if home := Getenv(environ, name); home != "" {
		return home, nil
	}
	return "", errors.New(shown + " is not defined")
}

// ConfigDir is where this platform keeps the configuration of programs: the
// user's config.yaml, and the keys of stores.
func ConfigDir(environ []string) (string, error) {
	if dir := Getenv(environ, "XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "tidemark"), nil
	}
	dir, err := userConfigDir(environ)
	if err != nil {
		return "", tidemark.Invalidf("no folder for configuration: %w", err)
	}
	return filepath.Join(dir, "tidemark"), nil
}

// userConfigDir is os.UserConfigDir for a given environment.
func userConfigDir(environ []string) (string, error) {
	switch runtime.GOOS {
	case "windows":
		if dir := Getenv(environ, "AppData"); dir != "" {
			return dir, nil
		}
		return "", errors.New("%AppData% is not defined")
	case "darwin", "ios":
		home, err := homeDir(environ)
		return filepath.Join(home, "Library", "Application Support"), err
	}
	if Getenv(environ, "XDG_CONFIG_HOME") != "" {
		return "", errors.New("path in $XDG_CONFIG_HOME is relative")
	}
	home, err := homeDir(environ)
	if err != nil {
		return "", errors.New("neither $XDG_CONFIG_HOME nor $HOME are defined")
	}
	return filepath.Join(home, ".config"), nil
}

// KeyDir is where the key files of this user's stores are kept, each under the
// id of the slot that it opens.
func KeyDir(environ []string) (string, error) {
	dir, err := ConfigDir(environ)
	return filepath.Join(dir, "keys"), err
}
