//go:build !windows

package terminal

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/term"
)

// demoVariable makes the test program a small chat without a model, for
// terminals that a test cannot be inside of:
//
//	go test -c -o /tmp/console . && CONSOLE_DEMO=1 /tmp/console
const demoVariable = "CONSOLE_DEMO"

func TestMain(m *testing.M) {
	if os.Getenv(demoVariable) != "" {
		if err := demo(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// ofFiles returns the options that cmd fills in, for two files.
func ofFiles(in, out *os.File) Options {
	return Options{In: in, Out: out, Terminal: term.IsTerminal(int(in.Fd())), Color: true, Text: screenText, Prompt: "> ",
		Raw: func() (func() error, error) {
			old, err := term.MakeRaw(int(in.Fd()))
			return func() error { return term.Restore(int(in.Fd()), old) }, err
		},
		Size: func() (int, int, error) { return term.GetSize(int(out.Fd())) },
	}
}

// suspend stops the process group, as the terminal does for Ctrl-Z. An orphan
// is not stopped, so it does not wait for ever.
func suspend() {
	goesOn := make(chan os.Signal, 1)
	signal.Notify(goesOn, syscall.SIGCONT)
	defer signal.Stop(goesOn)
	_ = syscall.Kill(0, syscall.SIGTSTP)
	select {
	case <-goesOn:
	case <-time.After(500 * time.Millisecond):
	}
}

// demo repeats what it is told; some words make it say a lot.
func demo(in, out *os.File) error {
	o := ofFiles(in, out)
	o.Suspend = suspend
	o.Complete = func(_ context.Context, line string, pos int) (int, []string) {
		var found []string
		for _, s := range []string{"/branch ", "/help ", "/history ", "/exit "} {
			if strings.HasPrefix(s, line[:pos]) {
				found = append(found, s)
			}
		}
		return 0, found
	}
	var cancel atomic.Value
	o.Interrupt = func(Input) {
		if stop, ok := cancel.Load().(context.CancelFunc); ok {
			stop()
		}
	}
	c, err := Open(o)
	if err != nil {
		return err
	}
	defer c.Close()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGWINCH, syscall.SIGCONT)
	defer signal.Stop(signals)
	go func() {
		for s := range signals {
			if s == syscall.SIGCONT {
				c.Continue()
			} else {
				c.Resize()
			}
		}
	}()
	c.Status("demo, 0 workers")
	for n := 1; ; n++ {
		got, err := c.Read(context.Background())
		if err != nil {
			return err
		}
		words := strings.Fields(got.Text + " .")
		switch {
		case got.Kind == EOF || got.Kind == Interrupt || got.Text == "/exit":
			return nil
		case got.Kind != Line:
			fmt.Fprintf(c, "(%s)\n", got.Kind)
			continue
		case words[0] == "ask":
			key, err := c.Ask(context.Background(), "Run rm -rf build?", Choice{'y', "once"}, Choice{'a', "always in this session"}, Choice{'n', "deny"})
			fmt.Fprintf(c, "answer %q %v\n", key, err)
			continue
		}
		turn, stop := context.WithCancel(context.Background())
		cancel.Store(stop)
		c.Status(fmt.Sprintf("turn %d", n))
		speak(turn, c, words)
		stop()
		c.Status("idle")
	}
}

func speak(ctx context.Context, c *Console, words []string) {
	switch words[0] {
	case "words":
		for i := range 100 {
			fmt.Fprintf(c, "word%d ", i)
			c.Flush()
		}
	case "long":
		for i := range 200 {
			fmt.Fprintf(c, "line %d\n", i)
		}
	case "slow":
		for i := range 300 {
			select {
			case <-ctx.Done():
				fmt.Fprintln(c, " (stopped)")
				return
			case <-time.After(20 * time.Millisecond):
				fmt.Fprintf(c, "\x1b[32mword%d\x1b[m ", i)
			}
		}
		fmt.Fprintln(c)
	default:
		fmt.Fprintf(c, "You said %q.\n", strings.Join(words, " "))
	}
}
