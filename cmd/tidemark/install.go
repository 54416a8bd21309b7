package main

import (
	"cmp"
	"io"
	"os"
	"os/user"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet/file"
	fleetunit "github.com/tidemark-sessions/tidemark/fleet/unit"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/unit"
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
			write, ok := map[string]func(unit.Service) string{"systemd": fleetunit.Systemd, "launchd": fleetunit.Launchd}[kind]
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
	full, err := filepath.Abs(f.file)
	if err != nil {
		return s, err
	}
	if s, err = f.unitService("fleet", "up", "--file", full); err != nil {
		return s, err
	}
	s.Dir = filepath.Dir(full)
	s.Writes = append(s.Writes, s.Dir, file.Mirror.Dir)
	for _, a := range file.Agents {
		s.Writes = append(s.Writes, a.Dir)
	}
	s.Writes = unit.Outermost(s.Writes)
	return s, s.Check()
}

// unitService returns the service that runs a command of this program, with the
// store, the files and the variables of this call.
func (a *app) unitService(args ...string) (s unit.Service, err error) {
	p := unit.Program{Args: args, Config: a.configFile, KeyFile: cmp.Or(a.keyFile, os.Getenv("TIDEMARK_KEY_FILE")), Environ: os.Environ()}
	if p.Path, err = os.Executable(); err != nil {
		return s, err
	}
	if p.Store, _, err = a.location(); err != nil {
		return s, err
	}
	if p.State, err = stateDir(); err != nil { // has the grants and the key of the fleet
		return s, err
	}
	if u, err := user.Current(); err == nil {
		p.User = u.Username
	}
	return p.Service()
}
