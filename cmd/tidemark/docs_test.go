package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocumentedExamples runs the console blocks of the README and of every
// page under docs: each line that begins with "$ " is a command, what follows
// is what it prints, and … stands for anything. The blocks of one page share
// an empty home.
func TestDocumentedExamples(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	pages := []string{filepath.Join(root, "README.md")}
	err = filepath.WalkDir(filepath.Join(root, "docs"), func(path string, d fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") {
			pages = append(pages, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	bin := commandDir(t)
	ran := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		steps := examples(string(text))
		ran += len(steps)
		if len(steps) == 0 {
			continue
		}
		name, _ := filepath.Rel(root, page)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			project := filepath.Join(home, "project")
			if err := os.Mkdir(project, 0o700); err != nil {
				t.Fatal(err)
			}
			in := func(command string) *exec.Cmd {
				cmd := exec.Command("sh", "-c", command)
				cmd.Dir = project
				cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + home, "XDG_DATA_HOME=" + home + "/.local/share"}
				return cmd
			}
			// An example that fails may leave a fleet behind; mostly there is none.
			t.Cleanup(func() { in("tidemark fleet down").Run() })
			for _, s := range steps {
				cmd := in(s.command)
				var stderr strings.Builder
				cmd.Stderr = &stderr
				out, err := cmd.Output()
				if err != nil {
					t.Fatalf("$ %s\n%v\n%s", s.command, err, stderr.String())
				}
				if !matches(s.output, string(out)) {
					t.Errorf("$ %s\nprints\n%sthe page says\n%s", s.command, out, s.output)
				}
			}
		})
	}
	if ran < 20 {
		t.Errorf("only %d examples were found", ran)
	}
}

type example struct{ command, output string }

var consoleBlock = regexp.MustCompile("(?s)```console\n(.*?)```")

func examples(page string) (steps []example) {
	for _, block := range consoleBlock.FindAllStringSubmatch(page, -1) {
		for _, line := range strings.SplitAfter(block[1], "\n") {
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				steps = append(steps, example{command: strings.TrimSpace(command)})
			} else if len(steps) > 0 {
				steps[len(steps)-1].output += line
			}
		}
	}
	return steps
}

func matches(want, got string) bool {
	pattern := strings.ReplaceAll(regexp.QuoteMeta(want), "…", ".*")
	return regexp.MustCompile("^" + pattern + "$").MatchString(got)
}

// commandDir returns a folder in which this test binary is called tidemark,
// which is how testscript.Main runs a command.
func commandDir(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(exe, filepath.Join(dir, "tidemark")); err != nil {
		t.Skipf("no symlinks here: %v", err)
	}
	return dir
}
