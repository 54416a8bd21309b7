package watch

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/unit"
	"github.com/tidemark-sessions/tidemark/open"
)

// careful is a service with words that need care.
var careful = unit.Service{Command: []string{"/opt/a b/tidemark", "--store", `sqlite:/data/100%$HOME"q"\.db`, "watch"}, User: "ada",
	Environ: []string{"PATH=/usr/bin", `TIDEMARK_KEY_COMMAND=pass show "tide & mark" <x>`}}

// system is one that does what it is told, and remembers it.
type system struct {
	told []string
	fail string
}

func (s *system) run(_ context.Context, name string, args ...string) ([]byte, error) {
	line := strings.Join(append([]string{name}, args...), " ")
	s.told = append(s.told, line)
	if s.fail != "" && strings.Contains(line, s.fail) {
		return []byte("no bus"), errors.New("exit status 1")
	}
	return nil, nil
}

func TestInstalledAndUninstalledOnEverySystem(t *testing.T) {
	for name, want := range map[string]string{"linux": "systemctl --user restart tidemark-watch", "darwin": "launchctl bootstrap gui/7", "windows": "schtasks /Create /F /TN tidemark-watch /XML "} {
		home := t.TempDir()
		s := &system{fail: map[string]string{"darwin": "bootout"}[name]}
		i := Installer{System: name, Config: filepath.Join(home, "config"), Home: home, UID: "7", Run: s.run}
		for range 2 { // one that is there is replaced
			if err := i.Install(t.Context(), careful, new(open.Options)); err != nil {
				t.Fatal(name, err)
			}
		}
		text, err := os.ReadFile(i.File())
		if wanted, _ := i.Unit(careful); err != nil || string(text) != wanted {
			t.Errorf("%s: %v, %s", name, err, text)
		}
		if !slices.ContainsFunc(s.told, func(line string) bool { return strings.HasPrefix(line, want) }) {
			t.Errorf("%s: told %q, want %q", name, s.told, want)
		}
		s.fail = ""
		for _, do := range []func(context.Context) error{i.Stop, i.Start, i.Uninstall} {
			if err := do(t.Context()); err != nil {
				t.Error(name, err)
			}
		}
		if _, err := os.Stat(i.File()); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: its unit is left: %v", name, err)
		}
		for _, do := range []func(context.Context) error{i.Stop, i.Start, i.Uninstall} {
			if err := do(t.Context()); !errors.Is(err, tidemark.ErrNotFound) {
				t.Errorf("%s: without one that is installed: %v", name, err)
			}
		}
	}
	s := &system{fail: "daemon-reload"}
	home := t.TempDir()
	if err := (Installer{System: "linux", Config: home, Run: s.run}).Install(t.Context(), careful, new(open.Options)); !errors.Is(err, tidemark.ErrUnsupported) || !strings.Contains(err.Error(), "no bus") {
		t.Errorf("%v", err)
	}
	if err := (Installer{System: "plan9", Run: s.run}).Start(t.Context()); !errors.Is(err, tidemark.ErrUnsupported) {
		t.Errorf("%v", err)
	}
}

func TestAStoreThatWouldAskIsNotHandedToTheSystem(t *testing.T) {
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	o := &open.Options{Access: open.Create, Key: open.Key{File: key}, Environ: []string{"HOME=" + dir}}
	url := "sqlite:" + filepath.Join(dir, "store.db")
	opened, err := open.Open(t.Context(), url, o)
	if err == nil {
		err = opened.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	s := &system{}
	i := Installer{System: "linux", Config: dir, Home: dir, Run: s.run}
	service := unit.Service{Command: []string{"/bin/true", "--store", url, "watch"}}
	if err := i.Install(t.Context(), service, o); err != nil {
		t.Errorf("with its key: %v", err)
	}
	asks := *o
	asks.Key = open.Key{}
	asks.Ask = func(context.Context, string) ([]byte, error) { t.Error("somebody was asked"); return nil, nil }
	s.told = nil
	if err := i.Install(t.Context(), service, &asks); !errors.Is(err, tidemark.ErrSealed) || len(s.told) > 0 {
		t.Errorf("without: %v, told %q", err, s.told)
	}
}

func TestTheUnitOfTheWatcherIsOneThatSystemdTakes(t *testing.T) {
	text, err := Installer{System: "linux"}.Unit(careful)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`ExecStart="/opt/a b/tidemark" --store "sqlite:/data/100%%$$HOME\"q\"\\.db" watch` + "\n", "Restart=on-failure\n", "WantedBy=default.target\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if _, err := (Installer{System: "linux"}).Unit(unit.Service{Command: []string{"a\nExecStart=/bin/sh"}}); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("%v", err)
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("the rest needs systemd-analyze: ", err)
	}
	file := filepath.Join(t.TempDir(), "tidemark-watch.service")
	there := careful
	there.Command = []string{"/bin/true", "watch"}
	text, err = Installer{System: "linux"}.Unit(there)
	if err = errors.Join(err, os.WriteFile(file, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	said, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", "--recursive-errors=no", file).CombinedOutput()
	if err != nil || strings.Contains(string(said), "tidemark-watch.service:") {
		t.Errorf("%v\n%s\n%s", err, said, text)
	}
}

func TestTheOtherUnitsAreXMLThatHoldsTheCommand(t *testing.T) {
	text, err := Installer{System: "darwin"}.Unit(careful)
	var list struct {
		Words   []string `xml:"dict>array>string"`
		Environ []string `xml:"dict>dict>string"`
	}
	if err = errors.Join(err, xml.Unmarshal([]byte(text), &list)); err != nil || !slices.Equal(list.Words, careful.Command) || len(list.Environ) != 2 {
		t.Errorf("%v: %q\n%s", err, list, text)
	}
	text, err = Installer{System: "windows"}.Unit(careful)
	var task struct {
		Command   string `xml:"Actions>Exec>Command"`
		Arguments string `xml:"Actions>Exec>Arguments"`
	}
	if err = errors.Join(err, xml.Unmarshal([]byte(text), &task)); err != nil || task.Command != careful.Command[0] || task.Arguments != `--store "sqlite:/data/100%$HOME\"q\"\.db" watch` {
		t.Errorf("%v: %q\n%s", err, task, text)
	}
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
