package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark/internal/sandbox"
)

// State is what is kept of a shell: enough to start another one at the same
// place. It holds what the session changed and not what it was given, so that
// the user's environment is not stored with every session.
type State struct {
	Dir   string            `json:"dir,omitempty"`   // relative to the workspace, or absolute outside of it
	Set   map[string]string `json:"set,omitempty"`   // variables that were exported
	Unset []string          `json:"unset,omitempty"` // variables that were removed
}

// shell is the long-running bash of a session. It starts with the first
// command, and again with the next command after it has ended.
type shell struct {
	o    Options
	turn chan struct{} // holds a token while a command runs

	mu     sync.Mutex
	warm   *warm
	state  State
	at     string // its directory, "" before it began
	closed bool
}

func newShell(o Options) *shell {
	return &shell{o: o, turn: make(chan struct{}, 1), state: o.State.restorable()}
}

func (s State) copy() State {
	return State{s.Dir, maps.Clone(s.Set), slices.Clone(s.Unset)}
}

func (s *shell) current() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.copy()
}

func (s *shell) reset(state State) {
	s.mu.Lock()
	w := s.warm
	s.warm, s.state, s.at = nil, state.restorable(), ""
	s.mu.Unlock()
	if w != nil {
		w.kill()
	}
}

func (s *shell) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.reset(s.current())
}

var errClosed = errors.New("the tools of this session are closed")

// ensure returns a living shell, and notes about its start.
func (s *shell) ensure() (w *warm, notes []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, errClosed
	}
	if s.warm != nil && s.warm.alive() {
		if !s.o.Sandbox.outOfDate(s.warm) {
			return s.warm, nil, nil
		}
		s.warm.kill()
		notes = append(notes, "the sandbox changed: this is a fresh shell, with the same exported variables")
	}
	dir, moved := s.o.folder(s.place())
	if moved {
		s.state.Dir = ""
		notes = append(notes, "the folder of before is gone, or not in the sandbox; this ran in the root of the workspace")
	}
	w, err = startWarm(s.o, program{path: s.o.Shell, args: []string{"--noprofile", "--norc", "-s"}, dir: dir, environ: s.state.environ(s.o.Environ)})
	if err != nil {
		return nil, notes, err
	}
	s.warm, s.at = w, dir
	return w, notes, nil
}

// folder returns the folder that a program starts in: dir, or the root where
// dir is not a folder that the program can see.
func (o Options) folder(dir string) (at string, moved bool) {
	if info, err := os.Stat(dir); err == nil && info.IsDir() && o.Sandbox.sees(dir) {
		return dir, false
	}
	return o.Root, true
}

// place is the folder that the shell is in, or would start in.
func (s *shell) place() string {
	switch {
	case s.warm != nil && s.at != "":
		return s.at
	case s.state.Dir == "":
		return s.o.Start
	}
	return absolute(s.o.Root, s.state.Dir)
}

func (s *shell) surroundings() surroundings {
	s.mu.Lock()
	defer s.mu.Unlock()
	return surroundings{root: s.o.Root, dir: s.place(), fenced: s.o.Sandbox != nil}
}

func absolute(root, dir string) string {
	if filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(root, filepath.FromSlash(dir))
}

// environ returns base with the changes of s.
func (s State) environ(base []string) []string {
	env := make([]string, 0, len(base)+len(s.Set))
	for _, kv := range base {
		name, _, _ := strings.Cut(kv, "=")
		if _, set := s.Set[name]; !set && !slices.Contains(s.Unset, name) {
			env = append(env, kv)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Set)) {
		if isVariable(name) && !strings.Contains(s.Set[name], "\x00") {
			env = append(env, name+"="+s.Set[name])
		}
	}
	return env
}

