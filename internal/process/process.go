// Package process identifies processes and proves them dead, and starts, finds
// and ends a process together with everything that it started.
//
// A lease names its holder. When the holder crashed, the next writer should not
// have to wait until the lease runs out; when it is alive, it must not lose the
// lease. So Dead is true only when death is proven, and any doubt counts as
// alive: the lease still runs out by itself. It never decides by the time
// passed.
//
// The package signals only the members of a [Family], the process given to [Signal],
// and with [StopWith] itself, and stores nothing.
//
//	if process.Dead(lease.Holder) { /* take over at once */ }
//	family, err := process.Start(cmd, "")
package process

import (
	"os"
	"sync"

	"github.com/tidemark-sessions/tidemark"
)

// Self returns this process as a holder. What the host does not tell is left
// empty, and then nobody can prove this process dead.
func Self(program string) tidemark.Holder {
	h := self()
	h.Program = program
	return h
}

// self asks the system once: nothing of it changes while the process runs but
// the name of the host, and a holder keeps the name under which it began.
var self = sync.OnceValue(func() tidemark.Holder { return Of(os.Getpid()) })

// Of returns a process of this host as a holder, while the process exists or is
// a zombie. The caller adds the program.
func Of(pid int) tidemark.Holder {
	host, _ := os.Hostname() // without a name, no host equals this one
	return tidemark.Holder{
		PID:       pid,
		Host:      host,
		BootID:    bootID(),
		StartedAt: lookUp(pid).started,
		Namespace: namespace(),
		Machine:   machine(),
	}
}

// Dead reports whether the process that h names is proven to have ended.
func Dead(h tidemark.Holder) bool {
	me := Self("")
	switch {
	case h.PID <= 0:
		// Not a pid: to the kernel, zero and negative numbers mean groups of
		// processes.
		return false
	case h.Host == "" || h.Host != me.Host:
		// Pids of another machine say nothing here.
		return false
	case h.Machine != "" && me.Machine != "" && h.Machine != me.Machine:
		// Another machine with the same name.
		return false
	case h.BootID == "" || me.BootID == "":
		// Without both, a restart of the host cannot be detected, and start
		// times, which count from the boot, cannot be compared.
		return false
	case h.Namespace != me.Namespace:
		// Containers on one host number their processes separately: the same pid
		// is another process, and a missing one may run in another container.
		// This holds across boots, too, because containers on several machines
		// may share a host name; outside of containers the namespace has the
		// same name after every boot.
		return false
	case h.BootID != me.BootID:
		// The host restarted, and no process survives that.
		return true
	}
	s := lookUp(h.PID)
	if s.gone {
		return true
	}
	// Pids are reused. The process that has it now started at another time, so
	// the one that h names has ended.
	return h.StartedAt != "" && s.started != "" && s.started != h.StartedAt
}

// pidState is what the host tells about a pid.
type pidState struct {
	gone    bool   // no process has it, or only a zombie
	started string // when that process, or zombie, started; "": not told
}
