package watch

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/transfer"
)

// never is longer than any test.
const never = 24 * time.Hour

func TestWhatIsToldLateTwiceOrNotAtAllIsImportedAsIfAtOnce(t *testing.T) {
	for trial := range uint64(3) {
		random := rand.New(rand.NewPCG(trial, 7))
		r := newRig(t)
		fake := newFake(1 << 20)
		r.o.Notify = func() (Notifier, error) { return fake, nil }
		stop := r.run()
		var told []Change
		for n := range 24 {
			session := random.IntN(3)
			file := r.transcript("-tea", session)
			was, _ := os.ReadFile(file)
			line := say(idOf(session), strings.Count(string(was), "\n"), "/tea")
			cut := random.IntN(len(line))
			r.append(file, line[:cut]) // a line may be seen half written
			told = append(told, Change{Path: file, Folder: n%3 == 0})
			r.append(file, line[cut:])
			switch random.IntN(4) {
			case 0: // lost
			case 1: // late, twice and in another order
				random.Shuffle(len(told), func(i, j int) { told[i], told[j] = told[j], told[i] })
				for _, c := range append(told, told...) {
					fake.changes <- c
				}
				told = nil
			case 2:
				fake.changes <- Change{Lost: true}
			default:
				fake.changes <- told[len(told)-1]
			}
		}
		want := atOnce(t, r.home)
		for entries(kept(t, r.s)) < entries(want) {
			r.until("the next import", func(Event) bool { return true })
		}
		stop()
		if diff := cmp.Diff(want, kept(t, r.s)); diff != "" || entries(want) != 24 {
			t.Errorf("trial %d: at once - and watched +\n%s", trial, diff)
		}
	}
}

func TestASessionThatGrowsIsImportedWithoutALookAtTheOthers(t *testing.T) {
	r := newRig(t)
	r.o.SweepAfter, r.o.SweepAtLeast = never, never
	fake := newFake(1 << 20)
	r.o.Notify = func() (Notifier, error) { return fake, nil }
	for n := range 3 {
		r.append(r.transcript("-tea", n), say(idOf(n), 0, "/tea")+say(idOf(n), 1, "/tea"))
	}
	stop := r.run()
	r.until("the home as it was found", in(Following))
	for n := range 2 { // of the second nobody tells
		r.append(r.transcript("-tea", n), say(idOf(n), 2, "/tea")+say(idOf(n), 3, "/tea"))
	}
	fake.changes <- Change{Path: r.transcript("-tea", 0)}
	if e := r.until("the first", took(1)); e.Entries != 2 || e.Sessions != 1 {
		t.Errorf("%+v", e)
	}
	fake.changes <- Change{Lost: true}
	if e := r.until("the second", took(1)); e.Entries != 2 || e.Sessions != 1 {
		t.Errorf("%+v", e)
	}
	stop()
	if diff := cmp.Diff(atOnce(t, r.home), kept(t, r.s)); diff != "" {
		t.Errorf("at once - and watched +\n%s", diff)
	}
}

func TestAnImportThatTakesTooLongIsTold(t *testing.T) {
	r := newRig(t)
	r.o.ImportAtMost = time.Nanosecond
	r.append(r.transcript("-tea", 0), say(idOf(0), 0, "/tea"))
	r.run()
	e := r.until("a problem", func(e Event) bool { return len(e.Problems) > 0 })
	if !strings.Contains(e.Problems[0], "longer than an import may") {
		t.Errorf("%q", e.Problems)
	}
}

