package remote

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/expression"
	"github.com/tidemark-sessions/tidemark/internal/hint"
)

// SSHVariable is the environment variable with the command that is used as ssh, such
// as "ssh -F /etc/tidemark/ssh_config". Its parts are separated by spaces.
const SSHVariable = "TIDEMARK_SSH"

// sshWords are what may stand in the name of a user or a host: nothing that a shell
// or ssh itself understands as something else.
var sshWords = expression.WhenNeeded(`^[A-Za-z0-9_.:%][A-Za-z0-9_.:%-]*$`)

// sshPlace is where a URL of ssh leads.
type sshPlace struct {
	user, host, port, path, program string
}

// parseSSH reads ssh://[user@]host[:port]/path[?program=FILE]. A path that begins
// with /~/ lies in the home directory there.
func parseSSH(text string) (p sshPlace, err error) {
	u, err := url.Parse(text)
	if err != nil {
		return p, tidemark.Invalidf("%.100q is no URL", text)
	}
	p = sshPlace{user: u.User.Username(), host: u.Hostname(), port: u.Port(), path: u.Path, program: u.Query().Get("program")}
	_, password := u.User.Password()
	for key := range u.Query() {
		if key != "program" {
			return p, tidemark.Invalidf("%s: there is no option %.40q, only program", u.Redacted(), key)
		}
	}
	if home, is := strings.CutPrefix(p.path, "/~/"); is {
		p.path = home
	}
	switch {
	case password:
		return p, hint.With(tidemark.Invalidf("%s: a password does not belong into it", u.Redacted()), "let ssh know a key: ssh-copy-id %s", p.host)
	case !sshWords().MatchString(p.host) || p.user != "" && !sshWords().MatchString(p.user) || p.path == "" || p.path == "/" || u.Fragment != "" || strings.ContainsAny(p.path+p.program, "\x00\r\n"):
		return p, tidemark.Invalidf("%s: want ssh://[USER@]HOST[:PORT]/PATH", u.Redacted())
	}
	if p.program == "" {
		p.program = "tidemark"
	}
	return p, nil
}

// login is what a person types to get there.
func (p sshPlace) login() string {
	text := "ssh "
	if p.port != "" {
		text += "-p " + p.port + " "
	}
	if p.user != "" {
		text += p.user + "@"
	}
	return text + p.host
}

// command returns the arguments of ssh. The host is none of its options, whatever it
// looks like, and the shell there takes each word as it is.
func (p sshPlace) command(ask bool) []string {
	args := []string{"-T", "-oConnectTimeout=20", "-oServerAliveInterval=15", "-oServerAliveCountMax=4"}
	if !ask {
		args = append(args, "-oBatchMode=yes")
	}
	if p.port != "" {
		args = append(args, "-p", p.port)
	}
	if p.user != "" {
		args = append(args, "-l", p.user)
	}
	quote := func(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
	return append(args, "--", p.host, quote(p.program)+" remote serve -- "+quote(p.path))
}

// conversation is a running ssh.
type conversation struct {
	cmd    *exec.Cmd
	in     io.Closer
	errors tail
	once   sync.Once
	done   chan struct{}
	err    error
}

// openSSH starts the program at the other end of an ssh connection.
func openSSH(ctx context.Context, text string, o *Options) (Blobs, error) {
	p, err := parseSSH(text)
	if err != nil {
		return nil, err
	}
	words := strings.Fields(o.getenv(SSHVariable))
	if len(words) == 0 {
		words = []string{"ssh"}
	}
	c := &conversation{cmd: exec.Command(words[0], append(words[1:], p.command(o.Ask)...)...), done: make(chan struct{})}
	c.cmd.Env, c.cmd.Stderr = o.Environ, &c.errors
	// A grandchild, such as the master of a shared connection, may keep the pipe of
	// the errors open.
	c.cmd.WaitDelay = time.Second
	out, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, tidemark.Storagef("%s: %w", words[0], err)
	}
	in, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, tidemark.Storagef("%s: %w", words[0], err)
	}
	c.in = out
	if err := c.cmd.Start(); err != nil {
		return nil, hint.With(tidemark.Storagef("%s: %w", words[0], err), "remotes by ssh need the program ssh of OpenSSH on this machine")
	}
	s := &stream{where: p.host, in: bufio.NewReaderSize(in, 64<<10), out: bufio.NewWriterSize(out, 64<<10), end: c.end, told: func(err error) error { return c.told(p, err) }}
	if err := s.greet(ctx); err != nil {
		c.end()
		return nil, err
	}
	return s, nil
}

// end closes the pipe to the other end, which then leaves, and kills ssh when it does
// not. It returns how ssh ended.
func (c *conversation) end() error {
	c.once.Do(func() {
		c.in.Close()
		late := time.AfterFunc(3*time.Second, func() { c.cmd.Process.Kill() })
		c.err = c.cmd.Wait()
		late.Stop()
		close(c.done)
	})
	<-c.done
	return c.err
}

// told says why a conversation broke, by what ssh and the other end said.
func (c *conversation) told(p sshPlace, err error) error {
	said := c.errors.String()
	last := strings.TrimSpace(said)
	last = strings.TrimSpace(last[strings.LastIndexByte(last, '\n')+1:])
	var exit *exec.ExitError
	code := 0
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	}
	has := func(text string) bool { return strings.Contains(said, text) }
	switch {
	case has("REMOTE HOST IDENTIFICATION HAS CHANGED"):
		return hint.With(tidemark.Deniedf("%s: its host key is another one than before: it is not that machine, or it was set up anew", p.host), "ask whoever runs it; if that is so: ssh-keygen -R %s", p.host)
	case has("Host key verification failed"):
		return hint.With(tidemark.Deniedf("%s: its host key is not known here", p.host), "connect once, compare the key, and say yes: %s", p.login())
	case code == 255 && has("Permission denied"):
		return hint.With(tidemark.Deniedf("%s: ssh is not let in (%s)", p.host, last), "see whether this works without a password: %s", p.login())
	case code == 127 || code == 126:
		return hint.With(tidemark.Storagef("%s: there is no program %s (%s)", p.host, p.program, last), "install tidemark there; if it is not in the PATH of ssh, name it: ssh://%s/PATH?program=/home/ada/bin/tidemark", p.host)
	case code == 255 && last != "":
		return hint.With(tidemark.Storagef("%s: %s", p.host, last), "see whether this works: %s", p.login())
	case code != 0 && last != "":
		return hint.With(tidemark.Storagef("%s: %s remote serve: %s", p.host, p.program, last), "use the same version of tidemark on both machines")
	}
	return hint.With(tidemark.Storagef("%s: %w", p.host, err), "see whether this works: %s", p.login())
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// maxTail is enough for what ssh says about a host key.
const maxTail = 8 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.text = append(t.text, p...); len(t.text) > maxTail {
		t.text = t.text[len(t.text)-maxTail:]
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
