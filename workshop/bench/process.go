package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// processing measures whole processes that read sessions of many lengths, from
// exec to exit.
func (r *run) processing(ctx context.Context) error {
	if !r.hasProgram() {
		return nil
	}
	n := r.size.processes
	contenders := []contender{{"version", times(n, func() error { return r.start(ctx, nil, "version") })}}
	lengths := append([]int{100}, r.size.logs...)
	longest := make(map[string]*place) // the session whose memory is measured, by backend
	for _, backend := range durable {
		for _, length := range lengths {
			p, err := r.long(ctx, backend, length)
			if err != nil {
				return err
			}
			if p == nil {
				continue
			}
			longest[backend] = p
			contenders = append(contenders, contender{"tail" + backend + short(length), times(n, func() error {
				return r.start(ctx, p, "tail", "-n", "50", "last")
			})})
		}
	}
	if err := r.closeKept(); err != nil {
		return err
	}
	r.say("processes")
	s, err := r.compare(ctx, contenders...)
	if err != nil {
		return err
	}
	r.processed(s, lengths)
	return r.peaks(ctx, longest)
}

// hasProgram notes that nothing is measured where no program was named.
func (r *run) hasProgram() bool {
	if r.program == "" {
		r.table.skip("processes: no program was named")
	}
	return r.program != ""
}

// start runs the program once and discards its output.
func (r *run) start(ctx context.Context, p *place, args ...string) error {
	cmd := r.commandOf(ctx, r.program, p, args...)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("tidemark %s: %w: %s", strings.Join(args, " "), err, complaint.String())
	}
	return nil
}

// commandOf starts in an empty home, so that no configuration applies.
func (r *run) commandOf(ctx context.Context, name string, p *place, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	home := filepath.Join(r.dir, "home")
	cmd.Dir = filepath.Join(home, "project")
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_DATA_HOME="+home)
	if p != nil {
		cmd.Env = append(append(cmd.Env, "TIDEMARK_STORE="+p.url), p.environ...)
	}
	if p != nil && p.keyFile != "" {
		cmd.Env = append(cmd.Env, "TIDEMARK_KEY_FILE="+p.keyFile)
	}
	return cmd
}

func (r *run) processed(s samples, lengths []int) {
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
				goal, w = "P7", want{ratioAtMost: 1.2}
			}
			r.table.add(row{goal: goal, what: "process: tidemark tail of " + short(n) + ": " + backend, time: s.time(name),
				against: "the same of " + short(lengths[0]), ratio: s.ratio(name, base), want: w})
		}
	}
}

// peaks measures how much memory a tail of the longest session takes.
func (r *run) peaks(ctx context.Context, longest map[string]*place) error {
	for _, backend := range durable {
		p := longest[backend]
		bytes, err := storeBytes(p)
		if err != nil {
			return err
		}
		c, err := r.cost(ctx, p, "tail", "-n", "50", "last")
		if err != nil {
			return err
		}
		if c.peak == 0 {
			r.table.skip("memory of a process: this system does not tell")
			return nil
		}
		w := want{}
		if bytes >= 1<<30 {
			met := c.peak <= 40<<20
			w = want{text: "≤ 40 MB", met: &met}
		}
		r.table.add(row{goal: "P7", what: fmt.Sprintf("memory of tidemark tail, %s entries in %.1f GB: %s",
			short(r.size.logs[len(r.size.logs)-1]), float64(bytes)/1e9, backend), value: megabytes(c.peak), want: w})
	}
	return nil
}

// storeBytes is how large a store is on the disk.
func storeBytes(p *place) (total int64, err error) {
	err = filepath.Walk(p.path(), func(_ string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			total += info.Size()
		}
		return err
	})
	return total, err
}

// cost is what a process took.
type cost struct {
	peak int64 // memory in bytes; 0 where this system does not report it
	took time.Duration
}

// costCommand makes this program start another one and report its cost.
const costCommand = "cost-of"

// cost starts the program from a small process: Linux counts the parent's
// memory before exec as the child's.
func (r *run) cost(ctx context.Context, p *place, args ...string) (c cost, err error) {
	self, err := os.Executable()
	if err != nil {
		return c, err
	}
	cmd := r.commandOf(ctx, self, p, append([]string{costCommand, r.program}, args...)...)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return c, fmt.Errorf("tidemark %s: %w: %s", strings.Join(args, " "), err, complaint.String())
	}
	_, err = fmt.Sscan(string(out), &c.peak, (*int64)(&c.took))
	return c, err
}

func costOfChild(args []string) int {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	begin := time.Now()
	if err := cmd.Run(); err != nil {
		return 1
	}
	took := time.Since(begin)
	fmt.Println(peakBytes(cmd.ProcessState), int64(took))
	return 0
}
