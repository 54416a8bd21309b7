package transfer

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/store"
)

// countedFS counts what is read of its files.
type countedFS struct {
	fs.FS
	read *int64
}

type countedFile struct {
	*os.File
	read *int64
}

func (c countedFS) Open(name string) (fs.File, error) {
	f, err := c.FS.Open(name)
	if file, ok := f.(*os.File); ok {
		return &countedFile{file, c.read}, err
	}
	return f, err
}

func (c countedFS) Stat(name string) (fs.FileInfo, error)      { return fs.Stat(c.FS, name) }
func (c countedFS) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(c.FS, name) }

func (f *countedFile) Read(b []byte) (int, error) {
	n, err := f.File.Read(b)
	*f.read += int64(n)
	return n, err
}

func (f *countedFile) ReadAt(b []byte, at int64) (int, error) {
	n, err := f.File.ReadAt(b, at)
	*f.read += int64(n)
	return n, err
}

// longTranscripts are how tools write a long conversation: the file, its first line,
// and the n-th message. Each second one is an answer.
var longTranscripts = map[string]struct {
	file, head string
	line       func(n int) string
}{
	"claude-code": {"projects/-w/" + longID + ".jsonl", "", func(n int) string {
		kind, message := "user", fmt.Sprintf(`{"role":"user","content":%q}`, longText(n))
		if n%2 == 1 {
			kind = "assistant"
			message = fmt.Sprintf(`{"stop_reason":"end_turn","id":"msg%d","type":"message","role":"assistant","model":"demo","content":[{"type":"text","text":%q}],"usage":{"input_tokens":3,"output_tokens":4}}`, n, longText(n))
		}
		return fmt.Sprintf(`{"type":%q,"uuid":"m%d","parentUuid":%s,"sessionId":%q,"cwd":"/w","timestamp":%q,"version":"2.1.325","message":%s}`, kind, n, beforeOf(n), longID, longTime(n), message)
	}},
	"codex": {"sessions/2026/11/01/rollout-2026-11-01T10-00-00-" + longID + ".jsonl",
		fmt.Sprintf(`{"timestamp":%[2]q,"type":"session_meta","payload":{"id":%[1]q,"timestamp":%[2]q,"cwd":"/w","source":"cli"}}`+"\n", longID, longTime(0)), func(n int) string {
			role, kind := "user", "input_text"
			if n%2 == 1 {
				role, kind = "assistant", "output_text"
			}
			return fmt.Sprintf(`{"timestamp":%q,"type":"response_item","payload":{"type":"message","role":%q,"content":[{"type":%q,"text":%q}]}}`, longTime(n), role, kind, longText(n))
		}},
	"pi": {"--w--/2026_" + longID + ".jsonl", fmt.Sprintf(`{"type":"session","id":%q,"timestamp":%q,"cwd":"/w"}`+"\n", longID, longTime(0)), func(n int) string {
		role := "user"
		if n%2 == 1 {
			role = "assistant"
		}
		return fmt.Sprintf(`{"type":"message","id":"m%d","parentId":%s,"timestamp":%q,"message":{"role":%q,"content":%q}}`, n, beforeOf(n), longTime(n), role, longText(n))
	}},
	"factory-droid": {"-w/" + longID + ".jsonl", fmt.Sprintf(`{"type":"session_start","id":%q,"title":"long","cwd":"/w"}`+"\n", longID), func(n int) string {
		role := "user"
		if n%2 == 1 {
			role = "assistant"
		}
		return fmt.Sprintf(`{"type":"message","id":"m%d","parentId":%s,"timestamp":%q,"message":{"role":%q,"content":[{"type":"text","text":%q}]}}`, n, beforeOf(n), longTime(n), role, longText(n))
	}},
	"copilot-cli": {"session-state/" + longID + "/events.jsonl", fmt.Sprintf(`{"type":"session.start","id":"e","timestamp":%q,"data":{"sessionId":%q}}`+"\n", longTime(0), longID), func(n int) string {
		kind := "user.message"
		if n%2 == 1 {
			kind = "assistant.message"
		}
		return fmt.Sprintf(`{"type":%q,"id":"m%d","timestamp":%q,"data":{"content":%q}}`, kind, n, longTime(n), longText(n))
	}},
	"kimi-code": {"sessions/wd_w/session_" + longID + "/agents/main/wire.jsonl", `{"type":"metadata","protocol_version":"1"}` + "\n", func(n int) string {
		if n%2 == 0 {
			return fmt.Sprintf(`{"type":"context.append_message","time":%d,"message":{"id":"m%d","role":"user","content":[{"type":"text","text":%q}]}}`, 1790000000000+n, n, longText(n))
		}
		event := func(what string) string {
			return fmt.Sprintf(`{"type":"context.append_loop_event","time":%d,"event":{%s}}`, 1790000000000+n, what)
		}
		return event(fmt.Sprintf(`"type":"step.begin","uuid":"s%d"`, n)) + "\n" + event(fmt.Sprintf(`"type":"content.part","stepUuid":"s%d","part":{"type":"text","text":%q}`, n, longText(n))) + "\n" +
			event(fmt.Sprintf(`"type":"step.end","uuid":"s%d","usage":{"inputOther":3,"output":4}`, n))
	}},
	"qwen-code": {"projects/-w/chats/" + longID + ".jsonl", "", func(n int) string {
		kind, more := "user", ""
		if n%2 == 1 {
			kind, more = "assistant", `,"model":"demo","usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":4,"totalTokenCount":7}`
		}
		return fmt.Sprintf(`{"type":%q,"uuid":"m%d","parentUuid":%s,"sessionId":%q,"cwd":"/w","timestamp":%q,"message":{"parts":[{"text":%q}]}%s}`, kind, n, beforeOf(n), longID, longTime(n), longText(n), more)
	}},
}

