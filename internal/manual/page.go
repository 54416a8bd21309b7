package manual

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// Page is what the page of one command says, as plain text.
type Page struct {
	Name, Short string
	Version     string // of the program
	// Command and Args are how the command is called; none of both, when it
	// cannot be.
	Command, Args string
	Text          string
	Flags         []Flag
	Inherited     string // the page with the flags of all commands; "" when this is it
	Example       string
	Exit          string // what the exit codes mean
	Also          []string
}

// Flag is a flag of a command.
type Flag struct {
	Name, Shorthand string
	Value           string // what stands behind it, "" for a flag that is said or not
	Optional        bool   // the value may be left out
	Text            string
}

// Write writes pages into a folder, which is made if need be, and says the file
// of each one that it wrote.
func Write(dir string, pages []Page, wrote func(file string)) error {
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
	for _, p := range pages {
		file := p.Name + ".1"
		tmp := file + ".tmp"
		d.Remove(tmp) // left by one who was killed
		if err := durable.Replace(d, tmp, file, []byte(p.Roff())); err != nil {
			return tidemark.Storagef("%s: %w", file, err)
		}
		wrote(filepath.Join(dir, file))
	}
	return nil
}

// Roff returns the page in the language of man.
func (p Page) Roff() string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH \"%s\" \"1\" \"\" \"Tidemark %s\" \"Tidemark\"\n", roff(strings.ToUpper(p.Name)), roff(p.Version))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(p.Name), roff(p.Short))
	if p.Command != "" {
		fmt.Fprintf(&b, ".SH SYNOPSIS\n.nf\n\\fB%s\\fR%s\n.fi\n", roff(p.Command), roff(p.Args))
	}
	b.WriteString(".SH DESCRIPTION\n" + paragraphs(p.Text))
	if p.Command != "" {
		p.options(&b)
	}
	if p.Example != "" {
		b.WriteString(".SH EXAMPLES\n" + paragraphs(p.Example))
	}
	if p.Exit != "" {
		b.WriteString(".SH EXIT STATUS\n" + paragraphs(p.Exit))
	}
	b.WriteString(".SH SEE ALSO\n")
	for i, page := range p.Also {
		comma := ","
		if i == len(p.Also)-1 {
			comma = ""
		}
		fmt.Fprintf(&b, ".BR %s (1)%s\n", roff(page), comma)
	}
	return b.String()
}

// options writes about the flags of a command; those of all commands are on the
// first page.
func (p Page) options(b *strings.Builder) {
	b.WriteString(".SH OPTIONS\n")
	if p.Inherited != "" {
		fmt.Fprintf(b, "Flags that every command has are described in\n.BR %s (1).\n", roff(p.Inherited))
	}
	for _, f := range p.Flags {
		b.WriteString(".TP\n")
		if f.Shorthand != "" {
			fmt.Fprintf(b, "\\fB\\-%s\\fR, ", roff(f.Shorthand))
		}
		fmt.Fprintf(b, "\\fB\\-\\-%s\\fR", roff(f.Name))
		switch {
		case f.Value != "" && f.Optional:
			fmt.Fprintf(b, "[=\\fI%s\\fR]", roff(f.Value))
		case f.Value != "":
			fmt.Fprintf(b, " \\fI%s\\fR", roff(f.Value))
		}
		fmt.Fprintf(b, "\n%s\n", roff(f.Text))
	}
}

// paragraphs writes paragraphs; lines that begin with space stay as they are.
func paragraphs(text string) string {
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
