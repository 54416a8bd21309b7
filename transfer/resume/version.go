package resume

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/internal/expression"
)

// The versions of a tool that are known here do not differ in how they read a
// session, so there is one form for each. Whoever has a version of another series than
// the one that was tried is told.

// series is the first two numbers of a version: what a tool changes between them is
// small.
func series(version string) string {
	parts := strings.SplitN(version, ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

// untried tells people that nobody tried the version that they have; "" if it was.
func (c client) untried(title, version string) string {
	if version == "" || series(version) == series(c.tried) {
		return ""
	}
	return fmt.Sprintf("It is written as for %s %s.x; yours is %s.", title, series(c.tried), version)
}

// versionTimeout is how long a tool may take to say its version; it is told to
// people, and nothing waits for it.
const versionTimeout = 3 * time.Second

// version is a version in what a tool says about itself.
var version = expression.WhenNeeded(`\d+\.\d+\.\d+[-.+\w]*`)

// versionFile remembers what tools said.
const versionFile = "tool-versions.json"

// said is what a program said of itself when it was as it is now.
type said struct {
	Changed time.Time `json:"changed_at"`
	Size    int64     `json:"size"`
	Version string    `json:"version"`
}

// versionOf returns the version of a tool; "" if it does not say. It is asked once:
// tools take a second to start.
func versionOf(ctx context.Context, program string, r Request) string {
	real, err := filepath.EvalSymlinks(program)
	if err != nil {
		return ""
	}
	now, err := os.Stat(real)
	if err != nil {
		return ""
	}
	all := make(map[string]said)
	if b, err := os.ReadFile(filepath.Join(r.State, versionFile)); err == nil && r.State != "" {
		_ = json.Unmarshal(b, &all) // what cannot be read is asked again
	}
	if was, there := all[real]; there && was.Changed.Equal(now.ModTime()) && was.Size == now.Size() {
		return was.Version
	}
	v := askVersion(ctx, program, r.Environ)
	if v == "" || r.State == "" {
		return v
	}
	if all == nil { // the file says null
		all = make(map[string]said)
	}
	all[real] = said{now.ModTime(), now.Size(), v}
	_ = remember(r.State, all) // else it is asked again
	return v
}

// remember writes what tools said.
func remember(dir string, all map[string]said) error {
	b, err := json.Marshal(all)
	if err == nil {
		err = durable.MakeDir(dir)
	}
	if err != nil {
		return err
	}
	d, err := durable.OpenDir(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return durable.Replace(d, fmt.Sprintf("%s.%d.tmp", versionFile, os.Getpid()), versionFile, b)
}

// askVersion starts a tool to ask for its version; "" if it does not say.
func askVersion(ctx context.Context, program string, environ []string) string {
	ctx, stop := context.WithTimeout(ctx, versionTimeout)
	defer stop()
	cmd := exec.CommandContext(ctx, program, "--version")
	cmd.Env, cmd.WaitDelay = environ, versionTimeout
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	line, _, _ := bytes.Cut(out, []byte("\n"))
	return string(version().Find(line))
}
