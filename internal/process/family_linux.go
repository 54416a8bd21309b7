package process

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// signal sends s to everybody, and reports whether anybody was there. It adds
// the processes it found to known: one whose parent ends first could not be
// found again.
func (f Family) signal(s syscall.Signal, known relatives) (someone bool) {
	all, err := everybody()
	if err != nil { // no /proc here: the group is all that can be reached
		return f.signalGroup(s)
	}
	me, first := os.Getpid(), ticks(f.began)
	for id, p := range all {
		// No process that is older than the first one descends from it.
		if id != me && id > 1 && ticks(p.started) >= first && f.has(all, id) {
			known[id] = p.started
		}
	}
	grouped := false
	for id, started := range known {
		switch p, there := all[id]; {
		case !there || p.started != started: // it has ended
		case f.trusted && p.group == f.pid:
			grouped = true
		case syscall.Kill(id, s) == nil:
			someone = true
		}
	}
	return grouped && f.signalGroup(s) || someone
}

// everybody returns the processes of this host, without zombies.
func everybody() (map[int]stat, error) {
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
			if s, ok := statOf(id); ok && !s.gone {
				all[id] = s
			}
		}
	}
	return all, nil
}

// has reports whether a process is in the session or the group of the family,
// descends from it, or has its mark in the environment.
func (f Family) has(all map[int]stat, id int) bool {
	p := all[id]
	return f.trusted && (id == f.pid || p.session == f.pid || p.group == f.pid || comesFrom(all, id, f.pid)) || f.marked(id)
}

// ticks parses the start time of a process. An unknown one is before all others.
func ticks(started string) int64 {
	n, _ := strconv.ParseInt(started, 10, 64)
	return n
}

// marked reads the environment that a process started with.
func (f Family) marked(pid int) bool {
	if f.mark == "" {
		return false
	}
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	want := []byte(f.mark)
	for v := range bytes.SplitSeq(b, []byte{0}) {
		if bytes.Equal(v, want) {
			return true
		}
	}
	return false
}

// comesFrom walks up from a process. The steps are bounded because the table was
// not read at one moment.
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
