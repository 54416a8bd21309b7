package file

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert/herdctl"
	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/internal/hint"
)

// HerdctlConversion converts a configuration of herdctl on disk into a fleet
// file.
type HerdctlConversion struct {
	Output string // the file to write; "": none is written
	Force  bool   // replace an existing one
	// Zone is the time zone of cron schedules; "": that of this machine.
	Zone string
	// Root is a folder that contains all files that may be read; "": that
	// of the configuration.
	Root      string
	LookupEnv func(string) (string, bool)
}

// Converted is the result of converting a configuration of herdctl.
type Converted struct {
	File      string         `json:"file,omitempty"` // the file that was written
	Agents    int            `json:"agents"`
	Schedules int            `json:"schedules"`
	Left      []herdctl.Left `json:"left"`
	YAML      string         `json:"yaml,omitempty"` // if no file was written
}

// Convert reads a herdctl.yaml, or the one in a folder. The result is checked
// like any fleet file; if that finds mistakes, Left is returned with them.
func (c HerdctlConversion) Convert(name string) (Converted, error) {
	if _, err := os.Lstat(c.Output); c.Output != "" && err == nil && !c.Force {
		return Converted{}, hint.With(tidemark.Existsf("%s is there already", c.Output), "replace it with --force, or name another one")
	}
	if c.Zone == "" {
		zone, _ := c.LookupEnv("TZ")
		c.Zone = hostZone(zone)
	}
	if _, err := time.LoadLocation(c.Zone); err != nil {
		return Converted{}, tidemark.Invalidf("--zone %q: there is no such time zone", c.Zone)
	}
	file, left, err := c.read(name)
	if err != nil {
		return Converted{}, err
	}
	text := file.YAML()
	if _, err := ParseAt(cmp.Or(c.Output, DefaultName), text); err != nil {
		return Converted{Left: left}, err
	}
	done := Converted{File: c.Output, Agents: len(file.Agents), Schedules: file.ScheduleCount(), Left: left}
	if c.Output == "" {
		done.YAML = string(text)
		return done, nil
	}
	if err := Write(c.Output, text); err != nil {
		return Converted{}, err
	}
	return done, nil
}

// read converts a herdctl.yaml into a fleet file. Folders are written
// relative to where the file will be.
func (c HerdctlConversion) read(name string) (*File, []herdctl.Left, error) {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		name = filepath.Join(name, "herdctl.yaml")
	}
	whole, err := filepath.Abs(name)
	if err != nil {
		return nil, nil, err
	}
	root := filepath.Dir(whole)
	if c.Root != "" {
		if root, err = filepath.Abs(c.Root); err != nil {
			return nil, nil, err
		}
	}
	inside, err := filepath.Rel(root, whole)
	if err != nil || !filepath.IsLocal(inside) {
		return nil, nil, tidemark.Invalidf("%s is not below %s", name, c.Root)
	}
	dir, err := durable.OpenDir(root)
	if err != nil {
		return nil, nil, tidemark.NotFoundf("%w", err)
	}
	defer dir.Close()
	config, err := herdctl.ReadConfig(dir.ReadOnly(), filepath.ToSlash(inside), herdctl.ConfigOptions{Root: filepath.ToSlash(root), Env: PlainVariable(c.LookupEnv)})
	if err != nil {
		return nil, nil, err
	}
	base, err := filepath.Abs(filepath.Dir(c.Output))
	if err != nil {
		return nil, nil, err
	}
	file, left := FromHerdctl(config, filepath.ToSlash(inside), HerdctlOptions{Zone: c.Zone, Dir: func(abs string) string {
		if rel, err := filepath.Rel(base, filepath.FromSlash(abs)); err == nil {
			return filepath.ToSlash(rel)
		}
		return abs
	}})
	return file, left, nil
}

// hostZone is the name of this machine's time zone, from $TZ or the system; ""
// for UTC and for a zone whose name is unknown.
func hostZone(zone string) string {
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
