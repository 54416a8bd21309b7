package watch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/store"
)

// filesVariable says how many sessions a day in fast motion begins with.
const filesVariable = "TIDEMARK_DAY_FILES"

// usualFiles is how many, unless somebody asks for more.
const usualFiles = 60

// dayTool is a tool whose sessions a test writes.
type dayTool struct {
	name    string
	foreign func(id string) string // the tool's id of a session
	file    func(id string) string
	// head is what a file begins with, and line the n-th message; what is no
	// line-wise file has them joined and ended by tail.
	head, line func(id string, n int) string
	join, tail string
}

func same(id string) string { return id }

func at(n int) string {
	return time.Date(2026, 11, 1, 10, 0, n, 0, time.UTC).Format("2006-01-02T15:04:05.000Z")
}

// dayText is what is said in a message, which no other has.
func dayText(id string, n int) string { return fmt.Sprintf("line %d of %s.", n, id) }

// parent is the id of the message before, as JSON.
func parent(n int) string {
	if n == 0 {
		return "null"
	}
	return fmt.Sprintf(`"m%d"`, n-1)
}

// none is the head of a file that has none.
func none(string, int) string { return "" }

// dayTools are ten, in the forms in which they keep a conversation of one person.
var dayTools = []dayTool{
	{name: "claude-code", foreign: same, file: func(id string) string { return ".claude/projects/-w/" + id + ".jsonl" }, head: none, line: func(id string, n int) string {
		// All begin with the record of one, as if they were its forks.
		return fmt.Sprintf(`{"type":"user","uuid":"m%d","parentUuid":%s,"sessionId":%q,"cwd":"/w","timestamp":%q,"version":"2.1.325","message":{"role":"user","content":%q}}`, n, parent(n), id, at(n), dayText(id, n))
	}},
	{name: "codex", foreign: same, file: func(id string) string {
		return ".codex/sessions/2026/11/01/rollout-2026-11-01T10-00-00-" + id + ".jsonl"
	}, head: func(id string, _ int) string {
		return fmt.Sprintf(`{"timestamp":%[2]q,"type":"session_meta","payload":{"id":%[1]q,"timestamp":%[2]q,"cwd":"/w","source":"cli"}}`+"\n", id, at(0))
	}, line: func(id string, n int) string {
		return fmt.Sprintf(`{"timestamp":%q,"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":%q}]}}`, at(n), dayText(id, n))
	}},
	{name: "pi", foreign: same, file: func(id string) string { return ".pi/agent/sessions/--w--/2026_" + id + ".jsonl" }, head: func(id string, _ int) string {
		return fmt.Sprintf(`{"type":"session","id":%q,"timestamp":%q,"cwd":"/w"}`+"\n", id, at(0))
	}, line: func(id string, n int) string {
		return fmt.Sprintf(`{"type":"message","id":"m%d","parentId":%s,"timestamp":%q,"message":{"role":"user","content":%q}}`, n, parent(n), at(n), dayText(id, n))
	}},
	{name: "qwen-code", foreign: same, file: func(id string) string { return ".qwen/projects/-w/chats/" + id + ".jsonl" }, head: none, line: func(id string, n int) string {
		return fmt.Sprintf(`{"type":"user","uuid":"m%d","parentUuid":%s,"sessionId":%q,"cwd":"/w","timestamp":%q,"message":{"role":"user","parts":[{"text":%q}]}}`, n, parent(n), id, at(n), dayText(id, n))
	}},
	{name: "copilot-cli", foreign: same, file: func(id string) string { return ".copilot/session-state/" + id + "/events.jsonl" }, head: func(id string, _ int) string {
		return fmt.Sprintf(`{"type":"session.start","id":"s","timestamp":%q,"data":{"sessionId":%q,"context":{"cwd":"/w"}}}`+"\n", at(0), id)
	}, line: func(id string, n int) string {
		return fmt.Sprintf(`{"type":"user.message","id":"m%d","timestamp":%q,"data":{"content":%q}}`, n, at(n), dayText(id, n))
	}},
	{name: "kimi-code", foreign: func(id string) string { return "session_" + id }, file: func(id string) string { return ".kimi-code/sessions/wd_w/session_" + id + "/agents/main/wire.jsonl" },
		head: func(string, int) string { return `{"type":"metadata","protocol_version":"1.5","created_at":1}` + "\n" }, line: func(id string, n int) string {
			return fmt.Sprintf(`{"type":"context.append_message","time":%d,"message":{"role":"user","content":[{"type":"text","text":%q}],"id":"m%d","origin":{"kind":"user"}}}`, 1793527200000+n, dayText(id, n), n)
		}},
	{name: "factory-droid", foreign: same, file: func(id string) string { return ".factory/sessions/-w/" + id + ".jsonl" }, head: func(id string, _ int) string {
		return fmt.Sprintf(`{"type":"session_start","id":%q,"title":"t","cwd":"/w"}`+"\n", id)
	}, line: func(id string, n int) string {
		return fmt.Sprintf(`{"type":"message","id":"m%d","parentId":%s,"timestamp":%q,"message":{"role":"user","content":[{"type":"text","text":%q}]}}`, n, parent(n), at(n), dayText(id, n))
	}},
	{name: "gemini-cli", foreign: same, file: func(id string) string { return ".gemini/tmp/w/chats/session-2026-11-01T10-00-" + id + ".jsonl" }, head: func(id string, _ int) string {
		return fmt.Sprintf(`{"sessionId":%q,"projectHash":"0a1b","startTime":%[2]q,"lastUpdated":%[2]q,"kind":"main"}`+"\n", id, at(0))
	}, line: func(id string, n int) string {
		return fmt.Sprintf(`{"id":"m%d","timestamp":%q,"type":"user","content":%q}`, n, at(n), dayText(id, n))
	}},
	{name: "cline", foreign: same, file: func(id string) string { return ".cline/data/sessions/" + id + "/" + id + ".messages.json" }, head: func(id string, _ int) string {
		return fmt.Sprintf(`{"version":1,"updated_at":%q,"sessionId":%q,"messages":[`, at(0), id)
	}, line: func(id string, n int) string {
		return fmt.Sprintf(`{"id":"m%d","role":"user","ts":%d,"content":%q}`, n, 1793527200000+n, dayText(id, n))
	}, join: ",", tail: "]}"},
	{name: "continue", foreign: same, file: func(id string) string { return ".continue/sessions/" + id + ".json" }, head: func(id string, _ int) string {
		return fmt.Sprintf(`{"sessionId":%q,"title":"t","workspaceDirectory":"/w","history":[`, id)
	}, line: func(id string, n int) string {
		return fmt.Sprintf(`{"message":{"role":"user","content":%q}}`, dayText(id, n))
	}, join: ",", tail: "]}"},
}

