package process

import (
	"strconv"
	"sync"
	"unsafe"

	"golang.org/x/sys/windows"
)

// systemPID is the kernel's own process, the first of every boot.
const systemPID = 4

// bootID is when the kernel's own process started. That is recorded once, while
// the boot time that the system reports moves whenever the clock is set, which
// would look like a boot.
var bootID = sync.OnceValue(func() string {
	for size := uint32(256 << 10); size <= 64<<20; size *= 2 {
		list := make([]uint64, size/8) // aligned for the structures in it
		err := windows.NtQuerySystemInformation(windows.SystemProcessInformation, unsafe.Pointer(&list[0]), size, nil)
		if err == windows.STATUS_INFO_LENGTH_MISMATCH {
			continue // more processes than fit
		}
		if err != nil {
			return ""
		}
		return systemStart(list)
	}
	return ""
})

// systemStart walks the list of processes to the kernel's own.
func systemStart(list []uint64) string {
	end := uintptr(len(list)) * 8
	for at := uintptr(0); at+unsafe.Sizeof(windows.SYSTEM_PROCESS_INFORMATION{}) <= end; {
		p := (*windows.SYSTEM_PROCESS_INFORMATION)(unsafe.Add(unsafe.Pointer(&list[0]), at))
		if p.UniqueProcessID == systemPID && p.CreateTime != 0 {
			return strconv.FormatInt(p.CreateTime, 10)
		}
		if p.NextEntryOffset == 0 {
			break
		}
		at += uintptr(p.NextEntryOffset)
	}
	return ""
}

// namespace is empty: all processes of a host share one numbering.
func namespace() string { return "" }

// machine is not known here; the host name has to be enough.
func machine() string { return "" }

// lookUp opens the process. Only "invalid parameter" means that there is none;
// "access denied" means a process of another user.
func lookUp(pid int) pidState {
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION|windows.SYNCHRONIZE, false, uint32(pid))
	if err == windows.ERROR_INVALID_PARAMETER {
		return pidState{gone: true}
	}
	if err != nil {
		return pidState{}
	}
	defer windows.CloseHandle(h)
	// A process that ended stays visible as long as a handle on it is open; its
	// handle is signalled.
	event, err := windows.WaitForSingleObject(h, 0)
	s := pidState{gone: err == nil && event == windows.WAIT_OBJECT_0}
	var began, ended, kernel, user windows.Filetime
	if err := windows.GetProcessTimes(h, &began, &ended, &kernel, &user); err == nil {
		s.started = strconv.FormatInt(began.Nanoseconds(), 10)
	}
	return s
}
