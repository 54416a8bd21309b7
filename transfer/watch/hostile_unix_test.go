//go:build !windows

package watch

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tidemark-sessions/tidemark/transfer"
)

// What anybody who can write into the home of a tool puts there must not stop the
// watcher, and must not lead it elsewhere.
func TestHostileFilesNeitherHangNorLeadOut(t *testing.T) {
	r := newRig(t)
	secret := filepath.Join(t.TempDir(), "secret.jsonl")
	if err := os.WriteFile(secret, []byte(say(idOf(9), 0, "/secret")), 0o600); err != nil {
		t.Fatal(err)
	}
	r.append(r.transcript("-tea", 0), say(idOf(0), 0, "/tea"))
	folder := filepath.Dir(r.transcript("-tea", 0))
	for name, make := range map[string]func(string) error{
		idOf(1) + ".jsonl": func(name string) error { return syscall.Mkfifo(name, 0o600) },
		idOf(2) + ".jsonl": func(name string) error { return os.Symlink(secret, name) },
		idOf(3) + ".jsonl": func(name string) error { return os.Symlink("/dev/zero", name) },
		"loop":             func(name string) error { return os.Symlink(folder, name) },
		idOf(4) + ".jsonl": func(name string) error { return os.WriteFile(name, []byte("\x00\x00{{{"), 0o600) },
	} {
		if err := make(filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	// Pipes where each tool keeps its sessions.
	for _, p := range new(transfer.Importer).Places(r.home) {
		os.MkdirAll(filepath.Join(p.Path, "sessions"), 0o700)
		for _, name := range []string{"x.jsonl", "sessions/x.jsonl", "sessions/x.json", "state.vscdb", "opencode.db"} {
			syscall.Mkfifo(filepath.Join(p.Path, name), 0o600)
		}
	}
	events, err := New(r.o).Once(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sessions := 0
	for _, e := range events {
		sessions += e.Sessions
	}
	all := kept(t, r.s)
	if sessions != 1 || all[idOf(0)] == nil {
		t.Errorf("%d sessions: %v, %+v", sessions, all, events)
	}
	for _, lines := range all {
		if strings.Contains(strings.Join(lines, "\n"), "/secret") {
			t.Error("a link led out of the home")
		}
	}
}
