package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/internal/sandbox"
	"github.com/tidemark-sessions/tidemark/open"
)

func sandboxCommand(a *app) *cobra.Command {
	var more sandbox.Widening
	cmd := &cobra.Command{
		Use:   "sandbox [--allow-write DIR] [--allow-host HOST] -- COMMAND [ARGUMENTS]",
		Short: "Run a program that sees this project and nothing else",
		Long: `Runs a program in a sandbox. It reads and writes this project and a /tmp of its own,
and reads the programs of the system and the caches of builds. Your other files are
not there: keys, the store, ~/.ssh, what other agents keep. Neither is the network,
nor what git, editors and agents would run by themselves: .git/hooks, .git/config,
.claude, .vscode and their like can be read and not changed. Of the environment it
gets what programs need to run.

HOST is NAME, *.NAME or NAME:PORT, without a port for 80 and 443, and is reached by
programs that use HTTP_PROXY and HTTPS_PROXY. The exit code is that of the program;
126 says that it could not be started. tidemark doctor says what this machine can
enforce.`,
		Example: "  tidemark sandbox -- make test\n  tidemark sandbox --allow-host modules.example.org --allow-host sums.example.org -- go mod download\n  tidemark sandbox --allow-write ../build -- make install",
		Args:    usage(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			for i, dir := range more.Write {
				path, err := filepath.Abs(dir)
				if err != nil {
					return err
				}
				if _, err := os.Stat(path); err != nil {
					return tidemark.Invalidf("--allow-write: %w", err)
				}
				more.Write[i] = path
			}
			if err := more.Check(); err != nil {
				return tidemark.Invalidf("%w", err)
			}
			return a.runConfined(args, more)
		},
	}
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().StringArrayVar(&more.Write, "allow-write", nil, "let it write below `DIR`, too")
	cmd.Flags().StringArrayVar(&more.Hosts, "allow-host", nil, "let it reach `HOST`")
	return cmd
}

// storePath returns the file or folder of the store, "" if it is not on this disk.
func (a *app) storePath() string {
	url, _, err := a.location()
	if err != nil {
		return ""
	}
	return open.LocalPath(url)
}

// exited is the exit code of a program that this one ran. Nothing is printed for it:
// the program has printed its own messages.
type exited struct{ code int }

func (e *exited) Error() string { return fmt.Sprintf("exit code %d", e.code) }

func (a *app) runConfined(args []string, more sandbox.Widening) error {
	project := a.project()
	p, err := a.setup(a.config).Policy(project)
	if err != nil {
		return err
	}
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	cmd := &exec.Cmd{Path: args[0], Args: args, Dir: here, Env: sandbox.Environ(os.Environ()), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	fence, err := sandbox.Confine(p.Widen(more), cmd)
	if errors.Is(err, sandbox.ErrNone) {
		return hint.With(fmt.Errorf("%w: %w", tidemark.ErrUnsupported, err), "tidemark doctor")
	}
	if err != nil {
		return hint.With(tidemark.Invalidf("%w", err), "go to the folder of a project first")
	}
	defer fence.Close()
	return a.foreground(cmd, func(error) { fence.Started() })
}

// foreground runs a program that has the terminal of this one, and returns how it
// ended as an exited. Ctrl-C on the terminal reaches the program by itself; other
// signals are passed on, and when the program stops, so does this one.
func (a *app) foreground(cmd *exec.Cmd, started func(error)) error {
	handle := func(s os.Signal) {
		if (s != os.Interrupt || !term.IsTerminal(int(os.Stdin.Fd()))) && cmd.Process != nil {
			cmd.Process.Signal(s)
		}
	}
	err := cmd.Start()
	started(err)
	if err != nil {
		return fmt.Errorf("%s: %w", cmd.Path, err)
	}
	a.onSignal.Store(&handle)
	if term.IsTerminal(int(os.Stdin.Fd())) {
		go process.StopWith(cmd.Process.Pid)
	}
	err = cmd.Wait()
	a.onSignal.Store(nil)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return &exited{128 + int(status.Signal())}
		}
		return &exited{exit.ExitCode()}
	}
	return err
}
