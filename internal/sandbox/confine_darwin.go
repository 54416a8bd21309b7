package sandbox

import (
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
)

// sandboxExec is macOS's program that starts another one under a profile.
const sandboxExec = "/usr/bin/sandbox-exec"

// Fence is this process's handle on a confined one.
type Fence struct {
	once     sync.Once
	listener net.Listener
}

// Confine changes cmd so that it runs within the policy, by sandbox-exec.
func Confine(p Policy, cmd *exec.Cmd) (*Fence, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	f := &Fence{}
	port := 0
	if len(p.Hosts) > 0 {
		way, err := newProxy(p.Hosts)
		if err != nil {
			return nil, err
		}
		if f.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return nil, err
		}
		port = f.listener.Addr().(*net.TCPAddr).Port
		go way.serve(f.listener)
		url := "http://127.0.0.1:" + strconv.Itoa(port)
		cmd.Env = append(cmd.Env, "HTTP_PROXY="+url, "HTTPS_PROXY="+url, "http_proxy="+url, "https_proxy="+url)
	}
	if cmd.Dir == "" {
		cmd.Dir = p.Root
	}
	cmd.Args = append([]string{sandboxExec, "-p", Profile(p, port), cmd.Path}, cmd.Args[1:]...)
	cmd.Path = sandboxExec
	return f, nil
}

// Started releases what only the started process needs now.
func (f *Fence) Started() {}

// Close ends what is left of the sandbox. It may be called twice.
func (f *Fence) Close() {
	f.once.Do(func() {
		if f.listener != nil {
			f.listener.Close()
		}
	})
}

// Stage is for Linux.
func Stage(_, _ []string, _ func() <-chan os.Signal) (code int, staged bool, err error) {
	return 0, false, nil
}

// Layers lists what this machine can enforce.
func Layers() []Layer {
	if _, err := os.Stat(sandboxExec); err != nil {
		return []Layer{{"sandbox-exec", false, err.Error()}}
	}
	return []Layer{{"sandbox-exec", true, "files and network by a profile"}}
}
