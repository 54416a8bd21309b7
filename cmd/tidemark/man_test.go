package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestManualPagesAreWellFormed(t *testing.T) {
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Log("no groff here: pages are only looked at")
	}
	dir, files := t.TempDir(), []string{"-man", "-Tutf8", "-ww", "-z"}
	eachPage(rootCommand(newApp()), func(c *cobra.Command) error {
		page := manPage(c)
		for _, section := range []string{".SH NAME\n", ".SH DESCRIPTION\n", ".SH SEE ALSO\n"} {
			if strings.Count(page, section) != 1 {
				t.Errorf("%s: not one section %q", pageName(c), section)
			}
		}
		for line := range strings.Lines(page) {
			macro, _, _ := strings.Cut(strings.TrimRight(line, "\n"), " ")
			if strings.HasPrefix(line, "'") || strings.HasPrefix(line, ".") && !strings.Contains(" .TH .SH .PP .TP .BR .nf .fi ", " "+macro+" ") {
				t.Errorf("%s: %q would be an instruction", pageName(c), line)
			}
			if strings.Trim(line, "\n") != strings.Map(printable, strings.Trim(line, "\n")) {
				t.Errorf("%s: %q is not plain ASCII", pageName(c), line)
			}
		}
		files = append(files, filepath.Join(dir, pageName(c)))
		return os.WriteFile(files[len(files)-1], []byte(page), 0o600)
	})
	if groff == "" {
		return
	}
	// All at once: it says of which file it speaks.
	if out, err := exec.Command(groff, files...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("groff: %v\n%s", err, out)
	}
}

func printable(r rune) rune {
	if r < ' ' || r > '~' {
		return -1
	}
	return r
}

func TestTextInManualPagesMeansItself(t *testing.T) {
	for text, want := range map[string]string{
		".so /etc/passwd":     `\&.so /etc/passwd`,
		"'br":                 `\&\(aqbr`,
		`a\fBb`:               `a\efBb`,
		"--all … ~x^ \"q\" `": `\-\-all \[u2026] \(tix\(ha \(dqq\(dq \(ga`,
		"100%":                "100%",
	} {
		if got := roff(text); got != want {
			t.Errorf("roff(%q) = %q, want %q", text, got, want)
		}
	}
}
