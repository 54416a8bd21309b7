package chat_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/chat"
)

// Each permission decides about each kind of call; what a person decides about
// each time is asked under all of them.
func TestAPermissionDecidesWhatIsAsked(t *testing.T) {
	ran := map[string]string{ // by call
		"edit":      `{"path":"a.txt","content":"x"}`,
		"hook":      `{"path":".git/hooks/post-commit","content":"x"}`,
		"elsewhere": `{"path":"/nowhere/here.txt","content":"x"}`,
		"run":       `{"command":"true # run"}`,
		"wider":     wider,
		"wake":      `{"after":"1h"}`,
	}
	tools := map[string]string{"edit": "write", "hook": "write", "elsewhere": "write", "run": "bash", "wider": "bash", "wake": "wake"}
	asked := map[chat.Permission]string{
		chat.PermissionAsk:   "edit elsewhere hook run wake wider",
		chat.PermissionEdits: "elsewhere hook run wake wider",
		chat.PermissionAuto:  "elsewhere hook wake wider",
		chat.PermissionPlan:  "",
	}
	for permission, want := range asked {
		t.Run(string(permission), func(t *testing.T) {
			script := make(map[string][]reply)
			for name, input := range ran {
				script[name] = []reply{calls(use(name, tools[name], input))}
			}
			r, started := fencedRig(t, script)
			r.o.Fenced = true
			r.decide = func(context.Context, chat.ApprovalRequest) (chat.Decision, error) { return chat.Deny, nil }
			c := r.new()
			if err := c.SetPermission(permission); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, name := range []string{"edit", "elsewhere", "hook", "run", "wake", "wider"} {
				before := len(r.asks)
				r.send(c, name)
				if len(r.asks) > before {
					got = append(got, name)
				}
			}
			if strings.Join(got, " ") != want {
				t.Errorf("asked about %q, want %q", strings.Join(got, " "), want)
			}
			_, err := os.Stat(filepath.Join(r.dir, "a.txt"))
			if wrote := err == nil; wrote != (permission == chat.PermissionEdits || permission == chat.PermissionAuto) {
				t.Errorf("the file was written: %t", wrote)
			}
			if len(*started) > 0 != (permission == chat.PermissionAuto) {
				t.Errorf("%d programs were started", len(*started))
			}
		})
	}
}

func TestPlanningTellsTheModelToPlan(t *testing.T) {
	r, _ := fencedRig(t, map[string][]reply{"go": {calls(use("c1", "write", `{"path":"a.txt","content":"x"}`)), says("1. write a.txt")}})
	c := r.new()
	if err := c.SetPermission(chat.PermissionPlan); err != nil {
		t.Fatal(err)
	}
	r.send(c, "go")
	told := fmt.Sprint(r.model.last(t).Entries)
	if !strings.Contains(told, "the user wants a plan first") {
		t.Errorf("the model was told %s", told)
	}
	if err := c.SetPermission(chat.PermissionAsk); err != nil || c.Permission() != chat.PermissionAsk {
		t.Errorf("%v, %v", c.Permission(), err)
	}
}

// No session brings a permission along, and nothing runs unasked without a
// sandbox.
func TestAPermissionIsNeitherKeptNorWiderThanTheSandbox(t *testing.T) {
	r, _ := fencedRig(t, map[string][]reply{"go": {says("yes")}})
	r.o.Fenced = true
	c := r.new()
	if err := c.SetPermission(chat.PermissionAuto); err != nil {
		t.Fatal(err)
	}
	r.send(c, "go")
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.o.Fenced = false
	again, err := chat.Resume(t.Context(), r.o, c.ID())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close(t.Context())
	if p := again.Permission(); p != chat.PermissionAsk {
		t.Errorf("resumed with %q", p)
	}
	if err := again.SetPermission(chat.PermissionAuto); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("auto without a sandbox: %v", err)
	}
	if _, err := chat.ParsePermission("bypass"); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("an unknown one: %v", err)
	}
}
