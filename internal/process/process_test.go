package process

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
)

// The test binary is also the other process: "wait" says who it is and lives
// until its input ends, "judge" says whether the holder on its input is dead.
// "deaf" waits and ends by no request; "leave" starts such a one, which leaves
// the session, and waits.
const childVariable = "TIDEMARK_TEST_PROCESS"

func TestMain(m *testing.M) {
	switch os.Getenv(childVariable) {
	case "wait":
		json.NewEncoder(os.Stdout).Encode(Self("child"))
		io.Copy(io.Discard, os.Stdin)
	case "leave":
		leave()
		io.Copy(io.Discard, os.Stdin)
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
		json.NewEncoder(os.Stdout).Encode(Self("child"))
		io.Copy(io.Discard, os.Stdin)
	case "judge":
		var h tidemark.Holder
		if err := json.NewDecoder(os.Stdin).Decode(&h); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(Dead(h))
	default:
		os.Exit(m.Run())
	}
}

// child starts a process that waits, and returns it with who it is.
func child(t *testing.T) (*exec.Cmd, tidemark.Holder) {
	t.Helper()
	return start(t, "wait", (*exec.Cmd).Start)
}

// start starts a process in a role, and returns it with who its output names.
func start(t *testing.T, role string, begin func(*exec.Cmd) error) (*exec.Cmd, tidemark.Holder) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childVariable+"="+role)
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := begin(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	var h tidemark.Holder
	if err := json.NewDecoder(out).Decode(&h); err != nil {
		t.Fatal(err)
	}
	return cmd, h
}

func TestSelfTellsEverythingThatIdentifiesAProcess(t *testing.T) {
	h := Self("chat")
	if h.Program != "chat" || h.PID != os.Getpid() {
		t.Errorf("Self = %+v, want program chat and pid %d", h, os.Getpid())
	}
	if h.Host == "" || h.BootID == "" || h.StartedAt == "" {
		t.Errorf("Self = %+v, want host, boot id and start time", h)
	}
	if diff := cmp.Diff(h, Self("chat")); diff != "" {
		t.Errorf("Self changed from call to call:\n%s", diff)
	}
}

func TestOfTellsWhatAProcessTellsOfItself(t *testing.T) {
	cmd, h := child(t)
	of := Of(cmd.Process.Pid)
	of.Program = h.Program
	if diff := cmp.Diff(h, of); diff != "" {
		t.Errorf("Of (-what the process says +got):\n%s", diff)
	}
}

func TestTheLivingAreNotDead(t *testing.T) {
	if Dead(Self("me")) {
		t.Error("this process is proven dead")
	}
	_, h := child(t)
	if Dead(h) {
		t.Errorf("a child that waits is proven dead: %+v", h)
	}
}

func TestAKilledProcessIsDead(t *testing.T) {
	cmd, h := child(t)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if !Dead(h) {
		t.Errorf("a killed child is not proven dead: %+v", h)
	}
}

func TestAReusedPidIsAnotherProcess(t *testing.T) {
	_, h := child(t)
	h.StartedAt += "1"
	if !Dead(h) {
		t.Error("the pid belongs to a process that began at another time, and the holder is not proven dead")
	}
}

func TestARestartOfTheHostEndsEverything(t *testing.T) {
	h := Self("me")
	h.BootID = "another"
	if !Dead(h) {
		t.Error("a process of another boot is not proven dead")
	}
}

func TestDoubtCountsAsLife(t *testing.T) {
	cmd, gone := child(t)
	cmd.Process.Kill()
	cmd.Wait()
	alive := Self("me")
	cases := []struct {
		name  string
		who   tidemark.Holder
		doubt func(*tidemark.Holder)
	}{
		{"another host", gone, func(h *tidemark.Holder) { h.Host += "x" }},
		{"another host and boot", gone, func(h *tidemark.Holder) { h.Host, h.BootID = "x", "x" }},
		{"no host", gone, func(h *tidemark.Holder) { h.Host = "" }},
		{"no boot id", gone, func(h *tidemark.Holder) { h.BootID = "" }},
		{"another namespace", gone, func(h *tidemark.Holder) { h.Namespace += "x" }},
		{"another namespace and boot", gone, func(h *tidemark.Holder) { h.Namespace, h.BootID = "x", "x" }},
		{"pid zero", gone, func(h *tidemark.Holder) { h.PID = 0 }},
		{"pid minus one", gone, func(h *tidemark.Holder) { h.PID = -1 }},
		{"alive, start time unknown", alive, func(h *tidemark.Holder) { h.StartedAt = "" }},
		{"nothing known", gone, func(h *tidemark.Holder) { *h = tidemark.Holder{} }},
	}
	for _, c := range cases {
		h := c.who
		c.doubt(&h)
		if Dead(h) {
			t.Errorf("%s: proven dead: %+v", c.name, h)
		}
	}
}

func TestAnotherMachineOfTheSameNameIsNotProvenDead(t *testing.T) {
	h := Self("test")
	h.BootID, h.Machine = "another boot", "another machine"
	if Self("").Machine == "" {
		t.Skip("this system tells no machine id")
	}
	if Dead(h) {
		t.Error("a process of another machine counts as dead")
	}
	if h.Machine = Self("").Machine; !Dead(h) && h.Namespace == Self("").Namespace {
		t.Error("a process from before this machine's boot counts as alive")
	}
}
