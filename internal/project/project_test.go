package project

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func TestAWorkspaceIsAWorkTreeOfThisUser(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	home := root + "/home"
	make := func(dir, head string) string {
		t.Helper()
		dir = filepath.Join(root, dir)
		if err := os.MkdirAll(dir+"/.git", 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(dir+"/a/b", 0o700); err != nil {
			t.Fatal(err)
		}
		if head != "" {
			if err := os.WriteFile(dir+"/.git/HEAD", []byte(head), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	good := make("good", "ref: refs/heads/main\n")
	detached := make("detached", "0123456789012345678901234567890123456789\n")
	for name, dir := range map[string]string{"good": good, "detached": detached} {
		if got := At(dir+"/a/b", home); got != dir {
			t.Errorf("%s: %s", name, got)
		}
		if !Allowed(dir, home) {
			t.Errorf("%s is no project", name)
		}
	}
	linked := make("linked", "")
	if err := os.RemoveAll(linked + "/.git"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(linked+"/.git", []byte("gitdir: ../good/.git\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := At(linked+"/a", home); got != linked {
		t.Errorf("a linked work tree: %s", got)
	}
	for name, dir := range map[string]string{
		"without a HEAD":   make("empty", ""),
		"with another one": make("other", "#!/bin/sh\n"),
		"home":             make("home", "ref: refs/heads/main\n"),
	} {
		if got := At(dir+"/a/b", home); got != dir+"/a/b" {
			t.Errorf("%s: %s", name, got)
		}
	}
	if Allowed(root+"/home", home) || Allowed(filepath.VolumeName(root)+string(filepath.Separator), home) {
		t.Error("home or / is a project")
	}
	if runtime.GOOS == "windows" {
		return // it has neither sticky folders nor owners to give things to
	}
	sticky := make("sticky", "ref: refs/heads/main\n")
	if err := os.Chmod(sticky, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	if got := At(sticky+"/a", home); got != sticky+"/a" || Allowed(sticky, home) {
		t.Errorf("a sticky folder: %s", got)
	}
	if os.Geteuid() == 0 {
		foreign := make("foreign", "ref: refs/heads/main\n")
		if err := os.Chown(foreign+"/.git", 4711, 4711); err != nil {
			t.Fatal(err)
		}
		if got := At(foreign+"/a", home); got != foreign+"/a" {
			t.Errorf("somebody else's: %s", got)
		}
	}
}
