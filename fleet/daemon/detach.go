package daemon

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/internal/hint"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/render"
)

// maxLogTail bounds what is shown of the log of a fleet that did not start, in
// bytes.
const maxLogTail = 4 << 10

// Detached is a fleet that runs in the background.
type Detached struct {
	PID int    `json:"pid"`
	Log string `json:"log"`
}

// Detach starts a command that runs a fleet in the background, and returns when the
// fleet is up. Its output goes into log; "" is the name of the fleet file with the
// extension .log.
func Detach(ctx context.Context, s *fleet.Store, child *exec.Cmd, file, log string) (Detached, error) {
	full, err := filepath.Abs(file)
	if err != nil {
		return Detached{}, err
	}
	if log == "" {
		log = strings.TrimSuffix(full, filepath.Ext(full)) + ".log"
	}
	if log, err = filepath.Abs(log); err != nil {
		return Detached{}, err
	}
	out, err := durable.OpenLog(log)
	if err != nil {
		return Detached{}, tidemark.Storagef("the log of the fleet: %w", err)
	}
	defer out.Close()
	info, err := out.Stat()
	if err != nil {
		return Detached{}, tidemark.Storagef("the log of the fleet: %w", err)
	}
	child.Stdout, child.Stderr = out, out
	if err := process.StartDetached(child); err != nil {
		return Detached{}, err
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	if err := AwaitReady(ctx, s, child.Process.Pid, ended); err != nil {
		return Detached{}, hint.With(fmt.Errorf("%w%s", err, logSince(log, info.Size())), "all that it said is in %s", log)
	}
	return Detached{child.Process.Pid, log}, nil
}

// logSince returns the end of what was added to a log since it had from bytes, after
// a colon and a newline; "" when there is nothing to show.
func logSince(log string, from int64) string {
	in, err := os.Open(log)
	if err != nil {
		return ""
	}
	defer in.Close()
	if info, err := in.Stat(); err == nil && info.Size()-from > maxLogTail {
		from = info.Size() - maxLogTail
	}
	b, err := io.ReadAll(io.NewSectionReader(in, from, maxLogTail))
	text := strings.TrimSpace(render.Clean(strings.ToValidUTF8(string(b), "")))
	if err != nil || text == "" {
		return ""
	}
	return ":\n" + text
}
