package tool

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/internal/sandbox"
)

// warm is an interpreter process that runs one request after another. It reads
// requests from its stdin, its output and that of its children comes on its
// stdout, and on its stderr it reports how a request ended; it moves these to
// other numbers before the first request, so that requests find an ordinary
// stdin, stdout and stderr.
//
// The end of a request is signalled twice: by a mark between NULs in the
// output, so that all output of the request comes before it, and by a report:
//
//	NUL mark NUL (field NUL)* NUL
//
// The mark is new and random each time. Output between two requests, by
// children in the background, belongs to the next.
type warm struct {
	cmd     *exec.Cmd
	family  process.Family
	policy  sandbox.Policy // the policy when it was started
	allowed sandbox.Policy // the same with what this process alone may do
	fence   *sandbox.Fence // nil: it is in no sandbox
	in      *os.File
	out     *os.File
	report  *os.File

	mu     sync.Mutex
	kept   *clip
	mark   []byte        // what the pump looks for, nil between requests
	marked chan struct{} // closed when the pump has found it
	live   func([]byte)  // receives output while a request runs
	held   []byte        // the end of the output, while it may be part of the mark

	reports chan []string
	told    chan struct{} // closed when there are no more reports
	first   []byte        // its messages before the first report; to be read when it is dead
	dead    chan struct{} // closed when the process has ended and is cleaned up
	stop    sync.Once
	limit   int
	once    bool // it takes one request, and ends
	ready   bool // it was told how to report; used only by the sender of requests
}

const (
	// grace is how long processes have between being asked to end and being
	// killed.
	grace = 500 * time.Millisecond
	// drain is how long the output of a dead process is awaited, in case a
	// child that escaped holds it open.
	drain = time.Second
	// maxReport bounds the report of a process.
	maxReport = 4 << 20
	// maxFirst bounds what is kept of messages at the start.
	maxFirst = 2 << 10
)

// program is what a warm process is started from.
type program struct {
	path    string
	args    []string
	dir     string
	environ []string
	more    sandbox.Widening // what it may do beyond the sandbox
}

// startWarm starts a warm process, in the sandbox if there is one: this is the
// only place where tools start programs. The process never inherits the
// environment of this one.
func startWarm(o Options, p program) (*warm, error) {
	var ends []*os.File
	pipe := func() (r, w *os.File, err error) {
		if r, w, err = os.Pipe(); err == nil {
			ends = append(ends, r, w)
		}
		return r, w, err
	}
	inR, inW, err1 := pipe()
	outR, outW, err2 := pipe()
	repR, repW, err3 := pipe()
	closeAll := func() {
		for _, f := range ends {
			f.Close()
		}
	}
	if err := errors.Join(err1, err2, err3); err != nil {
		closeAll()
		return nil, err
	}
	cmd := &exec.Cmd{Path: p.path, Args: append([]string{p.path}, p.args...), Dir: p.dir, Env: withDir(p.environ, p.dir), Stdin: inR, Stdout: outW, Stderr: repW}
	policy, fence, err := o.Sandbox.Hold(p.more, cmd)
	if err != nil {
		closeAll()
		return nil, err
	}
	fam, err := process.Start(cmd, "")
	if fence != nil {
		fence.Started()
	}
	if err != nil {
		if fence != nil {
			fence.Close()
		}
		closeAll()
		return nil, err
	}
	for _, f := range []*os.File{inR, outW, repW} {
		f.Close()
	}
	limit := o.OutputBytes
	w := &warm{cmd: cmd, family: fam, policy: policy, allowed: policy.Widen(p.more), fence: fence, in: inW, out: outR, report: repR, kept: newClip(limit), limit: limit,
		reports: make(chan []string, 1), told: make(chan struct{}), dead: make(chan struct{})}
	pumped := make(chan struct{})
	go func() { defer close(pumped); w.pump() }()
	go w.readReports()
	go w.reap(pumped)
	return w, nil
}

// withDir adds the variable that tells programs their folder. Its result is
// never empty, for which exec would pass on the environment of this process.
func withDir(environ []string, dir string) []string {
	return append(slices.Clip(environ), "PWD="+dir)
}

// reap waits for the end of the process, ends what it left behind, and reads
// the rest of its output.
func (w *warm) reap(pumped <-chan struct{}) {
	w.cmd.Wait()
	w.stop.Do(w.family.Kill) // waits for a kill that is in progress
	drained := make(chan struct{})
	go func() { <-pumped; <-w.told; close(drained) }()
	select {
	case <-drained:
	case <-time.After(drain):
	}
	if w.fence != nil {
		w.fence.Close()
	}
	w.in.Close()
	w.out.Close()
	w.report.Close()
	w.family.Release()
	close(w.dead)
}

// pump reads output as long as there is some.
func (w *warm) pump() {
	buf := make([]byte, 64<<10)
	for {
		n, err := w.out.Read(buf)
		if n > 0 {
			w.take(buf[:n])
		}
		if err != nil {
			w.mu.Lock()
			w.keep(w.held)
			w.held = nil
			w.mu.Unlock()
			return
		}
	}
}

// take splits output into what belongs to the running request, the mark of
// its end, and what came after.
func (w *warm) take(b []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.held) > 0 {
		b = append(w.held, b...)
		w.held = nil
	}
	if w.mark == nil {
		w.keep(b)
		return
	}
	if before, rest, found := bytes.Cut(b, w.mark); found {
		w.keep(before)
		w.mark, w.live = nil, nil
		w.held = bytes.Clone(rest) // belongs to the next request
		close(w.marked)
		return
	}
	// Only a part of the mark may have come. It has a NUL only at both ends.
	for i := max(0, len(b)-len(w.mark)+1); i < len(b); i++ {
		if bytes.HasPrefix(w.mark, b[i:]) {
			w.held = bytes.Clone(b[i:])
			b = b[:i]
			break
		}
	}
	w.keep(b)
}

