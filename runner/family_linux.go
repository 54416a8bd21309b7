package runner

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// stat is what /proc/PID/stat tells of a process.
type stat struct {
	state                  byte
	parent, group, session int
	began                  int64 // ticks since the boot
}

// readStat reads behind the name, which may hold anything.
func readStat(pid int) (s stat, ok bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return s, false
	}
	return parseStat(b)
}

func parseStat(b []byte) (s stat, ok bool) {
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	const state, parent, group, session, began = 0, 1, 2, 3, 19
	if len(f) <= began {
		return s, false
	}
	s.state = f[state][0]
	s.parent, _ = strconv.Atoi(string(f[parent]))
	s.group, _ = strconv.Atoi(string(f[group]))
	s.session, _ = strconv.Atoi(string(f[session]))
	s.began, _ = strconv.ParseInt(string(f[began]), 10, 64)
	return s, true
}

// startedAt is written as package process writes it, which compares it.
func startedAt(pid int) string {
	s, ok := readStat(pid)
	if !ok {
		return ""
	}
	return strconv.FormatInt(s.began, 10)
}

// signal sends s to everybody, and reports whether somebody was there.
func (f family) signal(s syscall.Signal) (someone bool) {
	members, err := f.members()
	if err != nil { // no /proc here: the group is all that can be reached
		return f.trusted && f.pid > 0 && syscall.Kill(-f.pid, s) == nil
	}
	for _, pid := range members {
		if syscall.Kill(pid, s) == nil {
			someone = true
		}
	}
	return someone
}

// members returns who is in the session or the group of the program, descends
// from it, or has its mark in the environment: by that are found those who
// made themselves independent and whose parents have ended. A process that
// has ended and that nobody has noticed yet does not count.
func (f family) members() (found []int, err error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	all := make(map[int]stat, len(names))
	for _, n := range names {
		if id, err := strconv.Atoi(n); err == nil {
			if s, ok := readStat(id); ok && s.state != 'Z' && s.state != 'X' {
				all[id] = s
			}
		}
	}
	began, _ := strconv.ParseInt(f.began, 10, 64)
	me := os.Getpid()
	for id, s := range all {
		switch {
		case id == me || id <= 1 || s.began < began:
			// Nobody who was there before the program descends from it.
		case f.trusted && (id == f.pid || s.session == f.pid || s.group == f.pid || comesFrom(all, id, f.pid)),
			f.marked(id):
			found = append(found, id)
		}
	}
	return found, nil
}

// marked looks into the environment that a process began with.
func (f family) marked(pid int) bool {
	if f.mark == "" {
		return false
	}
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	want := []byte(variableMark + "=" + f.mark)
	for v := range bytes.SplitSeq(b, []byte{0}) {
		if bytes.Equal(v, want) {
			return true
		}
	}
	return false
}

// comesFrom walks up from a process. The steps are counted because the lines
// were not read at one instant.
func comesFrom(all map[int]stat, id, ancestor int) bool {
	for range len(all) {
		s, ok := all[id]
		if !ok || id <= 1 {
			return false
		}
		if s.parent == ancestor {
			return true
		}
		id = s.parent
	}
	return false
}
