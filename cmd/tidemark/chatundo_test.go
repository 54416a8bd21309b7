//go:build !windows

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestUndoAsksWhatGoesBack is the picker of /undo at a terminal.
func TestUndoAsksWhatGoesBack(t *testing.T) {
	t.Parallel()
	c := openChat(t, projectFor(t), 80, "--provider", "demo", "--no-encrypt", "--sandbox", "off", "--permission-mode", "edits")
	file := filepath.Join(c.dir, "tides.txt")
	has := func(want string) {
		t.Helper()
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("tides.txt has %q, %v, want %q", got, err, want)
		}
	}
	c.shows("accepts edits")
	c.types("hello there\r")
	c.shows("This is the first message of the")
	c.types("\x0c" + `call edit {"path":"tides.txt","old_string":"two\n","new_string":"2\n"}` + "\r")
	c.shows("(+1 −1)", "Done.")
	has("one\n2\nthree\n")
	c.types("\x0c/undo\r")
	c.shows("Files changed: 1. What goes back?", "[b] both", "[c] conversation", "[f] files", "[n] nothing")
	c.answers("b", "Change 1 file(s)?")
	c.shows("change   tides.txt (+1 −1)")
	c.answers("y", "Branched from before the last turn")
	has("one\ntwo\nthree\n")

	// What somebody else changed since is named, and needs a yes of its own.
	c.types("\x0c")
	c.waitFor(func(now string) bool { return strings.HasPrefix(now, "you>\n") })
	c.types(`call edit {"path":"tides.txt","old_string":"three\n","new_string":"3\n"}` + "\r")
	c.shows("(+1 −1)", "the workspace.")
	has("one\ntwo\n3\n")
	theirs := "somebody else's\n"
	if err := os.WriteFile(file, []byte(theirs), 0o600); err != nil {
		t.Fatal(err)
	}
	c.types("\x0c")
	c.waitFor(func(now string) bool { return strings.HasPrefix(now, "you>\n") })
	c.types("/undo files\r")
	c.shows("tides.txt (+3 −1)  ! changed by somebody else since", "Overwrite them?")
	c.answers("n", "Nothing was changed")
	has(theirs)
	c.types("\x0c")
	c.waitFor(func(now string) bool { return strings.HasPrefix(now, "you>\n") })
	c.types("/undo files\r")
	c.shows("tides.txt (+3 −1)  ! changed by somebody else since", "Overwrite them?")
	c.answers("y", "as they were.")
	has("one\ntwo\nthree\n")
}
