package watch

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/store"
)

// killsVariable says how often the watcher is killed.
const killsVariable = "TIDEMARK_WATCH_KILLS"

// usualKills is how often, unless somebody asks for more.
const usualKills = 8

// watchedVariable names the folder that a test's own program watches instead of
// running tests.
const watchedVariable = "TIDEMARK_TEST_WATCHED"

func TestMain(m *testing.M) {
	if dir := os.Getenv(watchedVariable); dir != "" {
		fmt.Fprintln(os.Stderr, watched(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// watched watches until it is killed.
func watched(dir string) error {
	o, err := optionsIn(context.Background(), dir)
	if err != nil {
		return err
	}
	return New(o).Run(context.Background())
}

// optionsIn are those of a watcher of dir/home into dir/store.db.
func optionsIn(ctx context.Context, dir string) (Options, error) {
	opened, err := open.Open(ctx, "sqlite:"+filepath.Join(dir, "store.db"), &open.Options{Access: open.Create, Plain: true})
	return Options{Opened: opened, Holder: store.Self("watch"), Home: filepath.Join(dir, "home"), SweepAfter: 20 * time.Millisecond, SweepAtLeast: 100 * time.Millisecond}, err
}

func TestAKilledWatcherLosesAndDoublesNothing(t *testing.T) {
	dir := t.TempDir()
	random := rand.New(rand.NewPCG(1, 2))
	r := &rig{t: t, home: filepath.Join(dir, "home")}
	lines := make([]int, 6)
	kills := usualKills
	if text := os.Getenv(killsVariable); text != "" {
		var err error
		if kills, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	r.append(r.transcript("-tea", 0), say(idOf(0), 0, "/tea"))
	lines[0] = 1
	for range kills {
		child := exec.CommandContext(t.Context(), os.Args[0])
		child.Env = append(os.Environ(), watchedVariable+"="+dir)
		said := new(bytes.Buffer)
		child.Stderr = said
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- child.Wait() }()
		kill := time.After(time.Duration(random.IntN(400)) * time.Millisecond)
		for killed := false; !killed; {
			session := random.IntN(len(lines))
			switch n := lines[session]; session % 3 {
			case 2: // of another tool
				r.append(filepath.Join(r.home, ".qwen", "projects", "-tea", "chats", idOf(session)+".jsonl"), sayQwen(idOf(session), n))
			default:
				r.append(r.transcript([]string{"-tea", "-coffee"}[session%3], session), say(idOf(session), n, "/tea"))
			}
			lines[session]++
			select {
			case <-kill:
				killed = true
			case err := <-ended:
				t.Fatalf("the watcher ended by itself: %v, %s", err, said)
			case <-time.After(time.Duration(random.IntN(20)) * time.Millisecond):
			}
		}
		child.Process.Kill()
		<-ended
	}
	o, err := optionsIn(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Opened.Close()
	if _, err := New(o).Once(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := atOnce(t, r.home)
	total := 0
	for _, n := range lines {
		total += n
	}
	if diff := cmp.Diff(want, kept(t, o.Opened.Store)); diff != "" || entries(want) != total {
		t.Errorf("%d lines, at once %d; at once - and watched +\n%s", total, entries(want), diff)
	}
	t.Logf("%d kills, %d entries", kills, total)
}
