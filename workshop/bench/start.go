package main

import (
	"context"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
)

// starting measures how long a small command takes, from exec to exit, in
// plain and in sealed stores.
func (r *run) starting(ctx context.Context) error {
	if !r.hasProgram() {
		return nil
	}
	many := r.size.listed[0]
	stores := make(map[string]*place) // by how many sessions, and whether sealed
	for _, s := range []struct {
		backend  string
		sessions int
	}{{inSQLite, many}, {sealed + inSQLite, r.size.few}, {sealed + inSQLite, many}} {
		p, err := r.crowd(ctx, s.backend, s.sessions)
		if err != nil {
			return err
		}
		stores[crowdName(s.backend, s.sessions)] = p
	}
	if err := r.closeKept(); err != nil {
		return err
	}
	n := r.size.processes
	contenders := []contender{{"version", times(n, func() error { return r.start(ctx, nil, "version") })}}
	for name, p := range stores {
		contenders = append(contenders,
			contender{"ls" + name, times(n, func() error { return r.start(ctx, p, "ls", "-A") })},
			contender{"completion" + name, times(n, func() error { return r.start(ctx, p, "__complete", "show", "") })})
	}
	if node, err := exec.LookPath("node"); err == nil {
		contenders = append(contenders, contender{"node", times(n, func() error { return exec.CommandContext(ctx, node, "-e", "0").Run() })})
	}
	r.say("start of processes")
	s, err := r.compare(ctx, contenders...)
	if err != nil {
		return err
	}
	r.started(s)
	return nil
}

func crowdName(backend string, sessions int) string {
	return fmt.Sprintf(", %s sessions: %s", short(sessions), backend)
}

func (r *run) started(s samples) {
	node := len(s["node"]) > 0
	if node {
		r.table.add(row{what: "process: node -e 0", time: s.time("node")})
	}
	r.table.add(row{goal: "P10", what: "process: tidemark version", time: s.time("version"), want: want{timeAtMost: 8e6}})
	if node {
		r.table.add(row{goal: "P10", what: "process: tidemark version", time: s.time("version"), against: "node -e 0",
			ratio: s.faster("version", "node"), faster: true, want: want{ratioAtLeast: 10}})
	}
	many := r.size.listed[0]
	beside, most := want{}, want{}
	if many == full.listed[0] {
		beside, most = want{ratioAtMost: 2}, want{timeAtMost: 15e6}
	}
	for _, name := range []string{crowdName(inSQLite, many), crowdName(sealed+inSQLite, r.size.few), crowdName(sealed+inSQLite, many)} {
		r.table.add(row{goal: "P6", what: "process: tidemark ls" + name, time: s.time("ls" + name), against: "tidemark version",
			ratio: s.ratio("ls"+name, "version"), want: beside})
		r.table.add(row{goal: "P10", what: "process: tidemark ls" + name, time: s.time("ls" + name), want: most})
		r.table.add(row{goal: "P10", what: "process: completion" + name, time: s.time("completion" + name), against: "tidemark version",
			ratio: s.ratio("completion"+name, "version"), want: want{timeAtMost: 20e6}})
	}
	if info, err := os.Stat(r.program); err == nil && hasSymbols(r.program) {
		r.table.skip("the size of the program: the one measured, of %s, has its symbols, and none that is shipped has them (-ldflags '-s -w')", megabytes(info.Size()))
	} else if err == nil {
		met := info.Size() <= 50<<20
		r.table.add(row{goal: "P10", what: "size of the program", value: megabytes(info.Size()), want: want{text: "≤ 50 MB", met: &met}})
	}
}

// hasSymbols reports whether a program was linked with the symbols that debuggers
// need, a quarter of its size. Only where programs are ELF is it known.
func hasSymbols(program string) bool {
	f, err := elf.Open(program)
	if err != nil {
		return false
	}
	defer f.Close()
	return f.Section(".symtab") != nil || f.Section(".debug_info") != nil || f.Section(".zdebug_info") != nil
}

// megabytes rounds up.
func megabytes(n int64) string { return fmt.Sprintf("%d MB", (n+1<<20-1)>>20) }
