//go:build linux

package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/runner"
)

// engine takes the commands of docker and podman that the runner gives, and
// runs containers as plain processes. What it knows is in the files of a
// folder.
type fakeBox struct {
	ID, Name, Dir string
	Env, Argv     []string
	Labels        map[string]string
	Mounts        []string
}

func engine() {
	folder := os.Getenv("ENGINE_FOLDER")
	f, _ := os.OpenFile(filepath.Join(folder, "calls"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	fmt.Fprintln(f, strings.Join(os.Args[1:], " "))
	f.Close()
	switch args := os.Args[2:]; os.Args[1] {
	case "create":
		engineCreate(folder, args)
	case "start":
		engineStart(folder, args[len(args)-1])
	case "rm":
		for _, b := range engineBoxes(folder) {
			if id := args[len(args)-1]; b.ID == id || b.Name == id {
				os.Remove(filepath.Join(folder, b.ID+".box"))
				return
			}
		}
		fmt.Fprintln(os.Stderr, "Error: No such container:", args[len(args)-1])
		os.Exit(1)
	case "ps":
		for _, b := range engineBoxes(folder) {
			fmt.Println(b.ID, b.Labels["tidemark.run"], b.Labels["tidemark.job"])
		}
	}
}

func engineBoxes(folder string) (boxes []fakeBox) {
	paths, _ := filepath.Glob(filepath.Join(folder, "*.box"))
	for _, p := range paths {
		var b fakeBox
		if json.Unmarshal([]byte(await(p)), &b) == nil {
			boxes = append(boxes, b)
		}
	}
	return boxes
}

func engineCreate(folder string, args []string) {
	b := fakeBox{Labels: map[string]string{}}
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		name, value := args[0], ""
		args = args[1:]
		if name != "--interactive" && !strings.Contains(name, "=") {
			value, args = args[0], args[1:]
		}
		switch name {
		case "--name":
			b.Name = value
		case "--label":
			k, v, _ := strings.Cut(value, "=")
			b.Labels[k] = v
		case "--workdir":
			b.Dir = value
		case "--mount":
			b.Mounts = append(b.Mounts, value)
		case "--env":
			if !strings.Contains(value, "=") {
				value += "=" + os.Getenv(value)
			}
			b.Env = append(b.Env, value)
		}
	}
	if args[0] == "no-such-image" {
		fmt.Fprintln(os.Stderr, "no such image")
		os.Exit(125)
	}
	b.ID, b.Argv = "id-of-"+b.Name, args[1:]
	j, _ := json.Marshal(b)
	note(folder, b.ID+".box", string(j))
	fmt.Fprintln(os.Stderr, "pulling")
	fmt.Println(b.ID)
}

func engineStart(folder, id string) {
	var b fakeBox
	json.Unmarshal([]byte(await(filepath.Join(folder, id+".box"))), &b)
	cmd := exec.Command(b.Argv[0], b.Argv[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = b.Env, b.Dir, os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		os.Exit(exit.ExitCode())
	}
}

func boxed(t *testing.T, lines ...string) (*rig, string) {
	g := newRig(t, lines...)
	folder := t.TempDir()
	g.task.Container = &runner.Container{Engine: self(t), Image: "scratch-of-mine", Options: []string{"--network=none"},
		Mounts:  []runner.Mount{{Source: g.folder, Target: "/notes", ReadOnly: true}},
		Environ: []string{roleVariable + "=engine", "ENGINE_FOLDER=" + folder, "HOME=/home/engine", "GORACE=atexit_sleep_ms=0"}}
	g.task.Environ = append(g.task.Environ, "SECRET=hush", "HOME=/home/agent")
	return g, folder
}

func TestAnAgentRunsInAContainer(t *testing.T) {
	g, folder := boxed(t, "!stdin", "!env SECRET", "!env HOME", "inside", "!exit 3")
	o, err := g.run(t.Context(), command(t))
	if err == nil || o.ExitCode != 3 || o.Summary != "inside" {
		t.Errorf("outcome %+v, %v", o, err)
	}
	same(t, "events", g.brief()[:3], []string{"assistant content=hush", "assistant content=/home/agent", "assistant content=inside"})
	same(t, "prompt", await(filepath.Join(g.folder, "stdin")), "tidy up")
	calls := await(filepath.Join(folder, "calls"))
	name := "tidemark-" + g.task.Job + "-" + strings.ToLower(g.seen[0].Mark[:8])
	for _, want := range []string{"--name " + name, "--label tidemark.job=" + g.task.Job, "--workdir " + g.task.Dir,
		"--mount type=bind,source=" + g.folder + ",target=/notes,readonly", "--mount type=bind,source=" + g.task.Dir + ",target=" + g.task.Dir,
		"--network=none scratch-of-mine " + self(t), "start --attach --interactive id-of-" + name, "rm --force --volumes " + name} {
		if !strings.Contains(calls, want) {
			t.Errorf("the engine was not told %q:\n%s", want, calls)
		}
	}
	if strings.Contains(calls, "hush") {
		t.Error("a secret is in the list of processes")
	}
	if left := engineBoxes(folder); len(left) != 0 {
		t.Errorf("containers are left: %v", left)
	}
	// Noted by name, by id, and with the process.
	if len(g.seen) != 3 || g.seen[0].Container != name || g.seen[1].Container != "id-of-"+name || g.seen[1].PID != 0 || g.seen[2].PID == 0 {
		t.Errorf("processes %+v", g.seen)
	}
}

func TestTheContainerOfACancelledRunIsRemoved(t *testing.T) {
	g, folder := boxed(t, "!hang")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		g.untilNoted("hangs")
		cancel(errors.New("enough"))
	}()
	o, err := g.run(ctx, command(t))
	if o.ExitReason != tidemark.ExitCancelled || len(engineBoxes(folder)) != 0 {
		t.Errorf("outcome %+v, %v, containers %v", o, err, engineBoxes(folder))
	}
}

func TestAContainerThatCannotBe(t *testing.T) {
	for name, change := range map[string]func(*runner.Container){
		"no such image":  func(c *runner.Container) { c.Image = "no-such-image" },
		"no image":       func(c *runner.Container) { c.Image = "" },
		"no such engine": func(c *runner.Container) { c.Engine = "no-such-engine" },
		"an odd mount":   func(c *runner.Container) { c.Mounts[0].Source = "a,readonly" },
	} {
		g, folder := boxed(t, "inside")
		change(g.task.Container)
		if o, err := g.run(t.Context(), command(t)); err == nil || o.ExitReason != tidemark.ExitError {
			t.Errorf("%s: outcome %+v, %v", name, o, err)
		}
		if left := engineBoxes(folder); len(left) != 0 {
			t.Errorf("%s: containers are left: %v", name, left)
		}
	}
}

func TestContainersThatNobodyOwnsAreFoundAndRemoved(t *testing.T) {
	g, folder := boxed(t)
	c := g.task.Container
	note(folder, "x1.box", `{"ID":"x1","Labels":{"tidemark.job":"job-1","tidemark.run":"MARK"}}`)
	found, err := runner.Containers(t.Context(), c.Engine, c.Environ)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "containers", found, []runner.Process{{Job: "job-1", Mark: "MARK", Engine: self(t), Container: "x1"}})
	for range 2 { // the second time there is none
		if err := runner.End(t.Context(), found[0], c.Environ); err != nil {
			t.Fatal(err)
		}
	}
	if left := engineBoxes(folder); len(left) != 0 {
		t.Errorf("containers are left: %v", left)
	}
}

