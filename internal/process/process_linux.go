package process

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// bootID is random and changes with each boot of the kernel.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// namespace names the pid namespace, like pid:[4026531836].
func namespace() string {
	s, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return s
}

// machine is derived from the id that the system got when it was installed. That
// id should stay private, so only a hash of it is used.
func machine() string {
	b, err := os.ReadFile("/etc/machine-id")
	if err != nil || len(bytes.TrimSpace(b)) == 0 {
		return ""
	}
	sum := sha256.Sum256(append([]byte("tidemark "), bytes.TrimSpace(b)...))
	return hex.EncodeToString(sum[:8])
}

// lookUp uses kill first: /proc may be mounted so that it hides the processes of
// other users, and then a missing directory proves nothing. Any result but ESRCH
// means that there is a process, including EPERM: it belongs to another user.
func lookUp(pid int) pidState {
	if unix.Kill(pid, 0) == unix.ESRCH {
		return pidState{gone: true}
	}
	st, _ := statOf(pid)
	return st.pidState
}

// stat is what /proc/<pid>/stat tells about a process.
type stat struct {
	pidState
	parent, group, session int
}

// statOf reports false when nothing is known.
func statOf(pid int) (stat, bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, false
	}
	return readStat(b)
}

// Positions in /proc/<pid>/stat, counted from the field after the command.
const (
	statState   = 0  // field 3
	statParent  = 1  // field 4
	statGroup   = 2  // field 5
	statSession = 3  // field 6
	statThreads = 17 // field 20
	statStarted = 19 // field 22, in ticks since the boot
)

// readStat parses the line after its last parenthesis: the command before it is
// chosen by the process, and may contain spaces and parentheses.
func readStat(line []byte) (s stat, ok bool) {
	fields := bytes.Fields(line[bytes.LastIndexByte(line, ')')+1:])
	if len(fields) <= statStarted {
		return stat{}, false
	}
	number := func(at int) int {
		n, _ := strconv.Atoi(string(fields[at]))
		return n
	}
	s.parent, s.group, s.session = number(statParent), number(statGroup), number(statSession)
	s.started = string(fields[statStarted])
	switch fields[statState][0] {
	case 'Z', 'X', 'x':
		// A zombie has ended and waits for its parent to notice. If only its
		// first thread ended, the process continues, and the kernel counts more
		// than one thread.
		n, err := strconv.Atoi(string(fields[statThreads]))
		s.gone = err == nil && n <= 1
	}
	return s, true
}
