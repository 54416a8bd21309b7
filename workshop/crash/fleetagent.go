package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// agentOf is the helper command of an agent: agent NAME MARKS. Agents record
// themselves when they begin and end, and how many others of their fleet run
// at that time.
func agentOf(_ context.Context, args []string, _ io.Reader, out io.Writer) error {
	if len(args) != 2 {
		return fmt.Errorf("agent %q: want a name and a file", args)
	}
	name, marks, job := args[0], args[1], os.Getenv("TIDEMARK_JOB")
	if name == "child" { // of an agent, in a group of its own
		if err := addMark(marks, "child", job, name, os.Getpid()); err != nil {
			return err
		}
		time.Sleep(time.Minute)
		return nil
	}
	if err := addMark(marks, "begin", job, name, os.Getpid()); err != nil {
		return err
	}
	if err := meet(marks, job, name); err != nil {
		return err
	}
	lines, pause := 3, time.Duration(0)
	switch name {
	case "long":
		lines, pause = 30, 60*time.Millisecond
	case "heavy":
		lines = 400
	case "last":
		pause = 100 * time.Millisecond
	case "fork":
		if err := begetChild(marks); err != nil {
			return err
		}
		pause = 150 * time.Millisecond
	}
	for n := range lines {
		if _, err := io.WriteString(out, agentLine(job, n+1)+"\n"); err != nil {
			return err
		}
		time.Sleep(pause)
	}
	return addMark(marks, "end", job, name, lines)
}

// agentLine is the nth line that the agent of a job prints.
func agentLine(job string, n int) string {
	return fmt.Sprintf("line %d of %s %s.", n, job, strings.Repeat(canary, 1+n%60))
}

// begetChild starts a process that outlives the agent, unless somebody ends it.
func begetChild(marks string) error {
	me, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(me, "agent", "child", marks)
	ownGroup(cmd)
	return cmd.Start()
}

// meet counts the processes of the agent, and of the fleet, that run beside a
// job that has just recorded its start: of two that begin at once one sees the
// other.
func meet(marks, job, name string) error {
	all, err := readMarks(marks)
	if err != nil {
		return err
	}
	ended := make(map[string]bool)
	for _, m := range all {
		ended[m.job] = ended[m.job] || m.what == "end"
	}
	mine, fleet := 0, 0
	for _, m := range all {
		if m.what == "begin" && !ended[m.job] && m.alive() {
			fleet++
			if m.name == name {
				mine++
			}
		}
	}
	if mine > fleetLimits[name] || fleet > fleetLimits[""] {
		return addMark(marks, "over", job, name, max(mine, fleet))
	}
	return nil
}

// mark is a line of the file that agents write to. The meaning of its number
// depends on its kind: a pid, the number of lines printed, or the number of
// others that run.
type mark struct {
	what, job, name string
	pid             int
	began           string // start time of the process that wrote it
}

func addMark(path, what, job, name string, number int) error {
	began, _ := processBegan(os.Getpid())
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = fmt.Fprintf(f, "%s %s %s %d %s\n", what, job, name, number, began)
	return err
}

func readMarks(path string) ([]mark, error) {
	data, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	var all []mark
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) == 5 && strings.HasSuffix(line, "\n") {
			n, _ := strconv.Atoi(f[3]) // our own number
			all = append(all, mark{f[0], f[1], f[2], n, f[4]})
		}
	}
	return all, nil
}

// alive reports whether the process of a begin or child mark runs.
func (m mark) alive() bool {
	began, ok := processBegan(m.pid)
	return ok && began == m.began
}

// processBegan returns the start time of a running process, in the kernel's
// units.
func processBegan(pid int) (string, bool) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, ok := strings.Cut(string(data), ") ")
	f := strings.Fields(rest)
	if err != nil || !ok || len(f) < 20 || f[0] == "Z" || f[0] == "X" {
		return "-", false
	}
	return f[19], true
}
