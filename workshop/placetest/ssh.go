// Package placetest runs what remotes lie in, for tests: a real sshd, a real server that
// speaks S3, a Tidemark server, and what cuts the connections to them. What is missing
// on a machine is named, and the test that needs it is skipped.
//
//	s := placetest.SSH(t)
//	place, err := remote.Open(ctx, s.URL(dir, program), s.Options)
package placetest

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tidemark-sessions/tidemark/transfer/remote"
)

// SSHServer is a running sshd with keys of its own, on this machine.
type SSHServer struct {
	Options *remote.Options // ssh with the keys that it lets in
	Dir     string          // has ssh_config, known_hosts and authorized_keys
	Addr    string          // HOST:PORT, or where a Cutter stands before it
}

// hostName is what the sshd is known as, whichever way leads to it.
const hostName = "place"

// sshdProgram is absolute: sshd starts itself again by its name.
const sshdProgram = "/usr/sbin/sshd"

// SSH starts an sshd that ends with the test. Each connection has a process of its
// own, so that no port has to be found for it.
func SSH(t testing.TB) *SSHServer {
	t.Helper()
	if _, err := os.Stat(sshdProgram); err != nil {
		t.Skipf("there is no %s; make deps installs it", sshdProgram)
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	if me.Uid == "0" { // an sshd of root wants it, and packages leave it to systemd
		if err := os.MkdirAll("/run/sshd", 0o700); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &SSHServer{Dir: t.TempDir(), Addr: l.Addr().String()}
	write := func(name, text string) string {
		path := filepath.Join(s.Dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	key := func(name string) (path, public string) {
		path = filepath.Join(s.Dir, name)
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path).CombinedOutput(); err != nil {
			t.Fatalf("ssh-keygen: %v\n%s", err, out)
		}
		data, err := os.ReadFile(path + ".pub")
		if err != nil {
			t.Fatal(err)
		}
		return path, string(data)
	}
	host, hostPublic := key("host_key")
	own, ownPublic := key("own_key")
	known := write("known_hosts", hostName+" "+hostPublic)
	allowed := write("authorized_keys", ownPublic)
	config := write("sshd_config", strings.Join([]string{"HostKey " + host, "AuthorizedKeysFile " + allowed, "StrictModes no", "UsePAM no", "PasswordAuthentication no",
		"KbdInteractiveAuthentication no", "PermitRootLogin yes", "PidFile none", "LogLevel ERROR", ""}, "\n"))
	ssh := write("ssh_config", strings.Join([]string{"User " + me.Username, "IdentityFile " + own, "IdentitiesOnly yes", "HostKeyAlias " + hostName, "UserKnownHostsFile " + known, "GlobalKnownHostsFile none", "KexAlgorithms curve25519-sha256", "StrictHostKeyChecking yes", ""}, "\n"))
	s.Options = &remote.Options{Environ: []string{remote.SSHVariable + "=ssh -F " + ssh}}

	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { serveSSH(c.(*net.TCPConn), config) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		running.Wait()
	})
	return s
}

// Main runs the tests of a package. If its program is at the other end of an ssh
// connection, it does what the command tidemark remote serve does.
func Main(m *testing.M, args []string, in io.Reader, out io.Writer) (code int) {
	if len(args) < 5 || args[1] != "remote" || args[2] != "serve" {
		return m.Run()
	}
	if remote.Serve(context.Background(), args[4], in, out) != nil {
		return 1
	}
	return 0
}

// Program is the program of the test that runs, for URL: see Main.
func Program(t testing.TB) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// serveSSH runs sshd for one connection, until the client is gone.
func serveSSH(c *net.TCPConn, config string) {
	file, err := c.File()
	c.Close()
	if err != nil {
		return
	}
	cmd := exec.Command(sshdProgram, "-i", "-e", "-f", config)
	cmd.Stdin, cmd.Stdout = file, file
	err = cmd.Start()
	file.Close()
	if err == nil {
		cmd.Wait()
	}
}

// URL is the URL of a folder, with the program that serves it.
func (s *SSHServer) URL(dir, program string) string {
	return fmt.Sprintf("ssh://%s%s?program=%s", s.Addr, dir, program)
}
