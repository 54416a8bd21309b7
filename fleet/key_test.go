package fleet

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func TestTheKeyOfAFleetIsMadeOnceAndForNobodyElse(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	one, err := OpenKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	two, err := OpenKey(dir)
	if err != nil || !bytes.Equal(one, two) || len(one) != KeyBytes {
		t.Errorf("%x and %x, %v", one, two, err)
	}
	name := filepath.Join(dir, keyFile)
	if runtime.GOOS != "windows" {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
		if err := os.Chmod(name, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenKey(dir); err == nil {
			t.Error("a key that others can read is taken")
		}
	}
	if err := os.WriteFile(name, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenKey(dir); err == nil {
		t.Error("half a key is taken")
	}
}