// isVariable reports whether a shell can export a variable of this name.
func isVariable(name string) bool {
	for i := range len(name) {
		c := name[i]
		if !isLetter(c) && c != '_' && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// maxState bounds the exported variables that are kept, because every
// checkpoint contains them.
const maxState = 256 << 10

// own are variables that each shell sets for itself.
var own = []string{"PWD", "SHLVL", "_", "BASHOPTS", "SHELLOPTS"}

// stateOf builds a state from what a shell reported. It returns false when
// there is too much to keep.
func stateOf(root, dir string, vars, base []string) (State, bool) {
	s := State{Dir: dir}
	if rel, ok := below(root, dir); ok {
		if s.Dir = rel; rel == "." {
			s.Dir = ""
		}
	}
	now := make(map[string]string, len(vars))
	size := 0
	for _, kv := range vars {
		name, value, _ := strings.Cut(kv, "=")
		now[name] = value
		if was, there := getenv(base, name); isVariable(name) && !slices.Contains(own, name) && (!there || was != value) {
			if s.Set == nil {
				s.Set = make(map[string]string)
			}
			s.Set[name] = value
			size += len(kv)
		}
	}
	for _, kv := range base {
		name, _, _ := strings.Cut(kv, "=")
		if _, there := now[name]; !there && isVariable(name) && !slices.Contains(own, name) && !slices.Contains(s.Unset, name) {
			s.Unset = append(s.Unset, name)
		}
	}
	slices.Sort(s.Unset)
	return s.restorable(), size <= maxState
}

// bashSetup moves the output to descriptor 61 and the reports to 63, numbers
// that scripts do not use, and defines how a request ends. Nothing in it may
// fail under set -e or set -u, which requests may turn on.
const bashSetup = `exec 61>&1 63>&2 2>&1
__tidemark_done() {
local IFS=$'\n' __tidemark_name
builtin printf '\0%s\0' "$2" >&61
{
builtin printf '\0%s\0%s\0dir=%s\0' "$2" "$1" "${PWD-}"
for __tidemark_name in $(builtin compgen -e); do
case ${!__tidemark_name+x} in x) builtin printf '%s=%s\0' "$__tidemark_name" "${!__tidemark_name}" ;; esac
done
builtin printf '\0'
} >&63
}
`

// bashRequest is read whole by the shell before any of it runs, whatever the
// command looks like. The command does not see the descriptors above, and
// what it does to its stdin, stdout and stderr with exec lasts only until its
// end.
func bashRequest(command, mark string) string {
	quoted := "'" + strings.ReplaceAll(command, "'", `'\''`) + "'"
	return "builtin eval " + quoted + " </dev/null >&61 2>&1 61>&- 63>&-; __tidemark_done $? " + mark + " 2>/dev/null\n"
}

type bashArguments struct {
	Command string  `json:"command" say:"what to run" need:"yes"`
	Timeout int     `json:"timeout_seconds" say:"after how many seconds to give up; without it, and at most, what this installation allows"`
	Sandbox request `json:"sandbox"`
}

func (b *Box) bashTool() Tool {
	return Tool{
		Name: "bash",
		Description: "Runs a command in the bash of this session, which begins in the workspace. The working directory and exported variables stay from call to call and come back when the session is resumed; " +
			"functions, other variables and processes in the background last only as long as this shell does. There is no terminal and nothing on stdin. " +
			"A command that takes too long is ended together with everything that the shell started. Files are written where the command says, and nothing is copied to the session's durable storage. " +
			sandboxed,
		Schema: schemaOf(bashArguments{}),
		Effect: Runs,
		Scope: func(input json.RawMessage) string {
			var a bashArguments
			if readArgs(input, &a) != nil {
				return ""
			}
			return b.shell.surroundings().scopeIn(a.Command)
		},
		Widens:   func(input json.RawMessage) sandbox.Widening { return b.widening(requestIn(input)) },
		EachTime: b.unfenced,
		Run: func(ctx context.Context, input json.RawMessage) (Result, error) {
			var a bashArguments
			if err := readArgs(input, &a); err != nil {
				return failed(err.Error()), nil
			}
			switch {
			case strings.TrimSpace(a.Command) == "":
				return failed("the command is empty"), nil
			case strings.Contains(a.Command, "\x00"):
				return failed("the command has a NUL in it, which no shell can take"), nil
			}
			more, err := b.widened(ctx, a.Sandbox)
			if err != nil {
				return failed(err.Error()), nil
			}
			return b.runCommand(ctx, a.Command, b.timeout(a.Timeout), more)
		},
	}
}

// sandboxed is what a model has to know about the sandbox beforehand.
const sandboxed = "Programs may run in a sandbox: then files outside of the workspace are not there, other machines cannot be reached, and each of bash, python and other tools has a /tmp of its own."

// unfenced says why each program needs approval.
func (b *Box) unfenced(json.RawMessage) string { return b.o.Unfenced }

// runCommand runs a command in the shell of the session. A command of a vetted
// form gets a shell of its own: a function, an alias, a PATH or a variable left
// by an earlier command must not replace the program that was vetted. It
// changes nothing that the session's shell would have to know. A command that
// may do more than the sandbox allows also gets its own shell: what it leaves
// running, and what it knows, must not be available to the next one.
func (b *Box) runCommand(ctx context.Context, command string, timeout time.Duration, more sandbox.Widening) (Result, error) {
	s := b.shell.surroundings()
	if !stillScoped(ctx, s.scopeIn(command)) {
		return failed("not run: where the shell is, or what git would run there, changed after this was judged; call it again"), nil
	}
	vetted := s.vetted(command) != nil
	if !vetted && more.Empty() {
		return b.shell.run(ctx, command, timeout, b.live("bash"))
	}
	release, err := take(ctx, b.shell.turn)
	if err != nil {
		return failed("stopped before it began"), err
	}
	defer release()
	a := alone{name: "bash", command: command, dir: s.dir, environ: s.vettedEnviron(b.o.Environ), timeout: timeout, more: more}
	if !vetted {
		a.environ = b.State().environ(b.o.Environ)
		a.note = "this ran in a shell of its own; its folder and variables are not kept"
	}
	return b.runAlone(ctx, a)
}

// timeout returns how long a call that asks for this many seconds may take.
func (b *Box) timeout(seconds int) time.Duration {
	if seconds <= 0 {
		return b.o.Timeout
	}
	return min(time.Duration(seconds)*time.Second, b.o.MostTimeout)
}

func (b *Box) live(tool string) func([]byte) {
	if b.o.Output == nil {
		return nil
	}
	return func(chunk []byte) { b.o.Output(tool, chunk) }
}

// take waits for earlier calls to end.
func take(ctx context.Context, turn chan struct{}) (release func(), err error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *shell) run(ctx context.Context, command string, timeout time.Duration, live func([]byte)) (Result, error) {
	release, err := take(ctx, s.turn)
	if err != nil {
		return failed("stopped before it began"), err
	}
	defer release()
	w, notes, err := s.ensure()
	switch {
	case errors.Is(err, errClosed):
		return failed(err.Error()), err
	case err != nil:
		return failed("bash cannot be started: " + err.Error()), nil
	}
	request := func(mark string) string {
		setup := ""
		if !w.ready {
			setup = bashSetup
		}
		w.ready = true
		return setup + bashRequest(command, mark)
	}
	o, err := w.run(ctx, request, timeout, live)
	res := Result{Text: o.text, Truncated: o.truncated}
	if o.notStarted != "" {
		return failed("bash cannot be started: " + o.notStarted), err
	}
	switch {
	case err != nil:
		notes = append(notes, "stopped; the next command gets a fresh shell")
	case o.timedOut:
		notes = append(notes, fmt.Sprintf("stopped after %s with all that it started; the next command gets a fresh shell in the same folder, with the same exported variables", timeout))
	case o.report == nil:
		notes = append(notes, fmt.Sprintf("the shell ended: %s; the next command gets a fresh one, where it was before this command", o.state))
	default:
		notes = append(notes, s.note(w, o.report)...)
	}
	code := "0"
	if len(o.report) > 0 {
		code = o.report[0]
	}
	res.IsError = err != nil || o.timedOut || code != "0" || o.report == nil && o.state.ExitCode() != 0
	return res.ended(w, notes, command), err
}

// note stores the state that a shell reported, and returns notes about what
// changed.
func (s *shell) note(w *warm, report []string) (notes []string) {
	if report[0] != "0" {
		notes = append(notes, "exit code "+report[0])
	}
	if len(report) < 2 {
		return notes
	}
	root := s.o.Root
	dir := strings.TrimPrefix(report[1], "dir=")
	if real, err := filepath.EvalSymlinks(root); err == nil {
		if _, ok := below(root, dir); !ok {
			root = real
		}
	}
	state, fits := stateOf(root, dir, report[2:], s.o.Environ)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.warm != w {
		return notes // the shell was reset meanwhile
	}
	if !fits {
		notes = append(notes, "the exported variables are too large to be kept with the session")
		state.Set, state.Unset = s.state.Set, s.state.Unset
	}
	if state.Dir != s.state.Dir {
		notes = append(notes, "now in "+valid(dir))
	}
	s.state, s.at = state, dir
	return notes
}

// ended adds to a result how it ended: command is what w ran.
func (r Result) ended(w *warm, notes []string, command string) Result {
	if w.fence != nil && r.IsError {
		if r.Refused = refusal(w.allowed, command, r.Text); r.Refused != "" {
			notes = append(notes, r.Refused)
		}
	}
	r.Text = withNotes(r.Text, notes)
	return r
}

// withNotes appends notes about a run to its output.
func withNotes(text string, notes []string) string {
	if text == "" && len(notes) == 0 {
		return "(no output)"
	}
	for _, n := range notes {
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		text += "[" + n + "]\n"
	}
	return text
}
