package process

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"
)

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
	n := NewNotifier(func(name string) string { return env[name] })
	now := time.Now()
	n.Ready()
	for i := range 11 { // a sign at 0, 5 and 10 s
		n.Alive(now.Add(time.Duration(i) * time.Second))
	}
	n.Stopping()
	for _, want := range []string{"READY=1", "WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1", "STOPPING=1"} {
		b := make([]byte, 100)
		k, err := c.Read(b)
		if err != nil || string(b[:k]) != want {
			t.Errorf("%q, %v, want %q", b[:k], err, want)
		}
	}
	env["WATCHDOG_PID"] = "1"
	if n := NewNotifier(func(name string) string { return env[name] }); n.watchdog != 0 {
		t.Error("the sign of another process is given")
	}
	none := NewNotifier(func(string) string { return "" })
	none.Ready()
	none.Alive(now)
}