// daySession is a session of a day.
type daySession struct {
	dayTool
	id       string
	messages int  // that are in its file
	there    bool // the file
	kept     int  // messages that were there at an import
	purged   bool
}

// write writes the file as it is now.
func (s *daySession) write(t *testing.T, home string, at time.Time) {
	t.Helper()
	var lines []string
	for n := range s.messages {
		lines = append(lines, s.line(s.id, n))
	}
	text := s.head(s.id, 0) + strings.Join(lines, s.join) + s.tail
	if s.tail == "" {
		text = s.head(s.id, 0) + strings.Join(lines, "\n") + "\n"
	}
	file := filepath.Join(home, filepath.FromSlash(s.dayTool.file(s.id)))
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(file, at, at); err != nil {
		t.Fatal(err)
	}
	s.there = true
}

// fullDisk is a Backend on a disk that has no room from time to time.
type fullDisk struct {
	tidemark.Backend
	full atomic.Bool
}

func (d *fullDisk) Commit(ctx context.Context, b tidemark.Batch) (tidemark.Receipt, error) {
	if d.full.Load() {
		return tidemark.Receipt{}, tidemark.Storagef("%w", syscall.ENOSPC)
	}
	return d.Backend.Commit(ctx, b)
}

// A day of ten tools in fast motion: sessions begin, grow, are rotated, deleted and
// come back, clocks go back, the disk is full, and people purge what they do not want.
// In the evening a watcher runs, to which the system gives few notifications and tells
// nothing. What was there when the homes were looked through is here, once, and what was
// purged is not.
func TestADayOfTenToolsLosesNothingAndBringsNothingBack(t *testing.T) {
	files := usualFiles
	if text := os.Getenv(filesVariable); text != "" {
		var err error
		if files, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	r := newRig(t)
	disk := &fullDisk{Backend: memory.New()}
	if files > usualFiles { // a list in memory looks at all records there are
		b, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "day.db"), &sqlite.Options{Create: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		disk.Backend = b
	}
	r.s = store.New(disk, nil)
	r.o.Opened = open.Around(r.s)
	r.o.Notify = func() (Notifier, error) { return newFake(3), nil }
	random := rand.New(rand.NewPCG(20, 16))
	clock := time.Now().Add(-12 * time.Hour)
	var all []*daySession
	begin := func() {
		s := &daySession{dayTool: dayTools[len(all)%len(dayTools)], id: fmt.Sprintf("%08d-1111-4111-8111-111111111111", len(all)), messages: 1 + random.IntN(4)}
		s.write(t, r.home, clock)
		all = append(all, s)
	}
	for range files {
		begin()
	}
	w := New(r.o)
	const hours, evening, perHour = 16, 13, 40
	failed := 0
	for hour := range hours {
		if hour == evening {
			r.run()
		}
		full := hour%4 == 2 && hour < evening
		for _, s := range all {
			if s.there && !full {
				s.kept = max(s.kept, s.messages)
			}
		}
		disk.full.Store(full)
		_, err := w.Once(t.Context()) // in the evening it asks the one that runs
		disk.full.Store(false)
		if full && errors.Is(err, tidemark.ErrStorage) {
			failed++
		} else if err != nil {
			t.Fatal(err)
		}
		for range perHour {
			s := all[random.IntN(len(all))]
			clock = clock.Add(time.Duration(random.IntN(60)) * time.Second)
			switch random.IntN(10) {
			case 0:
				begin()
			case 1:
				if s.there && s.kept == s.messages {
					if err := os.Remove(filepath.Join(r.home, filepath.FromSlash(s.dayTool.file(s.id)))); err != nil {
						t.Fatal(err)
					}
					s.there = false
				}
			case 2:
				if !s.purged && s.kept > 0 {
					r.purge(s)
				}
			case 4: // it is rotated: another file has its name
				s.messages++
				s.write(t, r.home, clock)
				file := filepath.Join(r.home, filepath.FromSlash(s.dayTool.file(s.id)))
				raw, err := os.ReadFile(file)
				if err := errors.Join(err, os.WriteFile(file+".tmp", raw, 0o600), os.Rename(file+".tmp", file)); err != nil {
					t.Fatal(err)
				}
			case 3: // the clock was set back
				s.messages++
				s.write(t, r.home, clock.Add(-48*time.Hour))
			default:
				s.messages++
				s.write(t, r.home, clock)
			}
		}
	}
	for _, s := range all {
		if s.there {
			s.kept = s.messages
		}
	}
	if _, err := w.Once(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		r.checkDay(s)
	}
	if failed == 0 {
		t.Error("the disk was never full when there was something to keep")
	}
}

// ofDay finds what is here of a session.
func (r *rig) ofDay(s *daySession) (found []store.Info) {
	r.t.Helper()
	infos, err := r.s.Foreign(r.t.Context(), s.foreign(s.id))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, i := range infos {
		if i.Tool == s.name {
			found = append(found, i)
		}
	}
	return found
}

func (r *rig) purge(s *daySession) {
	r.t.Helper()
	for _, i := range r.ofDay(s) {
		if err := r.s.Purge(r.t.Context(), i.ID, store.Self("day")); err != nil {
			r.t.Fatal(err)
		}
		s.purged = true
	}
}

// checkDay checks that a session is here as it should be.
func (r *rig) checkDay(s *daySession) {
	r.t.Helper()
	found := r.ofDay(s)
	switch {
	case s.purged && len(found) > 0:
		r.t.Errorf("%s %s was purged, and is back", s.name, s.id)
	case !s.purged && len(found) != 1:
		r.t.Errorf("%s %s is here %d times", s.name, s.id, len(found))
	case s.purged:
	default:
		i := found[0]
		if i.Gone.IsZero() != s.there {
			r.t.Errorf("%s %s: its file is there: %v, gone since %v", s.name, s.id, s.there, i.Gone)
		}
		v, err := r.s.ViewOf(i)
		if err == nil {
			v, err = v.WithDraft(r.t.Context())
		}
		if err != nil {
			r.t.Fatal(err)
		}
		said := make(map[string]int)
		for e, err := range v.Path(r.t.Context(), 0) {
			if err != nil {
				r.t.Fatal(err)
			}
			if e.Role == tidemark.User {
				said[e.Text()]++
			}
		}
		for n := range s.kept {
			if said[dayText(s.id, n)] != 1 {
				r.t.Errorf("%s %s: message %d of %d is here %d times", s.name, s.id, n, s.kept, said[dayText(s.id, n)])
				return
			}
		}
	}
}
