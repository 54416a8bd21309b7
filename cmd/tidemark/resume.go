package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/transfer/resume"
)

func resumeCommand(a *app) *cobra.Command {
	var in, dir, at string
	var show bool
	cmd := &cobra.Command{
		Use:   "resume [SESSION[@NODE]] [-- ARGUMENTS]",
		Short: "Go on with a session in any agent, and have what it adds here",
		Long: `Writes a session where another agent looks for its own, and starts that agent on
it. Without --in it is the agent that the session came from, if that is installed,
else chat; without a session you pick one. The agent works in this folder, or in
that of --dir. ARGUMENTS go to the agent. Those that sessions go on in:
` + strings.Replace(strings.Join(resume.Tools(), ", "), " qwen", "\nqwen", 1) + `.

It has the terminal until it ends; then what it added is taken in, as the same
session, and the exit code is that of the agent. No file of the agent is replaced,
and an agent that has the session as it is here goes on with that. What one agent
told its model stays behind; a line tells the other one that it was elsewhere.`,
		Example: `  tidemark resume last --in codex
  tidemark resume 7f3a@n2 --in claude-code --dir ~/src/tea
  tidemark resume last --in codex --print
  tidemark resume last --in claude-code -- --model opus`,
		ValidArgsFunction: completeSession(a),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, rest := args, []string(nil)
			if n := cmd.ArgsLenAtDash(); n >= 0 {
				ref, rest = args[:n], args[n:]
			}
			if err := usage(cobra.MaximumNArgs(1))(cmd, ref); err != nil {
				return err
			}
			session := strings.Join(ref, "")
			if session == "" {
				var err error
				if session, err = a.pick(cmd.Context(), cmd, "Go on with"); err != nil || session == "" {
					return err
				}
			}
			if at != "" {
				session += "@" + strings.TrimPrefix(at, "@")
			}
			s, p, err := a.resolve(cmd.Context(), open.Write, session)
			if err != nil {
				return err
			}
			if dir, err = filepath.Abs(dir); err == nil {
				err = os.Chdir(dir)
			}
			if err != nil {
				return tidemark.Invalidf("--dir: %w", err)
			}
			state, _ := open.StateDir(os.Environ()) // without it nothing is remembered
			start, err := resume.Prepare(cmd.Context(), resume.Request{Point: p, In: in, Dir: dir, Args: rest, Environ: os.Environ(), State: state, Holder: a.holder(cmd)})
			if err != nil {
				return err
			}
			for _, note := range start.Notes {
				a.say("%s", note)
			}
			if show || a.wantsJSON() {
				return a.print(start, func(w io.Writer) error { _, err := fmt.Fprintln(w, start.Shell()); return err })
			}
			if start.Tool == resume.Chat {
				cmd.Root().SetArgs(start.Command[1:])
				return cmd.Root().ExecuteContext(cmd.Context())
			}
			defer a.attend(cmd.Context(), s, p.ID)()
			return a.resumeIn(cmd, start)
		},
	}
	cmd.Flags().StringVar(&in, "in", "", "the `TOOL` to go on in, such as codex")
	cmd.Flags().StringVar(&dir, "dir", ".", "the `FOLDER` that the agent works in")
	cmd.Flags().StringVar(&at, "at", "", "go on from an earlier `NODE`, such as n1")
	cmd.Flags().BoolVar(&show, "print", false, "print the command that goes on with it, and start nothing; so does --json")
	completeFlag(cmd, "in", resume.Tools()...)
	return cmd
}

// resumeIn runs a tool on a session that it was given, and takes in what it added.
func (a *app) resumeIn(cmd *cobra.Command, s *resume.Start) error {
	if err := s.Give(cmd.Context(), os.Environ()); err != nil {
		return err
	}
	started := time.Now()
	a.notifyUnlessIgnored(syscall.SIGHUP, sigQuit)
	ended := a.foreground(&exec.Cmd{Path: s.Command[0], Args: s.Command, Dir: s.Dir, Env: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}, func(error) {})
	said, err := s.TakeIn(cmd.Context(), started)
	if err != nil {
		return errors.Join(err, ended)
	}
	a.say("%s", said)
	return ended
}
