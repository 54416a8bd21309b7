// Command crash proves that what Tidemark acknowledged is kept: it kills the
// real program at random instants, cuts the power of a real file system under
// it, fills the disk, lets many writers contend for one session, and kills
// conversations with an agent while its tools run and change files, and fleets
// while their jobs run. After each blow a fresh process looks for everything that was
// acknowledged before it. It never repairs anything and never touches a store
// that it did not make.
//
//	go run ./workshop/crash kill -backend files -n 1000
//	go run ./workshop/crash power -backend sqlite -fs ext4 -n 100    (root)
//	go run ./workshop/crash full -backend files                      (root)
//	go run ./workshop/crash lease -backend sqlite -n 10000
//	go run ./workshop/crash chat -backend sqlite -n 1000
//	go run ./workshop/crash edits -backend sqlite -n 1000
//	go run ./workshop/crash fleet -backend sqlite -n 300
//
// Each prints one row of a table, or with -json an object. The exit code is 1
// when a promise was broken, and 0 with "skipped: reason" where the machine
// cannot do it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
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
	backend  string
	bin      string // an existing program; "": build it
	n        int
	seed     uint64
	fs       string // power: which file system
	procs    int    // lease: how many contend
	sessions int    // lease: for how many sessions
	plain    bool   // without encryption
	goOn     bool   // with a new store after a broken promise
	noHead   bool   // without the head of the table
	json     bool   // rows for programs
	log      io.Writer
}

// skipped is the reason why this machine cannot run a trial.
type skipped struct{ reason string }

func (s *skipped) Error() string { return "skipped: " + s.reason }

// trials are the commands that people type.
var trials = map[string]func(context.Context, options) ([]row, error){
	"kill":  kill,
	"power": power,
	"full":  full,
	"lease": lease,
	"chat":  chat,
	"edits": edits,
	"fleet": fleetUp,
}

// helpers are the commands that crash starts as processes of its own.
var helpers = map[string]func(ctx context.Context, args []string, in io.Reader, out io.Writer) error{
	"agent":   agentOf,
	"contend": contend,
	"idle":    idle,
	"reuse":   reuse,
}

func run(ctx context.Context, args []string, out, log io.Writer) int {
	if len(args) == 0 {
		fmt.Fprintln(log, "crash: want kill, power, full, lease, chat, edits or fleet")
		return 2
	}
	if helper := helpers[args[0]]; helper != nil {
		if err := helper(ctx, args[1:], os.Stdin, out); err != nil {
			fmt.Fprintln(log, "crash:", err)
			return 1
		}
		return 0
	}
	trial := trials[args[0]]
	o, err := parse(args, log)
	if err == nil && trial == nil {
		err = fmt.Errorf("%q: want kill, power, full, lease, chat, edits or fleet", args[0])
	}
	if err != nil {
		fmt.Fprintln(log, "crash:", err)
		return 2
	}
	if apart := needsOwnMounts[args[0]]; apart && !isApart() {
		if code, err := runApart(ctx, args, out, log); err == nil {
			return code
		}
		// Where that is not possible the trial itself says why it skips.
	}
	return report(ctx, trial, o, out)
}

// needsOwnMounts names the trials that run in a mount namespace of their own,
// so that their mounts disappear with them, however they end.
var needsOwnMounts = map[string]bool{"power": true, "full": true}

