package main

import (
	"cmp"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet/file"
	"github.com/tidemark-sessions/tidemark/fleet/unit"
	"github.com/tidemark-sessions/tidemark/internal/hint"
)

func (f *fleetRoom) install() *cobra.Command {
	var kind string
	cmd := &cobra.Command{
		Use: "install", Short: "Print a unit that keeps the fleet up",
		Long: `Prints a unit of systemd, or a property list of launchd, that runs this program
with this store, configuration and fleet file as this user, and starts it again
when it fails. Nothing is installed: read it, change it, and put it in its place.`,
		Example: "  tidemark fleet install --print systemd | sudo tee /etc/systemd/system/tidemark-fleet.service\n" +
			"  tidemark fleet install --print launchd > ~/Library/LaunchAgents/tidemark.fleet.plist",
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			write, ok := map[string]func(unit.Service) string{"systemd": unit.Service.Systemd, "launchd": unit.Service.Launchd}[kind]
			if !ok {
				return hint.With(tidemark.Invalidf("--print %q: want systemd or launchd", kind), "%s --help", cmd.CommandPath())
			}
			s, err := f.service()
			if err != nil {
				return err
			}
			for _, dir := range s.Writes {
				if _, err := os.Stat(dir); err != nil {
					f.say("tidemark: %s is not there yet: make it before the fleet starts", dir)
				}
			}
			_, err = io.WriteString(f.out, write(s))
			return err
		},
	}
	cmd.Flags().StringVar(&kind, "print", "", "`KIND` of the unit: systemd or launchd")
	return cmd
}

// service returns the service that runs the fleet with these flags.
func (f *fleetRoom) service() (s unit.Service, err error) {
	file, err := file.Read(f.file)
	if err != nil {
		return s, err
	}
	program, err := os.Executable()
	if err != nil {
		return s, err
	}
	full, err := filepath.Abs(f.file)
	if err != nil {
		return s, err
	}
	url, _, err := f.location()
	if err != nil {
		return s, err
	}
	scheme, place, _ := strings.Cut(url, ":")
	s.Dir = filepath.Dir(full)
	for _, name := range []string{"PATH", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "TIDEMARK_KEY_COMMAND", "TIDEMARK_PASSPHRASE_FILE"} {
		if v := os.Getenv(name); v != "" {
			s.Environ = append(s.Environ, name+"="+v)
		}
	}
	s.Writes = append(s.Writes, s.Dir)
	if scheme == "sqlite" || scheme == "files" {
		if place, err = filepath.Abs(place); err != nil {
			return s, err
		}
		url = scheme + ":" + place
		if scheme == "sqlite" {
			place = filepath.Dir(place) // its WAL is beside it
		}
		s.Writes = append(s.Writes, place)
	}
	s.Command = []string{program, "--store", url}
	if s.Command, err = f.addFileFlags(s.Command); err != nil {
		return s, err
	}
	s.Command = append(s.Command, "fleet", "up", "--file", full)
	for _, a := range file.Agents {
		s.Writes = append(s.Writes, a.Dir)
	}
	state, err := stateDir() // has the grants and the key of the fleet
	if err != nil {
		return s, err
	}
	s.Writes = append(s.Writes, file.Mirror.Dir, state)
	s.Writes = unit.Outermost(s.Writes)
	if u, err := user.Current(); err == nil {
		s.User = u.Username
	}
	return s, s.Check()
}

// addFileFlags adds to a command the files that flags and environment name.
func (f *fleetRoom) addFileFlags(command []string) ([]string, error) {
	for _, n := range [][2]string{{"--config", f.configFile}, {"--key-file", cmp.Or(f.keyFile, os.Getenv("TIDEMARK_KEY_FILE"))}} {
		if n[1] == "" {
			continue
		}
		full, err := filepath.Abs(n[1])
		if err != nil {
			return nil, err
		}
		command = append(command, n[0], full)
	}
	return command, nil
}
