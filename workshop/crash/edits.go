package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// edits kills conversations by SIGKILL while they change files of the user's, and
// rewinds while they put files back. After each kill every file is what it was or
// what it was to become, and a fresh process knows how to put all of them back.
func edits(ctx context.Context, o options) ([]row, error) {
	p, work, done, err := prepare(ctx, o)
	if err != nil {
		return nil, err
	}
	t := &editing{o: o, work: work, book: &book{say: o.say}, place: place{program: p, backend: o.backend, plain: o.plain, dir: filepath.Join(work, "store")}}
	err = t.run(ctx)
	total := t.book.row()
	total.what, total.where, total.count = "SIGKILL", "edits of files", int(t.kills.Load())
	total.note = fmt.Sprintf("%d in a rewind; %d changes were made, %d were not; %d sets of files put back, and forth again; %d temporary files that kills left were swept",
		t.inRewind.Load(), t.made.Load(), t.unmade.Load(), t.back.Load(), t.swept.Load())
	if total.broken() {
		o.say("the files are left in %s", work)
	} else {
		done()
	}
	return []row{total}, err
}

// editing is one run of edits.
type editing struct {
	o     options
	place place
	work  string

	kills, inRewind, made, unmade, back, swept, talks atomic.Int64

	book *book // its lock guards the counts
}

func (t *editing) fault(count *int, format string, args ...any) {
	t.book.mu.Lock()
	defer t.book.mu.Unlock()
	t.book.fault(count, format, args...)
}

func (t *editing) broken() bool {
	t.book.mu.Lock()
	defer t.book.mu.Unlock()
	return t.book.row().broken()
}

func (t *editing) over(ctx context.Context) bool {
	return ctx.Err() != nil || t.kills.Load() >= int64(t.o.n) || t.broken() && !t.o.goOn
}

