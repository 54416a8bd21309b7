package tool

import (
	"os"
	"strconv"
	"strings"
)

// relative is a process that descends from another one. Its start time tells
// it from a later one of the same number.
type relative struct {
	pid     int
	started string
}

func (r relative) same() bool {
	p, ok := readProcess(r.pid)
	return ok && p.started == r.started
}

type processLine struct {
	parent, session int
	started         string
}

// readProcess reads /proc/PID/stat behind the name, which may hold anything.
func readProcess(pid int) (p processLine, ok bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return p, false
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	const parent, session, started = 1, 3, 19
	if len(f) <= started {
		return p, false
	}
	p.parent, _ = strconv.Atoi(f[parent])
	p.session, _ = strconv.Atoi(f[session])
	p.started = f[started]
	return p, true
}

// descendants returns the processes of the session that pid leads, and those
// below it in other sessions: whoever left the group with setsid or by job
// control is among them, unless its parent ended first.
func descendants(pid int) (found []relative) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	all := make(map[int]processLine, len(names))
	for _, n := range names {
		if id, err := strconv.Atoi(n); err == nil {
			if p, ok := readProcess(id); ok {
				all[id] = p
			}
		}
	}
	for id, p := range all {
		if id != pid && (p.session == pid || comesFrom(all, id, pid)) {
			found = append(found, relative{id, p.started})
		}
	}
	return found
}

// comesFrom walks up from a process. The steps are counted because the lines
// were not read at one instant.
func comesFrom(all map[int]processLine, id, ancestor int) bool {
	for range len(all) {
		p, ok := all[id]
		if !ok || id <= 1 {
			return false
		}
		if p.parent == ancestor {
			return true
		}
		id = p.parent
	}
	return false
}
