package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// described is all that a person sees of a command and of those below it.
func described(c *cobra.Command) string {
	var b strings.Builder
	walk(c, func(c *cobra.Command) {
		c.InitDefaultHelpFlag()
		b.WriteString(strings.Join([]string{c.CommandPath(), c.GroupID, strings.Join(c.Aliases, " "), c.Short, c.Long, c.UsageString()}, "\n"))
	})
	return b.String()
}

func TestACommandAloneIsWhatItIsAmongAll(t *testing.T) {
	all := rootCommand(newApp())
	for _, c := range commands {
		for _, name := range c.names {
			among, _, err := all.Find([]string{name})
			if err != nil {
				t.Errorf("%s is not found among all: %v", name, err)
				continue
			}
			if want := append([]string{among.Name()}, among.Aliases...); !slices.Equal(c.names, want) {
				t.Errorf("the table calls it %q, and itself %q", c.names, want)
			}
			root := rootCommand(newApp(), name)
			if alone := len(root.Commands()) == 1; alone == (name == "resume" || name == "man") {
				t.Errorf("%s: built with %d commands", name, len(root.Commands()))
			}
			found, _, err := root.Find([]string{name})
			if err != nil {
				t.Errorf("%s is not found alone: %v", name, err)
			} else if got, want := described(found), described(among); got != want {
				t.Errorf("%s alone is\n%s\nand among all\n%s", name, got, want)
			}
		}
	}
}

func TestAllCommandsAreThereUnlessOneIsNamedFirst(t *testing.T) {
	for _, args := range [][]string{nil, {"help", "ls"}, {"lss"}, {"--json", "ls"}, {"-c"}, {"refs"}, {"resume", "last"}, {"man", "."},
		{"completion", "bash"}, {"__complete", ""}, {"__complete", "ls"}, {"__complete", "help", "l"}} {
		if got := len(rootCommand(newApp(), args...).Commands()); got <= len(commands) {
			t.Errorf("tidemark %s has %d commands, fewer than %d and the topics", strings.Join(args, " "), got, len(commands))
		}
	}
	for _, args := range [][]string{{"ls"}, {"history", "-A"}, {"ls", "--help"}, {"__complete", "show", ""}, {"__completeNoDesc", "fleet", "u"}} {
		if got := len(rootCommand(newApp(), args...).Commands()); got != 1 {
			t.Errorf("tidemark %s has %d commands", strings.Join(args, " "), got)
		}
	}
}
