package process

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAZombieIsDead(t *testing.T) {
	cmd, h := child(t)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// WNOWAIT returns when the child has ended, and leaves it a zombie.
	if err := unix.Waitid(unix.P_PID, h.PID, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(h.PID, 0); err != nil {
		t.Fatalf("kill(zombie, 0) = %v, want a zombie to be there", err)
	}
	if !Dead(h) {
		t.Errorf("a zombie is not proven dead: %+v", h)
	}
}

func TestAProcessOfAnotherUserIsAlive(t *testing.T) {
	if os.Getuid() != 0 {
		h := Self("init")
		h.PID, h.StartedAt = 1, ""
		if Dead(h) {
			t.Error("pid 1 is proven dead to a user who may not signal it")
		}
		return
	}
	in, err := json.Marshal(Self("root"))
	if err != nil {
		t.Fatal(err)
	}
	// By way of /proc/self/exe, because another user may not walk down to the
	// folder that the test binary lies in.
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), childVariable+"=judge")
	cmd.Dir = "/"
	cmd.Stdin = bytes.NewReader(in)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(string(out)); got != "false" {
		t.Errorf("to another user, Dead(a living process of root) = %s, want false", got)
	}
}

func TestStatIsReadBehindTheCommand(t *testing.T) {
	const tail = " 1 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 THREADS 0 7777 1 1\n"
	stat := func(front, threads string) []byte {
		return []byte(front + strings.Replace(tail, "THREADS", threads, 1))
	}
	cases := []struct {
		name string
		line []byte
		want pidState
	}{
		{"plain", stat("12 (bash) S", "1"), pidState{started: "7777"}},
		{"a command that imitates a zombie", stat("12 (a) Z 1 1) R", "3"), pidState{started: "7777"}},
		{"zombie", stat("12 (bash) Z", "1"), pidState{gone: true, started: "7777"}},
		{"its first thread ended, others run", stat("12 (bash) Z", "4"), pidState{started: "7777"}},
		{"cut off", []byte("12 (bash) S 1 1"), pidState{}},
		{"empty", nil, pidState{}},
	}
	for _, c := range cases {
		if got, _ := readStat(c.line); got.pidState != c.want {
			t.Errorf("%s: readStat = %+v, want %+v", c.name, got, c.want)
		}
	}
}
