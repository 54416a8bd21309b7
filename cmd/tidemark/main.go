// Command tidemark keeps the sessions of AI agents. This package is the only
// one that touches arguments, environment, terminal and exit codes: it wires
// the other packages together and prints the results. Each command has a file.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // time zones of schedules, for machines without a zone database

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/agent"
	"github.com/tidemark-sessions/tidemark/agent/repl"
	"github.com/tidemark-sessions/tidemark/internal/sandbox"
	"github.com/tidemark-sessions/tidemark/render"
)

// version is set by the build.
var version = "dev"

func main() {
	if code, staged := stage(); staged {
		os.Exit(code)
	}
	os.Exit(run(os.Args[1:]))
}

// stage runs this program as the first process of a sandbox, if it was
// started as that.
func stage() (code int, staged bool) {
	code, staged, err := sandbox.Stage(os.Args, os.Environ(), func() <-chan os.Signal {
		signals := make(chan os.Signal, 4)
		signal.Notify(signals)
		return signals
	})
	if err != nil {
		fmt.Fprintf(os.Stderr, "tidemark: %s\n", render.Clean(err.Error()))
	}
	return code, staged
}

// run runs one command and returns its exit code.
func run(args []string) int {
	narrowUmask()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	a := newApp()
	signal.Notify(a.signals, os.Interrupt, syscall.SIGTERM)
	go a.handleSignals(cancel)
	args = tagArgs(args)
	root := rootCommand(a, args...)
	root.SetArgs(chatArgs(root, args))
	err := root.ExecuteContext(ctx)
	if closeErr := a.close(); err == nil {
		err = closeErr
	}
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, context.Canceled) {
		err = cause
	}
	if errors.Is(err, syscall.EPIPE) {
		return 0 // the reader closed the pipe
	}
	a.complain(err)
	return exitOf(err)
}

// handleSignals ends the command at the first signal and the process at the second,
// unless the command handles signals itself.
func (a *app) handleSignals(cancel context.CancelCauseFunc) {
	var first os.Signal
	for s := range a.signals {
		if handle := a.onSignal.Load(); handle != nil {
			(*handle)(s)
			continue
		}
		if first != nil {
			os.Exit(exitOf(&stopped{signal: first}))
		}
		first = s
		cancel(&stopped{signal: s})
	}
}

// stopped is the error of a command that a signal ended; if quiet, nothing more is
// printed.
type stopped struct {
	signal os.Signal
	quiet  bool
}

func (s *stopped) Error() string { return "interrupted" }

// partly is the error of a command that skipped some items, which it has reported
// already.
type partly struct{ skipped int }

func (p *partly) Error() string { return fmt.Sprintf("%d skipped", p.skipped) }

// exitOf maps an error to the exit codes of the command line.
func exitOf(err error) int {
	var sig *stopped
	var part *partly
	var program *exited
	switch {
	case err == nil:
		return 0
	case errors.As(err, &program):
		return program.code
	case errors.As(err, &sig):
		switch sig.signal {
		case syscall.SIGTERM:
			return 143
		case syscall.SIGHUP:
			return 129
		}
		return 130
	case errors.As(err, &part), errors.Is(err, repl.ErrUnfinished):
		return 3
	}
	return tidemark.CodeOf(err).Exit
}

// complain prints an error and its hint, if it has one.
func (a *app) complain(err error) {
	var sig *stopped
	var program *exited
	if err == nil || errors.As(err, &sig) && sig.quiet || errors.As(err, &program) {
		return
	}
	fmt.Fprintf(a.err, "tidemark: %s\n", render.Clean(err.Error()))
	if way := agent.Hint(err); way != "" {
		fmt.Fprintf(a.err, "hint: %s\n", render.Clean(way))
	}
}
