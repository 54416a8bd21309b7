package sqlite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tidemark-sessions/tidemark"
)

// Set in a process that the test starts from its own binary: the store to
// append to, and the name that its keys begin with.
const (
	childStore   = "TIDEMARK_TEST_STORE"
	childName    = "TIDEMARK_TEST_NAME"
	childUpgrade = "TIDEMARK_TEST_UPGRADE" // of a process that upgrades this store
	childArrive  = "TIDEMARK_TEST_ARRIVE"  // of a process with many writers to this store
)

var shared = key("session", "shared")

func TestMain(m *testing.M) {
	if path := os.Getenv(childStore); path != "" {
		if err := appendForever(path, os.Getenv(childName)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if path := os.Getenv(childUpgrade); path != "" {
		if err := upgradeAloud(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if path := os.Getenv(childArrive); path != "" {
		fmt.Fprintln(os.Stderr, arriveForever(path, os.Getenv(childName)))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// appendForever appends to the shared log and prints each key when it is
// acknowledged, until it is killed or has appended its share.
func appendForever(path, name string) error {
	ctx := context.Background()
	b, err := Open(ctx, path, &Options{Create: true})
	if err != nil {
		return err
	}
	defer b.Close()
	var wg sync.WaitGroup
	fail := make(chan error, 2)
	var out sync.Mutex
	for g := range 2 { // two writers a process, so that groups form as well
		wg.Go(func() {
			for n := 0; n < 150; n++ {
				k := fmt.Sprintf("%s-%d-%d", name, g, n)
				if err := appendKey(ctx, b, k); err != nil {
					fail <- err
					return
				}
				out.Lock()
				fmt.Println(k)
				out.Unlock()
			}
		})
	}
	wg.Wait()
	select {
	case err := <-fail:
		return err
	default:
		return nil
	}
}

// appendKey appends one line behind whatever is there.
func appendKey(ctx context.Context, b *Backend, k string) error {
	for {
		length := int64(0)
		r, err := b.Get(ctx, shared)
		if err == nil {
			length = r.Head.Length
		} else if !errors.Is(err, tidemark.ErrNotFound) {
			return err
		}
		l := line(shared, length+1, "user", `{"key":"`+k+`"}`)
		l.Key = k
		l.Sum = l.Checksum(shared)
		err = commit(b, tidemark.Batch{Appends: []tidemark.Append{{Log: shared, Lines: []tidemark.Line{l}}}})
		if !errors.Is(err, tidemark.ErrConflict) {
			return err
		}
	}
}

func TestProcessesShareAStoreAndSomeAreKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	acknowledged := make(map[string]bool)
	var wg sync.WaitGroup
	for i := range 6 {
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), childStore+"="+path, childName+fmt.Sprint("=p", i))
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			doomed := i%2 == 0
			lines := bufio.NewScanner(out)
			for n := 0; lines.Scan(); n++ {
				mu.Lock()
				acknowledged[lines.Text()] = true
				mu.Unlock()
				if doomed && n == 20+37*i {
					cmd.Process.Kill()
				}
			}
			if err := cmd.Wait(); err != nil && !doomed {
				t.Errorf("process %d: %v: %s", i, err, stderr.String())
			}
		})
	}
	wg.Wait()
	b := opened(t, path, nil)
	seen := make(map[string]int)
	for _, l := range linesOf(t, b, shared) {
		seen[l.Key]++
	}
	for k := range acknowledged {
		if seen[k] != 1 {
			t.Errorf("%s was acknowledged and is there %d times", k, seen[k])
		}
	}
	for k, n := range seen {
		if n != 1 {
			t.Errorf("%s is there %d times", k, n)
		}
	}
	if len(acknowledged) < 3*300 {
		t.Errorf("only %d lines were acknowledged", len(acknowledged))
	}
	if found := faults(t, b); found != nil {
		t.Errorf("Check: %v", found)
	}
}

func TestReaderInAnotherProcessSeesTheUnwrittenBack(t *testing.T) {
	b := made(t)
	talk(t, b, shared, 1, 3)
	r := opened(t, b.path, &Options{ReadOnly: true}) // its own connections, as another process has
	goOn := stopped(t, b)
	defer goOn()
	if n := len(linesOf(t, r, shared)); n != 3 {
		t.Errorf("%d lines, want 3, while a writer holds the lock", n)
	}
}
