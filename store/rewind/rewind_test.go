package rewind_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/store/rewind"
)

// bench is a session that changes files of a folder.
type bench struct {
	t interface {
		Helper()
		Fatal(...any)
	}
	ctx     context.Context
	backend tidemark.Backend
	store   *store.Store
	w       *store.Writer
	dir     string
	folder  *durable.Workspace
}

func newBench(t *testing.T) *bench { return benchIn(t, t.Context(), t.TempDir(), memory.New()) }

func benchIn(t interface {
	Helper()
	Fatal(...any)
}, ctx context.Context, dir string, backend tidemark.Backend) *bench {
	b := &bench{t: t, ctx: ctx, backend: backend, dir: dir}
	b.store = store.New(b.backend, &store.Options{Dead: func(tidemark.Holder) bool { return true }})
	b.w = b.store.Create(tidemark.Session{Project: dir}, tidemark.Holder{Program: "test", PID: 1})
	var err error
	if b.folder, err = durable.OpenWorkspace(dir); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// say appends a message, and returns the newest seq.
func (b *bench) say(text string) int64 {
	b.t.Helper()
	seqs, err := b.w.Append(b.ctx, tidemark.Say(tidemark.User, text), tidemark.Say(tidemark.Assistant, "yes: "+text))
	b.must(err)
	return seqs[1]
}

// write is what a tool does: it keeps the file, and replaces it.
func (b *bench) write(name, content string) error {
	return b.folder.ReplaceKeeping(name, []byte(content), func(name string, look func(int64) (durable.FileState, error), to durable.FileState) error {
		now, err := look(1 << 20)
		if err != nil {
			return err
		}
		_, err = b.w.KeepSnapshot(b.ctx, tidemark.Snapshot{Root: b.dir, Files: []tidemark.FileChange{{Path: name, Before: rewind.Version(now), After: rewind.Version(to)}}}, 0)
		return err
	})
}

func (b *bench) view() *store.View {
	b.t.Helper()
	v, err := b.store.View(b.ctx, b.w.ID())
	b.must(err)
	return v
}

func (b *bench) look(to int64) *rewind.Plan {
	b.t.Helper()
	p, err := rewind.Look(b.ctx, b.view(), b.dir, to)
	b.must(err)
	return p
}

// back puts files back.
func (b *bench) back(to int64, o *rewind.Options) error {
	b.t.Helper()
	p := b.look(to)
	defer p.Close()
	return p.Apply(b.ctx, b.w, o)
}

// disk is all that is in the folder: contents, modes, targets of links.
func disk(t interface {
	Helper()
	Fatal(...any)
}, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			all[filepath.ToSlash(rel)] = "folder"
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(path)
			if err != nil {
				return err
			}
			all[filepath.ToSlash(rel)] = "link to " + to
		default:
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			all[filepath.ToSlash(rel)] = fmt.Sprintf("%v %s", info.Mode().Perm(), data)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestATurnIsUndoneAndTheUndoIsUndone(t *testing.T) {
	b := newBench(t)
	b.must(os.WriteFile(filepath.Join(b.dir, "run.sh"), []byte("one\n"), 0o750))
	start := b.say("begin")
	before := disk(t, b.dir)
	b.must(b.write("run.sh", "two\n"))
	b.must(b.write("new/deep/file", "made\n"))
	b.must(b.write("run.sh", "three\n"))
	end := b.say("end")
	after := disk(t, b.dir)
	b.must(b.back(start, nil))
	if d := cmp.Diff(before, disk(t, b.dir)); d != "" {
		t.Errorf("undone (-want +got)\n%s", d)
	}
	b.must(b.back(end, nil))
	if d := cmp.Diff(after, disk(t, b.dir)); d != "" {
		t.Errorf("the undo undone (-want +got)\n%s", d)
	}
}

func TestWhatSomebodyElseChangedIsNamedAndNotOverwritten(t *testing.T) {
	b := newBench(t)
	start := b.say("begin")
	b.must(b.write("a", "ours"))
	b.must(b.write("b", "ours"))
	b.must(os.WriteFile(filepath.Join(b.dir, "b"), []byte("theirs"), 0o600))
	had := disk(t, b.dir)
	err := b.back(start, nil)
	if !errors.Is(err, tidemark.ErrConflict) || !strings.Contains(err.Error(), "somebody else changed b") {
		t.Errorf("%v", err)
	}
	if d := cmp.Diff(had, disk(t, b.dir)); d != "" {
		t.Errorf("something was changed\n%s", d)
	}
	b.must(b.back(start, &rewind.Options{Force: true}))
	if got := disk(t, b.dir); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
	// What they wrote was kept, too.
	v := b.view()
	var last tidemark.Snapshot
	for e, err := range v.Log(b.ctx) {
		b.must(err)
		if s, ok := tidemark.SnapshotOf(e); ok {
			last = s
		}
	}
	i := slices.IndexFunc(last.Files, func(f tidemark.FileChange) bool { return f.Path == "b" })
	data, err := v.Content(b.ctx, last.Files[i].Before)
	if err != nil || string(data) != "theirs" {
		t.Errorf("%q, %v", data, err)
	}
}

func TestAFileThatChangesAfterTheLookIsNotOverwritten(t *testing.T) {
	b := newBench(t)
	start := b.say("begin")
	b.must(b.write("a", "ours"))
	p := b.look(start)
	defer p.Close()
	b.must(os.WriteFile(filepath.Join(b.dir, "a"), []byte("theirs, later"), 0o600))
	if err := p.Apply(b.ctx, b.w, &rewind.Options{Force: true}); !errors.Is(err, tidemark.ErrConflict) {
		t.Errorf("%v", err)
	}
	if got := disk(t, b.dir)["a"]; !strings.HasSuffix(got, "theirs, later") {
		t.Errorf("%q", got)
	}
}

// forged appends a snapshot that no tool of ours made.
func (b *bench) forged(s tidemark.Snapshot) {
	b.t.Helper()
	extra, err := json.Marshal(map[string]any{"snapshot": s})
	b.must(err)
	_, err = b.w.Append(b.ctx, tidemark.Entry{Kind: tidemark.KindSnapshot, Extra: extra})
	b.must(err)
}

func TestAForgedSnapshotReachesNothing(t *testing.T) {
	b := newBench(t)
	outside := t.TempDir()
	b.must(os.WriteFile(filepath.Join(outside, "file"), []byte("theirs"), 0o600))
	b.must(os.MkdirAll(filepath.Join(b.dir, ".git", "hooks"), 0o700))
	b.must(os.Symlink(outside, filepath.Join(b.dir, "way")))
	start := b.say("begin")
	// A content that the session has, so that only the path is forged.
	b.must(b.write("mine", "#!/bin/sh\n"))
	var real tidemark.FileVersion
	for e, err := range b.view().Log(b.ctx) {
		b.must(err)
		if s, ok := tidemark.SnapshotOf(e); ok {
			real = s.Files[0].After
		}
	}
	absent := tidemark.FileVersion{Kind: tidemark.VersionAbsent}
	link := tidemark.FileVersion{Kind: tidemark.VersionLink, Target: outside}
	for _, path := range []string{"../file", "/etc/passwd", "way/file", "way/new", ".git/hooks/pre-commit", "sub/.git/config", ".envrc", ".claude/settings.json", "a\x1b]0;x\x07", "a\nb", "", ".", "a//b"} {
		b.forged(tidemark.Snapshot{Root: b.dir, Files: []tidemark.FileChange{{Path: path, Before: real, After: absent}}})
	}
	b.forged(tidemark.Snapshot{Root: outside, Files: []tidemark.FileChange{{Path: "file", Before: absent, After: real}}})
	b.forged(tidemark.Snapshot{Root: b.dir, Files: []tidemark.FileChange{{Path: "trap", Before: link, After: absent}}})
	had := disk(t, b.dir)
	p := b.look(start)
	defer p.Close()
	var paths []string
	for _, f := range p.Files {
		paths = append(paths, f.Path)
	}
	if d := cmp.Diff([]string{"mine"}, paths); d != "" {
		t.Errorf("planned (-want +got)\n%s", d)
	}
	if len(p.Left) != 15 {
		t.Errorf("left %d: %v", len(p.Left), p.Left)
	}
	b.must(p.Apply(b.ctx, b.w, &rewind.Options{Force: true}))
	delete(had, "mine")
	if d := cmp.Diff(had, disk(t, b.dir)); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if got := disk(t, outside); len(got) != 1 || !strings.HasSuffix(got["file"], "theirs") {
		t.Errorf("outside: %v", got)
	}
}

func TestALinkPutInTheWaySinceIsNotFollowed(t *testing.T) {
	b := newBench(t)
	outside := t.TempDir()
	b.must(os.WriteFile(filepath.Join(outside, "file"), []byte("theirs"), 0o600))
	start := b.say("begin")
	b.must(b.write("sub/file", "ours"))
	b.must(b.write("file", "ours"))
	b.must(os.RemoveAll(filepath.Join(b.dir, "sub")))
	b.must(os.Symlink(outside, filepath.Join(b.dir, "sub")))
	b.must(os.Remove(filepath.Join(b.dir, "file")))
	b.must(os.Symlink(filepath.Join(outside, "file"), filepath.Join(b.dir, "file")))
	p := b.look(start)
	defer p.Close()
	if len(p.Files) != 1 || !p.Files[0].Changed || p.Files[0].Path != "file" || len(p.Left) != 1 || p.Left[0].Path != "sub/file" {
		t.Errorf("files %+v, left %+v", p.Files, p.Left)
	}
	b.must(p.Apply(b.ctx, b.w, &rewind.Options{Force: true}))
	if got := disk(t, outside)["file"]; !strings.HasSuffix(got, "theirs") {
		t.Errorf("behind the link: %q", got)
	}
	if _, err := os.Lstat(filepath.Join(b.dir, "file")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the link is still there: %v", err)
	}
}

func TestAFolderInPlaceOfAFileStays(t *testing.T) {
	b := newBench(t)
	start := b.say("begin")
	b.must(b.write("a", "ours"))
	b.must(os.Remove(filepath.Join(b.dir, "a")))
	b.must(os.Mkdir(filepath.Join(b.dir, "a"), 0o700))
	b.must(b.write("c/d", "ours"))
	b.must(os.RemoveAll(filepath.Join(b.dir, "c")))
	b.must(os.WriteFile(filepath.Join(b.dir, "c"), nil, 0o600)) // a file in place of its folder
	p := b.look(start)
	defer p.Close()
	if len(p.Files) != 0 || len(p.Left) != 2 {
		t.Errorf("files %+v, left %+v", p.Files, p.Left)
	}
}

func TestWhatIsNotKeptIsSaid(t *testing.T) {
	b := newBench(t)
	b.must(os.WriteFile(filepath.Join(b.dir, "huge"), []byte(strings.Repeat("x", 1<<20+1)), 0o600))
	start := b.say("begin")
	b.must(b.write("huge", "small"))
	p := b.look(start)
	defer p.Close()
	want := []rewind.Left{{Path: "huge", Why: "it has 1048577 bytes, and at most 1048576 are kept"}}
	if d := cmp.Diff(want, p.Left); d != "" || len(p.Files) != 0 {
		t.Errorf("%+v (-want +got)\n%s", p.Files, d)
	}
}

func TestAModeThatSomebodyGaveAFileStays(t *testing.T) {
	b := newBench(t)
	b.must(os.WriteFile(filepath.Join(b.dir, "run"), []byte("one"), 0o600))
	start := b.say("begin")
	b.must(b.write("run", "two"))
	b.must(os.Chmod(filepath.Join(b.dir, "run"), 0o700))
	b.must(b.back(start, nil))
	if d := cmp.Diff(map[string]string{"run": "-rwx------ one"}, disk(t, b.dir)); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func TestCommandsThatRanSinceAreNamed(t *testing.T) {
	b := newBench(t)
	call := func(id, tool, effect string, input string) {
		e := tidemark.Entry{Role: tidemark.Assistant, Blocks: []tidemark.Block{{Type: tidemark.BlockToolUse, ID: id, Name: tool, Input: json.RawMessage(input)}}}
		mark := fmt.Sprintf(`{"chat":{"id":%q,"tool":%q,"effect":%q}}`, id, tool, effect)
		_, err := b.w.Append(b.ctx, e, tidemark.Entry{Kind: "call", Extra: json.RawMessage(mark)})
		b.must(err)
	}
	b.say("begin")
	call("c0", "bash", "runs", `{"command":"earlier"}`)
	start := b.say("then")
	call("c1", "bash", "runs", `{"command":"make test"}`)
	call("c2", "write", "writes", `{"path":"a"}`)
	call("c3", "fetch", "network", `{"url":"https://example.org"}`)
	_, err := b.w.Append(b.ctx, rewind.Typed(`rm "x" & y`), tidemark.Say(tidemark.User, "I ran a command in the project myself: or I say so"))
	b.must(err)
	p := b.look(start)
	defer p.Close()
	want := []rewind.Command{{Tool: "bash", Input: json.RawMessage(`{"command":"make test"}`)}, {Tool: "fetch", Input: json.RawMessage(`{"url":"https://example.org"}`)}, {Tool: "bash", Input: json.RawMessage(`{"command":"rm \"x\" \u0026 y"}`)}}
	if d := cmp.Diff(want, p.Commands); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func TestTurnsAndNodesAreFound(t *testing.T) {
	b := newBench(t)
	first := b.say("first")
	b.must(b.write("a", "1"))
	second := b.say("second")
	b.must(b.write("a", "2"))
	for n, want := range map[int]rewind.Target{1: {Conversation: first + 1, Files: first + 1}, 2: {Conversation: 0, Files: 0}} {
		got, err := rewind.Turns(b.ctx, b.view(), n)
		if err != nil || got != want {
			t.Errorf("%d turns: %+v, %v, want %+v", n, got, err, want)
		}
	}
	if _, err := rewind.Turns(b.ctx, b.view(), 3); !errors.Is(err, tidemark.ErrNotFound) {
		t.Errorf("3 turns: %v", err)
	}
	// A rewind stands at the end of the node that it undoes, and does not belong to it.
	b.must(b.back(first+1, nil))
	got, err := rewind.Node(b.ctx, b.view(), second+2)
	if err != nil || got.Files != second+1 {
		t.Errorf("node: %+v, %v", got, err)
	}
}

// TestRandomHistories compares random changes and rewinds with a model: what the
// folder was when each entry was the newest.
func TestRandomHistories(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "h")
		if err != nil {
			r.Fatal(err)
		}
		b := benchIn(r, t.Context(), dir, memory.New())
		defer b.folder.Close()
		names := []string{"a", "b", "sub/a", "sub/b", "sub/deep/c"}
		name := rapid.SampledFrom(names)
		points := map[int64]map[string]string{}
		mark := func() { points[b.say("here")] = disk(r, dir) }
		mark()
		touched := map[string]bool{}  // by somebody else, after our last change of it
		changed := map[string]int64{} // the entry of our last change
		// What the session finds before a change is what it knows of the file, at
		// all points since its last change.
		finds := func(n string, all map[string]string) {
			for at, was := range points {
				if at <= changed[n] {
					continue
				}
				if delete(was, n); all[n] != "" {
					was[n] = all[n]
				}
			}
			changed[n] = b.w.Head() + 1
			delete(touched, n)
		}
		for range rapid.IntRange(1, 25).Draw(r, "steps") {
			switch step := rapid.SampledFrom([]string{"write", "write", "write", "mark", "mark", "rewind", "rewind", "remove", "rename", "chmod"}).Draw(r, "step"); step {
			case "write":
				n := name.Draw(r, "name")
				finds(n, disk(r, dir))
				if err := b.write(n, rapid.SampledFrom([]string{"", "one", "two", "three\n"}).Draw(r, "content")); err != nil {
					r.Fatal(err)
				}
			case "mark":
				mark()
			case "remove":
				n := name.Draw(r, "name")
				if os.Remove(filepath.Join(dir, n)) == nil {
					touched[n] = true
				}
			case "rename":
				from, to := name.Draw(r, "from"), name.Draw(r, "to")
				if from != to && os.Rename(filepath.Join(dir, from), filepath.Join(dir, to)) == nil {
					touched[from], touched[to] = true, true
				}
			case "chmod":
				os.Chmod(filepath.Join(dir, name.Draw(r, "name")), 0o600)
			case "rewind":
				to := rapid.SampledFrom(slices.Sorted(maps.Keys(points))).Draw(r, "to")
				want, had := maps.Clone(points[to]), disk(r, dir)
				for _, n := range rewindTo(r, b, to, want, touched) {
					finds(n, had)
					changed[n]-- // it was the last entry
				}
			}
		}
	})
}

// rewindTo goes back and compares files that only the session changed with what
// they were. Those that somebody else touched are only overwritten by force.
func rewindTo(r *rapid.T, b *bench, to int64, want map[string]string, touched map[string]bool) (changed []string) {
	had := disk(r, b.dir)
	p := b.look(to)
	defer p.Close()
	for _, f := range p.Files {
		if f.Changed && !touched[f.Path] {
			r.Fatalf("%s: nobody else changed it", f.Path)
		}
	}
	if len(p.Changed()) > 0 {
		if err := p.Apply(b.ctx, b.w, nil); !errors.Is(err, tidemark.ErrConflict) {
			r.Fatalf("over the changes of others: %v", err)
		}
		if d := cmp.Diff(had, disk(r, b.dir)); d != "" {
			r.Fatalf("a refused rewind changed\n%s", d)
		}
	}
	if err := p.Apply(b.ctx, b.w, &rewind.Options{Force: true}); err != nil {
		r.Fatal(err)
	}
	got := disk(r, b.dir)
	planned := map[string]bool{}
	for _, f := range p.Files {
		planned[f.Path] = true
		changed = append(changed, f.Path)
	}
	for _, n := range []string{"a", "b", "sub/a", "sub/b", "sub/deep/c"} {
		content := func(all map[string]string) string {
			_, text, _ := strings.Cut(all[n], " ")
			return all[n][:min(len(all[n]), 1)] + text
		}
		if planned[n] && content(got) != content(want) {
			r.Fatalf("%s is %q, and was %q", n, got[n], want[n])
		}
		if !planned[n] && got[n] != had[n] {
			r.Fatalf("%s was not planned, and changed from %q to %q", n, had[n], got[n])
		}
		if !planned[n] && !touched[n] && content(got) != content(want) {
			r.Fatalf("%s is %q and was %q, and was not put back", n, got[n], want[n])
		}
	}
	return changed
}

func TestACommandOfThePersonIsShownAsACall(t *testing.T) {
	typed := rewind.Typed("ls -a")
	typed.Seq = 7
	if b := rewind.AsCall(typed).Blocks[0]; b.Type != tidemark.BlockToolUse || b.ID != "typed-7" || string(b.Input) != `{"command":"ls -a"}` {
		t.Errorf("the command is %+v", b)
	}
	for data, want := range map[string]string{"<data 1f>\n.\n<data 1f>\n</data 1f>": ".\n<data 1f>", "<data 1f>\ncut …": "cut …", "no marks": "no marks"} {
		out := rewind.PutOut(data, true)
		out.Parent = 7
		if b := rewind.AsCall(out).Blocks[0]; b.Type != tidemark.BlockToolResult || b.ToolUseID != "typed-7" || b.Text != want || !b.IsError {
			t.Errorf("what it put out is %+v", b)
		}
	}
	// Nobody's words look like one.
	for _, text := range []string{typed.Text(), "What it put out:\nnothing"} {
		if b := rewind.AsCall(tidemark.Say(tidemark.User, text)).Blocks[0]; b.Type != tidemark.BlockText || b.Text != text {
			t.Errorf("a message is %+v", b)
		}
	}
}
