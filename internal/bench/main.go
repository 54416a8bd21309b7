// Command bench measures the store beside the physical limit and beside what
// other session keepers do, in one run and as ratios, and prints one table. It
// judges figures and never fails because of one: what a figure means is for
// the reader of the table.
//
// It keeps its data below a temporary directory and removes it.
//
//	go run ./internal/bench -quick -program bin/tidemark
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/pprof"
	"slices"
	"strings"
	"time"
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == peakCommand {
		os.Exit(peakOfChild(os.Args[2:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := command(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "bench: %s\n", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	quick := flags.Bool("quick", false, "smaller and fewer: two minutes instead of fifteen")
	only := flags.String("only", "", "of "+strings.Join(partNames(), ", ")+" only `these`")
	program := flags.String("program", "", "the tidemark `FILE` to start; without it no process is measured")
	dir := flags.String("dir", "", "put the data below `DIR`; it has to be on the disk to measure")
	doc := flags.String("doc", "", "write the table into the Markdown `FILE`, between its marks")
	profile := flags.String("cpuprofile", "", "write a profile of the whole run into `FILE`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	size := full
	if *quick {
		size = small
	}
	r := &run{size: size, program: *program, log: os.Stderr}
	if *profile != "" {
		f, err := os.OpenFile(*profile, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	if err := r.all(ctx, *dir, *only); err != nil {
		return err
	}
	if err := r.table.print(os.Stdout, r.machine); err != nil || *doc == "" {
		return err
	}
	return rewrite(*doc, r.table.markdown(r.machine))
}

// size is how much is measured.
type size struct {
	reps      int    // repetitions of every comparison
	appends   int    // per repetition, by one writer
	writers   []int  // at once
	shared    int    // appends per repetition, by all writers together
	logs      []int  // entries of the sessions that are read
	peer      int    // entries of the transcripts of others
	tails     int    // per repetition
	trees     []int  // entries of the sessions that are branched
	branches  int    // per repetition
	listed    [2]int // sessions in sqlite and in files
	lists     int    // per repetition
	processes int    // per repetition
}

var (
	full = size{reps: 15, appends: 200, writers: []int{8, 64, 256}, shared: 2048,
		logs: []int{1_000, 100_000, 1_000_000, 10_000_000}, peer: 100_000, tails: 300,
		trees: []int{1_000, 100_000, 1_000_000}, branches: 20,
		listed: [2]int{100_000, 10_000}, lists: 30, processes: 6}
	small = size{reps: 9, appends: 100, writers: []int{8, 64}, shared: 1024,
		logs: []int{1_000, 100_000, 1_000_000}, peer: 100_000, tails: 150,
		trees: []int{1_000, 100_000}, branches: 12,
		listed: [2]int{20_000, 2_000}, lists: 10, processes: 4}
)

// run is one run of the program.
type run struct {
	size    size
	program string
	log     io.Writer // says what is going on
	dir     string
	places  map[string]*place // large stores that several parts read
	machine machine
	table   table
	began   time.Time
}

// part is one group of comparisons.
type part struct {
	name string
	work func(*run, context.Context) error
}

var parts = []part{
	{"append", (*run).appending},
	{"read", (*run).reading},
	{"list", (*run).listing},
	{"process", (*run).starting},
	{"tree", (*run).growing}, // last, for it changes the sessions
}

func partNames() (names []string) {
	for _, p := range parts {
		names = append(names, p.name)
	}
	return names
}

// all measures the parts that are named, every one when none is.
func (r *run) all(ctx context.Context, dir, only string) error {
	chosen := strings.FieldsFunc(only, func(c rune) bool { return c == ',' || c == ' ' })
	for _, name := range chosen {
		if !slices.Contains(partNames(), name) {
			return fmt.Errorf("there is no part %q, only %s", name, strings.Join(partNames(), ", "))
		}
	}
	var err error
	if r.dir, err = os.MkdirTemp(dir, "tidemark-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(r.dir)
	r.began, r.places = time.Now(), make(map[string]*place)
	defer r.closeKept()
	r.machine = thisMachine(r.dir)
	if r.machine.fileSystem == "tmpfs" {
		r.say("%s lies in memory: nothing here is durable, and ratios to a sync mean nothing; see -dir", r.dir)
	}
	for _, p := range parts {
		if len(chosen) > 0 && !slices.Contains(chosen, p.name) {
			continue
		}
		if err := p.work(r, ctx); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	r.machine.loadAfter = load()
	return nil
}

func (r *run) say(format string, args ...any) {
	fmt.Fprintf(r.log, "%6.1f s  %s\n", time.Since(r.began).Seconds(), fmt.Sprintf(format, args...))
}