func TestStatusCountsWhatIsStillWrittenGoneAndInTheTrash(t *testing.T) {
	r := newRig(t)
	for n := range 3 {
		r.append(r.transcript("-tea", n), say(idOf(n), 0, "/tea")+say(idOf(n), 1, "/tea"))
	}
	r.append(r.transcript("-tea", 0), say(idOf(0), 2, "/tea")) // to which pictures may come
	take := func() {
		t.Helper()
		if _, err := New(r.o).Once(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	take()
	if err := os.Remove(r.transcript("-tea", 1)); err != nil {
		t.Fatal(err)
	}
	take()
	found, err := r.s.Foreign(t.Context(), idOf(2))
	if err == nil {
		err = r.s.Trash(t.Context(), found[0].ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	if is := r.status().Tools[0]; is.Sessions != 2 || is.Drafts != 1 || is.Gone != 1 || is.Trashed != 1 {
		t.Errorf("%+v", is)
	}
}

func TestTheSystemTellsOfWhatToolsWrite(t *testing.T) {
	r := newRig(t)
	r.o.SweepAfter, r.o.SweepAtLeast = never, never // only the system can tell
	r.append(r.transcript("-tea", 0), say(idOf(0), 0, "/tea"))
	r.run()
	r.until("the home as it was found", in(Following))
	r.append(r.transcript("-tea", 0), say(idOf(0), 1, "/tea"))
	r.until("a line", took(1))
	r.append(r.transcript("-coffee", 1), say(idOf(1), 0, "/coffee")+say(idOf(1), 1, "/coffee"))
	r.until("a session in a new folder", took(1))
	r.append(filepath.Join(r.home, ".codex", "sessions", "2026", "11", "01", "rollout-2026-11-01T10-00-00-"+idOf(5)+".jsonl"), codexLines)
	r.until("a home that was not there", func(e Event) bool { return e.Tool == "codex" && e.Sessions == 1 })
	if diff := cmp.Diff(atOnce(t, r.home), kept(t, r.s)); diff != "" {
		t.Errorf("at once - and watched +\n%s", diff)
	}
}

// codexLines are a thread of Codex.
const codexLines = `{"timestamp":"2026-11-01T10:00:00.000Z","type":"session_meta","payload":{"id":"00051111-1111-4111-8111-111111111111","timestamp":"2026-11-01T10:00:00.000Z","cwd":"/tea","originator":"codex_cli_rs","cli_version":"0.98.0","source":"cli","model_provider":"openai"}}
{"timestamp":"2026-11-01T10:00:01.000Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"How warm is white tea?"}]}}
{"timestamp":"2026-11-01T10:00:02.000Z","type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"About 75 degrees."}]}}
{"timestamp":"2026-11-01T10:00:03.000Z","type":"event_msg","payload":{"type":"task_complete"}}
`

func TestAStoreHasOneWatcherForAUserOfAMachine(t *testing.T) {
	r := newRig(t)
	r.append(r.transcript("-tea", 0), say(idOf(0), 0, "/tea"))
	r.run()
	r.until("the first", in(Following))
	second := r.o
	second.Begun = func() { t.Error("a second watcher began") }
	if err := New(second).Run(t.Context()); !errors.Is(err, tidemark.ErrHeld) {
		t.Errorf("a second watcher: %v, want ErrHeld", err)
	}
	if st := r.status(); !st.Running || len(st.Tools) != 1 {
		t.Errorf("%+v", st)
	}
	other := r.o
	other.User = "bob"
	if events, err := New(other).Once(t.Context()); err != nil || len(events) != 1 {
		t.Errorf("%v, %v", events, err)
	}
}

func TestExhaustedNotificationsAreMadeUpForByLooking(t *testing.T) {
	r := newRig(t)
	fake := newFake(2)
	r.o.Notify = func() (Notifier, error) { return fake, nil }
	for n := range 5 {
		r.append(r.transcript(string(rune('a'+n)), n), say(idOf(n), 0, "/tea"))
	}
	r.run()
	e := r.until("the home as it was found", in(Following))
	if !strings.Contains(e.Swept, "no more notifications") {
		t.Errorf("nothing is said about it: %+v", e)
	}
	for n := range 5 {
		r.append(r.transcript(string(rune('a'+n)), n), say(idOf(n), 1, "/tea"))
		r.until("a line in one of the folders", took(1))
	}
	if diff := cmp.Diff(atOnce(t, r.home), kept(t, r.s)); diff != "" {
		t.Errorf("at once - and watched +\n%s", diff)
	}
}

func TestFoldersThatChangedLastAreHeardInEveryHome(t *testing.T) {
	r := newRig(t)
	r.o.MaxFolders, r.o.SweepAfter, r.o.SweepAtLeast = 12, never, never
	fake := newFake(1 << 20)
	r.o.Notify = func() (Notifier, error) { return fake, nil }
	old := time.Now().Add(-time.Hour)
	for n := range 20 { // each in a folder of its own
		file := r.transcript(fmt.Sprintf("-tea-%02d", n), n)
		r.append(file, say(idOf(n), 0, "/tea"))
		if err := os.Chtimes(file, old, old.Add(time.Duration(n)*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	qwen := filepath.Join(r.home, ".qwen", "projects", "-tea", "chats", idOf(30)+".jsonl")
	r.append(qwen, sayQwen(idOf(30), 0))
	r.run()
	for found := map[string]bool{}; len(found) < 2; {
		found[r.until("both homes", in(Following)).Tool] = true
	}
	fake.mu.Lock()
	defer fake.mu.Unlock()
	for folder, want := range map[string]bool{
		filepath.Dir(r.transcript("-tea-19", 19)): true, filepath.Dir(r.transcript("-tea-00", 0)): false, filepath.Dir(qwen): true,
	} {
		if fake.folders[folder] != want {
			t.Errorf("%s is heard: %v, want %v", folder, fake.folders[folder], want)
		}
	}
}

func TestWithoutNotificationsFoldersAreLookedThrough(t *testing.T) {
	r := newRig(t)
	r.o.Notify = func() (Notifier, error) { return nil, errors.New("there are none here") }
	r.append(r.transcript("-tea", 0), say(idOf(0), 0, "/tea"))
	r.run()
	if e := r.until("the home", in(Following)); !strings.Contains(e.Swept, "there are none here") {
		t.Errorf("%+v", e)
	}
	r.append(r.transcript("-tea", 0), say(idOf(0), 1, "/tea"))
	r.until("a line", took(1))
}

func TestAPauseLosesNothing(t *testing.T) {
	r := newRig(t)
	if err := r.control().Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.append(r.transcript("-tea", 0), say(idOf(0), 0, "/tea")+say(idOf(0), 1, "/tea"))
	if events, err := New(r.o).Once(t.Context()); err != nil || len(events) != 1 || events[0].State != Paused {
		t.Errorf("%+v, %v", events, err)
	}
	r.run()
	r.until("the pause", in(Paused))
	if n := entries(kept(t, r.s)); n != 0 {
		t.Errorf("%d entries were imported in a pause", n)
	}
	if err := r.control().Pause(t.Context(), "off"); err != nil {
		t.Fatal(err)
	}
	r.until("what was written meanwhile", took(1))
	if err := r.control().Pause(t.Context(), "-1h"); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("%v", err)
	}
}

func TestIgnoredProjectsComeInWhenTheyAreNoLongerIgnored(t *testing.T) {
	r := newRig(t)
	private := filepath.Join(r.home, "private")
	r.append(r.transcript("-tea", 0), say(idOf(0), 0, "/tea"))
	r.append(r.transcript("-private", 1), say(idOf(1), 0, filepath.Join(private, "deeper")))
	r.append(r.transcript("-folder", 2), say(idOf(2), 0, "/elsewhere"))
	for _, path := range []string{private, filepath.Dir(r.transcript("-folder", 2))} {
		if err := r.control().Ignore(t.Context(), path); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		events, err := New(r.o).Once(t.Context())
		if err != nil || len(events) != 1 || events[0].Ignored != 2 {
			t.Fatalf("%+v, %v", events, err)
		}
	}
	if all := kept(t, r.s); len(all) != 1 || all[idOf(0)] == nil {
		t.Errorf("%v", all)
	}
	if err := r.control().Remove(t.Context(), private); err != nil {
		t.Fatal(err)
	}
	if err := r.control().Remove(t.Context(), private); !errors.Is(err, tidemark.ErrNotFound) {
		t.Errorf("%v", err)
	}
	if _, err := New(r.o).Once(t.Context()); err != nil {
		t.Fatal(err)
	}
	if all := kept(t, r.s); len(all) != 2 || all[idOf(1)] == nil {
		t.Errorf("%v", all)
	}
	if err := r.control().Ignore(t.Context(), r.home); err != nil {
		t.Fatal(err)
	}
	if events, err := New(r.o).Once(t.Context()); err != nil || len(events) != 0 {
		t.Errorf("an ignored home is read: %+v, %v", events, err)
	}
}

func TestAFolderThatIsNoHomeCanBeAdded(t *testing.T) {
	r := newRig(t)
	old := filepath.Join(t.TempDir(), "old")
	elsewhere := &rig{t: t, home: old}
	elsewhere.append(elsewhere.transcript("-tea", 0), say(idOf(0), 0, "/tea"))
	claude := filepath.Join(old, ".claude")
	r.run()
	if err := r.control().Add(t.Context(), New(r.o).importer(), claude); err != nil {
		t.Fatal(err)
	}
	r.until("what is in it", func(e Event) bool { return e.Path == claude && e.Sessions == 1 })
	if err := r.control().Add(t.Context(), New(r.o).importer(), claude); !errors.Is(err, tidemark.ErrExists) {
		t.Errorf("%v", err)
	}
	if err := r.control().Add(t.Context(), New(r.o).importer(), t.TempDir()); !errors.Is(err, tidemark.ErrInvalid) {
		t.Errorf("%v", err)
	}
}

func TestAFullStoreTakesInNothingAndLosesNothing(t *testing.T) {
	r := newRig(t)
	r.o.StorePath, r.o.MaxBytes = filepath.Join(r.home, "store.db"), 1000
	if err := os.WriteFile(r.o.StorePath, make([]byte, 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	r.append(r.transcript("-tea", 0), say(idOf(0), 0, "/tea"))
	events, err := New(r.o).Once(t.Context())
	if err != nil || len(events) != 1 || events[0].State != Full {
		t.Fatalf("%+v, %v", events, err)
	}
	if n := entries(kept(t, r.s)); n != 0 {
		t.Errorf("%d entries were imported", n)
	}
	if err := os.WriteFile(r.o.StorePath, make([]byte, 999), 0o600); err != nil {
		t.Fatal(err)
	}
	if events, err = New(r.o).Once(t.Context()); err != nil || events[0].Sessions != 1 {
		t.Errorf("%+v, %v", events, err)
	}
	r.o.StorePath = ""
	if _, err := New(r.o).Once(t.Context()); !errors.Is(err, tidemark.ErrUnsupported) {
		t.Errorf("a ceiling for a store of unknown size: %v", err)
	}
}

func TestAHomeThatVanishesAndComesBackIsFollowedAgain(t *testing.T) {
	r := newRig(t)
	r.append(r.transcript("-tea", 0), say(idOf(0), 0, "/tea"))
	r.run()
	r.until("the home", in(Following))
	claude, away := filepath.Join(r.home, ".claude"), filepath.Join(r.home, "away")
	if err := os.Rename(claude, away); err != nil {
		t.Fatal(err)
	}
	r.until("that it is gone", in(Missing))
	awaitReport(t, r, 0)
	if err := os.Rename(away, claude); err != nil {
		t.Fatal(err)
	}
	r.append(r.transcript("-tea", 0), say(idOf(0), 1, "/tea"))
	r.until("a line", took(1))
	if len(kept(t, r.s)) != 1 {
		t.Error("the session is not there")
	}
	awaitReport(t, r, 1)
}

// awaitReport returns when the status has so many homes of Claude Code.
func awaitReport(t *testing.T, r *rig, homes int) {
	t.Helper()
	for {
		st := r.status()
		if len(st.Tools) == 1 && len(st.Tools[0].Homes) == homes {
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("the status never had %d home(s): %+v", homes, st)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func TestAFolderThatIsNotWantedAnyMoreLeaves(t *testing.T) {
	r := newRig(t)
	r.append(r.transcript("-tea", 0), say(idOf(0), 0, "/tea"))
	r.run()
	r.until("the home", in(Following))
	claude := filepath.Join(r.home, ".claude")
	if err := r.control().Ignore(t.Context(), claude); err != nil {
		t.Fatal(err)
	}
	if e := r.until("that it left", in(Left)); e.Path != claude {
		t.Errorf("%+v left", e)
	}
	awaitReport(t, r, 0)
}

func TestAReportKeepsNoSecretThatAProblemQuotes(t *testing.T) {
	const secret = "open-sesame"
	r := newRig(t)
	r.o.Opened = open.Around(store.New(memory.New(), &store.Options{Secrets: func(e tidemark.Entry) (found []store.Secret) {
		if at := strings.Index(e.Text(), secret); at >= 0 {
			found = append(found, store.Secret{From: at, To: at + len(secret), Rule: "sesame"})
		}
		return found
	}}))
	w := New(r.o)
	w.homes["x"] = &home{event: Event{Tool: "codex", Problems: []string{"line 3: " + secret + " is no JSON"}}}
	w.news = true
	w.report(t.Context(), true)
	kept, err := ControlOf(r.o).Report(t.Context())
	if err != nil || len(kept.Homes) != 1 || len(kept.Homes[0].Problems) != 1 {
		t.Fatalf("%+v, %v", kept, err)
	}
	if got := kept.Homes[0].Problems[0]; strings.Contains(got, secret) || !strings.Contains(got, "line 3") {
		t.Errorf("the report has %q", got)
	}
}

func TestASessionThatSomebodyHasOpenWaits(t *testing.T) {
	r := newRig(t)
	r.append(r.transcript("-tea", 0), say(idOf(0), 0, "/tea")+say(idOf(0), 1, "/tea"))
	r.run()
	r.until("the session", took(1))
	found, err := r.s.Foreign(t.Context(), idOf(0))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	w, err := r.s.AttachSource(t.Context(), found[0].ID, tidemark.Holder{Program: "somebody", Host: "elsewhere"})
	if err != nil {
		t.Fatal(err)
	}
	r.append(r.transcript("-tea", 0), say(idOf(0), 2, "/tea")+say(idOf(0), 3, "/tea"))
	r.until("that it waits", func(e Event) bool { return e.Waiting == 1 && len(e.Problems) == 0 })
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.until("the rest", took(1))
	if diff := cmp.Diff(atOnce(t, r.home), kept(t, r.s)); diff != "" {
		t.Errorf("at once - and watched +\n%s", diff)
	}
}

// Somebody who asks is answered by the watcher that runs, and nobody imports beside it.
func TestWhoAsksForAToolIsAnsweredByTheWatcher(t *testing.T) {
	r := newRig(t)
	silent := newFake(1000)
	r.o.Notify = func() (Notifier, error) { return silent, nil }
	r.o.SweepAfter, r.o.SweepAtLeast = time.Hour, time.Hour
	r.append(r.transcript("-tea", 1), say(idOf(1), 0, "/tea"))
	stop := r.run()
	r.until("the first import", func(e Event) bool { return e.Tool == "claude-code" })
	// Nobody tells of this line.
	r.append(r.transcript("-tea", 1), say(idOf(1), 1, "/tea")+say(idOf(1), 2, "/tea"))
	ask := r.o
	ask.Tool, ask.Tell = "claude-code", func(e Event) { t.Errorf("the one who asks imported %+v", e) }
	homes, err := New(ask).Once(t.Context())
	if err != nil || len(homes) != 1 || homes[0].Tool != "claude-code" {
		t.Fatalf("%+v, %v", homes, err)
	}
	if n := entries(kept(t, r.s)); n != 3 {
		t.Errorf("%d entries are here, want 3", n)
	}
	r.until("the import of the watcher", took(1))
	// A tool that has no home here, and a pause, keep nobody waiting.
	ask.Tool = "pi"
	if homes, err := New(ask).Once(t.Context()); err != nil || len(homes) > 0 {
		t.Errorf("of a tool that is not here: %+v, %v", homes, err)
	}
	if err := r.control().Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.until("the pause", in(Paused))
	if _, err := New(ask).Once(t.Context()); err != nil {
		t.Error(err)
	}
	if err := r.control().Pause(t.Context(), "off"); err != nil {
		t.Fatal(err)
	}
	stop()
	// Without a watcher the one who asks does it.
	r.append(r.transcript("-tea", 2), say(idOf(2), 0, "/tea")+say(idOf(2), 1, "/tea"))
	ask.Tool, ask.Tell = "claude-code", nil
	if homes, err := New(ask).Once(t.Context()); err != nil || len(homes) != 1 || homes[0].Entries == 0 {
		t.Errorf("without a watcher: %+v, %v", homes, err)
	}
}

// A new session among others, and an old one that goes on, are imported without a look
// through the home: nobody could tell otherwise that one of the others was deleted.
func TestANewSessionIsImportedWithoutALookThroughTheHome(t *testing.T) {
	r := newRig(t)
	fake := newFake(1000)
	r.o.Notify = func() (Notifier, error) { return fake, nil }
	r.o.SweepAfter, r.o.SweepAtLeast = time.Hour, time.Hour
	long := time.Now().AddDate(0, -1, 0)
	for n := range 3 {
		r.append(r.transcript("-tea", n), say(idOf(n), 0, "/tea")+say(idOf(n), 1, "/tea"))
		if err := os.Chtimes(r.transcript("-tea", n), long, long); err != nil {
			t.Fatal(err)
		}
	}
	r.run()
	r.until("the first import", took(6))
	if err := os.Remove(r.transcript("-tea", 2)); err != nil { // nobody tells
		t.Fatal(err)
	}
	grow := func(n int, text string) {
		r.append(r.transcript("-tea", n), text)
		fake.changes <- Change{Path: r.transcript("-tea", n), Folder: n > 2}
		r.until("what was told", took(1))
	}
	grow(7, say(idOf(7), 0, "/tea")+say(idOf(7), 1, "/tea"))
	grow(1, say(idOf(1), 2, "/tea")+say(idOf(1), 3, "/tea"))
	grow(7, say(idOf(7), 2, "/tea")+say(idOf(7), 3, "/tea"))
	if st := r.status(); len(st.Tools) != 1 || st.Tools[0].Gone != 0 || st.Tools[0].Sessions != 4 {
		t.Errorf("%+v", st.Tools)
	}
	// A look finds what is gone.
	fake.changes <- Change{Path: r.transcript("-tea", 2), Folder: true}
	for r.status().Tools[0].Gone == 0 {
		if t.Context().Err() != nil {
			t.Fatal("it never became gone")
		}
		time.Sleep(time.Millisecond)
	}
	if diff := entries(kept(t, r.s)); diff != 12 {
		t.Errorf("%d entries, want 12", diff)
	}
}

func TestASessionThatIsDeletedSoonIsGone(t *testing.T) {
	r := newRig(t)
	fake := newFake(1000)
	r.o.Notify = func() (Notifier, error) { return fake, nil }
	r.o.SweepAfter, r.o.SweepAtLeast = time.Hour, time.Hour
	r.append(r.transcript("-tea", 0), say(idOf(0), 0, "/tea")+say(idOf(0), 1, "/tea"))
	r.run()
	r.until("the first import", took(2))
	r.append(r.transcript("-tea", 1), say(idOf(1), 0, "/tea"))
	fake.changes <- Change{Path: r.transcript("-tea", 1), Folder: true}
	r.until("a new session", func(e Event) bool { return e.Drafts == 1 })
	if err := os.Remove(r.transcript("-tea", 1)); err != nil {
		t.Fatal(err)
	}
	fake.changes <- Change{Path: r.transcript("-tea", 1)}
	for is := r.status().Tools[0]; is.Gone != 1 || is.Drafts != 0; is = r.status().Tools[0] {
		if t.Context().Err() != nil {
			t.Fatalf("it never became gone: %+v", is)
		}
		time.Sleep(time.Millisecond)
	}
}

// A tool deletes the sessions of a project, and months later begins another one there.
func TestAFolderWithoutSessionsIsHeard(t *testing.T) {
	r := newRig(t)
	fake := newFake(1000)
	r.o.Notify = func() (Notifier, error) { return fake, nil }
	r.o.SweepAfter, r.o.SweepAtLeast = time.Hour, time.Hour
	r.append(r.transcript("-tea", 0), say(idOf(0), 0, "/tea")+say(idOf(0), 1, "/tea"))
	coffee := r.transcript("-coffee", 1)
	other := filepath.Join(r.home, ".claude", "projects", "-other")
	for _, dir := range []string{filepath.Dir(coffee), other} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	r.append(filepath.Join(other, "notes.txt"), "no session")
	r.run()
	r.until("the first import", took(2))
	fake.mu.Lock()
	heard, too := fake.folders[filepath.Dir(coffee)], fake.folders[other]
	fake.mu.Unlock()
	if !heard || too {
		t.Errorf("an empty folder is heard: %v; one with something else: %v", heard, too)
	}
	r.append(coffee, say(idOf(1), 0, "/coffee")+say(idOf(1), 1, "/coffee"))
	fake.changes <- Change{Path: coffee}
	r.until("a session in it", took(1))
}

func TestAWatcherTakesInWhatIsNoLongerIgnored(t *testing.T) {
	r := newRig(t)
	r.o.SweepAfter, r.o.SweepAtLeast = time.Hour, time.Hour // it has to know by itself
	r.append(r.transcript("-tea", 0), say(idOf(0), 0, "/tea"))
	r.append(r.transcript("-private", 1), say(idOf(1), 0, "/private"))
	if err := r.control().Ignore(t.Context(), "/private"); err != nil {
		t.Fatal(err)
	}
	r.run()
	if e := r.until("what is not ignored", func(e Event) bool { return e.Sessions == 1 }); e.Ignored != 1 {
		t.Errorf("%d were left out, want 1", e.Ignored)
	}
	if err := r.control().Remove(t.Context(), "/private"); err != nil {
		t.Fatal(err)
	}
	r.until("what was ignored", func(e Event) bool { return e.Sessions == 1 && e.Ignored == 0 })
	if all := kept(t, r.s); len(all) != 2 {
		t.Errorf("%d sessions are here, want 2", len(all))
	}
}

func TestWhatWasTakenInOnceIsInTheStatus(t *testing.T) {
	r := newRig(t)
	r.append(r.transcript("-tea", 1), say(idOf(1), 0, "/tea")+"{\n")
	r.append(filepath.Join(r.home, ".qwen", "projects", "-tea", "chats", idOf(2)+".jsonl"), sayQwen(idOf(2), 0))
	for _, tool := range []string{"", "qwen-code"} { // one tool alone leaves the others as they were
		o := r.o
		o.Tool = tool
		if _, err := New(o).Once(t.Context()); err != nil {
			t.Fatal(err)
		}
		st := r.status()
		if len(st.Tools) != 2 || len(st.Tools[0].Homes) != 1 || len(st.Tools[1].Homes) != 1 {
			t.Fatalf("after %q: %+v", tool, st.Tools)
		}
		if h := st.Tools[0].Homes[0]; h.Path != filepath.Join(r.home, ".claude") || len(h.Problems) != 1 || st.Running {
			t.Errorf("after %q: %+v", tool, st)
		}
	}
}

func TestAFolderThatIsNotThereIsNotAdded(t *testing.T) {
	r := newRig(t)
	nowhere := filepath.Join(r.home, "nowhere")
	err := r.control().Add(t.Context(), &transfer.Importer{}, nowhere)
	if !errors.Is(err, tidemark.ErrNotFound) || !strings.Contains(err.Error(), nowhere) {
		t.Errorf("%v", err)
	}
}

func TestAHomeThatCannotBeReadKeepsNoOtherOut(t *testing.T) {
	r := newRig(t)
	r.append(r.transcript("-tea", 1), say(idOf(1), 0, "/tea"))
	r.append(filepath.Join(r.home, ".qwen", "projects", "-tea", "chats", idOf(2)+".jsonl"), sayQwen(idOf(2), 0))
	r.o.ImportAtMost = time.Nanosecond
	all, err := New(r.o).Once(t.Context())
	if err != nil || len(all) != 2 || len(all[0].Problems) == 0 || len(all[1].Problems) == 0 {
		t.Errorf("of two homes that take too long: %+v, %v", all, err)
	}
}
