package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// starting measures whole processes, from exec to exit.
func (r *run) starting(ctx context.Context) error {
	if r.program == "" {
		r.table.skip("processes: no program was named")
		return nil
	}
	program, err := filepath.Abs(r.program)
	if err != nil {
		return err
	}
	r.program = program
	home := filepath.Join(r.dir, "home")
	if err := os.MkdirAll(home, 0o700); err != nil {
		return err
	}
	many, err := r.crowd(ctx, inSQLite, r.size.listed[0])
	if err != nil {
		return err
	}
	sessions, n := many.url, r.size.processes
	contenders := []contender{
		{"version", times(n, func() error { return r.start(ctx, "", "version") })},
		{"ls", times(n, func() error { return r.start(ctx, sessions, "ls", "-A") })},
		{"completion", times(n, func() error { return r.start(ctx, sessions, "__complete", "show", "") })},
	}
	lengths := append([]int{100}, r.size.logs...)
	peaks := make(map[string]string) // the session whose memory is measured, by backend
	for _, backend := range durable {
		for _, length := range lengths {
			p, err := r.long(ctx, backend, length)
			if err != nil {
				return err
			}
			if p == nil {
				continue
			}
			url := p.url
			peaks[backend] = url
			contenders = append(contenders, contender{"tail" + backend + short(length), times(n, func() error {
				return r.start(ctx, url, "tail", "-n", "50", "last")
			})})
		}
	}
	if node, err := exec.LookPath("node"); err == nil {
		contenders = append(contenders, contender{"node", times(n, func() error { return exec.CommandContext(ctx, node, "-e", "0").Run() })})
	}
	if err := r.closeKept(); err != nil {
		return err
	}
	r.say("processes")
	s, err := r.compare(ctx, contenders...)
	if err != nil {
		return err
	}
	r.started(s, lengths)
	return r.peaks(ctx, peaks)
}

// start runs the program once and lets what it prints go.
func (r *run) start(ctx context.Context, url string, args ...string) error {
	cmd := r.commandOf(ctx, r.program, url, args...)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("tidemark %s: %w: %s", strings.Join(args, " "), err, complaint.String())
	}
	return nil
}

// commandOf starts in an empty home, so that nobody's configuration counts.
func (r *run) commandOf(ctx context.Context, name, url string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = filepath.Join(r.dir, "home")
	cmd.Env = append(os.Environ(), "HOME="+cmd.Dir, "XDG_CONFIG_HOME="+cmd.Dir, "XDG_DATA_HOME="+cmd.Dir, "TIDEMARK_STORE="+url)
	return cmd
}

func (r *run) started(s samples, lengths []int) {
	all := r.size.listed == full.listed
	node := len(s["node"]) > 0
	if node {
		r.table.add(row{what: "process: node -e 0", time: s.time("node")})
	}
	r.table.add(row{goal: "P10", what: "process: tidemark version", time: s.time("version"), want: want{timeAtMost: 10e6}})
	if node {
		r.table.add(row{goal: "P10", what: "process: tidemark version", time: s.time("version"), against: "node -e 0",
			ratio: s.faster("version", "node"), faster: true, want: want{ratioAtLeast: 10}})
	}
	ls, lsTime := want{}, want{}
	if all {
		ls, lsTime = want{ratioAtMost: 2}, want{timeAtMost: 20e6}
	}
	work := fmt.Sprintf("process: tidemark ls, %s sessions", short(r.size.listed[0]))
	r.table.add(row{goal: "P6", what: work, time: s.time("ls"), against: "tidemark version", ratio: s.ratio("ls", "version"), want: ls})
	r.table.add(row{goal: "P10", what: work, time: s.time("ls"), want: lsTime})
	r.table.add(row{goal: "P10", what: fmt.Sprintf("process: completion, %s sessions", short(r.size.listed[0])), time: s.time("completion"),
		against: "tidemark version", ratio: s.ratio("completion", "version"), want: want{timeAtMost: 30e6}})
	for _, backend := range durable {
		base := "tail" + backend + short(lengths[0])
		r.table.add(row{what: "process: tidemark tail of " + short(lengths[0]) + ": " + backend, time: s.time(base),
			against: "tidemark version", ratio: s.ratio(base, "version")})
		for _, n := range lengths[1:] {
			name := "tail" + backend + short(n)
			if len(s[name]) == 0 {
				continue
			}
			goal, w := "", want{}
			if n == 1_000_000 {
				goal, w = "P7", want{ratioAtMost: 1.3}
			}
			r.table.add(row{goal: goal, what: "process: tidemark tail of " + short(n) + ": " + backend, time: s.time(name),
				against: "the same of " + short(lengths[0]), ratio: s.ratio(name, base), want: w})
		}
	}
	if info, err := os.Stat(r.program); err == nil {
		met := info.Size() <= 50<<20
		r.table.add(row{goal: "P10", what: "size of the program", value: fmt.Sprintf("%d MB", (info.Size()+1<<20-1)>>20), want: want{text: "≤ 50 MB", met: &met}})
	}
}

// peaks measures how much memory a tail of the longest session takes.
func (r *run) peaks(ctx context.Context, urls map[string]string) error {
	longest := r.size.logs[len(r.size.logs)-1]
	for _, backend := range durable {
		url := urls[backend]
		bytes, err := storeBytes(url)
		if err != nil {
			return err
		}
		peak, err := r.peak(ctx, url, "tail", "-n", "50", "last")
		if err != nil {
			return err
		}
		if peak == 0 {
			r.table.skip("memory of a process: this system does not tell")
			return nil
		}
		w := want{}
		if bytes >= 1<<30 {
			met := peak <= 40<<20
			w = want{text: "≤ 40 MB", met: &met}
		}
		r.table.add(row{goal: "P7", what: fmt.Sprintf("memory of tidemark tail, %s entries in %.1f GB: %s", short(longest), float64(bytes)/1e9, backend),
			value: fmt.Sprintf("%d MB", peak>>20), want: w})
	}
	return nil
}

// storeBytes is how large a store is on the disk.
func storeBytes(url string) (total int64, err error) {
	_, path, _ := strings.Cut(url, ":")
	err = filepath.Walk(path, func(_ string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			total += info.Size()
		}
		return err
	})
	return total, err
}

// peakCommand makes this program start another one and say how much memory
// that had.
const peakCommand = "peak-of"

// peak starts the program from a small process: Linux counts what the parent
// had before exec as the child's.
func (r *run) peak(ctx context.Context, url string, args ...string) (int64, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := r.commandOf(ctx, self, url, append([]string{peakCommand, r.program}, args...)...)
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("tidemark %s: %w", strings.Join(args, " "), err)
	}
	return strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
}

func peakOfChild(args []string) int {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = io.Discard, os.Stderr
	if err := cmd.Run(); err != nil {
		return 1
	}
	fmt.Println(peakBytes(cmd.ProcessState))
	return 0
}