func parse(args []string, log io.Writer) (options, error) {
	o := options{log: log}
	f := flag.NewFlagSet("crash "+args[0], flag.ContinueOnError)
	f.SetOutput(log)
	f.StringVar(&o.backend, "backend", "sqlite", "sqlite or files")
	f.StringVar(&o.bin, "bin", "", "the `program` to try; built when none is given")
	f.IntVar(&o.n, "n", 100, "how many kills, cuts, fills or attaches")
	f.Uint64Var(&o.seed, "seed", 0, "of the random choices; 0 takes one from the clock")
	f.StringVar(&o.fs, "fs", "ext4", "power: ext4 or xfs")
	f.IntVar(&o.procs, "procs", 16, "lease: how many processes contend")
	f.IntVar(&o.sessions, "sessions", 3, "lease: for how many sessions")
	f.BoolVar(&o.plain, "plain", false, "kill, power, full, chat: a store without encryption")
	f.BoolVar(&o.goOn, "go-on", false, "kill, power, chat, fleet: go on after a broken promise, and count")
	f.BoolVar(&o.noHead, "no-head", false, "print no head of the table")
	f.BoolVar(&o.json, "json", false, "print each row as a JSON object on a line")
	if err := f.Parse(args[1:]); err != nil {
		return o, err
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("%q is too much", f.Arg(0))
	case !slices.Contains([]string{"sqlite", "files"}, o.backend):
		return o, fmt.Errorf("backend %q: want sqlite or files", o.backend)
	case !slices.Contains([]string{"ext4", "xfs"}, o.fs):
		return o, fmt.Errorf("file system %q: want ext4 or xfs", o.fs)
	case o.n < 1 || o.procs < 2 || o.sessions < 1:
		return o, errors.New("-n and -sessions are at least 1, -procs at least 2")
	}
	if o.seed == 0 {
		o.seed = uint64(time.Now().UnixNano())
	}
	return o, nil
}

func (o options) random() *rand.Rand { return rand.New(rand.NewPCG(o.seed, 0)) }

// report runs a trial and prints what it found.
func report(ctx context.Context, trial func(context.Context, options) ([]row, error), o options, out io.Writer) int {
	began := time.Now()
	rows, err := trial(ctx, o)
	var skip *skipped
	if errors.As(err, &skip) {
		fmt.Fprintln(out, skip)
		return 0
	}
	if !o.noHead && !o.json && len(rows) > 0 {
		fmt.Fprintln(out, head)
	}
	broken := false
	for _, r := range rows {
		r.backend = o.backend
		if r.seconds == 0 {
			r.seconds = time.Since(began).Seconds()
		}
		if o.json {
			fmt.Fprintln(out, r.object())
		} else {
			fmt.Fprintln(out, r)
		}
		broken = broken || r.broken()
	}
	switch {
	case err != nil:
		fmt.Fprintf(o.log, "crash: %v (seed %d)\n", err, o.seed)
		return 1
	case broken:
		fmt.Fprintf(o.log, "crash: a promise was broken (seed %d)\n", o.seed)
		return 1
	}
	return 0
}

// row is one line of the table.
type row struct {
	what, backend, where           string
	count                          int // blows dealt
	acknowledged                   int
	lost, doubled, unreadable, aid int // aid: what would have needed manual repair
	seconds                        float64
	note                           string
}

const rowFormat = "| %-12s | %-6s | %-22s | %7s | %12s | %4s | %7s | %10s | %4s | %7s | %s |"

var head = fmt.Sprintf(rowFormat, "what", "store", "where", "count", "acknowledged", "lost", "doubled", "unreadable", "hand", "seconds", "note") +
	"\n" + strings.Join(rule(12, 6, 22, 7, 12, 4, 7, 10, 4, 7, 4), "")

func rule(widths ...int) []string {
	parts := []string{"|"}
	for _, w := range widths {
		parts = append(parts, strings.Repeat("-", w+2), "|")
	}
	return parts
}

func (r row) String() string {
	n := func(i int) string { return fmt.Sprint(i) }
	return fmt.Sprintf(rowFormat, r.what, r.backend, r.where, n(r.count), n(r.acknowledged), n(r.lost), n(r.doubled),
		n(r.unreadable), n(r.aid), fmt.Sprintf("%.0f", r.seconds), r.note)
}

// object is the row as JSON, under the names that its columns have.
func (r row) object() string {
	b, _ := json.Marshal(struct {
		What         string  `json:"what"`
		Store        string  `json:"store"`
		Where        string  `json:"where"`
		Count        int     `json:"count"`
		Acknowledged int     `json:"acknowledged"`
		Lost         int     `json:"lost"`
		Doubled      int     `json:"doubled"`
		Unreadable   int     `json:"unreadable"`
		Hand         int     `json:"hand"`
		Seconds      float64 `json:"seconds"`
		Note         string  `json:"note"`
	}{r.what, r.backend, r.where, r.count, r.acknowledged, r.lost, r.doubled, r.unreadable, r.aid, r.seconds, r.note}) // nothing in it can be refused
	return string(b)
}

func (r row) broken() bool { return r.lost+r.doubled+r.unreadable+r.aid > 0 }
