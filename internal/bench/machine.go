package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// machine is where and when it was measured.
type machine struct {
	day        string
	cores      int
	system     string
	fileSystem string // "" where it is not known
	language   string

	// How many processes wanted to run, on average over a minute. More than a
	// few say that the machine was not alone, and times are too long.
	loadBefore, loadAfter string
}

func thisMachine(dir string) machine {
	return machine{day: time.Now().Format(time.DateOnly), cores: runtime.NumCPU(), system: systemName(),
		fileSystem: fileSystemOf(dir), language: runtime.Version(), loadBefore: load()}
}

func (m machine) String() string {
	s := fmt.Sprintf("Measured on %s: %d cores, %s", m.day, m.cores, m.system)
	if m.fileSystem != "" {
		s += ", " + m.fileSystem
	}
	s += ", " + m.language
	if m.loadBefore != "" {
		s += fmt.Sprintf(", load %s before and %s after", m.loadBefore, m.loadAfter)
	}
	return s
}

// load is "" where the kernel does not tell it in a file.
func load() string {
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
