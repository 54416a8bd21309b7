// Package nodes runs the real `tidemark serve`, in processes of its own before
// one store, and speaks to it as a client does. It is for programs that try
// and measure servers; it judges nothing, and repeats nothing that went wrong.
//
//	p := nodes.Place{Program: "bin/tidemark", Dir: dir, Env: os.Environ(), Store: url}
//	n, err := p.Start(ctx)
//	session, err := p.Client(1).Create(ctx, n.URL, "a title")
package nodes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// nodeTimeout is how long a node may take to start or to stop. Nodes give
// their own requests 20 seconds to end.
const nodeTimeout = time.Minute

// Place is where nodes run, and what they serve.
type Place struct {
	Program string   // the tidemark to start
	Dir     string   // homes, logs and the token; the caller removes it
	Store   string   // the URL of the store
	Env     []string // the environment of nodes, as os.Environ gives that of the caller
	Flags   []string

	made int
}

// Migrate creates the tables of the store, as their owner, or brings them up to date
// where the flags say that this may be.
func (p *Place) Migrate(ctx context.Context, owner string, flags ...string) error {
	cmd := p.command(ctx, append([]string{"database", "migrate"}, flags...)...)
	cmd.Env = append(cmd.Env, "TIDEMARK_DATABASE_OWNER="+owner)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("tidemark database migrate: %w\n%s", err, out)
	}
	return nil
}

// Tell runs the program on the store and returns its output.
func (p *Place) Tell(ctx context.Context, args ...string) ([]byte, error) {
	var said bytes.Buffer
	cmd := p.command(ctx, args...)
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("tidemark %s: %w\n%s", strings.Join(args, " "), err, said.Bytes())
	}
	return out, nil
}

func (p *Place) command(ctx context.Context, args ...string) *exec.Cmd {
	return p.commandOf(ctx, p.Program, args...)
}

func (p *Place) commandOf(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = p.Dir
	home := filepath.Join(p.Dir, "home") // not a project
	cmd.Env = append(slices.Clone(p.Env), "TIDEMARK_STORE="+p.Store, "HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_DATA_HOME="+home)
	return cmd
}

func (p *Place) tokenFile() string { return filepath.Join(p.Dir, "token") }

// Start starts one more node and waits until it is ready. It listens at the
// same address after each Restart.
func (p *Place) Start(ctx context.Context) (*Node, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		return nil, err
	}
	p.made++
	n := &Node{URL: "http://" + addr, Program: p.Program, place: p, addr: addr, log: filepath.Join(p.Dir, fmt.Sprintf("node-%d.log", p.made))}
	return n, n.start(ctx)
}

// Node is one server.
type Node struct {
	URL     string
	Program string // the tidemark that Again starts

	place *Place
	addr  string
	log   string
	cmd   *exec.Cmd
	ended chan struct{} // closed when cmd has ended
}

// start uses ctx only for waiting: the node ends by Stop, or with this
// process.
func (n *Node) start(ctx context.Context) error {
	log, err := os.OpenFile(n.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	args := append([]string{"serve", "--addr", n.addr, "--auth", "local", "--token-file", n.place.tokenFile()}, n.place.Flags...)
	cmd := n.place.commandOf(context.WithoutCancel(ctx), n.Program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	ended := make(chan struct{})
	begun := make(chan error, 1)
	go collect(cmd, begun, ended)
	if err := <-begun; err != nil {
		return err
	}
	n.cmd, n.ended = cmd, ended
	return n.ready(ctx)
}

// ready waits until the node is ready.
func (n *Node) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	for {
		err := n.answers(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-n.ended:
			return fmt.Errorf("%s ended:\n%s", n.URL, n.LastWords())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w\n%s", n.URL, err, n.LastWords())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (n *Node) answers(ctx context.Context) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, n.URL+"/readyz", nil)
	if err != nil {
		return err
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	io.Copy(io.Discard, a.Body)
	if a.StatusCode != http.StatusOK {
		return errors.New(a.Status)
	}
	return nil
}

// LastWords returns the end of the node's log.
func (n *Node) LastWords() string {
	b, err := os.ReadFile(n.log)
	if err != nil {
		return err.Error()
	}
	b = b[max(0, len(b)-4000):]
	if i := bytes.IndexByte(b, '\n'); i >= 0 && len(b) == 4000 {
		b = b[i+1:]
	}
	return string(b)
}

// Drain asks the node to end, waits until it has, and reports an unclean end.
func (n *Node) Drain() error {
	if err := n.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return n.Kill() // not every system has such a signal
	}
	select {
	case <-n.ended:
	case <-time.After(nodeTimeout):
		return errors.Join(fmt.Errorf("%s does not end", n.URL), n.Kill())
	}
	if code := n.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("%s ended with %d:\n%s", n.URL, code, n.LastWords())
	}
	return nil
}

// Kill ends the node at once, without any cleanup.
func (n *Node) Kill() error {
	err := n.cmd.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	<-n.ended
	return err
}

// Again restarts a node that has ended.
func (n *Node) Again(ctx context.Context) error { return n.start(ctx) }

// Pid is the process of the node.
func (n *Node) Pid() int { return n.cmd.Process.Pid }

// Token is what every call has to send. At least one node has to be started.
func (p *Place) Token() (string, error) {
	b, err := os.ReadFile(p.tokenFile())
	return strings.TrimSpace(string(b)), err
}
