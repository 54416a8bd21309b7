package watch

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/unit"
	"github.com/tidemark-sessions/tidemark/open"
)

var (
	//go:embed systemd.service
	systemdUnit string
	//go:embed launchd.plist
	launchdAgent string
	//go:embed task.xml
	windowsTask string
)

// Installer hands a watcher to what keeps programs running on a system: systemd for
// this user, launchd, or the task scheduler of Windows.
type Installer struct {
	System string // as runtime.GOOS has it
	Config string // the folder for configuration of programs, such as ~/.config
	Home   string
	UID    string
	// Run runs a program of the system, and returns what it printed.
	Run func(ctx context.Context, name string, args ...string) ([]byte, error)
}

// Unit returns what the system is given for a service.
func (i Installer) Unit(s unit.Service) (string, error) {
	if err := s.Check(); err != nil {
		return "", err
	}
	switch i.System {
	case "linux":
		return s.Systemd(systemdUnit), nil
	case "darwin":
		return s.Launchd(launchdAgent), nil
	case "windows":
		return s.Task(windowsTask), nil
	}
	return "", hint.With(tidemark.Unsupportedf("nothing is known that keeps programs running on %s", i.System), "run it there from whatever does: tidemark watch")
}

// File is where the unit is kept.
func (i Installer) File() string {
	switch i.System {
	case "darwin":
		return filepath.Join(i.Home, "Library", "LaunchAgents", "tidemark.watch.plist")
	case "windows":
		return filepath.Join(i.Config, "tidemark", "watch-task.xml")
	}
	return filepath.Join(i.Config, "systemd", "user", "tidemark-watch.service")
}

// Print writes the unit to w.
func (i Installer) Print(w io.Writer, s unit.Service) error {
	text, err := i.Unit(s)
	if err == nil {
		_, err = io.WriteString(w, text)
	}
	return err
}

// Install writes the unit, and has the system start it now and whenever the user
// logs in. One that is there is replaced. ErrSealed: the watcher would not be able
// to open the store, as o opens it but with nobody to ask.
func (i Installer) Install(ctx context.Context, s unit.Service, o *open.Options) error {
	text, err := i.Unit(s)
	if err == nil {
		err = checkUnlocks(ctx, s, o)
	}
	if err != nil {
		return err
	}
	file := i.File()
	if err := durable.MakeDir(filepath.Dir(file)); err != nil {
		return tidemark.Storagef("%w", err)
	}
	dir, err := durable.OpenDir(filepath.Dir(file))
	if err != nil {
		return tidemark.Storagef("%w", err)
	}
	defer dir.Close()
	if err := durable.Replace(dir, filepath.Base(file)+".tmp", filepath.Base(file), []byte(text)); err != nil {
		return tidemark.Storagef("%w", err)
	}
	return i.each(ctx, map[string][][]string{
		"linux":   {{"systemctl", "--user", "daemon-reload"}, {"systemctl", "--user", "enable", "tidemark-watch"}, {"systemctl", "--user", "restart", "tidemark-watch"}},
		"darwin":  {{"-launchctl", "bootout", i.agent()}, {"launchctl", "bootstrap", "gui/" + i.UID, file}},
		"windows": {{"schtasks", "/Create", "/F", "/TN", task, "/XML", file}, {"schtasks", "/Run", "/TN", task}},
	})
}

// installed is ErrNotFound if no watcher was installed.
func (i Installer) installed() error {
	if _, err := os.Stat(i.File()); errors.Is(err, fs.ErrNotExist) && slices.Contains([]string{"linux", "darwin", "windows"}, i.System) {
		return hint.With(tidemark.NotFoundf("no watcher is installed"), "install one with: tidemark watch install")
	}
	return nil
}

// Uninstall ends the watcher, and has the system forget it. What was imported
// stays. ErrNotFound: none was installed.
func (i Installer) Uninstall(ctx context.Context) error {
	if err := i.installed(); err != nil {
		return err
	}
	err := i.each(ctx, map[string][][]string{
		"linux":   {{"systemctl", "--user", "disable", "--now", "tidemark-watch"}},
		"darwin":  {{"launchctl", "bootout", i.agent()}},
		"windows": {{"-schtasks", "/End", "/TN", task}, {"schtasks", "/Delete", "/F", "/TN", task}},
	})
	dir, openErr := durable.OpenDir(filepath.Dir(i.File()))
	if openErr != nil {
		return errors.Join(err, tidemark.NotFoundf("%w", openErr))
	}
	defer dir.Close()
	if gone := dir.Remove(filepath.Base(i.File())); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
		return errors.Join(err, tidemark.Storagef("%w", gone))
	}
	return err
}

// Start has the system start a watcher that was installed. ErrNotFound: none was.
func (i Installer) Start(ctx context.Context) error {
	if err := i.installed(); err != nil {
		return err
	}
	return i.each(ctx, map[string][][]string{
		"linux": {{"systemctl", "--user", "start", "tidemark-watch"}}, "darwin": {{"launchctl", "kickstart", i.agent()}}, "windows": {{"schtasks", "/Run", "/TN", task}},
	})
}

// Stop has the system end the watcher until the user logs in again. ErrNotFound: none
// was installed.
func (i Installer) Stop(ctx context.Context) error {
	if err := i.installed(); err != nil {
		return err
	}
	return i.each(ctx, map[string][][]string{
		"linux": {{"systemctl", "--user", "stop", "tidemark-watch"}}, "darwin": {{"launchctl", "kill", "SIGTERM", i.agent()}}, "windows": {{"schtasks", "/End", "/TN", task}},
	})
}

// task is the name of the task of Windows.
const task = "tidemark-watch"

// agent is how launchd calls the watcher.
func (i Installer) agent() string { return "gui/" + i.UID + "/tidemark.watch" }

// each runs the commands of the system. One that begins with - may fail.
func (i Installer) each(ctx context.Context, commands map[string][][]string) error {
	for _, c := range commands[i.System] {
		name, may := strings.CutPrefix(c[0], "-")
		if said, err := i.Run(ctx, name, c[1:]...); err != nil && !may {
			return hint.With(tidemark.Unsupportedf("%s: %w: %s", strings.Join(c, " "), err, strings.TrimSpace(string(said))),
				"see whether your system keeps programs running for you; without it, run: tidemark watch")
		}
	}
	if commands[i.System] == nil {
		_, err := i.Unit(unit.Service{})
		return err
	}
	return nil
}

// checkUnlocks opens the store of a service as the service will: with nobody to
// ask for a passphrase. ErrSealed: it does not open.
func checkUnlocks(ctx context.Context, s unit.Service, o *open.Options) error {
	how := *o
	how.Access, how.Ask = open.Read, nil
	store, err := open.Store(ctx, s.Command[slices.Index(s.Command, "--store")+1], &how)
	switch {
	case errors.Is(err, tidemark.ErrNoStore):
		return nil // the watcher makes it
	case errors.Is(err, tidemark.ErrSealed):
		return hint.With(fmt.Errorf("the watcher could not open the store: %w", err), "say where it gets the key: TIDEMARK_KEY_COMMAND=COMMAND tidemark watch install, or --key-file PATH")
	case err != nil:
		return err
	}
	return store.Close()
}
