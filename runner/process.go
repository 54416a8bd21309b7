package runner

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/process"
)

// Process is a program that runs, or ran, for a job. It is kept with the job,
// so that whoever finds the job without an owner can End what is left of it.
// On Linux the mark and the owner's host, boot and namespace are enough for
// that, even without a pid.
type Process struct {
	tidemark.Holder        // the program itself; its pid is also that of its process group
	Job             string `json:"job,omitempty"`
	Mark            string `json:"mark,omitempty"`       // in the environment of every process that the program started
	Session         string `json:"session_id,omitempty"` // set as soon as it is known
	Engine          string `json:"engine,omitempty"`     // of the container
	Container       string `json:"container_id,omitempty"`
}

// The variables that this package passes to a program.
const (
	variableMark    = "TIDEMARK_RUN"     // Process.Mark
	variableJob     = "TIDEMARK_JOB"     // Task.Job
	variableAgent   = "TIDEMARK_AGENT"   // Task.Agent
	variablePrompt  = "TIDEMARK_PROMPT"  // Task.Prompt, where a variable can hold it; Command
	variableSession = "TIDEMARK_SESSION" // Task.Session; Command
	variableEntry   = "TIDEMARK_ENTRY"   // Task.Entry, where there is one; Command
	variableFork    = "TIDEMARK_FORK"    // 1 where Task.Fork is set; Command
)

// End ends what is left of a program whose owner died, and removes its
// container. It harms no other process: a pid that has been reused is left
// alone, and so is every process of another host. On Linux it finds every
// process that inherited Process.Mark, even if the program itself has ended;
// elsewhere it finds the process group while the program exists. Ending what
// has ended already is no error. environ is the environment for the
// container's engine.
func End(ctx context.Context, p Process, environ []string) error {
	var errs []error
	if !process.Find(p.Holder, markOf(p)).Stop(DefaultGrace) {
		errs = append(errs, fmt.Errorf("job %s: pid %d cannot be ended", p.Job, p.PID))
	}
	if p.Container != "" {
		errs = append(errs, remove(ctx, p.Engine, p.Container, environ))
	}
	return errors.Join(errs...)
}

// NewMark returns a mark for one run.
func NewMark() string { return rand.Text() }

// markOf returns the variable by which the descendants of a program are
// found, "" if it has none.
func markOf(p Process) string {
	if p.Mark == "" {
		return ""
	}
	return variableMark + "=" + p.Mark
}

// FindProgram returns the path of a program, looked up in the PATH of an
// environment and not in that of this process; one with a slash is looked up from
// dir. ErrNotFound: it is not there, or not to be run.
func FindProgram(name, dir string, environ []string) (string, error) {
	if name == "" {
		return "", tidemark.Invalidf("an agent without a program")
	}
	missing := func(where string) error {
		return tidemark.NotFoundf("program %q: not there%s, or not to be run", name, where)
	}
	if runtime.GOOS == "windows" { // on Windows the system decides what can be run, and by which extensions
		path, err := exec.LookPath(name)
		if err != nil {
			return "", missing("")
		}
		return path, nil
	}
	if strings.ContainsRune(name, '/') {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		if !runnable(path) {
			return "", missing("")
		}
		return name, nil
	}
	for _, folder := range filepath.SplitList(variable(environ, "PATH")) {
		// A relative folder would make the choice of program depend on
		// where the agent works.
		if path := filepath.Join(folder, name); filepath.IsAbs(folder) && runnable(path) {
			return path, nil
		}
	}
	return "", missing(" in PATH")
}

// variable returns the value of a variable as a program sees it: the last one
// counts.
func variable(environ []string, name string) (value string) {
	for _, v := range environ {
		if k, val, ok := strings.Cut(v, "="); ok && k == name {
			value = val
		}
	}
	return value
}

func runnable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
