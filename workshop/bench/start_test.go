package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

func TestTheSizeOfAProgramWithSymbolsIsNotThatOfOneThatIsShipped(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only programs for Linux are looked into")
	}
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for flags, want := range map[string]bool{"": true, "-w": true, "-s -w": false} {
		program := filepath.Join(dir, "program")
		if out, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags", flags, "-o", program, source).CombinedOutput(); err != nil {
			t.Fatalf("go build -ldflags %q: %v\n%s", flags, err, out)
		}
		if got := hasSymbols(program); got != want {
			t.Errorf("linked with %q it has symbols: %v, want %v", flags, got, want)
		}
	}
}
