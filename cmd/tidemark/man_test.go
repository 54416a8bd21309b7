package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestManualPagesAreWellFormed(t *testing.T) {
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Log("no groff here: pages are only looked at")
	}
	dir, args := t.TempDir(), []string{"-man", "-Tutf8", "-ww", "-z"}
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
		file := filepath.Join(dir, p.Name)
		if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, file)
	}
	if groff == "" {
		return
	}
	// All at once: it says of which file it speaks.
	if out, err := exec.Command(groff, args...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("groff: %v\n%s", err, out)
	}
}

func printable(r rune) rune {
	if r < ' ' || r > '~' {
		return -1
	}
	return r
}
