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
	"strconv"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/internal/sandbox"
	"github.com/tidemark-sessions/tidemark/runner"
)

func TestAProgramThatIgnoresTheRequestIsKilled(t *testing.T) {
	g := newRig(t, "!deaf", "!hang")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		g.untilNoted("hangs")
		cancel(errors.New("enough"))
	}()
	if o, err := g.run(ctx, command(t)); o.ExitReason != tidemark.ExitCancelled {
		t.Errorf("outcome %+v, %v", o, err)
	}
}

func TestTheWholeFamilyEndsWithACancelledRun(t *testing.T) {
	g := newRig(t, "!child a", "!daemon b deaf", "!hang")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		g.untilNoted("hangs")
		cancel(errors.New("enough"))
	}()
	if o, err := g.run(ctx, command(t)); o.ExitReason != tidemark.ExitCancelled {
		t.Errorf("outcome %+v, %v", o, err)
	}
}

func TestLingeringChildrenDoNotKeepARunFromItsEnd(t *testing.T) {
	for name, script := range map[string]string{"with its pipes": "!child a", "with its pipes, deaf": "!child a deaf", "in a session of its own": "!daemon a"} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, "before", script, "after")
			o, err := g.run(t.Context(), command(t)) // checks that nobody is left
			if err != nil || o.Summary != "after" {
				t.Errorf("outcome %+v, %v", o, err)
			}
			if await(filepath.Join(g.folder, "a", "hangs")) == "" {
				t.Error("there was no child")
			}
		})
	}
}

func TestSomebodyWhoCannotBeFoundIsNotWaitedFor(t *testing.T) {
	g := newRig(t, "before", "!escape a", "after")
	o, err := g.run(t.Context(), command(t))
	if err != nil || o.Summary != "after" {
		t.Errorf("outcome %+v, %v", o, err)
	}
	pid, err := strconv.Atoi(await(filepath.Join(g.folder, "a", "hangs")))
	if err != nil {
		t.Fatal(err)
	}
	left, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := left.Kill(); err != nil {
		t.Errorf("nobody escaped: %v", err)
	}
}

func TestTheProcessIsNotedBeforeItsFirstEvent(t *testing.T) {
	g := newRig(t, "!lines 20000") // more than a pipe holds: it does not end before it is read
	emit := g.task.Emit
	g.task.Emit = func(e tidemark.Event) error {
		if len(g.seen) == 0 {
			t.Error("an event came before the process was known")
		}
		return emit(e)
	}
	var alive bool
	note := g.task.Running
	g.task.Running = func(p runner.Process) error {
		alive = !process.Dead(p.Holder) && p.StartedAt != ""
		return note(p)
	}
	if _, err := g.run(t.Context(), command(t)); err != nil {
		t.Fatal(err)
	}
	p := g.seen[0]
	if !alive || p.PID <= 0 || p.Mark == "" || p.Job != g.task.Job {
		t.Errorf("process %+v, alive %v", p, alive)
	}
	if !process.Dead(p.Holder) {
		t.Error("the process is not proven dead after its run")
	}
}

// daemon runs a task in the place of one who will be killed. It notes the
// process as a fleet does.
func daemon() {
	folder := os.Getenv(folderVariable)
	exe, err := os.Executable()
	if err != nil {
		return
	}
	var policy *sandbox.Policy
	if dir := os.Getenv(sandboxVariable); dir != "" {
		policy = &sandbox.Policy{Root: dir, Home: filepath.Join(dir, "home"), Write: []string{folder}}
	}
	_, err = runner.Command([]string{exe}).Run(context.Background(), runner.Task{
		Sandbox: policy,
		Job:     "job-2026-11-15-000000",
		Environ: []string{"GORACE=atexit_sleep_ms=0", roleVariable + "=script", scriptVariable + "=" + os.Getenv(scriptVariable), folderVariable + "=" + folder},
		Mark:    os.Getenv("RUNNER_TEST_MARK"),
		Running: func(p runner.Process) error {
			if os.Getenv("RUNNER_TEST_MARK") != "" { // dies before it could note anything
				for await(filepath.Join(folder, "hangs")) == "" {
					time.Sleep(time.Millisecond) // another process is waited for
				}
				me, _ := os.FindProcess(os.Getpid())
				me.Kill()
				hang()
			}
			b, err := json.Marshal(p)
			note(folder, "process", string(b))
			return err
		},
	})
	note(folder, "ended", fmt.Sprint(err))
}

