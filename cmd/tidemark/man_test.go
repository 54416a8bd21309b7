package main

import (
	"os/exec"
	"strings"
	"testing"
)

func TestManualPagesAreWellFormed(t *testing.T) {
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Log("no groff here: pages are only looked at")
	}
	for _, p := range manualPages(rootCommand(newApp())) {
		page := p.Roff()
		for _, section := range []string{".SH NAME\n", ".SH DESCRIPTION\n", ".SH SEE ALSO\n"} {
			if strings.Count(page, section) != 1 {
				t.Errorf("%s: not one section %q", p.Name, section)
			}
		}
		for line := range strings.Lines(page) {
			macro, _, _ := strings.Cut(strings.TrimRight(line, "\n"), " ")
			if strings.HasPrefix(line, "'") || strings.HasPrefix(line, ".") && !strings.Contains(" .TH .SH .PP .TP .BR .nf .fi ", " "+macro+" ") {
				t.Errorf("%s: %q would be an instruction", p.Name, line)
			}
			if strings.Trim(line, "\n") != strings.Map(printable, strings.Trim(line, "\n")) {
				t.Errorf("%s: %q is not plain ASCII", p.Name, line)
			}
		}
		if groff != "" {
			cmd := exec.Command(groff, "-man", "-Tutf8", "-ww", "-z")
			cmd.Stdin = strings.NewReader(page)
			if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("%s: %v\n%s", p.Name, err, out)
			}
		}
	}
}

func printable(r rune) rune {
	if r < ' ' || r > '~' {
		return -1
	}
	return r
}
