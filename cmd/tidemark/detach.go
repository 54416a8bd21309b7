package main

import (
	"errors"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/fleet/daemon"
	"github.com/tidemark-sessions/tidemark/store"
)

// detach starts the fleet in the background and returns when it is up. Mistakes
// in the file, and a store that cannot be opened, are said here.
func (f *fleetRoom) detach(cmd *cobra.Command, s *store.Store, log string) error {
	if url, _, err := f.location(); err != nil || strings.HasPrefix(url, "memory:") {
		return errors.Join(err, tidemark.Invalidf("a fleet in the background needs a store that lasts, and this one is %s", url))
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	child := exec.Command(exe, upArgs(cmd)...)
	child.Args[0] = os.Args[0]
	d, err := daemon.Detach(cmd.Context(), fleet.Over(s), child, f.file, log)
	if err != nil {
		return err
	}
	return f.printf(d, "The fleet is up: pid %d, log %s\n", d.PID, d.Log)
}

// upArgs are the arguments of this command without those that put it into the
// background.
func upArgs(cmd *cobra.Command) []string {
	args := strings.Fields(cmd.CommandPath())[1:]
	cmd.Flags().Visit(func(g *pflag.Flag) {
		if g.Name != "detach" && g.Name != "log" {
			args = append(args, "--"+g.Name+"="+g.Value.String())
		}
	})
	return args
}
