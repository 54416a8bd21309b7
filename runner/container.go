package runner

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// Container is where an agent's program runs instead of directly on the
// machine.
//
// The container is created, recorded (Task.Running), started with its input
// and output attached, and removed when the run ends for any reason. It
// carries the labels tidemark.job and tidemark.run, by which Containers
// finds one that nobody removed.
type Container struct {
	Engine  string   // docker, podman, or the path of a program that takes their commands
	Image   string   // pulled by the engine if it is missing
	Mounts  []Mount  // Task.Dir is mounted under its own name unless one of them contains it
	Options []string // more options for the engine's create, such as --network=none
	Environ []string // environment of the engine itself; Task.Environ is for the agent inside
}

// Mount is a folder or file of the machine inside a container.
type Mount struct {
	Source, Target string
	ReadOnly       bool
}

// The labels of a container.
const (
	labelJob = "tidemark.job"
	labelRun = "tidemark.run"
)

// box is a container that was created for a run.
type box struct {
	r       *run
	name    string
	path    string   // of the engine
	argv    []string // command that starts it
	environ []string
}

// box creates the container of the run. It is recorded by name before it is
// created and by id afterwards, so that a container is never left behind
// unrecorded.
func (r *run) box(ctx context.Context, argv, inside []string) (*box, error) {
	c := r.t.Container
	engine, err := FindProgram(c.Engine, "", c.Environ)
	if err != nil {
		return nil, fmt.Errorf("container engine: %w", err)
	}
	b := &box{r: r, path: engine, environ: c.Environ, name: "tidemark-" + nameable(r.t.Job) + "-" + strings.ToLower(r.proc.Mark[:8])}
	args, environ, err := c.create(b.name, r, argv, inside)
	if err != nil {
		return nil, err
	}
	if err := r.tell(func(p *Process) { p.Engine, p.Container = engine, b.name }); err != nil {
		return nil, err
	}
	out, err := call(ctx, engine, environ, args...)
	if err != nil {
		b.remove() // it may have been created all the same
		return nil, fmt.Errorf("container of image %s: %w", c.Image, err)
	}
	lines := strings.Fields(out)
	if len(lines) == 0 {
		b.remove()
		return nil, fmt.Errorf("container of image %s: the engine %s told no id", c.Image, c.Engine)
	}
	id := lines[len(lines)-1]
	b.argv = []string{c.Engine, "start", "--attach", "--interactive", id}
	if err := r.tell(func(p *Process) { p.Container = id }); err != nil {
		b.remove()
		return nil, err
	}
	return b, nil
}

// create returns the arguments that create the container, and the environment
// to call the engine with. Variables for the inside are passed by name, so
// that they do not show in the list of processes, except for names that the
// engine uses itself, like HOME.
func (c *Container) create(name string, r *run, argv, inside []string) (args, environ []string, err error) {
	if c.Image == "" || strings.HasPrefix(c.Image, "-") {
		return nil, nil, tidemark.Invalidf("a container of the image %q", c.Image)
	}
	args = []string{"create", "--name", name, "--interactive", "--label", labelJob + "=" + r.t.Job, "--label", labelRun + "=" + r.proc.Mark}
	environ = append([]string{}, c.Environ...)
	for _, v := range inside {
		k, value, ok := strings.Cut(v, "=")
		switch {
		case !ok || k == "":
		case variable(c.Environ, k) != "" && variable(c.Environ, k) != value:
			args = append(args, "--env", v)
		default:
			args, environ = append(args, "--env", k), append(environ, v)
		}
	}
	mounts := c.Mounts
	if r.t.Dir != "" {
		args = append(args, "--workdir", r.t.Dir)
		if !c.holds(r.t.Dir) {
			mounts = append(mounts[:len(mounts):len(mounts)], Mount{Source: r.t.Dir, Target: r.t.Dir})
		}
	}
	for _, m := range mounts {
		if strings.ContainsAny(m.Source+m.Target, ",\"\n") || m.Source == "" || m.Target == "" {
			return nil, nil, tidemark.Invalidf("the mount %q at %q cannot be handed to the engine", m.Source, m.Target)
		}
		v := "type=bind,source=" + m.Source + ",target=" + m.Target
		if m.ReadOnly {
			v += ",readonly"
		}
		args = append(args, "--mount", v)
	}
	args = append(args, c.Options...)
	args = append(args, c.Image)
	return append(args, argv...), environ, nil
}

// holds reports whether a path is inside one of the mounts.
func (c *Container) holds(dir string) bool {
	for _, m := range c.Mounts {
		target := path.Clean(m.Target)
		if dir = path.Clean(dir); dir == target || strings.HasPrefix(dir, strings.TrimSuffix(target, "/")+"/") {
			return true
		}
	}
	return false
}

// nameable turns a job into a name that engines accept.
func nameable(job string) string {
	return strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.' {
			return c
		}
		return '-'
	}, job)
}

// engineWait bounds an engine command that should answer at once.
const engineWait = 30 * time.Second

func (b *box) remove() {
	if err := remove(context.Background(), b.path, b.name, b.environ); err != nil {
		b.r.sink.notice(subtypeNotice, "the container %s could not be removed: %v", b.name, err)
	}
}

// remove kills and removes a container. It is no error if the container does
// not exist.
func remove(ctx context.Context, engine, id string, environ []string) error {
	ctx, cancel := context.WithTimeout(ctx, engineWait)
	defer cancel()
	engine, err := FindProgram(engine, "", environ)
	if err != nil {
		return fmt.Errorf("container engine: %w", err)
	}
	_, err = call(ctx, engine, environ, "rm", "--force", "--volumes", id)
	if err != nil && strings.Contains(strings.ToLower(err.Error()), "no such container") {
		return nil
	}
	if err != nil {
		return fmt.Errorf("container %s: %w", id, err)
	}
	return nil
}

// Containers returns the containers of runs that the engine knows, running or
// not. End removes those whose run has no owner any more.
func Containers(ctx context.Context, engine string, environ []string) ([]Process, error) {
	ctx, cancel := context.WithTimeout(ctx, engineWait)
	defer cancel()
	path, err := FindProgram(engine, "", environ)
	if err != nil {
		return nil, fmt.Errorf("container engine: %w", err)
	}
	out, err := call(ctx, path, environ, "ps", "--all", "--no-trunc", "--filter", "label="+labelRun,
		"--format", `{{.ID}} {{.Label "`+labelRun+`"}} {{.Label "`+labelJob+`"}}`)
	if err != nil {
		return nil, fmt.Errorf("containers of %s: %w", engine, err)
	}
	var found []Process
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		found = append(found, Process{Engine: path, Container: f[0], Mark: f[1], Job: strings.Join(f[2:], " ")})
	}
	return found, nil
}

// call runs a command of an engine and returns what it printed.
func call(ctx context.Context, engine string, environ []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, engine, args...)
	cmd.Env = append([]string{}, environ...) // never nil, which would mean the environment of this process
	cmd.WaitDelay = time.Second
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		return "", fmt.Errorf("%s %s: %w: %s", cmd.Args[0], args[0], err, short(errs.String()))
	}
	return out.String(), nil
}
