package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/unit"
)

// printed is the unit of a fleet in a folder with a name that needs care.
func printed(t *testing.T, kind string) (unit, dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), `a b%c$d`)
	if err := os.MkdirAll(filepath.Join(dir, "work"), 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "fleet.yaml")
	text := "version: 1\nagents:\n  - {name: clock, runner: command, command: [\"true\"], dir: work}\nmirror: {dir: ../mirror}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_STATE_HOME", filepath.Join(dir, "..", "state"))
	var out bytes.Buffer
	a := newApp()
	a.out, a.err, a.storeURL, a.keyFile = &out, io.Discard, "sqlite:"+filepath.Join(dir, "..", "data", "x.db"), filepath.Join(dir, "key")
	cmd := (&fleetRoom{app: a, file: file}).install()
	cmd.SetArgs([]string{"--print", kind})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	return out.String(), dir
}

func TestTheUnitIsOneThatSystemdTakes(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("systemd is for Linux")
	}
	unit, dir := printed(t, "systemd")
	outer := filepath.Dir(dir)
	for _, want := range []string{
		"Type=notify\n", "Restart=on-failure\n", "ProtectSystem=strict\n", "NoNewPrivileges=yes\n", "PrivateTmp=yes\n",
		`--key-file "` + outer + `/a b%%c$$d/key" fleet up --file "` + outer + `/a b%%c$$d/fleet.yaml"` + "\n",
		`ReadWritePaths="` + outer + `/a b%%c$d"` + "\n", "ReadWritePaths=" + outer + "/data\n", "ReadWritePaths=" + outer + "/mirror\n",
		"ReadWritePaths=" + outer + "/state/tidemark\n", `Environment=XDG_STATE_HOME=` + outer + "/state\n",
	} {
		if !strings.Contains(unit, want) {
			t.Errorf("no %q in\n%s", want, unit)
		}
	}
	if strings.Contains(unit, "/work") {
		t.Error("a folder in another one is named, too")
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("the rest needs systemd-analyze: ", err)
	}
	file := filepath.Join(t.TempDir(), "tidemark-fleet.service")
	if err := os.WriteFile(file, []byte(unit), 0o600); err != nil {
		t.Fatal(err)
	}
	said, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", "--recursive-errors=no", file).CombinedOutput()
	if err != nil || strings.Contains(string(said), "tidemark-fleet.service:") {
		t.Errorf("%v\n%s\n%s", err, said, unit)
	}
}

func TestThePropertyListHoldsTheCommand(t *testing.T) {
	unit, dir := printed(t, "launchd")
	var list struct {
		Words []string `xml:"dict>array>string"`
	}
	if err := xml.Unmarshal([]byte(unit), &list); err != nil {
		t.Fatalf("%v\n%s", err, unit)
	}
	if n := len(list.Words); n < 5 || !slices.Equal(list.Words[n-4:], []string{"fleet", "up", "--file", filepath.Join(dir, "fleet.yaml")}) {
		t.Errorf("%q", list.Words)
	}
}

func TestOnlyKnownUnitsArePrinted(t *testing.T) {
	cmd := (&fleetRoom{app: newApp(), file: "fleet.yaml"}).install()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs([]string{"--print", "cron"})
	if err := cmd.Execute(); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("%v, want ErrInvalid", err)
	}
	for _, bad := range []string{"a\nExecStart=/bin/sh", "a\x00"} {
		if err := (unit.Service{Command: []string{bad}}).Check(); !errors.Is(err, tidemark.ErrInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
