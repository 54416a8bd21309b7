package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet/unit"
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

func TestSystemdIsToldThatTheFleetIsUpAndAlive(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no systemd on Windows")
	}
	dir, err := os.MkdirTemp("", "n") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "s")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	env := map[string]string{"NOTIFY_SOCKET": socket, "WATCHDOG_USEC": "20000000", "WATCHDOG_PID": strconv.Itoa(os.Getpid())}
	n := newNotifier(func(name string) string { return env[name] })
	now := time.Now()
	n.ready()
	for i := range 11 { // a sign at 0, 5 and 10 s
		n.alive(now.Add(time.Duration(i) * time.Second))
	}
	n.stopping()
	for _, want := range []string{"READY=1", "WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1", "STOPPING=1"} {
		b := make([]byte, 100)
		k, err := c.Read(b)
		if err != nil || string(b[:k]) != want {
			t.Errorf("%q, %v, want %q", b[:k], err, want)
		}
	}
	env["WATCHDOG_PID"] = "1"
	if n := newNotifier(func(name string) string { return env[name] }); n.watchdog != 0 {
		t.Error("the sign of another process is given")
	}
	none := newNotifier(func(string) string { return "" })
	none.ready()
	none.alive(now)
}
