package runner

import (
	"os/exec"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// family is a program with all that it started: a job object, which children
// cannot leave and which ends with its last handle, so also when its owner
// dies. Of another owner's program there is no job object to be had, and at
// most the program itself is left.
type family struct {
	job windows.Handle
	pid uint32
}

func startFamily(cmd *exec.Cmd, _ string) (family, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return family{}, err
	}
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{}
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	if err == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP, HideWindow: true}
		err = cmd.Start()
	}
	if err != nil {
		windows.CloseHandle(job)
		return family{}, err
	}
	f := family{job, uint32(cmd.Process.Pid)}
	if err := f.adopt(); err != nil {
		cmd.Process.Kill()
		cmd.Wait()
		windows.CloseHandle(job)
		return family{}, err
	}
	return f, nil
}

func (f family) adopt() error {
	p, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, f.pid)
	if err != nil {
		return err
	}
	defer windows.CloseHandle(p)
	return windows.AssignProcessToJobObject(f.job, p)
}

func familyOf(p Process) family {
	if !p.sameProcess() {
		return family{}
	}
	return family{pid: uint32(p.PID)}
}

// killed is the exit code of whoever is ended from outside.
const killed = 137

// stop has no way to ask: programs without a window hear no request.
func (f family) stop(time.Duration) bool {
	switch {
	case f.job != 0:
		return windows.TerminateJobObject(f.job, killed) == nil
	case f.pid == 0:
		return true
	}
	p, err := windows.OpenProcess(windows.PROCESS_TERMINATE, false, f.pid)
	if err != nil {
		return err == windows.ERROR_INVALID_PARAMETER // there is no such process
	}
	defer windows.CloseHandle(p)
	return windows.TerminateProcess(p, killed) == nil
}

func (f family) release() { windows.CloseHandle(f.job) }

// startedAt is written as package process writes it, which compares it.
func startedAt(pid int) string {
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(pid))
	if err != nil {
		return ""
	}
	defer windows.CloseHandle(h)
	var began, ended, kernel, user windows.Filetime
	if err := windows.GetProcessTimes(h, &began, &ended, &kernel, &user); err != nil {
		return ""
	}
	return strconv.FormatInt(began.Nanoseconds(), 10)
}

func runnable(string) bool { return true } // exec.LookPath has looked
