// Package process says who a process is and whether it is dead, and starts,
// finds and ends a process together with all that it started.
//
// A lease names its holder. When the holder crashed, the next writer should
// not have to wait until the lease runs out; when it is alive, it must not
// lose the lease. So Dead answers true only when death is proven, and every
// doubt counts as life: the lease still ends by itself. It never decides by
// time passed.
//
// The package signals nobody but the members of a [Family] and whom [Signal] is
// asked to, and keeps nothing.
//
//	if process.Dead(lease.Holder) { /* take over at once */ }
//	family, err := process.Start(cmd, "")
package process

import (
	"os"

	"github.com/tidemark-sessions/tidemark"
)

// Self returns the holder that this process is. What the host does not tell is
// left empty, and then nobody will prove this process dead.
func Self(program string) tidemark.Holder {
	h := Of(os.Getpid())
	h.Program = program
	return h
}

// Of returns the holder that a process of this host is, for as long as the
// process is there or its parent has not noticed its end. What program it is
// is for the caller to say.
func Of(pid int) tidemark.Holder {
	host, _ := os.Hostname() // without a name, no host is the same as this one
	return tidemark.Holder{
		PID:       pid,
		Host:      host,
		BootID:    bootID(),
		StartedAt: look(pid).started,
		Namespace: namespace(),
		Machine:   machine(),
	}
}

// Dead reports whether the process that h names is proven to run no more.
func Dead(h tidemark.Holder) bool {
	me := Self("")
	switch {
	case h.PID <= 0:
		// Not a pid: to the kernel, zero and less mean groups of processes.
		return false
	case h.Host == "" || h.Host != me.Host:
		// Pids of another machine say nothing here.
		return false
	case h.Machine != "" && me.Machine != "" && h.Machine != me.Machine:
		// Another machine that bears the same name.
		return false
	case h.BootID == "" || me.BootID == "":
		// Without both, one cannot tell a restart of the host, and start times
		// that count from the boot cannot be compared.
		return false
	case h.Namespace != me.Namespace:
		// Containers on one host number their processes apart: the same pid is
		// another process, and one that is not there may well run next door.
		// This holds across boots too, because containers on several machines
		// may bear one host name; outside of containers the namespace has the
		// same name after every boot.
		return false
	case h.BootID != me.BootID:
		// The host restarted, and no process survives that.
		return true
	}
	s := look(h.PID)
	if s.gone {
		return true
	}
	// Pids are used again. The one that has it now began at another time, so
	// the one that h names has ended.
	return h.StartedAt != "" && s.started != "" && s.started != h.StartedAt
}

// sight is what the host tells about a pid.
type sight struct {
	gone    bool   // no process has it, or only the remains of one that ended
	started string // when the process that has it began, or what remains of it did; "": not told
}
