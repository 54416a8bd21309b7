// Command bench measures the store against the physical limit and against
// other tools that keep sessions, in one run and as ratios, and prints
// tables. It judges figures and never fails because of one: their meaning is
// up to the reader of the tables.
//
// It keeps its data below a temporary directory and removes it.
//
//	go run ./workshop/bench -quick -program bin/tidemark
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tidemark-sessions/tidemark/workshop/machine"
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == costCommand {
		os.Exit(costOfChild(os.Args[2:]))
	}
	if len(os.Args) > 2 && os.Args[1] == streamCommand {
		os.Exit(readStream(os.Args[2:]))
	}
	if len(os.Args) > 4 && os.Args[1] == linkCommand {
		os.Exit(serveLink(os.Args[2:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "bench: %s\n", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	quick := flags.Bool("quick", false, "smaller and fewer: four minutes instead of twenty")
	only := flags.String("only", "", "of "+strings.Join(partNames(), ", ")+" only `these`")
	program := flags.String("program", "", "the tidemark `FILE` to start; without it no process is measured")
	dir := flags.String("dir", "", "put the data below `DIR`; it has to be on the disk to measure")
	doc := flags.String("doc", "", "write the tables of the parts that ran, and what they say of each goal, into the pages in `DIR`, between their marks")
	entries := flags.Int("entries", 0, "search and move `N` entries of 1 KB; the goals speak of a million (default 100000 and 20000; with -quick 20000 and 10000)")
	foreign := flags.Int64("foreign", 0, "import `N` MB of another tool's transcripts; the goal speaks of 1000 (default 1000; with -quick 50)")
	rows := flags.Bool("json", false, "print each row as a JSON object on a line")
	profile := flags.String("cpuprofile", "", "write a profile of the whole run into `FILE`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	size := full
	if *quick {
		size = small
	}
	if *entries > 0 {
		size.entries, size.moved = *entries, *entries
	}
	if *foreign > 0 {
		size.foreign = *foreign * 1e6
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
	for _, s := range r.sections {
		print := s.print
		if *rows {
			print = s.objects
		}
		if err := print(os.Stdout); err != nil {
			return err
		}
	}
	if *doc == "" {
		return nil
	}
	tables := filepath.Join(*doc, tablesPage)
	if err := rewrite(tables, r.sections); err != nil {
		return err
	}
	return summarise(tables, filepath.Join(*doc, visitorsPage))
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
	few       int    // sessions in a small store
	processes int    // per repetition
	entries   int    // of 1 KB each, that are searched
	moved     int    // that are exported and imported
	asked     int    // questions per repetition
	lags      int    // entries that are waited for until the index has them
	moves     int    // repetitions of search, export and import, which take long
	deltas    int    // of an answer that is streamed
	foreign   int64  // bytes of another tool's transcripts that are imported
	unchanged int    // sessions of another tool that are imported again
	followed  int    // files of other tools that are watched
	noticed   int    // lines that are added to them
	idle      time.Duration
	synced    int // sessions that two machines share
	shelved   int // sessions that a page lists
	turned    int // entries of a session that a page shows
	rolled    int // of them that scroll past
}

var (
	full = size{reps: 15, appends: 200, writers: []int{8, 64, 256}, shared: 2048,
		logs: []int{1_000, 100_000, 1_000_000, 10_000_000}, peer: 100_000, tails: 300,
		trees: []int{1_000, 100_000, 1_000_000}, branches: 20,
		listed: [2]int{100_000, 10_000}, lists: 30, few: 1_000, processes: 6,
		entries: 100_000, moved: 20_000, asked: 50, lags: 9, moves: 7, deltas: 10_000, foreign: 1e9,
		unchanged: 20_000, followed: 50_000, noticed: 200, idle: time.Minute, synced: syncedSessions, shelved: 20_000, turned: 50_000, rolled: 10_000}
	small = size{reps: 9, appends: 100, writers: []int{8, 64}, shared: 1024,
		logs: []int{1_000, 100_000, 1_000_000}, peer: 100_000, tails: 150,
		trees: []int{1_000, 100_000}, branches: 12,
		listed: [2]int{20_000, 2_000}, lists: 10, few: 1_000, processes: 4,
		entries: 20_000, moved: 10_000, asked: 50, lags: 5, moves: 7, deltas: 10_000, foreign: 50e6,
		unchanged: 2_000, followed: 2_000, noticed: 50, idle: 10 * time.Second, synced: 2_000, shelved: 2_000, turned: 10_000, rolled: 2_000}
)

// run is one run of the program.
type run struct {
	size     size
	program  string
	log      io.Writer // says what is going on
	dir      string
	places   map[string]*place // large stores that several parts read
	shelf    map[int]*library  // what is searched and moved, by entries
	table    table             // of the part that runs
	sections []section         // of those that ran
	began    time.Time
}

// part is one group of comparisons.
type part struct {
	name string
	work func(*run, context.Context) error
}

var parts = []part{
	{"append", (*run).appending},
	{"read", (*run).reading},
	{"seal", (*run).sealing},
	{"list", (*run).listing},
	{"start", (*run).starting},
	{"process", (*run).processing},
	{"search", (*run).searching},
	{"archive", (*run).moving},
	{"import", (*run).bringing},
	{"watch", (*run).watching},
	{"sync", (*run).sharing},
	{"chat", (*run).chatting},
	{"fleet", (*run).herding},
	{"daemons", (*run).shifts},
	{"team-append", inTeam((*run).teamAppending)},
	{"team-tail", inTeam((*run).teamTails)},
	{"team-index", inTeam((*run).teamIndexes)},
	{"team-http", inTeam((*run).teamServers)},
	{"team-grown", inTeam((*run).teamGrowing)},
	{"pages-paint", (*run).painting},
	{"pages-scroll", (*run).scrolling},
	{"tree", (*run).growing}, // last, for it changes the sessions
}

func partNames() (names []string) {
	for _, p := range parts {
		names = append(names, p.name)
	}
	return names
}

// partsNamed reads a list of parts, empty for all of them. What the names of several
// begin with, before a hyphen, names all of these.
func partsNamed(only string) (chosen []string, err error) {
	for _, name := range strings.FieldsFunc(only, func(c rune) bool { return c == ',' || c == ' ' }) {
		before := len(chosen)
		for _, p := range partNames() {
			if p == name || strings.HasPrefix(p, name+"-") {
				chosen = append(chosen, p)
			}
		}
		if len(chosen) == before {
			return nil, fmt.Errorf("there is no part %q, only %s", name, strings.Join(partNames(), ", "))
		}
	}
	return chosen, nil
}

// all measures the parts that are named, every one when none is.
func (r *run) all(ctx context.Context, dir, only string) error {
	chosen, err := partsNamed(only)
	if err != nil {
		return err
	}
	if r.program != "" {
		program, err := filepath.Abs(r.program)
		if err != nil {
			return err
		}
		r.program = program
	}
	if r.dir, err = os.MkdirTemp(dir, "tidemark-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(r.dir)
	if err := os.MkdirAll(filepath.Join(r.dir, "home", "project"), 0o700); err != nil { // of the processes
		return err
	}
	r.began, r.places, r.shelf = time.Now(), make(map[string]*place), make(map[int]*library)
	defer r.closeKept()
	if machine.Look(r.dir).FileSystem == "tmpfs" {
		r.say("%s lies in memory: nothing here is durable, and ratios to a sync mean nothing; see -dir", r.dir)
	}
	for _, p := range parts {
		if len(chosen) > 0 && !slices.Contains(chosen, p.name) {
			continue
		}
		m := lookAround(r.dir)
		if err := p.work(r, ctx); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		m.loadAfter = machine.Load()
		r.sections, r.table = append(r.sections, section{p.name, m, r.table}), table{}
	}
	return nil
}

func (r *run) say(format string, args ...any) {
	fmt.Fprintf(r.log, "%6.1f s  %s\n", time.Since(r.began).Seconds(), fmt.Sprintf(format, args...))
}
