// Command evidence tries every promise of the house with the programs and
// tests that are there for it, and writes docs/evidence.md: what was tried, how
// often, what was found, whether that is what the goals ask for, and how to
// repeat it. It tries nothing itself and judges nothing but counts.
//
// What a part found is kept in a file as soon as it ends, by its name, its
// count and the commit, so that an interrupted run continues where it was. A
// part that failed is shown as failed, the others continue, and the exit
// code is 1.
//
//	go run ./workshop/evidence -short -doc docs/evidence.md       minutes
//	go run ./workshop/evidence -doc docs/evidence.md              hours
//	go run ./workshop/evidence -share 0.1 -only crash,sql         a tenth of some
//	go run ./workshop/evidence -list
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tidemark-sessions/tidemark/workshop/machine"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// options are what the flags say.
type options struct {
	share float64 // share of the full counts; 0: the short ones
	only  []string
	again bool
	list  bool
	doc   string
	state string
}

func parse(args []string, log io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("evidence", flag.ContinueOnError)
	f.SetOutput(log)
	short := f.Bool("short", false, "small counts: minutes instead of hours")
	only := f.String("only", "", "only `these` parts or sections, with commas between; -list names them")
	f.Float64Var(&o.share, "share", 1, "`part` of the full counts, such as 0.1; never less than the short ones")
	f.BoolVar(&o.again, "again", false, "also what was tried before with these counts at this commit")
	f.BoolVar(&o.list, "list", false, "list the parts with their counts, and try nothing")
	f.StringVar(&o.doc, "doc", "", "write the page into `FILE`, again after each part")
	f.StringVar(&o.state, "state", "workshop/evidence/found.jsonl", "keep what was found in `FILE`")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	o.only = strings.FieldsFunc(*only, func(c rune) bool { return c == ',' || c == ' ' })
	if *short {
		o.share = 0
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("%q is too much", f.Arg(0))
	case o.share < 0:
		return o, errors.New("-share is not negative")
	}
	return o, nil
}

func command(ctx context.Context, args []string, out, log io.Writer) int {
	o, err := parse(args, log)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(log, "evidence:", err)
		return 2
	}
	parts, err := everyPart()
	if err == nil {
		err = checkNames(parts, o.only)
	}
	if err != nil {
		fmt.Fprintln(log, "evidence:", err)
		return 2
	}
	if o.list {
		list(out, parts, o)
		return 0
	}
	failed, err := try(ctx, parts, o, log)
	switch {
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(log, "evidence: interrupted; the same command goes on from here")
		return 130
	case err != nil:
		fmt.Fprintln(log, "evidence:", err)
		return 1
	case len(failed) > 0:
		fmt.Fprintln(log, "evidence: failed:", strings.Join(failed, ", "))
		return 1
	}
	return 0
}

func checkNames(parts []part, names []string) error {
	for _, n := range names {
		if !slices.ContainsFunc(parts, func(p part) bool { return p.is(n) }) {
			return fmt.Errorf("there is no part or section %q; -list names them", n)
		}
	}
	return nil
}

// is reports whether a name that a person typed means the part: its own, or
// that of its section.
func (p part) is(name string) bool { return p.name == name || p.section == name }

func (o options) chosen(p part) bool {
	return len(o.only) == 0 || slices.ContainsFunc(o.only, p.is)
}

// count is how often a part is tried in this run, 0 for not at all.
func (o options) count(p part) int64 {
	if o.share == 0 {
		return p.short
	}
	return max(p.short, int64(o.share*float64(p.full)), 1)
}

func list(out io.Writer, parts []part, o options) {
	for _, p := range parts {
		if o.chosen(p) {
			n := o.count(p)
			fmt.Fprintf(out, "%-10s %-18s %10s  %s\n", p.section, p.name, grouped(n), p.command(n))
		}
	}
}

// try builds what the parts need, runs those that are missing, and names those
// that failed.
func try(ctx context.Context, parts []part, o options, log io.Writer) (failed []string, err error) {
	commit, err := commitOf(ctx)
	if err != nil {
		return nil, err
	}
	tools, err := build(ctx)
	if err != nil {
		return nil, err
	}
	defer tools.remove()
	return tools.all(ctx, parts, o, commit, log)
}

// all runs the missing parts. The page is written after each, so that it is
// true whenever the run ends.
func (t *tools) all(ctx context.Context, parts []part, o options, commit string, log io.Writer) (failed []string, err error) {
	book, err := open(o.state)
	if err != nil {
		return nil, err
	}
	defer book.close()
	for _, p := range parts {
		n := o.count(p)
		switch {
		case !o.chosen(p):
			continue
		case n == 0:
			fmt.Fprintf(log, "%s  is not in the short form\n", p.name)
			continue
		case !o.again && book.has(p.name, n, commit):
			fmt.Fprintf(log, "%s  is there\n", p.name)
			continue
		}
		fmt.Fprintf(log, "%s  %s  %s\n", time.Now().Format(time.TimeOnly), p.name, p.command(n))
		r := result{Part: p.name, Count: n, Commit: commit, At: time.Now().UTC().Truncate(time.Second), Load: machine.Load()}
		if err := t.run(ctx, p, &r); err != nil {
			return failed, err
		}
		fmt.Fprintf(log, "%s  %s  %s\n", time.Now().Format(time.TimeOnly), p.name, r.summary())
		if len(r.Failed) > 0 {
			failed = append(failed, p.name)
			fmt.Fprintln(log, "  "+strings.Join(r.Failed, "\n  "))
		}
		if err := errors.Join(book.add(r), writePage(o.doc, parts, book, commit)); err != nil {
			return failed, err
		}
	}
	return failed, writePage(o.doc, parts, book, commit)
}
