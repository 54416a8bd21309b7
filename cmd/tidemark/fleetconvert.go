package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert/herdctl"
	"github.com/tidemark-sessions/tidemark/fleet/file"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// fleetConversion is what came of a configuration of herdctl.
type fleetConversion struct {
	File      string         `json:"file,omitempty"` // that was written
	Agents    int            `json:"agents"`
	Schedules int            `json:"schedules"`
	Left      []herdctl.Left `json:"left"`
	YAML      string         `json:"yaml,omitempty"` // when no file was written
}

// converting is what the flags of fleet convert say.
type converting struct {
	output, zone, root string
	force              bool
}

func (f *fleetRoom) convert() *cobra.Command {
	var c converting
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
		RunE:    func(_ *cobra.Command, args []string) error { return f.converted(args[0], c) },
	}
	cmd.Flags().StringVarP(&c.output, "output", "o", "", "write to `FILE` instead of stdout")
	cmd.Flags().BoolVar(&c.force, "force", false, "replace a file that is there")
	cmd.Flags().StringVar(&c.zone, "zone", "", "the time `ZONE` of cron schedules, like Europe/Berlin")
	cmd.Flags().StringVar(&c.root, "root", "", "read files below `DIR`, too")
	return cmd
}

func (f *fleetRoom) converted(name string, c converting) error {
	if _, err := os.Lstat(c.output); c.output != "" && err == nil && !c.force {
		return withHint(tidemark.Existsf("%s is there already", c.output), "replace it with --force, or name another one")
	}
	if c.zone == "" {
		c.zone = hostZone()
	}
	if _, err := time.LoadLocation(c.zone); err != nil {
		return tidemark.Invalidf("--zone %q: there is no such time zone", c.zone)
	}
	file, left, err := readHerdctl(name, c)
	if err != nil {
		return err
	}
	text := file.YAML()
	to := &fleetRoom{app: f.app, file: c.output}
	if to.file == "" {
		to.file = fleetFile
	}
	if _, err := to.parse(text); err != nil {
		for _, l := range left {
			f.say("%s", l)
		}
		return err
	}
	done := fleetConversion{File: c.output, Agents: len(file.Agents), Left: left}
	for _, a := range file.Agents {
		done.Schedules += len(a.Schedules)
	}
	if c.output != "" {
		err = to.write(text)
	} else {
		done.YAML = string(text)
	}
	if err != nil {
		return err
	}
	err = f.print(done, func(w io.Writer) error {
		if c.output != "" {
			_, err := fmt.Fprintf(w, "%s: %d agent(s), %d schedule(s)\n", c.output, done.Agents, done.Schedules)
			return err
		}
		_, err := w.Write(text)
		return err
	})
	if len(left) > 0 && err == nil {
		for _, l := range left {
			if !f.wantsJSON() {
				f.say("%s", l)
			}
		}
		err = &partly{len(left)}
	}
	return err
}

// readHerdctl makes a fleet file of a herdctl.yaml. Folders are written as
// seen from where the file will lie.
func readHerdctl(name string, c converting) (*file.File, []herdctl.Left, error) {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		name = filepath.Join(name, "herdctl.yaml")
	}
	whole, err := filepath.Abs(name)
	if err != nil {
		return nil, nil, err
	}
	root := filepath.Dir(whole)
	if c.root != "" {
		if root, err = filepath.Abs(c.root); err != nil {
			return nil, nil, err
		}
	}
	inside, err := filepath.Rel(root, whole)
	if err != nil || !filepath.IsLocal(inside) {
		return nil, nil, tidemark.Invalidf("%s is not below %s", name, c.root)
	}
	dir, err := durable.OpenDir(root)
	if err != nil {
		return nil, nil, tidemark.NotFoundf("%w", err)
	}
	defer dir.Close()
	config, err := herdctl.ReadConfig(dir.ReadOnly(), filepath.ToSlash(inside), herdctl.ConfigOptions{Root: filepath.ToSlash(root), Env: file.PlainVariable(os.LookupEnv)})
	if err != nil {
		return nil, nil, err
	}
	base, err := filepath.Abs(filepath.Dir(c.output))
	if err != nil {
		return nil, nil, err
	}
	file, left := file.FromHerdctl(config, filepath.ToSlash(inside), file.HerdctlOptions{Zone: c.zone, Dir: func(abs string) string {
		if rel, err := filepath.Rel(base, filepath.FromSlash(abs)); err == nil {
			return filepath.ToSlash(rel)
		}
		return abs
	}})
	return file, left, nil
}

// hostZone returns the name of this machine's time zone, "" for UTC and for one
// whose name is not known.
func hostZone() string {
	zone := os.Getenv("TZ")
	if zone == "" {
		link, err := os.Readlink("/etc/localtime")
		if err != nil {
			return ""
		}
		_, zone, _ = strings.Cut(filepath.ToSlash(link), "zoneinfo/")
	}
	zone = strings.TrimPrefix(zone, ":")
	if _, err := time.LoadLocation(zone); err != nil || zone == "UTC" || zone == "Etc/UTC" {
		return ""
	}
	return zone
}