// realEngine finds an engine that can run a container here, and the environment
// to call it with. Podman gets a storage of its own, and is tried with each
// runtime that is there: many machines that are containers themselves let only
// one of them work. The image is made of the test binary alone.
func realEngine(t *testing.T) (name, image string, environ []string) {
	t.Helper()
	folder := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", filepath.Join(folder, "agent"), ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	image = "localhost/tidemark-runner-test"
	var why []string
	for _, c := range engines(t) {
		call := func(args ...string) (string, error) {
			cmd := exec.CommandContext(t.Context(), c.name, args...)
			cmd.Env = c.environ
			out, err := cmd.CombinedOutput()
			return string(out), err
		}
		tar := exec.CommandContext(t.Context(), "sh", "-c", `tar -C "$1" -cf - agent | "$2" import - "$3"`, "sh", folder, c.name, image)
		tar.Env = c.environ
		if out, err := tar.CombinedOutput(); err != nil {
			why = append(why, fmt.Sprintf("%s cannot make an image: %v: %.300s", c.about, err, out))
			continue
		}
		t.Cleanup(func() { // not by call: the context of the test has ended
			cmd := exec.Command(c.name, "rmi", "--force", image)
			cmd.Env = c.environ
			cmd.Run()
		})
		if out, err := call("run", "--rm", "--network=none", "--env", roleVariable+"=agent", image, "/agent"); err != nil {
			why = append(why, fmt.Sprintf("%s cannot run a container: %v: %.300s", c.about, err, out))
			continue
		}
		t.Log("with", c.about)
		return c.name, image, c.environ
	}
	if why == nil {
		why = []string{"neither podman nor docker is installed"}
	}
	t.Skip(strings.Join(why, "\n"))
	return "", "", nil
}

