package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/internal/sandbox"
)

// Sandbox confines the programs that the tools start.
type Sandbox struct {
	// Policy returns what programs may do now. It is called before each
	// start: a shell or interpreter that was started under another policy is
	// restarted, so that a revoked permission is gone.
	Policy func() sandbox.Policy
	// Confine puts a command into a sandbox; default sandbox.Confine.
	Confine func(sandbox.Policy, *exec.Cmd) (*sandbox.Fence, error)
}

// Hold puts a command into the sandbox with its current policy, which is
// returned, and what was allowed beyond it. The caller tells the fence when the
// command was started, and closes it when it has ended. Without a sandbox, nil,
// it does nothing, and there is no fence.
func (s *Sandbox) Hold(more sandbox.Widening, cmd *exec.Cmd) (sandbox.Policy, *sandbox.Fence, error) {
	if s == nil {
		return sandbox.Policy{}, nil, nil
	}
	confine := s.Confine
	if confine == nil {
		confine = sandbox.Confine
	}
	p := s.Policy()
	fence, err := confine(p.Widen(more), cmd)
	return p, fence, err
}

// now returns the current policy, nil without a sandbox.
func (s *Sandbox) now() *sandbox.Policy {
	if s == nil {
		return nil
	}
	p := s.Policy()
	return &p
}

// Program is a program that runs, with all that it started.
type Program struct {
	family process.Family
	fence  *sandbox.Fence
}

// Start starts a command in the sandbox, with what is allowed beyond it. The
// caller waits for the command and ends the Program.
func (s *Sandbox) Start(more sandbox.Widening, cmd *exec.Cmd) (*Program, error) {
	_, fence, err := s.Hold(more, cmd)
	if err != nil {
		return nil, err
	}
	family, err := process.Start(cmd, "")
	if fence != nil {
		fence.Started()
	}
	if err != nil {
		if fence != nil {
			fence.Close()
		}
		return nil, err
	}
	return &Program{family, fence}, nil
}

// Stop asks the program to end, with all that it started, and kills it after a
// while.
func (p *Program) Stop() { p.family.Stop(grace) }

// Release gives back what a program held that has ended.
func (p *Program) Release() {
	p.family.Release()
	if p.fence != nil {
		p.fence.Close()
	}
}

// outOfDate reports whether a process was started under another policy
// than the current one.
func (s *Sandbox) outOfDate(w *warm) bool {
	return s != nil && !reflect.DeepEqual(w.policy, s.Policy())
}

// LookUp finds a program in the PATH of an environment, as far as the sandbox
// sees it. It returns "" when there is none.
func (s *Sandbox) LookUp(environ []string, name string) string {
	return lookUp(environ, name, s.sees)
}

// sees reports whether a program in the sandbox finds what is at a path.
func (s *Sandbox) sees(path string) bool {
	p := s.now()
	return p == nil || p.Sees(path)
}

// belowAny reports whether a path is one of the others or lies in one of them,
// after following links.
func belowAny(tops []string, path string) bool {
	path = realPath(path)
	return slices.ContainsFunc(tops, func(top string) bool {
		_, ok := below(realPath(top), path)
		return ok
	})
}

// realPath follows all links of a path, as far as it exists.
func realPath(path string) string {
	path = filepath.Clean(path)
	for at, rest := path, ""; ; {
		if real, err := filepath.EvalSymlinks(at); err == nil {
			return filepath.Join(real, rest)
		}
		up := filepath.Dir(at)
		if up == at {
			return path
		}
		at, rest = up, filepath.Join(filepath.Base(at), rest)
	}
}

// request is what a call requests of the sandbox.
type request struct {
	Hosts []string `json:"allow_hosts"`
	Write []string `json:"allow_write"`
}

// requestSchema is the same for all tools that start programs.
const requestSchema = `{"type":"object","description":"what this call needs beyond the sandbox that programs run in; the user is asked. Leave it out unless an earlier result said that the sandbox refused something",` +
	`"properties":{"allow_hosts":{"type":"array","items":{"type":"string"},"description":"hosts to connect to: NAME, *.NAME, NAME:PORT"},` +
	`"allow_write":{"type":"array","items":{"type":"string"},"description":"folders and files outside of the workspace to read and write, by their absolute paths"}},"additionalProperties":false}`

// missing returns the part of a request that the sandbox does not allow now,
// by real paths: a person decides about the target of a link. The error is a
// sentence for the model.
func (b *Box) missing(r request) (w sandbox.Widening, err error) {
	p := b.o.Sandbox.now()
	if p == nil {
		return w, nil
	}
	for _, host := range r.Hosts {
		if host = strings.ToLower(host); !slices.Contains(p.Hosts, host) {
			w.Hosts = append(w.Hosts, host)
		}
	}
	for _, path := range r.Write {
		if !filepath.IsAbs(path) {
			return w, fmt.Errorf("sandbox: allow_write %q: want an absolute path", path)
		}
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			return w, fmt.Errorf("sandbox: allow_write %q: there is no such folder", path)
		}
		if _, holdsHome := below(real, realPath(p.Home)); holdsHome {
			return w, fmt.Errorf("sandbox: allow_write %q: all of the home folder is too much; name a folder in it", path)
		}
		if belowAny(p.Hide, real) {
			return w, fmt.Errorf("sandbox: allow_write %q: no program gets this", path)
		}
		if !belowAny(slices.Concat([]string{p.Root}, p.Write), real) {
			w.Write = append(w.Write, real)
		}
	}
	slices.Sort(w.Hosts)
	slices.Sort(w.Write)
	w.Hosts, w.Write = slices.Compact(w.Hosts), slices.Compact(w.Write)
	return w, w.Check()
}

// widening returns what a call would add to the sandbox, to show to the
// person: nothing for a request that Run refuses.
func (b *Box) widening(r request) sandbox.Widening {
	w, err := b.missing(r)
	if err != nil {
		return sandbox.Widening{}
	}
	return w
}

var errNotAllowed = errors.New("not run: it would widen the sandbox, and the user did not allow exactly that")

// widened returns what a call may do beyond the sandbox: what it requests, if a
// person allowed exactly that.
func (b *Box) widened(ctx context.Context, r request) (sandbox.Widening, error) {
	w, err := b.missing(r)
	if err != nil || w.Empty() {
		return w, err
	}
	seen, _ := ctx.Value(seenKey{}).(Seen)
	if !slices.Equal(seen.Widens.Hosts, w.Hosts) || !slices.Equal(seen.Widens.Write, w.Write) {
		return w, errNotAllowed
	}
	return w, nil
}

// requestIn reads the request of a call whose other arguments are read
// elsewhere.
func requestIn(input json.RawMessage) (r request) {
	fields, err := readObject(input)
	if raw, ok := fields["sandbox"]; err != nil || !ok || readRequest(raw, &r) != nil {
		return request{}
	}
	return r
}
