package process

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

func leave() {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), childVariable+"=deaf")
	cmd.Stdin, cmd.Stdout = os.Stdin, os.Stdout
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Start()
}

func TestWhoLeftTheSessionIsEndedAlthoughItsParentEndsFirst(t *testing.T) {
	var family Family
	_, deaf := start(t, "leave", func(cmd *exec.Cmd) (err error) {
		family, err = Start(cmd, "")
		return err
	})
	if !family.Stop(50*time.Millisecond) || !Dead(deaf) {
		t.Errorf("%+v was not ended", deaf)
	}
}

func TestWhoInheritedTheMarkIsFoundWhenNoPidIsKnown(t *testing.T) {
	const mark = "TIDEMARK_TEST_MARK=family"
	_, deaf := start(t, "leave", func(cmd *exec.Cmd) error {
		cmd.Env = append(cmd.Env, mark)
		_, err := Start(cmd, mark)
		return err
	})
	owner := Self("owner")
	owner.PID, owner.StartedAt = 0, ""
	if !Find(owner, mark).Stop(50*time.Millisecond) || !Dead(deaf) {
		t.Errorf("%+v was not ended", deaf)
	}
}
