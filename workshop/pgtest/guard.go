package pgtest

import (
	"fmt"
	"io"
	"os/exec"
	"sync"
)

// guard is a shell process beside a server. It waits on a pipe whose other
// end only this process has; when that closes for any reason, SIGKILL
// included, the shell ends the server and removes its folder. A defer or a
// cleanup cannot promise that.
type guard struct {
	pipe io.WriteCloser
	cmd  *exec.Cmd
	once sync.Once
}

// script reads process ids, of which the last one counts. It asks the process
// to end, waits some seconds, and then kills it. A server that was killed
// before leaves a segment of shared memory, which the last lines remove.
const script = `pid=0
while read -r line; do pid=$line; done
if [ "$pid" -gt 1 ]; then
	kill -"$2" "$pid"
	tries=60
	while [ $tries -gt 0 ] && kill -0 "$pid"; do
		sleep 0.1
		tries=$((tries - 1))
	done
	kill -KILL "$pid"
fi
if [ -f "$1/data/postmaster.pid" ]; then
	set -- "$1" $(sed -n 7p "$1/data/postmaster.pid")
	[ -z "$3" ] || ipcrm -m "$3"
fi
rm -rf "$1"
`

// watch starts a guard for the folder of a server that ends on the given
// signal.
func watch(dir, signal string) (*guard, error) {
	cmd := exec.Command("/bin/sh", "-c", script, "guard", dir, signal)
	cmd.Dir = "/"
	apart(cmd) // so that what ends the tests does not end the guard first
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	return &guard{pipe: pipe, cmd: cmd}, nil
}

// mind sets the process to end; 0 for none.
func (g *guard) mind(pid int) { fmt.Fprintln(g.pipe, pid) }

// end lets the guard clean up, and waits for it.
func (g *guard) end() {
	g.once.Do(func() {
		g.pipe.Close()
		_ = g.cmd.Wait() // the exit code is that of rm or of a process that was gone
	})
}
