package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// startInTerminal starts a process that has a terminal of 100 by 30, and
// returns the other end of it.
func startInTerminal(cmd *exec.Cmd) (*os.File, error) {
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	tty, err := otherEnd(screen)
	if err != nil {
		screen.Close()
		return nil, err
	}
	defer tty.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		screen.Close()
		return nil, err
	}
	return screen, nil
}

func otherEnd(screen *os.File) (*os.File, error) {
	raw, err := screen.SyscallConn()
	if err != nil {
		return nil, err
	}
	var number int
	var refused error
	err = raw.Control(func(fd uintptr) {
		if refused = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); refused != nil {
			return
		}
		if number, refused = unix.IoctlGetInt(int(fd), unix.TIOCGPTN); refused == nil {
			refused = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: 30, Col: 100})
		}
	})
	if err != nil || refused != nil {
		return nil, fmt.Errorf("a terminal: %w", errors.Join(err, refused))
	}
	return os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
}

// cpuOf is the CPU time of a running process so far, 0 when that is not known.
func cpuOf(pid int) time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// Its name, in parentheses, may have anything in it; 11 fields follow before
	// the ticks of a hundredth of a second in the program and in the kernel.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	var ticks int64
	for _, field := range fields[min(11, len(fields)):min(13, len(fields))] {
		n, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return 0
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// residentBytes is how much memory a running process has, 0 when that is not
// known.
func residentBytes(pid int) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(status, []byte("VmRSS:"))
	var kilobytes int64
	fmt.Sscan(string(rest), &kilobytes) // nothing there: 0
	return kilobytes << 10
}