func (w *warm) keep(b []byte) {
	if len(b) == 0 {
		return
	}
	if w.live != nil {
		w.live(b)
	}
	w.kept.Write(b)
}

// readReports reads reports until the process is dead.
func (w *warm) readReports() {
	defer close(w.told)
	r := bufio.NewReader(w.report)
	for {
		fields, err := readReport(r, func(b []byte) {
			w.first = append(w.first, b[:min(len(b), maxFirst-len(w.first))]...)
		})
		if errors.Is(err, errEndless) {
			w.end()
		}
		if err != nil {
			return
		}
		select {
		case w.reports <- fields:
		case <-w.dead:
			return
		}
	}
}

var errEndless = errors.New("the report does not end")

// readReport passes what precedes a report to before, such as messages of an
// interpreter about its start.
func readReport(r *bufio.Reader, before func([]byte)) (fields []string, err error) {
	for err = bufio.ErrBufferFull; errors.Is(err, bufio.ErrBufferFull); {
		var b []byte
		b, err = r.ReadSlice(0)
		before(b)
	}
	if err != nil {
		return nil, err
	}
	size := 0
	for {
		f, err := r.ReadString(0)
		if err != nil {
			return nil, err
		}
		if size += len(f); size > maxReport {
			return nil, errEndless
		}
		if f == "\x00" {
			return fields, nil
		}
		fields = append(fields, f[:len(f)-1])
	}
}

// outcome is how a request ended.
type outcome struct {
	text      string
	truncated bool
	report    []string // nil when the process did not survive the request
	timedOut  bool
	state     *os.ProcessState // set when the process ended
	// notStarted says why the process could not start in its sandbox.
	notStarted string
}

// run sends one request and waits for its end. The request is built around a
// mark. A request that does not end in time, or whose ctx ends, ends the
// process and all of its children; the error is that of ctx.
func (w *warm) run(ctx context.Context, request func(mark string) string, timeout time.Duration, live func([]byte)) (outcome, error) {
	mark := rand.Text()
	marked := make(chan struct{})
	w.mu.Lock()
	w.mark, w.marked = []byte("\x00"+mark+"\x00"), marked
	w.live = bounded(live, w.limit)
	if text, _ := w.kept.text(); w.live != nil && text != "" {
		w.live([]byte(text)) // came before anybody asked: of a quick process, all there is
	}
	early := w.held
	w.held = nil
	w.mu.Unlock()
	w.take(early)
	// A process that does not read must not block this one.
	text := request(mark)
	go func() {
		io.WriteString(w.in, text)
		if w.once {
			w.in.Close()
		}
	}()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	var o outcome
	var err error
	var report []string
	for report == nil || marked != nil {
		select {
		case fields := <-w.reports:
			if len(fields) > 0 && fields[0] == mark {
				report = fields[1:]
			}
			continue
		case <-marked:
			marked = nil
			continue
		case <-w.dead:
		case <-timer.C:
			o.timedOut = true
			w.kill()
		case <-ctx.Done():
			err = ctx.Err()
			w.kill()
		}
		report, o.state, o.notStarted = nil, w.cmd.ProcessState, w.notStarted()
		break
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	o.text, o.truncated = w.kept.text()
	o.report = report
	w.kept, w.mark, w.live = newClip(w.limit), nil, nil
	return o, err
}

// bounded stops passing output to live after limit bytes.
func bounded(live func([]byte), limit int) func([]byte) {
	if live == nil {
		return nil
	}
	return func(b []byte) {
		b = b[:min(len(b), limit)]
		limit -= len(b)
		if len(b) > 0 {
			live(b)
		}
	}
}

// notStarted returns why a dead process could not start in its sandbox, "" when
// it did start.
func (w *warm) notStarted() string {
	if w.fence == nil || w.cmd.ProcessState.ExitCode() != stageFailed {
		return ""
	}
	select {
	case <-w.told:
		return valid(strings.TrimPrefix(strings.TrimSpace(string(w.first)), "tidemark: "))
	default:
		return ""
	}
}

// stageFailed is the exit code of a sandbox that could not start its command.
const stageFailed = 126

// alive reports whether the process is still running.
func (w *warm) alive() bool {
	select {
	case <-w.dead:
		return false
	default:
		return true
	}
}

// kill ends the process with all of its children, and returns when they are
// gone.
func (w *warm) kill() {
	w.end()
	<-w.dead
}

func (w *warm) end() { w.stop.Do(func() { w.family.Stop(grace) }) }

// lookUp finds a program in the PATH of an environment, and returns "" when
// there is none. Relative folders are skipped, since the result must not depend
// on the directory of this process. So are folders that the sandbox does not
// see.
func lookUp(environ []string, name string, sees func(string) bool) string {
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	path, _ := getenv(environ, "PATH")
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, name)
		info, err := os.Stat(file)
		if err != nil || !filepath.IsAbs(dir) || !info.Mode().IsRegular() || !sees(file) {
			continue
		}
		if runtime.GOOS == "windows" || info.Mode()&0o111 != 0 {
			return file
		}
	}
	return ""
}

// getenv returns the last value of a variable, which is the one that programs
// see.
func getenv(environ []string, name string) (string, bool) {
	for i := len(environ) - 1; i >= 0; i-- {
		k, v, ok := strings.Cut(environ[i], "=")
		if ok && (k == name || runtime.GOOS == "windows" && strings.EqualFold(k, name)) {
			return v, true
		}
	}
	return "", false
}
