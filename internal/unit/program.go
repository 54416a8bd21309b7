package unit

import (
	"path/filepath"
	"strings"
)

// Program is how a program was called that is to be kept running.
type Program struct {
	Path    string
	Store   string // the URL
	Config  string // a file; "": the usual one
	KeyFile string // "": the usual one
	Args    []string
	User    string
	State   string // the folder for its state
	Environ []string
}

// kept are the variables that a service takes over: folders, those of other tools
// among them, and where keys come from. A passphrase itself is not among them.
var kept = []string{"PATH", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "TIDEMARK_KEY_COMMAND", "TIDEMARK_PASSPHRASE_FILE",
	"CLAUDE_CONFIG_DIR", "CODEX_HOME", "QWEN_HOME", "KIMI_CODE_HOME", "PI_CODING_AGENT_DIR", "GOOSE_PATH_ROOT"}

// Service returns the Service that calls the program in the same way, from
// wherever it is started.
func (p Program) Service() (s Service, err error) {
	s.User, s.Writes = p.User, []string{p.State}
	for _, name := range kept {
		for _, v := range p.Environ {
			if value, ok := strings.CutPrefix(v, name+"="); ok && value != "" {
				s.Environ = append(s.Environ, v)
				break
			}
		}
	}
	url := p.Store
	if scheme, place, _ := strings.Cut(url, ":"); scheme == "sqlite" || scheme == "files" {
		if place, err = filepath.Abs(place); err != nil {
			return s, err
		}
		url = scheme + ":" + place
		if scheme == "sqlite" {
			place = filepath.Dir(place) // its WAL is beside it
		}
		s.Writes = append(s.Writes, place)
	}
	s.Command = []string{p.Path, "--store", url}
	for _, f := range [][2]string{{"--config", p.Config}, {"--key-file", p.KeyFile}} {
		if f[1] == "" {
			continue
		}
		full, err := filepath.Abs(f[1])
		if err != nil {
			return s, err
		}
		s.Command = append(s.Command, f[0], full)
	}
	s.Command = append(s.Command, p.Args...)
	return s, s.Check()
}
