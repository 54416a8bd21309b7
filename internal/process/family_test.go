package process

import (
	"os/exec"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

func TestAFamilyThatAnotherStartedIsFoundAndEnded(t *testing.T) {
	cmd, h := start(t, "wait", func(cmd *exec.Cmd) error {
		_, err := Start(cmd, "")
		return err
	})
	if !Find(h, "").Stop(time.Minute) {
		t.Errorf("%+v cannot be ended", h)
	}
	cmd.Wait()
	if !Dead(h) {
		t.Errorf("%+v was not ended", h)
	}
	if !Find(h, "").Stop(time.Minute) {
		t.Error("what has ended cannot be ended")
	}
}

func TestFindHarmsNobodyElse(t *testing.T) {
	_, h := child(t)
	for name, change := range map[string]func(*tidemark.Holder){
		"a pid that was given to another": func(h *tidemark.Holder) { h.StartedAt += "1" },
		"start time unknown":              func(h *tidemark.Holder) { h.StartedAt = "" },
		"another host":                    func(h *tidemark.Holder) { h.Host += "x" },
		"another boot":                    func(h *tidemark.Holder) { h.BootID += "x" },
		"another namespace":               func(h *tidemark.Holder) { h.Namespace += "x" },
		"a pid that means a group":        func(h *tidemark.Holder) { h.PID = -h.PID },
		"no pid":                          func(h *tidemark.Holder) { h.PID = 0 },
		"nothing known":                   func(h *tidemark.Holder) { *h = tidemark.Holder{} },
	} {
		other := h
		change(&other)
		if !Find(other, "").Stop(time.Minute) {
			t.Errorf("%s: there was somebody to end", name)
		}
		if Dead(h) {
			t.Fatalf("%s: the process was ended", name)
		}
	}
}
