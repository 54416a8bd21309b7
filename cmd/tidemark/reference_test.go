package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/server/serve"
)

// walk calls visit for every command that a person can type.
func walk(cmd *cobra.Command, visit func(*cobra.Command)) {
	if cmd.Name() == "help" || cmd.Hidden {
		return
	}
	visit(cmd)
	for _, c := range cmd.Commands() {
		walk(c, visit)
	}
}

// TestReferencePageMatchesTheProgram keeps docs/reference/cli.md what the
// program says of itself. TIDEMARK_UPDATE=1 writes it anew.
func TestReferencePageMatchesTheProgram(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Commands\n\nMade from the program itself by `TIDEMARK_UPDATE=1 go test -run Reference ./cmd/tidemark`; a test compares them.\n")
	root := rootCommand(newApp())
	b.WriteString("\n## Flags of every command\n\n```\n" + root.PersistentFlags().FlagUsages() + "```\n")
	walk(root, func(c *cobra.Command) {
		if c == root {
			return
		}
		if c.IsAdditionalHelpTopicCommand() {
			fmt.Fprintf(&b, "\n## tidemark help %s\n\n%s.\n\n```\n%s\n```\n", c.Name(), c.Short, c.Long)
			return
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s.\n", c.CommandPath(), c.Short)
		if c.Long != "" && c.CommandPath() != "tidemark" && !strings.HasPrefix(c.CommandPath(), "tidemark completion") {
			fmt.Fprintf(&b, "\n%s\n", c.Long)
		}
		fmt.Fprintf(&b, "\n```\n%s\n", c.UseLine())
		if flags := c.NonInheritedFlags().FlagUsages(); flags != "" {
			fmt.Fprintf(&b, "\n%s", flags)
		}
		b.WriteString("```\n")
		if c.Example != "" {
			fmt.Fprintf(&b, "\n```sh\n%s\n```\n", unindent(c.Example))
		}
	})
	compare(t, "cli.md", b.String())
}

// TestReferenceOfServeMatchesTheTable does the same for serve.yaml.
func TestReferenceOfServeMatchesTheTable(t *testing.T) {
	var b strings.Builder
	b.WriteString(`# serve.yaml

Made from the table in the program by ` + "`TIDEMARK_UPDATE=1 go test -run Reference ./cmd/tidemark`" + `; a test compares them.

What flags and variables say of ` + "`tidemark serve`" + ` can be in a file: the one of ` + "`--file FILE`" + ` or ` + "`$" + serve.FileVariable + "`" + `, else
` + "`serve.yaml` beside `config.yaml`" + `, if there is one. A flag beats the variable, that beats the file, and that the default.
` + "`tidemark serve --check`" + ` says what is set and by what, looks whether the server could start, and leaves.

Paths are relative to the file. A list may be one value, too. A secret is never in this file: its key names a file that has it, and its variable may
have ` + "`_FILE`" + ` at the end and do the same. An unknown key is an error that says where it is and what was probably meant.

| key | flag | variable | |
| --- | --- | --- | --- |
`)
	for _, s := range serve.Default().Settings() {
		flag, variable, help := "", "", strings.ReplaceAll(s.Help, "`", "")
		if !s.Secret && !s.FileOnly {
			flag = "`--" + s.Name + "`"
		}
		if s.Variable != "" {
			variable = "`" + s.Variable + "`"
		}
		if s.Secret {
			help = "a file with " + help
		}
		if value := s.Shown(); value != "" && value != "false" {
			help += " (`" + value + "`)"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s.Key(), flag, variable, help)
	}
	compare(t, "serve.md", b.String())
}

// TestExitCodePageMatchesTheTable does the same for the exit codes.
func TestExitCodePageMatchesTheTable(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Exit codes and error names\n\nMade from the table in the program; a test compares them.\n\n| exit | name | meaning |\n| --- | --- | --- |\n| 0 | | done |\n| 1 | `failed` | failed, for a reason that has no code of its own |\n| 3 | | partly done; stderr says what was skipped or is not done |\n| 130, 143, 129 | | interrupted by SIGINT, by SIGTERM, by SIGHUP or a terminal that closed |\n")
	for _, c := range tidemark.Codes {
		fmt.Fprintf(&b, "| %d | `%s` | %s |\n", c.Exit, c.Name, c.Err)
	}
	b.WriteString("\nEvery error is `tidemark: WHAT` on stderr and, where there is a way out, `hint: COMMAND`. Data goes to stdout, which stays\nempty on an error unless part of the data could be read. Treat a code that is not listed as a failure.\n")
	compare(t, "exit-codes.md", b.String())
}

func unindent(s string) string {
	return strings.TrimPrefix(strings.ReplaceAll(s, "\n  ", "\n"), "  ")
}

func compare(t *testing.T, page, want string) {
	t.Helper()
	path := filepath.Join("..", "..", "docs", "reference", page)
	if os.Getenv("TIDEMARK_UPDATE") != "" {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("docs/reference/%s is not what the program says: run TIDEMARK_UPDATE=1 go test -run Page ./cmd/tidemark", page)
	}
}

// TestEveryCommandKeepsTheConventions runs each command as a careless user
// does.
func TestEveryCommandKeepsTheConventions(t *testing.T) {
	t.Parallel()
	bin := filepath.Join(commandDir(t), "tidemark")
	home := t.TempDir()
	start := func(args ...string) (code int, stdout, stderr string) {
		cmd := exec.Command(bin, args...)
		cmd.Env = []string{"HOME=" + home, "XDG_DATA_HOME=" + home + "/data", "PATH=" + os.Getenv("PATH")}
		cmd.Dir = home
		var out, err bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &err
		cmd.Run()
		return cmd.ProcessState.ExitCode(), out.String(), err.String()
	}
	walk(rootCommand(newApp()), func(c *cobra.Command) {
		t.Run(strings.ReplaceAll(c.CommandPath(), " ", "_"), func(t *testing.T) {
			t.Parallel()
			args := strings.Fields(c.CommandPath())[1:]
			if c.IsAdditionalHelpTopicCommand() {
				topicKeepsTheConventions(t, c)
				return
			}
			own := c.CommandPath() == "tidemark" || !strings.HasPrefix(c.CommandPath(), "tidemark completion")
			if c.Short == "" || own && !c.HasSubCommands() && c.Example == "" {
				t.Error("it has no short help or no example")
			}
			code, stdout, stderr := inProcess(t, append(args, "--help")...)
			if code != 0 || !strings.Contains(stdout, "Usage:") || stderr != "" {
				t.Errorf("--help: exit %d, stderr %q", code, stderr)
			}
			if _, again, _ := inProcess(t, append(append([]string{"--no-color"}, args...), "--help")...); again != stdout {
				t.Error("flags before the command mean something else")
			}
			code, stdout, stderr = inProcess(t, append(args, "--no-such-flag")...)
			if code != 2 || stdout != "" || !strings.HasPrefix(stderr, "tidemark: ") || !strings.Contains(stderr, "hint: ") {
				t.Errorf("an unknown flag: exit %d, stdout %q, stderr %q", code, stdout, stderr)
			}
			if strings.Contains(c.Use, "SESSION") {
				missing := append(args, "nothing", "+x")
				if strings.Count(c.Use, " ") == 1 && c.Name() != "tag" {
					missing = append(args, "nothing")
				}
				switch c.Name() {
				case "resume":
					missing = append(args, "nothing")
				case "repair":
					missing = append(args, "nothing", "--for", "codex", "--dry-run")
				case "purge":
					missing = append(args, "nothing", "--yes")
				}
				code, stdout, stderr = start(append(missing, "--no-input")...)
				if code != 10 || stdout != "" || !strings.Contains(stderr, "hint: ") {
					t.Errorf("without a store: exit %d, stdout %q, stderr %q", code, stdout, stderr)
				}
			}
			if strings.Contains(stderr+stdout, "\x1b") {
				t.Error("escape sequences in a pipe")
			}
		})
	})
}

// inProcess asks for help, or for what is refused before anything is read,
// without starting the program.
func inProcess(t *testing.T, args ...string) (code int, stdout, stderr string) {
	var out, told bytes.Buffer
	a := newApp()
	a.out, a.err, a.terminal = &out, &told, false
	root := rootCommand(a)
	root.SetArgs(chatArgs(root, tagArgs(args)))
	err := root.ExecuteContext(t.Context())
	a.complain(err)
	return exitOf(err), out.String(), told.String()
}

// topicKeepsTheConventions reads a help topic in both ways there are.
func topicKeepsTheConventions(t *testing.T, c *cobra.Command) {
	if c.Short == "" || c.Long == "" {
		t.Error("it has no short help or no text")
	}
	for _, args := range [][]string{{"help", c.Name()}, {c.Name(), "--help"}, {c.Name()}} {
		code, stdout, stderr := inProcess(t, args...)
		if code != 0 || strings.TrimSpace(stdout) != c.Long || stderr != "" {
			t.Errorf("%s: exit %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
	for line := range strings.Lines(c.Long) {
		if render.Width(strings.TrimRight(line, "\n")) > 84 {
			t.Errorf("too wide for a terminal: %q", line)
		}
	}
}
