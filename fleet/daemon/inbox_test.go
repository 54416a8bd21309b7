package daemon

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/fleet"
	"github.com/tidemark-sessions/tidemark/fleet/file"
)

func written() *file.File {
	return &file.File{Agents: []file.Agent{{Name: "a", Limits: file.Limits{MaxConcurrent: 1}, Schedules: []file.Schedule{{Name: "mail", Type: fleet.TypeChat, Prompt: "Answer."}}}, {Name: "deaf"}}}
}

// drop puts a file into the inbox of an agent, as somebody did a while ago.
func drop(t *testing.T, dir, agent, name, text string) {
	t.Helper()
	folder := filepath.Join(dir, "inbox", agent)
	file := filepath.Join(folder, name)
	old := time.Now().Add(-time.Minute)
	for _, err := range []error{os.MkdirAll(folder, 0o700), os.WriteFile(file, []byte(text), 0o600), os.Chtimes(file, old, old)} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// endings are the ends of the names in an inbox.
func endings(t *testing.T, dir, agent string) (all []string) {
	t.Helper()
	files, err := os.ReadDir(filepath.Join(dir, "inbox", agent))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		all = append(all, filepath.Ext(f.Name()))
	}
	slices.Sort(all)
	return all
}

func look(t *testing.T, g *endpoints, dir string) {
	t.Helper()
	if err := g.inbox(t.Context(), dir); err != nil {
		t.Error(err)
	}
}

func TestAFileInTheInboxBecomesAJobOnce(t *testing.T) {
	s, dir := newStage(t), t.TempDir()
	g, _ := s.endpointsOf(written(), "one", nil)
	look(t, g, dir) // makes the inbox
	if got := endings(t, dir, "a"); len(got) != 0 {
		t.Errorf("%v", got)
	}
	drop(t, dir, "a", "note.txt", "Is it green?")
	for range 3 {
		look(t, g, dir)
	}
	jobs := s.jobs()
	if len(jobs) != 1 || jobs[0].Prompt != "Answer.\n\nIs it green?" || jobs[0].Trigger != tidemark.TriggerChat || jobs[0].Schedule != "mail" ||
		!strings.Contains(string(jobs[0].Extra), `"inbox_file":"note.txt"`) {
		t.Errorf("%+v", jobs)
	}
	// The same name and the same text are another message.
	drop(t, dir, "a", "note.txt", "Is it green?")
	drop(t, dir, "a", strings.Repeat("long", 60)+".md", "More.")
	look(t, g, dir)
	if got := endings(t, dir, "a"); len(s.jobs()) != 3 || !slices.Equal(got, []string{endProcessed, endProcessed, endProcessed}) {
		t.Errorf("%d jobs, %v", len(s.jobs()), got)
	}
}

func TestACrashNeitherLosesAFileNorRunsItTwice(t *testing.T) {
	s, dir := newStage(t), t.TempDir()
	folder := filepath.Join(dir, "inbox", "a")
	// It died after the file was taken.
	drop(t, dir, "a", "note.txt."+strings.Repeat("T", 26)+endTaken, "Is it green?")
	g, _ := s.endpointsOf(written(), "one", nil)
	look(t, g, dir)
	if n := len(s.jobs()); n != 1 {
		t.Fatalf("%d jobs", n)
	}
	// It died after the job was made.
	done := filepath.Join(folder, "note.txt."+strings.Repeat("T", 26))
	if err := os.Rename(done+endProcessed, done+endTaken); err != nil {
		t.Fatal(err)
	}
	next, _ := s.endpointsOf(written(), "two", nil)
	look(t, next, dir)
	if got := endings(t, dir, "a"); len(s.jobs()) != 1 || !slices.Equal(got, []string{endProcessed}) {
		t.Errorf("%d jobs, %v", len(s.jobs()), got)
	}
}

func TestTwoDaemonsShareAnInbox(t *testing.T) {
	s, dir := newStage(t), t.TempDir()
	const files = 20
	for i := range files {
		drop(t, dir, "a", "note"+string(rune('a'+i))+".md", "text")
	}
	var wg sync.WaitGroup
	for _, name := range []string{"one", "two", "three"} {
		g, _ := s.endpointsOf(written(), name, nil)
		wg.Go(func() {
			for range 3 {
				if err := g.inbox(t.Context(), dir); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if got := slices.Compact(endings(t, dir, "a")); len(s.jobs()) != files || !slices.Equal(got, []string{endProcessed}) {
		t.Errorf("%d jobs of %d files, %v", len(s.jobs()), files, got)
	}
}

func TestWhatIsNoMessageStaysOrIsRefused(t *testing.T) {
	s, dir := newStage(t), t.TempDir()
	drop(t, dir, "a", "picture.png", "x")
	drop(t, dir, "a", ".hidden.txt", "x")
	drop(t, dir, "a", "somebodys.taken", "x")
	drop(t, dir, "a", "large.txt", strings.Repeat("x", maxIncoming+1))
	drop(t, dir, "deaf", "note.txt", "x")
	drop(t, dir, "stranger", "note.txt", "x")
	folder := filepath.Join(dir, "inbox", "a")
	if err := os.Mkdir(filepath.Join(folder, "folder.txt"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/hostname", filepath.Join(folder, "link.txt")); err != nil {
		t.Log(err) // where links need a right
	}
	if err := os.WriteFile(filepath.Join(folder, "young.txt"), []byte("half of wha"), 0o600); err != nil {
		t.Fatal(err)
	}
	soon := time.Now()
	if err := os.Chtimes(filepath.Join(folder, "young.txt"), soon, soon); err != nil {
		t.Fatal(err)
	}
	g, told := s.endpointsOf(written(), "one", nil)
	g.of.o.Now = func() time.Time { return soon.Add(settles / 2) }
	look(t, g, dir)
	if n := len(s.jobs()); n != 0 || len(*told) != 1 || !strings.Contains((*told)[0], "large.txt") {
		t.Errorf("%d jobs, told %q", n, *told)
	}
	if got := endings(t, dir, "a"); !slices.Contains(got, endRefused) || !slices.Contains(got, ".png") {
		t.Errorf("%v", got)
	}
	g.of.o.Now = func() time.Time { return soon.Add(settles) }
	look(t, g, dir)
	if n := len(s.jobs()); n != 1 {
		t.Errorf("%d jobs once the young one is left alone", n)
	}
}

func TestFilesWaitWhileTheScheduleIsDisabled(t *testing.T) {
	s, dir := newStage(t), t.TempDir()
	g, _ := s.endpointsOf(written(), "one", nil)
	change := func(status string) {
		if err := s.store.ChangeSchedule(t.Context(), "a", "mail", func(d *tidemark.Schedule) error { d.Status = status; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	change(tidemark.Disabled)
	drop(t, dir, "a", "note.txt", "x")
	look(t, g, dir)
	if n := len(s.jobs()); n != 0 {
		t.Errorf("%d jobs", n)
	}
	change(tidemark.Idle)
	look(t, g, dir)
	if n := len(s.jobs()); n != 1 {
		t.Errorf("%d jobs", n)
	}
}

func TestTheSameTroubleWithAnInboxIsSaidOnce(t *testing.T) {
	s, dir := newStage(t), t.TempDir()
	drop(t, dir, "", "a", "a file where the inbox should be")
	g, _ := s.endpointsOf(written(), "one", nil)
	if err := g.inbox(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "inbox of a") {
		t.Errorf("%v", err)
	}
	if err := g.inbox(t.Context(), dir); err != nil {
		t.Errorf("said again: %v", err)
	}
}