// orphan starts a daemon with a job, kills the daemon and returns the process
// of the job.
func orphan(t *testing.T, script string) (p runner.Process, g *rig) {
	t.Helper()
	g = newRig(t)
	cmd := exec.Command(self(t))
	cmd.Env = append(os.Environ(), roleVariable+"=daemon", scriptVariable+"="+script, folderVariable+"="+g.folder)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// The daemon notes one thing, its program the other, in either order.
	told := g.untilNoted("process")
	g.untilNoted("hangs")
	cmd.Process.Kill()
	cmd.Wait()
	if err := json.Unmarshal([]byte(told), &p); err != nil {
		t.Fatal(err)
	}
	if len(bearers(p.Mark)) == 0 {
		t.Fatal("the job ended with its daemon: there is nothing to find")
	}
	return p, g
}

func TestTheProgramOfADeadDaemonIsFoundAndEnded(t *testing.T) {
	p, _ := orphan(t, "!child a\n!daemon b\n!hang")
	if err := runner.End(t.Context(), p, nil); err != nil {
		t.Fatal(err)
	}
	if left := bearers(p.Mark); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
	if err := runner.End(t.Context(), p, nil); err != nil {
		t.Errorf("ending what has ended: %v", err)
	}
}

func TestChildrenAreFoundWhenTheirProgramHasEnded(t *testing.T) {
	p, g := orphan(t, "!child a\n!daemon b\n!hang")
	pid, err := strconv.Atoi(await(filepath.Join(g.folder, "hangs")))
	if err != nil || pid != p.PID {
		t.Fatalf("pid %d, noted %d, %v", pid, p.PID, err)
	}
	program, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	program.Kill()
	for !process.Dead(p.Holder) {
		time.Sleep(time.Millisecond) // another process is waited for
	}
	if err := runner.End(t.Context(), p, nil); err != nil {
		t.Fatal(err)
	}
	if left := bearers(p.Mark); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
}

func TestAProgramThatWasNotNotedIsFoundByItsMark(t *testing.T) {
	g, mark := newRig(t), runner.NewMark()
	cmd := exec.Command(self(t))
	cmd.Env = append(os.Environ(), roleVariable+"=daemon", scriptVariable+"=!hang", folderVariable+"="+g.folder, "RUNNER_TEST_MARK="+mark)
	if err := cmd.Run(); err == nil {
		t.Fatal("the daemon lives")
	}
	if len(bearers(mark)) != 1 {
		t.Fatalf("processes %v bear the mark", bearers(mark))
	}
	p := runner.Process{Holder: process.Self("daemon"), Mark: mark}
	p.PID, p.StartedAt = 0, ""
	if err := runner.End(t.Context(), p, nil); err != nil {
		t.Fatal(err)
	}
	if left := bearers(mark); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
}

func TestEndHarmsNobodyElse(t *testing.T) {
	p, _ := orphan(t, "!hang")
	defer runner.End(context.Background(), p, nil)
	for name, change := range map[string]func(*runner.Process){
		"a pid that was given to another": func(p *runner.Process) { p.StartedAt, p.Mark = "1", "X" },
		"another host":                    func(p *runner.Process) { p.Host += "x" },
		"another boot":                    func(p *runner.Process) { p.BootID += "x" },
		"another namespace":               func(p *runner.Process) { p.Namespace += "x" },
		"neither a pid nor a mark":        func(p *runner.Process) { p.PID, p.Mark = 0, "" },
		"a pid that means a group":        func(p *runner.Process) { p.PID = -p.PID },
		"nothing known":                   func(p *runner.Process) { *p = runner.Process{} },
	} {
		other := p
		change(&other)
		if err := runner.End(t.Context(), other, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(bearers(p.Mark)) == 0 {
			t.Fatalf("%s: the process was ended", name)
		}
	}
}
