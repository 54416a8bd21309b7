package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

func manCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages into a folder",
		Long: `Writes a page for the man program for each command and each help topic into a
folder, which is made if need be: tidemark.1, tidemark-show.1 and so on. Pages that
are there are replaced. Like everything that this program writes they can be read
by you alone; widen their modes to share them.`,
		Example: "  tidemark man ~/.local/share/man/man1\n  man tidemark-show",
		Args:    usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			pages := []string{}
			err := writePages(cmd.Root(), args[0], func(page string) { pages = append(pages, page) })
			return errors.Join(err, a.print(pages, func(w io.Writer) error {
				for _, p := range pages {
					fmt.Fprintln(w, p)
				}
				return nil
			}))
		},
	}
}

// writePages writes the page of a command and of all below it.
func writePages(root *cobra.Command, dir string, wrote func(page string)) error {
	switch i, err := os.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		if err := durable.MakeDir(dir); err != nil {
			return tidemark.Storagef("%w", err)
		}
	case err != nil:
		return tidemark.Invalidf("%w", err)
	case !i.IsDir():
		return tidemark.Invalidf("%s: is not a folder", dir)
	}
	d, err := durable.OpenDir(dir)
	if err != nil {
		return tidemark.Storagef("%w", err)
	}
	defer d.Close()
	return eachPage(root, func(cmd *cobra.Command) error {
		page := pageName(cmd) + ".1"
		tmp := page + ".tmp"
		d.Remove(tmp) // left by one who was killed
		if err := durable.Replace(d, tmp, page, []byte(manPage(cmd))); err != nil {
			return tidemark.Storagef("%s: %w", page, err)
		}
		wrote(filepath.Join(dir, page))
		return nil
	})
}

// eachPage visits each command that has a page.
func eachPage(cmd *cobra.Command, visit func(*cobra.Command) error) error {
	if cmd.Hidden {
		return nil
	}
	if err := visit(cmd); err != nil {
		return err
	}
	for _, c := range cmd.Commands() {
		if err := eachPage(c, visit); err != nil {
			return err
		}
	}
	return nil
}

func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// manPage returns the page of one command in the language of man.
func manPage(cmd *cobra.Command) string {
	var b strings.Builder
	name := pageName(cmd)
	fmt.Fprintf(&b, ".TH \"%s\" \"1\" \"\" \"Tidemark %s\" \"Tidemark\"\n", roff(strings.ToUpper(name)), roff(version))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(name), roff(cmd.Short))
	if cmd.Runnable() {
		fmt.Fprintf(&b, ".SH SYNOPSIS\n.nf\n\\fB%s\\fR%s\n.fi\n", roff(cmd.CommandPath()), roff(strings.TrimPrefix(cmd.UseLine(), cmd.CommandPath())))
	}
	b.WriteString(".SH DESCRIPTION\n" + manText(cmp.Or(cmd.Long, cmd.Short+".")))
	manFlags(&b, cmd)
	if cmd.Example != "" {
		b.WriteString(".SH EXAMPLES\n" + manText(cmd.Example))
	}
	if !cmd.HasParent() {
		b.WriteString(".SH EXIT STATUS\n" + manText(topicExitCodes()))
	}
	b.WriteString(".SH SEE ALSO\n")
	var also []string
	if p := cmd.Parent(); p != nil {
		also = append(also, pageName(p))
	}
	for _, c := range cmd.Commands() {
		if !c.Hidden {
			also = append(also, pageName(c))
		}
	}
	for i, page := range also {
		comma := ","
		if i == len(also)-1 {
			comma = ""
		}
		fmt.Fprintf(&b, ".BR %s (1)%s\n", roff(page), comma)
	}
	return b.String()
}

// manFlags writes about the flags of a command; those of all commands are on the
// first page.
func manFlags(b *strings.Builder, cmd *cobra.Command) {
	if !cmd.Runnable() {
		return
	}
	b.WriteString(".SH OPTIONS\n")
	if cmd.HasParent() {
		fmt.Fprintf(b, "Flags that every command has are described in\n.BR %s (1).\n", roff(pageName(cmd.Root())))
	}
	cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, about := pflag.UnquoteUsage(f)
		b.WriteString(".TP\n")
		if f.Shorthand != "" {
			fmt.Fprintf(b, "\\fB\\-%s\\fR, ", roff(f.Shorthand))
		}
		fmt.Fprintf(b, "\\fB\\-\\-%s\\fR", roff(f.Name))
		switch {
		case value != "" && f.NoOptDefVal != "":
			fmt.Fprintf(b, "[=\\fI%s\\fR]", roff(value))
		case value != "":
			fmt.Fprintf(b, " \\fI%s\\fR", roff(value))
		}
		fmt.Fprintf(b, "\n%s\n", roff(about))
	})
}

// manText writes paragraphs; lines that begin with space stay as they are.
func manText(text string) string {
	var b strings.Builder
	asIs, between := false, false
	for _, line := range strings.Split(strings.Trim(text, "\n"), "\n") {
		if strings.TrimSpace(line) == "" {
			between = true
			continue
		}
		indented := strings.TrimLeft(line, " \t") != line
		switch {
		case indented && !asIs:
			b.WriteString(".PP\n.nf\n")
		case !indented && asIs:
			b.WriteString(".fi\n.PP\n")
		case between && asIs:
			b.WriteString("\n")
		case between:
			b.WriteString(".PP\n")
		}
		asIs, between = indented, false
		b.WriteString(roff(strings.ReplaceAll(line, "\t", "    ")) + "\n")
	}
	if asIs {
		b.WriteString(".fi\n")
	}
	return b.String()
}

// roff makes text mean itself: no character of it is an instruction, and all of
// it is ASCII, which every man program reads.
func roff(s string) string {
	var b strings.Builder
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		b.WriteString(`\&`)
	}
	for _, r := range s {
		switch {
		case r == '\\':
			b.WriteString(`\e`)
		case r == '-':
			b.WriteString(`\-`)
		case r == '"':
			b.WriteString(`\(dq`)
		case r == '\'':
			b.WriteString(`\(aq`)
		case r == '`':
			b.WriteString(`\(ga`)
		case r == '^':
			b.WriteString(`\(ha`)
		case r == '~':
			b.WriteString(`\(ti`)
		case r == '\n':
			b.WriteString(" ")
		case r > '~':
			fmt.Fprintf(&b, `\[u%04X]`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
