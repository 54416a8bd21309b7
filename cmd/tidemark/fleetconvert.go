package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark/fleet/file"
)

func (f *fleetRoom) convert() *cobra.Command {
	c := file.HerdctlConversion{LookupEnv: os.LookupEnv}
	cmd := &cobra.Command{
		Use: "convert HERDCTL_YAML", Short: "Make a fleet file of a configuration of herdctl",
		Long: `Reads a herdctl.yaml with the files of its agents, its defaults and the fleets
inside of it, and writes a fleet file. An agent of a fleet inside is called
after both: ops.auditor. What has no counterpart is named on stderr and left
out; the exit code is then 3.

Variables like ${NAME:-default} are replaced. One that looks like a secret is
not: it is passed on when the agent runs, or left out. Files outside of the
folder of HERDCTL_YAML are not read, unless --root names a folder around them.
herdctl reads cron in the time of its host, so schedules get the time zone of
this machine, or that of --zone.`,
		Example: "  tidemark fleet convert herdctl.yaml -o fleet.yaml\n  tidemark fleet validate",
		Args:    usage(cobra.ExactArgs(1)),
		RunE:    func(_ *cobra.Command, args []string) error { return f.runConvert(args[0], c) },
	}
	cmd.Flags().StringVarP(&c.Output, "output", "o", "", "write to `FILE` instead of stdout")
	cmd.Flags().BoolVar(&c.Force, "force", false, "replace a file that is there")
	cmd.Flags().StringVar(&c.Zone, "zone", "", "the time `ZONE` of cron schedules, like Europe/Berlin")
	cmd.Flags().StringVar(&c.Root, "root", "", "read files below `DIR`, too")
	return cmd
}

func (f *fleetRoom) runConvert(name string, c file.HerdctlConversion) error {
	done, err := c.Convert(name)
	printed := err == nil && f.wantsJSON()
	if err == nil {
		text := done.YAML
		if done.File != "" {
			text = fmt.Sprintf("%s: %d agent(s), %d schedule(s)\n", done.File, done.Agents, done.Schedules)
		}
		if err := f.printf(done, "%s", text); err != nil {
			return err
		}
	}
	for _, l := range done.Left {
		if !printed {
			f.say("%s", l)
		}
	}
	if len(done.Left) > 0 && err == nil {
		err = &partly{len(done.Left)}
	}
	return err
}
