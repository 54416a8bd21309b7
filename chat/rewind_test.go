package chat_test

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/chat"
	"github.com/tidemark-sessions/tidemark/store/rewind"
)

var editing = map[string][]reply{
	"edit": {calls(use("c1", "edit", `{"path":"a.txt","old_string":"one","new_string":"two"}`), use("c2", "write", `{"path":"new/b.txt","content":"made\n"}`)), says("ok")},
	"run":  {calls(use("c3", "bash", `{"command":"echo x > made-by-bash"}`)), says("ok")},
}

func (r *rig) file(name string) string {
	r.t.Helper()
	data, err := os.ReadFile(filepath.Join(r.dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return "absent"
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return string(data)
}

func (r *rig) put(name, content string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(content), 0o640); err != nil {
		r.t.Fatal(err)
	}
}

// lookBack looks at what the last turns did to files.
func (r *rig) lookBack(c *chat.Chat, turns int) (*rewind.Plan, rewind.Target) {
	r.t.Helper()
	v, err := c.View(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	to, err := rewind.Turns(context.Background(), v, turns)
	if err != nil {
		r.t.Fatal(err)
	}
	p, err := c.LookBack(context.Background(), to.Files)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { p.Close() })
	return p, to
}

func TestWhatATurnDidToFilesIsTakenBack(t *testing.T) {
	r := newRig(t, newMemory(), editing)
	r.put("a.txt", "one\n")
	c := r.new()
	r.send(c, "hello")
	r.send(c, "edit")
	r.send(c, "run")
	if r.file("a.txt") != "two\n" || r.file("new/b.txt") != "made\n" {
		t.Fatal("the tools did nothing")
	}
	var kinds []string
	for _, e := range r.path(c.ID()) {
		if s, ok := tidemark.SnapshotOf(e); ok {
			kinds = append(kinds, s.Call)
		} else if e.Kind == "call" {
			kinds = append(kinds, "call")
		}
	}
	same(t, kinds, []string{"call", "c1", "call", "c2", "call"})
	p, _ := r.lookBack(c, 2)
	if len(p.Commands) != 1 || p.Commands[0].Tool != "bash" || !strings.Contains(string(p.Commands[0].Input), "made-by-bash") {
		t.Errorf("commands %+v", p.Commands)
	}
	if err := c.PutBack(t.Context(), p, false); err != nil {
		t.Fatal(err)
	}
	if r.file("a.txt") != "one\n" || r.file("new/b.txt") != "absent" || r.file("made-by-bash") != "x\n" {
		t.Errorf("a.txt %q, new/b.txt %q", r.file("a.txt"), r.file("new/b.txt"))
	}
	if _, err := os.Stat(filepath.Join(r.dir, "new")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}
}

func TestAWorkersChangesAreTakenBackToo(t *testing.T) {
	r := newRig(t, newMemory(), map[string][]reply{
		"work": {calls(use("s1", "spawn_worker", `{"name":"w","prompt":"edit"}`)), calls(use("s2", "await_worker", `{"name":"w"}`)), says("ok")},
		"edit": editing["edit"],
	})
	r.put("a.txt", "one\n")
	c := r.new()
	r.send(c, "hello")
	r.send(c, "work")
	if r.file("a.txt") != "two\n" {
		t.Fatalf("the worker did nothing: %q", r.notices())
	}
	p, _ := r.lookBack(c, 1)
	if err := c.PutBack(t.Context(), p, false); err != nil {
		t.Fatal(err)
	}
	if r.file("a.txt") != "one\n" {
		t.Errorf("a.txt %q", r.file("a.txt"))
	}
}

func TestWhatIsTooLargeToKeepIsSaid(t *testing.T) {
	r := newRig(t, newMemory(), editing)
	r.o.SnapshotFile = 3
	r.put("a.txt", "one\n")
	c := r.new()
	r.send(c, "edit")
	if !r.noticed("What a.txt was is not kept, and cannot be brought back: it has 4 bytes, and at most 3 are kept.") {
		t.Errorf("notices %q", r.notices())
	}
	if r.file("a.txt") != "two\n" {
		t.Error("it was not changed")
	}
}

func TestOutsideOfTheProjectNothingIsKeptOrTakenBack(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "theirs.txt")
	if err := os.WriteFile(outside, []byte("private"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, newMemory(), map[string][]reply{"out": {calls(use("c1", "write", `{"path":"`+outside+`","content":"new"}`)), says("ok")}})
	c := r.new()
	r.send(c, "hello")
	r.send(c, "out")
	p, _ := r.lookBack(c, 1)
	if len(p.Files) != 0 || len(p.Left) != 1 {
		t.Errorf("files %+v, left %+v", p.Files, p.Left)
	}
	if data, err := os.ReadFile(outside); err != nil || string(data) != "new" {
		t.Errorf("%q, %v", data, err)
	}
}

func TestWhoeverDiesWhileFilesChangeCanTakeThemBack(t *testing.T) {
	everyDeath(t, func(t *testing.T, inner tidemark.Backend, m *mortal) bool {
		r := newRig(t, m, editing)
		r.put("a.txt", "one\n")
		c := r.new()
		var err error
		for _, text := range []string{"hello", "edit"} {
			if _, err = c.Send(t.Context(), tidemark.Text(text)); err != nil {
				break
			}
		}
		if closeErr := c.Close(t.Context()); err == nil {
			err = closeErr
		}
		changed := r.file("a.txt") != "one\n" || r.file("new/b.txt") != "absent"
		if !slices.Contains([]string{"one\n", "two\n"}, r.file("a.txt")) || !slices.Contains([]string{"absent", "made\n"}, r.file("new/b.txt")) {
			t.Errorf("a.txt %q, new/b.txt %q", r.file("a.txt"), r.file("new/b.txt"))
		}
		next := newRig(t, inner, nil)
		next.dir, next.o.Box, next.o.Root = r.dir, r.o.Box, r.o.Root
		if !changed {
			return err != nil
		}
		left := ".tidemark-" + rand.Text()
		r.put(left, "half")
		again := next.resume(c.ID())
		// c1 changes a file of the folder itself; c2 one in another.
		interrupted := strings.HasPrefix(results(next.path(c.ID()))["c1"].Text, "interrupted while this ran")
		if swept := next.file(left) == "absent"; swept != interrupted {
			t.Errorf("the edit was interrupted: %t; what it left was swept: %t", interrupted, swept)
		}
		p, lookErr := again.LookBack(t.Context(), 0)
		if lookErr != nil {
			t.Fatal(lookErr)
		}
		defer p.Close()
		if putErr := again.PutBack(t.Context(), p, false); putErr != nil {
			t.Errorf("nobody else changed anything: %v", putErr)
		}
		if next.file("a.txt") != "one\n" || next.file("new/b.txt") != "absent" {
			t.Errorf("taken back: a.txt %q, new/b.txt %q", next.file("a.txt"), next.file("new/b.txt"))
		}
		if next.file(left) != "absent" {
			t.Error("a rewind leaves what a killed one left")
		}
		next.close(again)
		return err != nil
	})
}