const longID = "00000000-1111-4111-8111-111111111111"

func longTime(n int) string {
	return time.Date(2026, 11, 1, 10, 0, n, 0, time.UTC).Format("2006-01-02T15:04:05.000Z")
}

func longText(n int) string { return fmt.Sprintf("message %d. ", n) + strings.Repeat("tea ", 100) }

func beforeOf(n int) string {
	if n == 0 {
		return "null"
	}
	return fmt.Sprintf(`"m%d"`, n-1)
}

// longSession is a conversation that grows.
type longSession struct {
	*home
	file string
	said int
	line func(n int) string
	read int64 // bytes of the last import
}

// newLong returns a home in which there is such a session.
func newLong(t *testing.T, tool string, messages int) *longSession {
	t.Helper()
	how := longTranscripts[tool]
	h := &home{tool: tool, dir: t.TempDir(), s: store.New(memory.New(), nil), machine: "one", clock: time.Now().Add(-time.Hour)}
	l := &longSession{home: h, file: filepath.Join(h.dir, filepath.FromSlash(how.file)), line: how.line}
	h.write(t, l.file, []byte(how.head))
	l.grow(t, messages)
	return l
}

// grow appends messages to the file.
func (l *longSession) grow(t *testing.T, messages int) (size int64) {
	t.Helper()
	f, err := os.OpenFile(l.file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for range messages {
		n, err := fmt.Fprintln(f, l.line(l.said))
		if err != nil {
			t.Fatal(err)
		}
		size += int64(n)
		l.said++
	}
	l.touch(t, l.file)
	return size
}

// importIt imports the home, and counts what is read of its files.
func (l *longSession) importIt(t *testing.T) *Importer {
	t.Helper()
	tool, err := ToolNamed(l.tool)
	if err != nil {
		t.Fatal(err)
	}
	i := &Importer{Opened: open.Around(l.s), Holder: store.Self("import"), Tool: l.tool}
	i.Holder.Machine = l.machine
	l.read = 0
	b := newToolImport(i, tool)
	if err := b.onlyChanged(t.Context(), convert.Source{FS: countedFS{os.DirFS(l.dir), &l.read}, Path: "."}, l.dir); err != nil {
		t.Fatal(err)
	}
	return i
}

// cheap is how much of a file may be read besides what was added to it: where it
// begins, samples, and the messages that might still have changed. Of a rollout of
// Codex the last 256 KiB are looked through for its title.
const cheap = 450 << 10

func TestAFileThatGrewCostsWhatWasAdded(t *testing.T) {
	const messages, more = 3000, 10
	for tool := range longTranscripts {
		t.Run(tool, func(t *testing.T) {
			l := newLong(t, tool, messages)
			l.importIt(t)
			if l.read < 3*cheap {
				t.Fatalf("the first import read %d bytes", l.read)
			}
			for range 3 {
				added := l.grow(t, more)
				i := l.importIt(t)
				if len(i.Results) != 1 || i.Results[0].State != "grown" || i.Results[0].Entries+i.Results[0].Drafts < more {
					t.Errorf("it brought %+v", i.Results)
				}
				if l.read > 2*added+cheap {
					t.Errorf("%d bytes were added, and %d were read", added, l.read)
				}
			}
			whole := newLong(t, tool, l.said)
			whole.importIt(t)
			if diff := cmp.Diff(whole.kept(t), l.kept(t)); diff != "" {
				t.Errorf("at once - and as it grew +\n%.4000s", diff)
			}
		})
	}
}

// Imports of a sample that goes in line by line, with fewer in a short test.
const replaySteps, fewReplaySteps = 24, 8

func TestASessionThatIsImportedLineByLineEndsAsIfImportedAtOnce(t *testing.T) {
	steps := replaySteps
	if testing.Short() {
		steps = fewReplaySteps
	}
	for tool := range longTranscripts {
		for _, sample := range growing[tool] {
			t.Run(strings.ReplaceAll(sample, "/", " "), func(t *testing.T) {
				grows := readGrowing(t, "../convert/testdata/"+sample)
				newHome := func() *home {
					return &home{tool: tool, dir: t.TempDir(), s: store.New(memory.New(), nil), machine: "one", clock: time.Now().Add(-time.Hour)}
				}
				stepwise := newHome()
				random := rand.New(rand.NewPCG(uint64(len(sample)), 7))
				for step, at := range grows.times {
					if step%max(1, len(grows.times)/steps) != 0 {
						continue
					}
					grows.writeAt(t, stepwise, at, random)
					stepwise.read(t, false)
					if random.IntN(8) > 0 {
						continue
					}
					// What is here now is what an import of the whole would have made of it.
					whole := &home{tool: tool, dir: stepwise.dir, s: store.New(memory.New(), nil), machine: "one", clock: time.Now().Add(-time.Hour)}
					whole.read(t, false)
					if diff := cmp.Diff(whole.kept(t), stepwise.kept(t)); diff != "" {
						t.Fatalf("step %d: at once - and as it grew +\n%.4000s", step, diff)
					}
				}
				grows.writeAt(t, stepwise, 1<<62, nil)
				stepwise.read(t, false)
				whole := newHome()
				grows.writeAt(t, whole, 1<<62, nil)
				whole.read(t, false)
				if diff := cmp.Diff(whole.kept(t), stepwise.kept(t)); diff != "" {
					t.Fatalf("at once - and as it grew +\n%.4000s", diff)
				}
			})
		}
	}
}

func TestABookmarkThatDoesNotFitIsNotUsed(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, l *longSession, data []byte){
		"the beginning": func(t *testing.T, l *longSession, data []byte) { data[bytes.Index(data, []byte("tea"))] = 'T' },
		"the end":       func(t *testing.T, l *longSession, data []byte) { data[bytes.LastIndex(data, []byte("tea"))] = 'T' },
		"another file": func(t *testing.T, l *longSession, data []byte) {
			if err := os.Rename(l.file, l.file+".old"); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLong(t, "pi", 300)
			l.importIt(t)
			data, err := os.ReadFile(l.file)
			if err != nil {
				t.Fatal(err)
			}
			change(t, l, data)
			l.write(t, l.file, data)
			added := l.grow(t, 1)
			if l.importIt(t); l.read < int64(len(data))+added {
				t.Errorf("%d bytes were read of %d", l.read, int64(len(data))+added)
			}
		})
	}
}

