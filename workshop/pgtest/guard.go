package pgtest

import (
	"fmt"
	"io"
	"os/exec"
	"sync"
)

// guard is a shell beside a server. It sleeps on a pipe whose other end only
// this process has; when that closes, for whatever reason, SIGKILL included,
// the shell ends the server and removes its folder. A defer or a cleanup
// cannot promise that.
type guard struct {
	pipe io.WriteCloser
	cmd  *exec.Cmd
	once sync.Once
}

// script reads the ids of processes to mind, the newest counts. It asks first,
// waits for some seconds, and then insists. A server that was killed before
// leaves a segment of shared memory, which its last lines name.
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

// watch starts a guard over the folder of a server that ends on a signal.
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

// mind says which process to end; 0: none.
func (g *guard) mind(pid int) { fmt.Fprintln(g.pipe, pid) }

// end lets the guard do its work, and waits for it.
func (g *guard) end() {
	g.once.Do(func() {
		g.pipe.Close()
		_ = g.cmd.Wait() // the exit code is that of rm or of a process that was gone
	})
}
