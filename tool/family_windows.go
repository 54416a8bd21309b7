package tool

import (
	"os/exec"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// family is a process with all that it started: a job object, which children
// cannot leave and which ends with its last handle.
type family struct{ job windows.Handle }

func startFamily(cmd *exec.Cmd) (family, error) {
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
	if err := adopt(job, uint32(cmd.Process.Pid)); err != nil {
		cmd.Process.Kill()
		cmd.Wait()
		windows.CloseHandle(job)
		return family{}, err
	}
	return family{job}, nil
}

func adopt(job windows.Handle, pid uint32) error {
	p, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, pid)
	if err != nil {
		return err
	}
	defer windows.CloseHandle(p)
	return windows.AssignProcessToJobObject(job, p)
}

// killed is the exit code of whoever is ended from outside.
const killed = 137

func (f family) stop() { windows.TerminateJobObject(f.job, killed) }

func (f family) end() { windows.TerminateJobObject(f.job, killed) }

func (f family) release() { windows.CloseHandle(f.job) }