func (t *editing) run(ctx context.Context) error {
	if err := os.Mkdir(t.place.dir, 0o700); err != nil {
		return err
	}
	if a, err := t.place.ask("", "append", "new"); err != nil || a.code != 0 { // appends nothing, but creates the store
		return fmt.Errorf("a new store: exit %d, %w: %s", a.code, err, a.err)
	}
	errs := make([]error, lanes)
	var all sync.WaitGroup
	for lane := range lanes {
		r := rand.New(rand.NewPCG(t.o.seed, uint64(lane)))
		all.Go(func() {
			for errs[lane] == nil && !t.over(ctx) {
				errs[lane] = t.talk(ctx, r)
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	a, err := t.place.ask("", "verify")
	if err == nil && a.code != 0 {
		t.fault(&t.book.unreadable, "verify ends with %d: %s%s", a.code, a.out, a.err)
	}
	return errors.Join(err, ctx.Err())
}

// folder is a folder of the user's with a session that changes files in it.
type folder struct {
	place
	t     *editing
	r     chooser
	name  string
	dir   string
	first map[string]string // the files before the first change
	now   map[string]string // the files as they were last seen
	took  time.Duration     // of a turn that nobody kills

	left map[string]bool // the temporary files that kills left, whether they are still there
}

// killsAFolder is the most kills that a folder goes through.
const killsAFolder = 10

// editable are the files that are changed; two of them exist at first.
var editable = []string{"a.txt", "sub/b.txt", "new/c.txt", "new/deep/d.txt"}

// talk runs one session: changes that are killed, then a rewind that is killed,
// one that is not, and one that undoes it.
func (t *editing) talk(ctx context.Context, r chooser) error {
	f := &folder{place: t.place, t: t, r: r, name: fmt.Sprintf("edits%d", t.talks.Add(1)), left: make(map[string]bool)}
	f.dir = filepath.Join(t.work, f.name)
	if err := os.MkdirAll(filepath.Join(f.dir, "sub"), 0o700); err != nil {
		return err
	}
	for _, name := range editable[:2] {
		if err := os.WriteFile(filepath.Join(f.dir, name), []byte(f.content(name)), 0o600); err != nil {
			return err
		}
	}
	began := time.Now()
	if code, err := f.finish("chat", "--provider", "demo", "--name", f.name, "-p", "hello", "--yes"); code != 0 || err != nil {
		return fmt.Errorf("a first turn: exit %d, %w", code, err)
	}
	f.took = time.Since(began)
	var err error
	if f.first, err = f.files(); err != nil {
		return err
	}
	f.now = f.first
	for n := 1 + r.IntN(killsAFolder); n > 0 && !t.over(ctx); n-- {
		if err := f.killEdit(); err != nil {
			return err
		}
	}
	// A turn that nobody kills tidies up after those that were.
	if code, err := f.finish("chat", "--provider", "demo", "--resume", f.name, "-p", "hello", "--yes"); code != 0 || err != nil {
		return fmt.Errorf("a last turn: exit %d, %w", code, err)
	}
	if err := f.tidy("a turn"); err != nil {
		return err
	}
	if err := f.thereAndBack(); err != nil || t.broken() {
		return err
	}
	return os.RemoveAll(f.dir)
}

// content is a content whose end shows that it is whole.
func (f *folder) content(name string) string {
	size := []int{0, 10, 5000, 60_000}[f.r.IntN(4)]
	line := fmt.Sprintf("%s of %s, %d\n", canary, name, f.r.Uint64())
	return line + strings.Repeat("x", size) + "\nend of " + line
}

func (f *folder) prepared(args ...string) *exec.Cmd {
	cmd := f.command(args...)
	cmd.Dir = f.dir
	cmd.Env = append(cmd.Env, "NO_COLOR=1")
	ownGroup(cmd)
	return cmd
}

// finish runs a command to its end.
func (f *folder) finish(args ...string) (int, error) {
	cmd := f.prepared(args...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		f.t.o.say("%s: %s", strings.Join(args[:min(len(args), 3)], " "), out)
		return exit.ExitCode(), nil
	}
	return 0, err
}

// kill runs a command and kills it at a random instant; it reports whether it
// was still running.
func (f *folder) kill(args ...string) (bool, error) {
	cmd := f.prepared(args...)
	if err := cmd.Start(); err != nil {
		return false, err
	}
	time.Sleep(time.Duration(f.r.Int64N(int64(f.took) * 5 / 4)))
	killGroup(cmd.Process)
	cmd.Wait()
	if cmd.ProcessState.Exited() {
		return false, nil
	}
	f.t.kills.Add(1)
	return true, nil
}

// files reads what is in the folder, apart from temporary files, which it lists.
func (f *folder) files() (map[string]string, error) {
	all := make(map[string]string)
	for path := range f.left {
		f.left[path] = false
	}
	err := filepath.WalkDir(f.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if strings.HasPrefix(d.Name(), ".tidemark-") {
			f.left[path] = true
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(f.dir, path)
		all[filepath.ToSlash(rel)] = string(data)
		return err
	})
	return all, err
}

// tidy checks that what kills left is gone after something that nobody killed.
func (f *folder) tidy(after string) (err error) {
	if f.now, err = f.files(); err != nil {
		return err
	}
	for path, still := range f.left {
		if still {
			f.t.fault(&f.t.book.unreadable, "after %s there still is %s", after, path)
		}
	}
	f.t.swept.Add(int64(len(f.left)))
	clear(f.left)
	return nil
}

// killEdit kills a turn that changes a file.
func (f *folder) killEdit() error {
	name := editable[f.r.IntN(len(editable))]
	next := f.content(name)
	input, err := json.Marshal(map[string]string{"path": name, "content": next})
	if err != nil {
		return err
	}
	if _, err := f.kill("chat", "--provider", "demo", "--resume", f.name, "--yes", "-p", "call write "+string(input)); err != nil {
		return err
	}
	was := f.now
	if f.now, err = f.files(); err != nil {
		return err
	}
	want := maps.Clone(was)
	if f.now[name] == next {
		want[name] = next
		f.t.made.Add(1)
	} else {
		f.t.unmade.Add(1)
	}
	if !maps.Equal(want, f.now) {
		f.t.fault(&f.t.book.unreadable, "%s: %s is neither what it was nor what it was to become, or another file changed", f.dir, name)
	}
	return f.known()
}

// known checks that a fresh process would put back exactly the files that
// differ from the first ones, and finds nobody else's changes.
func (f *folder) known() error {
	cmd := f.prepared("rewind", f.name+"@n0", "--files", "--dry-run", "--json")
	out, err := cmd.Output()
	if err != nil {
		f.t.fault(&f.t.book.lost, "%s: rewind --dry-run: %v", f.dir, err)
		return nil
	}
	var plan struct {
		Files []struct {
			Path    string `json:"path"`
			Changed bool   `json:"changed_since"`
		} `json:"files"`
		Left []any `json:"left"`
	}
	if err := json.Unmarshal(out, &plan); err != nil {
		return err
	}
	var planned, differ []string
	for _, p := range plan.Files {
		planned = append(planned, p.Path)
		if p.Changed {
			f.t.fault(&f.t.book.lost, "%s: %s is said to be changed by somebody else", f.dir, p.Path)
		}
	}
	for _, name := range editable {
		if f.now[name] != f.first[name] {
			differ = append(differ, name)
		}
	}
	slices.Sort(differ)
	if !slices.Equal(planned, differ) || len(plan.Left) > 0 {
		f.t.fault(&f.t.book.lost, "%s: %v differ, and %v would be put back; left: %v", f.dir, differ, planned, plan.Left)
	}
	f.t.book.mu.Lock()
	f.t.book.acknowledged += len(planned)
	f.t.book.mu.Unlock()
	return nil
}

// thereAndBack puts all files back, killed at first, and then forth again.
func (f *folder) thereAndBack() error {
	changed := f.now
	newest, err := f.newest()
	if err != nil {
		return err
	}
	for range f.r.IntN(3) {
		killed, err := f.kill("rewind", f.name+"@n0", "--files")
		if err != nil {
			return err
		}
		if killed {
			f.t.inRewind.Add(1)
		}
		if f.now, err = f.files(); err != nil {
			return err
		}
		for _, name := range editable {
			if f.now[name] != changed[name] && f.now[name] != f.first[name] {
				f.t.fault(&f.t.book.unreadable, "%s: after a rewind was killed %s is something else", f.dir, name)
			}
		}
	}
	for _, step := range []struct {
		to   string
		want map[string]string
	}{{"n0", f.first}, {newest, changed}} {
		if code, err := f.finish("rewind", f.name+"@"+step.to, "--files"); code != 0 || err != nil {
			f.t.fault(&f.t.book.lost, "%s: rewind to %s: exit %d, %v", f.dir, step.to, code, err)
			return nil
		}
		if err := f.tidy("a rewind to " + step.to); err != nil {
			return err
		}
		if !maps.Equal(step.want, f.now) {
			f.t.fault(&f.t.book.lost, "%s: after a rewind to %s the files are %v, and were %v", f.dir, step.to, slices.Sorted(maps.Keys(f.now)), slices.Sorted(maps.Keys(step.want)))
		}
	}
	f.t.back.Add(1)
	return nil
}

// newest is the number of the newest entry.
func (f *folder) newest() (string, error) {
	out, err := f.prepared("cat", f.name, "--all", "--jq", ".seq").Output()
	lines := strings.Fields(string(out))
	if err != nil || len(lines) == 0 {
		return "", fmt.Errorf("cat %s: %w", f.name, err)
	}
	return lines[len(lines)-1], nil
}
