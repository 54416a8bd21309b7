package pgtest

import (
	"errors"
	"os/exec"
)

// account is who runs a server.
type account struct{ name string }

// whom returns an error: private servers need unix sockets, signals and a
// shell.
func whom() (account, error) {
	return account{}, missing("private servers are not run on Windows")
}

func (account) own(string) error { return nil }

func command(_ account, dir, program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	return cmd
}

func apart(*exec.Cmd) {}

func killFamily(int, <-chan struct{}) error { return errors.ErrUnsupported }

func suspendFamily(int, bool) error { return errors.ErrUnsupported }
