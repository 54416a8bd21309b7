//go:build unix

package durable

import (
	"path/filepath"
	"syscall"
	"testing"
)

func TestAPipeIsNotWaitedFor(t *testing.T) {
	w, dir := openWorkspace(t)
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := stateOf(t, w, "pipe")
	if s.Kind != Other {
		t.Errorf("%+v", s)
	}
	if err := w.Put("pipe", s, FileState{Kind: Regular, Data: []byte("x")}); err == nil {
		t.Error("a pipe was replaced")
	}
}
