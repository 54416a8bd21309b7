// Package machine describes where and when something was measured: a figure
// means little without it. It reads facts about the machine and changes
// nothing.
//
//	m := machine.Look(dir)
//	… measure …
//	fmt.Println(m, machine.Load())
package machine

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// Machine is where and when it was measured.
type Machine struct {
	Day        string
	Cores      int
	System     string
	FileSystem string // "" where it is not known
	Language   string
}

// Look looks at the machine, and at the file system that dir lies on.
func Look(dir string) Machine {
	return Machine{Day: time.Now().Format(time.DateOnly), Cores: runtime.NumCPU(), System: systemName(), FileSystem: fileSystemOf(dir), Language: runtime.Version()}
}

func (m Machine) String() string {
	s := fmt.Sprintf("%d cores, %s", m.Cores, m.System)
	if m.FileSystem != "" {
		s += ", " + m.FileSystem
	}
	return s + ", " + m.Language
}

// Load is the number of processes that wanted to run, on average over a
// minute. More than a few mean that the machine was busy with other work, and
// times are too long. It is "" where the kernel does not provide it in a file.
func Load() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(b), " ")
	return first
}

// systemName adds the version where the kernel tells it in a file.
func systemName() string {
	name := runtime.GOOS + "/" + runtime.GOARCH
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		numbers := strings.SplitN(strings.TrimSpace(string(release)), ".", 3)
		name += " " + strings.Join(numbers[:min(2, len(numbers))], ".")
	}
	return name
}

// fileSystemOf reads the table of mounts where there is one.
func fileSystemOf(dir string) string {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return ""
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return ""
	}
	best, kind := "", ""
	for _, line := range strings.Split(string(mounts), "\n") {
		f := strings.Fields(line)
		if len(f) < 3 || len(f[1]) < len(best) {
			continue
		}
		if f[1] == "/" || dir == f[1] || strings.HasPrefix(dir, f[1]+"/") {
			best, kind = f[1], f[2]
		}
	}
	return kind
}

// Program finds a program that scripts/deps.sh brings, installed, or in the folder bin
// at the top of the sources; "" when there is none.
func Program(top, name string) string {
	for _, place := range []string{name, "/usr/sbin/" + name, filepath.Join(top, "bin", name)} {
		if found, err := exec.LookPath(place); err == nil {
			if found, err = filepath.Abs(found); err == nil {
				return found
			}
		}
	}
	return ""
}
