package files_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/files"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/internal/durable/crashfs"
)

// TestEveryFaultIsNoFalsePromise lets every call of random histories fail once
// or from then on, and wants that what was acknowledged is there after a power
// cut that loses everything unsynced, that nothing half is there, and that a
// process that goes on after the fault never lies.
func TestEveryFaultIsNoFalsePromise(t *testing.T) {
	faults := []crashfs.Fault{{Err: syscall.EIO}, {Err: syscall.ENOSPC}, {Err: syscall.EINTR}, {},
		{Err: syscall.EIO, Always: true}, {Err: syscall.ENOSPC, Always: true}}
	calls := 0
	for seed := uint64(1); seed <= 3; seed++ {
		for _, fault := range faults {
			calls += faulty(t, seed, fault, openOn)
			calls += faulty(t, seed, fault, openJournaling)
		}
	}
	t.Logf("%d calls failed", calls)
}

func faulty(t *testing.T, seed uint64, fault crashfs.Fault, open func(*crashfs.FS) (*files.Backend, error)) int {
	s := &storyteller{Rand: rand.New(rand.NewPCG(seed, 3)), model: memory.New(), circle: seed%3 == 0, cold: seed%4 == 1}
	base := crashfs.New()
	b, err := open(base)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := b.Commit(context.Background(), s.tell()); err != nil {
			t.Fatal(err)
		}
	}
	b.Close()
	photos := []string{photo(s.model)}
	var story []tidemark.Batch
	for range 2 {
		story = append(story, s.tell())
		photos = append(photos, photo(s.model))
	}
	for n := 1; ; n++ {
		where := fmt.Sprintf("seed %d, call %d, %v", seed, n, fault)
		disk := base.Copy()
		fault.At = n
		disk.Inject(fault)
		acked := under(t, disk, open, story, photos, where)
		if disk.Calls() < n {
			return n
		}
		for i, l := range crashfs.Losses {
			if (n+i)%4 != 0 {
				continue // a quarter of the losses for each call
			}
			after, err := open(disk.Cut(l, uint64(n+i)))
			if err != nil {
				t.Fatalf("%s, cut %v: Open = %v", where, l, err)
			}
			if got := photo(after); !oneOf(photos[acked:], got) {
				t.Fatalf("%s, cut %v: %d acknowledged; found\n%s\nwant\n%s", where, l, acked, got, strings.Join(photos[acked:], "\nor\n"))
			}
			after.Close()
		}
	}
}

// under runs a story on a disk that fails, and returns how much of it was
// acknowledged.
func under(t *testing.T, disk *crashfs.FS, open func(*crashfs.FS) (*files.Backend, error), story []tidemark.Batch, photos []string, where string) (acked int) {
	b, err := open(disk)
	if err != nil {
		return 0
	}
	defer b.Close()
	for tries := 0; acked < len(story) && tries < 4; tries++ {
		_, err := b.Commit(context.Background(), story[acked])
		if err == nil || errors.Is(err, tidemark.ErrExists) {
			acked++
			continue
		}
		if errors.Is(err, tidemark.ErrConflict) {
			break // the batch took effect, or another did; the cut shows it
		}
		if !errors.Is(err, tidemark.ErrStorage) {
			t.Fatalf("%s: Commit = %v, want ErrStorage", where, err)
		}
		clean(t, disk, b, photos, where)
	}
	return acked
}

// clean wants that a commit that failed, and left no intent for a recovery to
// complete, left nothing else either.
func clean(t *testing.T, disk *crashfs.FS, b *files.Backend, photos []string, where string) {
	pending, err := disk.Names("intents")
	if err != nil || len(pending) > 0 {
		return
	}
	if flags, err := durable.ReadFile(disk, "locks/flags"); err != nil || bytes.Contains(flags, []byte("!")) {
		return
	}
	if names, err := disk.Names("tmp"); err == nil && len(names) > 0 {
		t.Fatalf("%s: a failed commit left %v", where, names)
	}
	if got := photo(b); !strings.Contains(got, "crashfs") && !strings.Contains(got, "storage") && !oneOf(photos, got) {
		t.Fatalf("%s: after a failed commit\n%s\nwant one of\n%s", where, got, strings.Join(photos, "\nor\n"))
	}
}
