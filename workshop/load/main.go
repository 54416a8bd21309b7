// Command load proves that a team's server loses nothing and delivers everything
// exactly once, under attack: many clients write over HTTP, each to a session of
// its own, many more follow those sessions, and meanwhile servers are stopped or
// killed, connections to the database are cut, an older program makes way for a
// newer one, and the tenant moves from database to database. In the end every acknowledged
// entry is in its session once and in order, and every follower saw it once and in
// order; and the audit log has one line for each of them, and none for anything
// else. It uses a private PostgreSQL and real `tidemark serve` processes, and
// touches nothing that it did not start.
//
//	go run ./workshop/load -followers 1000 -writers 200
//
// It prints one row of a table, or with -json an object. The exit code is 1 when a promise was broken,
// and 0 with "skipped: reason" where there is no PostgreSQL.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// options are what the flags say.
type options struct {
	followers, writers, entries, nodes int
	drains, kills, cuts, crashes       int
	moves, chills                      int
	storage                            string // the program that lines are moved to
	failover                           bool
	sqlite                             bool // the store is a file, and not a database
	pause                              time.Duration
	seed                               uint64
	bin                                string // an existing program; "": build it
	from                               string // the program that runs at first; "": bin
	dir                                string // where the logs of the servers are kept; "": nowhere
	json                               bool   // an object for programs
	log                                io.Writer
}

// skipped is the reason why this machine cannot run the trial.
type skipped struct{ reason string }

func (s *skipped) Error() string { return "skipped: " + s.reason }

func run(ctx context.Context, args []string, out, log io.Writer) int {
	o, err := parse(args, log)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(log, "load:", err)
		return 2
	}
	b, err := try(ctx, o)
	var skip *skipped
	if errors.As(err, &skip) {
		fmt.Fprintln(out, skip)
		return 0
	}
	if b != nil {
		if o.json {
			fmt.Fprintln(out, b.object())
		} else {
			fmt.Fprint(out, b.table())
		}
		for _, line := range b.reasons() {
			fmt.Fprintln(log, "load:", line)
		}
	}
	switch {
	case err != nil:
		fmt.Fprintf(log, "load: %v (seed %d)\n", err, o.seed)
		return 1
	case b.broken():
		fmt.Fprintf(log, "load: a promise was broken (seed %d)\n%s", o.seed, strings.Join(b.faults, ""))
		return 1
	}
	return 0
}

func parse(args []string, log io.Writer) (options, error) {
	o := options{log: log}
	f := flag.NewFlagSet("load", flag.ContinueOnError)
	f.SetOutput(log)
	f.IntVar(&o.followers, "followers", 1000, "how many follow")
	f.IntVar(&o.writers, "writers", 200, "how many write at once, each to a session of its own")
	f.IntVar(&o.entries, "entries", 50, "how many entries each writes")
	f.DurationVar(&o.pause, "pause", 0, "how long a writer waits after each entry, about")
	f.IntVar(&o.nodes, "nodes", 2, "how many servers stand before the database")
	f.IntVar(&o.drains, "drains", 3, "how many times a server is told to end, and started again")
	f.IntVar(&o.kills, "kills", 3, "how many times a server is killed, and started again")
	f.IntVar(&o.cuts, "cuts", 6, "how many times a half of the connections to the database is cut")
	f.IntVar(&o.crashes, "crashes", 0, "how many times the database is killed, and started again")
	f.IntVar(&o.moves, "moves", 0, "how many times the tenant is moved to another of three databases, each time by a mover that is killed and one that goes on")
	f.IntVar(&o.chills, "chills", 0, "how many times older lines are moved to storage that speaks S3, which is killed meanwhile; the newest 64 of a session stay")
	f.StringVar(&o.storage, "storage", "bin/versitygw", "the `program` that is that storage, which scripts/deps.sh brings")
	f.BoolVar(&o.failover, "failover", false, "the database has a synchronous standby, which takes over in the middle")
	f.BoolVar(&o.sqlite, "sqlite", false, "the store is a file of sqlite: nothing is cut, and no database crashes")
	f.Uint64Var(&o.seed, "seed", 0, "of the random choices; 0 takes one from the clock")
	f.StringVar(&o.bin, "bin", "", "the `program` to try; built when none is given")
	f.StringVar(&o.from, "from", "", "begin with this `program` and its schema: the one to try brings the schema up to date while it runs, and takes its place server by server")
	f.StringVar(&o.dir, "dir", "", "keep the logs of the servers in this `folder`")
	f.BoolVar(&o.json, "json", false, "print a JSON object instead of a table")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("%q is too much", f.Arg(0))
	case o.followers < 1 || o.writers < 1 || o.entries < 1 || o.nodes < 1:
		return o, errors.New("-followers, -writers, -entries and -nodes are at least 1")
	case o.failover && o.crashes > 0:
		return o, errors.New("-failover and -crashes exclude each other: who starts a primary again that was replaced has two")
	case o.moves > 0 && (o.failover || o.from != "" || o.crashes > 0):
		return o, errors.New("-moves is tried without -failover, -from and -crashes: those are about one database")
	case o.chills > 0 && o.from != "":
		return o, errors.New("-chills is tried without -from: the program before does not know of such lines")
	case o.moves < 0 || o.chills < 0 || o.drains < 0 || o.kills < 0 || o.cuts < 0 || o.crashes < 0 || o.pause < 0:
		return o, errors.New("-drains, -kills, -cuts, -crashes, -moves, -chills and -pause are at least 0")
	}
	if o.sqlite {
		o.cuts, o.crashes, o.moves, o.chills, o.failover, o.from = 0, 0, 0, 0, false, ""
	}
	if o.seed == 0 {
		o.seed = uint64(time.Now().UnixNano())
	}
	return o, nil
}

func (o options) random() *rand.Rand { return rand.New(rand.NewPCG(o.seed, 0)) }
