package process

import (
	"os/exec"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/tidemark-sessions/tidemark"
)

// Family is a process with everything that it started: a job object, which
// children cannot leave and which ends with its last handle, so also when its
// owner dies. The job object of another owner's process is not accessible, so at
// most the process itself is found.
type Family struct {
	job windows.Handle
	pid uint32
}

// Start starts cmd as the first of a family. No process can leave it, so the
// mark is not needed.
func Start(cmd *exec.Cmd, _ string) (Family, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return Family{}, err
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
		return Family{}, err
	}
	f := Family{job, uint32(cmd.Process.Pid)}
	if err := f.adopt(); err != nil {
		cmd.Process.Kill()
		cmd.Wait()
		windows.CloseHandle(job)
		return Family{}, err
	}
	return f, nil
}

func (f Family) adopt() error {
	p, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, f.pid)
	if err != nil {
		return err
	}
	defer windows.CloseHandle(p)
	return windows.AssignProcessToJobObject(f.job, p)
}

func familyOf(h tidemark.Holder, _ string) Family {
	if !same(h) {
		return Family{}
	}
	return Family{pid: uint32(h.PID)}
}

// killed is the exit code of a process that is ended from outside.
const killed = 137

// Stop ends all processes, and reports whether none is left. There is no way to
// ask first: programs without a window get no request.
func (f Family) Stop(time.Duration) bool {
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

// Kill ends what is left after the process itself has ended.
func (f Family) Kill() { windows.TerminateJobObject(f.job, killed) }

// Release releases what holds the family together. Processes that are left end.
func (f Family) Release() { windows.CloseHandle(f.job) }