// candidate is a way in which an engine may work.
type candidate struct {
	name, about string
	environ     []string
}

func engines(t *testing.T) (all []candidate) {
	t.Helper()
	if _, err := exec.LookPath("podman"); err == nil {
		for _, runtime := range []string{"crun", "runc"} {
			if _, err := exec.LookPath(runtime); err != nil {
				continue
			}
			folder := t.TempDir()
			note(folder, "storage.conf", fmt.Sprintf("[storage]\ndriver = \"vfs\"\ngraphroot = %q\nrunroot = %q\n", filepath.Join(folder, "root"), filepath.Join(folder, "run")))
			note(folder, "containers.conf", fmt.Sprintf("[containers]\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=1024:1024\"]\n[engine]\nruntime = %q\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\n", runtime))
			all = append(all, candidate{"podman", "podman with " + runtime, append(os.Environ(),
				"CONTAINERS_STORAGE_CONF="+filepath.Join(folder, "storage.conf"), "CONTAINERS_CONF="+filepath.Join(folder, "containers.conf"))})
		}
	}
	if _, err := exec.LookPath("docker"); err == nil {
		all = append(all, candidate{"docker", "docker", os.Environ()})
	}
	return all
}

func TestAnAgentRunsInARealContainer(t *testing.T) {
	name, image, environ := realEngine(t)
	g := newRig(t, "!env SECRET", "inside")
	g.task.Environ = append(g.task.Environ, "SECRET=hush", folderVariable+"=")
	g.task.Container = &runner.Container{Engine: name, Image: image, Options: []string{"--network=none"}, Environ: environ}
	o, err := g.run(t.Context(), runner.Command([]string{"/agent"}))
	if err != nil || o.Summary != "inside" {
		t.Fatalf("outcome %+v, %v, events %v", o, err, g.brief())
	}
	if id := g.seen[len(g.seen)-1].Container; len(id) != 64 {
		t.Errorf("the container is noted as %q, want its id", id)
	}
	left, err := runner.Containers(t.Context(), name, environ)
	if err != nil || len(left) != 0 {
		t.Errorf("containers %v, %v", left, err)
	}

	// One that hangs and is cancelled is removed, too.
	g = newRig(t, "!hang")
	g.task.Container = &runner.Container{Engine: name, Image: image, Options: []string{"--network=none"}, Environ: environ,
		Mounts: []runner.Mount{{Source: g.folder, Target: g.folder}}}
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		g.untilNoted("hangs")
		cancel(errors.New("enough"))
	}()
	if o, err := g.run(ctx, runner.Command([]string{"/agent"})); o.ExitReason != tidemark.ExitCancelled {
		t.Errorf("outcome %+v, %v", o, err)
	}
	if left, err := runner.Containers(t.Context(), name, environ); err != nil || len(left) != 0 {
		t.Errorf("containers %v, %v", left, err)
	}
}