func TestABookmarkOfAnotherProgramIsNotUsed(t *testing.T) {
	l := newLong(t, "claude-code", 300)
	l.importIt(t)
	was := thisProgram
	defer func() { thisProgram = was }()
	thisProgram = func() string { return "the next version" }
	added := l.grow(t, 2)
	if l.importIt(t); l.read < 100*added {
		t.Errorf("%d bytes were read", l.read)
	}
	added = l.grow(t, 2)
	if l.importIt(t); l.read > 20*added+cheap {
		t.Errorf("%d bytes were read after an import by this program", l.read)
	}
}

// What was said here since is not what the tool goes on with.
func TestAFileThatGrewBesideWhatWasSaidHereBecomesABranch(t *testing.T) {
	l := newLong(t, "claude-code", 40)
	i := l.importIt(t)
	w, err := l.s.Attach(t.Context(), i.Results[0].Session, store.Self("chat"))
	if err != nil {
		t.Fatal(err)
	}
	said := tidemark.Entry{Role: tidemark.User, Blocks: []tidemark.Block{tidemark.Text("said here")}}
	if _, err := w.Append(t.Context(), said); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.grow(t, 2)
	l.importIt(t)
	v, err := l.s.View(t.Context(), i.Results[0].Session)
	if err != nil {
		t.Fatal(err)
	}
	last := ""
	for e, err := range v.Path(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		last = e.Text()
	}
	if last != "said here" {
		t.Errorf("the session goes on after %q", last)
	}
}
