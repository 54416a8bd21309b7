package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/sandbox"
	"github.com/tidemark-sessions/tidemark/render"
)

const (
	// maxMessage bounds one message of a server.
	maxMessage = 16 << 20
	// grace is how long a program has between the end of its input and being
	// killed.
	grace = 500 * time.Millisecond
	// maxSaid bounds what is kept of a program's error output.
	maxSaid = 2 << 10
)

// connection is a transport to a server, and how to end what is behind it.
type connection struct {
	sdk.Transport
	end  func()        // ends it and waits for that; safe to call twice
	said func() string // what a program wrote beside the protocol, in a line
}

// connect makes the connection to a server. Nothing was said over it yet; a
// program is started.
func (o *Options) connect(s Server) (connection, error) {
	s, err := s.expanded(o.Variables)
	if err != nil {
		return connection{}, err
	}
	if s.URL != "" {
		return o.overHTTP(s)
	}
	return o.start(s)
}

// start starts the program of a server, in the sandbox.
func (o *Options) start(s Server) (connection, error) {
	held, more := o.Sandbox, sandbox.Widening{}
	if s.Own && s.Sandbox != nil {
		if more = (sandbox.Widening{Hosts: s.Sandbox.Hosts, Write: s.Sandbox.Write}); s.Sandbox.Off {
			held = nil
		}
	}
	if o.Unfenced != "" && (held != nil || !s.Own || s.Sandbox == nil || !s.Sandbox.Off) {
		return connection{}, tidemark.Deniedf("%s", o.Unfenced)
	}
	environ := slices.Clone(o.Environ)
	for name, value := range s.Env {
		environ = append(environ, name+"="+value)
	}
	program := s.Command
	switch {
	case filepath.IsAbs(program):
	case strings.ContainsAny(program, `/\`):
		program = filepath.Join(o.Project, program)
	default:
		if program = held.LookUp(environ, s.Command); program == "" {
			return connection{}, tidemark.NotFoundf("there is no program %s in PATH, or the sandbox does not see it", s.Command)
		}
	}
	said := &tail{}
	cmd := &exec.Cmd{Path: program, Args: append([]string{program}, s.Args...), Dir: o.Project, Env: append(environ, "PWD="+o.Project), Stderr: said, WaitDelay: time.Second}
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return connection{}, err
	}
	started, err := held.Start(more, cmd)
	if err != nil {
		return connection{}, err
	}
	end := sync.OnceFunc(func() {
		in.Close() // a server ends with its input
		dead := make(chan struct{})
		go func() {
			defer close(dead)
			cmd.Wait()
		}()
		select {
		case <-dead:
		case <-time.After(grace):
		}
		started.Stop()
		<-dead
		started.Release()
	})
	return connection{&sdk.IOTransport{Reader: out, Writer: in, MaxLineLength: maxMessage}, end, said.line}, nil
}

// tail keeps the end of what a program says.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if n := len(t.text) - maxSaid; n > 0 {
		t.text = slices.Clone(t.text[n:])
	}
	return len(b), nil
}

// line is what was said last, in one line.
func (t *tail) line() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(t.text)), "\n")
	return render.Truncate(render.CleanLine(lines[len(lines)-1]), 200)
}

// overHTTP connects to a server by its address.
func (o *Options) overHTTP(s Server) (connection, error) {
	if !strings.HasPrefix(s.URL, "https://") && (!strings.HasPrefix(s.URL, "http://") || s.Remote()) {
		return connection{}, tidemark.Invalidf("url %q: want https://, or http:// on this machine", s.URL)
	}
	client := &http.Client{
		Transport: withHeaders{http.DefaultTransport.(*http.Transport).Clone(), s.Headers},
		// The headers hold a secret for the host that the file names.
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("the server answers with a redirect, which is not followed")
		},
	}
	t := &sdk.StreamableClientTransport{Endpoint: s.URL, HTTPClient: client, MaxEventSize: maxMessage}
	return connection{t, client.CloseIdleConnections, func() string { return "" }}, nil
}

// withHeaders adds the headers of a server to each request.
type withHeaders struct {
	http.RoundTripper
	headers map[string]string
}

func (w withHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, value := range w.headers {
		r.Header.Set(name, value)
	}
	answer, err := w.RoundTripper.RoundTrip(r)
	if err == nil && (answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden) {
		answer.Body.Close()
		return nil, fmt.Errorf("%s: the server wants to know who asks; put its token into the headers of its definition", answer.Status)
	}
	return answer, err
}

// session speaks with a server.
func (o *Options) session(ctx context.Context, c connection, handle *sdk.ClientOptions) (*sdk.ClientSession, error) {
	// Servers of today ask for the roots, though the protocol gives them up.
	//lint:ignore SA1019 see above
	handle.Capabilities = &sdk.ClientCapabilities{RootsV2: &sdk.RootCapabilities{}}
	client := sdk.NewClient(&sdk.Implementation{Name: "tidemark", Version: o.Version}, handle)
	//lint:ignore SA1019 see above
	client.AddRoots(&sdk.Root{Name: filepath.Base(o.Project), URI: fileURI(o.Project)})
	return client.Connect(ctx, c, nil)
}

// fileURI is the address of a folder.
func fileURI(path string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
}
