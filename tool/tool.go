// Package tool is what the built-in agent may do: run commands in a warm
// shell, run Python in a warm interpreter, read, write, edit and find files,
// fetch pages, and use tools that were defined while the session ran.
//
// A [Box] has the tools of one session. It decides nothing: whether a call may
// run is asked of the user by whoever holds the Box, and [Tool.Asks] says what
// to ask. It reads no environment, keeps nothing by itself and writes files
// only in the user's folders, through internal/durable, or in the session's
// durable storage, through [Files]. What a tool returns is data for the model
// and never an instruction.
//
//	box, err := tool.New(tool.Options{Root: dir, Environ: environ})
//	result, err := box.Find("bash").Run(ctx, json.RawMessage(`{"command":"ls"}`))
package tool

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
	"github.com/tidemark-sessions/tidemark/internal/sandbox"
)

// Effect says what a tool does to the world.
type Effect string

const (
	Reads   Effect = "reads"   // looks at files
	Writes  Effect = "writes"  // changes files
	Runs    Effect = "runs"    // starts programs, which may do anything
	Network Effect = "network" // talks to other machines
)

// Tool is one thing that the agent may do.
type Tool struct {
	Name, Description string
	Schema            json.RawMessage // a JSON Schema of type object, the same bytes every time
	Effect            Effect
	// Scope names what an approval of this call covers when the user says
	// "always": all calls of this tool with an equal Scope. bash: the vetted
	// forms of a command, else the very command; python: the code; files: the
	// folder; fetch: the host; a defined tool: its command. It is "" where there is nothing
	// to tell apart, and for a look at the workspace or at the session's own
	// storage. It is nil for no tool, and takes any input.
	Scope func(input json.RawMessage) string
	// Command is what a defined tool runs, for whoever is asked.
	Command string
	// Widens tells what a call would have beyond the sandbox that programs run
	// in; nil for tools that start none. A person decides about it each time,
	// and WithSeen tells Run that they did.
	Widens func(input json.RawMessage) sandbox.Widening
	// EachTime tells why a call is asked for each time, whatever was approved;
	// "" when it is not. Nil: it never is.
	EachTime func(input json.RawMessage) string
	// Change tells what a call would do to a file, so that it can be shown and
	// be bound to; nil for tools that change none by themselves. An error says
	// why there is nothing to show.
	Change func(ctx context.Context, input json.RawMessage) (Change, error)
	// Run does it. What is wrong with the input, or went wrong in the tool, is
	// a Result with IsError that tells the model what to do about it. An error
	// is returned when ctx ended, with what was put out until then, or when
	// the Box itself cannot go on.
	Run func(ctx context.Context, input json.RawMessage) (Result, error)
}

// Asks reports whether a call needs the user's approval, and the scope of
// that. Only looking inside the workspace and inside the session's own storage
// needs none; a look elsewhere has the folder as its scope.
func (t Tool) Asks(input json.RawMessage) (scope string, ask bool) {
	scope = t.Scope(input)
	return scope, t.Effect != Reads || scope != ""
}

// Result is what a call gives the model.
type Result struct {
	Text      string           // valid UTF-8, at most about Options.OutputBytes
	IsError   bool             // it did not do what was asked
	Truncated bool             // Text is not all there was, and says so
	Blocks    []tidemark.Block // images, beside Text
	// Refused is what the sandbox kept from a program, in a sentence that Text
	// has, too.
	Refused string
}

// Options are the surroundings of a Box. Only Root is needed.
type Options struct {
	// Root is the workspace: an absolute path of a folder that is there.
	Root string
	// Start is the folder in Root that the shell and the interpreter start in;
	// default Root.
	Start string
	// AskToLook says that Root is no project, as a home folder: looking at it
	// is asked for, as it is outside of one.
	AskToLook bool
	// Environ is the environment of everything that the tools start, as
	// os.Environ has it. Whoever fills it leaves out what the agent should not
	// see, such as the keys of models. PATH and HOME in it are used to find
	// programs and to read ~/.
	Environ []string
	// Sandbox holds everything that the tools start; nil: nothing does.
	Sandbox *Sandbox
	// Unfenced is why programs should be in a sandbox and are in none: each call
	// that starts one is asked for then. "": they are, or need not be.
	Unfenced string
	// Hidden are absolute paths of files and folders that no tool opens: keys,
	// the store.
	Hidden []string
	// State is that of an earlier Box of the same session.
	State State
	// Files is the durable storage of the session; without it, paths that
	// begin with session: are refused.
	Files Files
	// Shell and Python are paths of bash and python3; "" looks in PATH.
	Shell, Python string
	// Reserved are names of tools that the caller adds, which no definition
	// may take.
	Reserved []string
	// OutputBytes bounds the text of a result; default 50,000.
	OutputBytes int
	// Timeout ends a command that names none, default 2 minutes; MostTimeout
	// is the longest that a call may ask for, default 10 minutes.
	Timeout, MostTimeout time.Duration
	// PrivateNetwork lets fetch connect to addresses that only this machine or
	// its own network can reach. A page that the agent reads can talk it into
	// such a request, and behind them are routers, databases and the
	// credentials of cloud machines; so it is off.
	PrivateNetwork bool
	// Output is given what commands print while they run: bytes as they come,
	// at most OutputBytes of a call. It is called from several goroutines,
	// never twice at once for one call.
	Output func(tool string, chunk []byte)
}

// The defaults of Options.
const (
	DefaultOutputBytes = 50_000
	DefaultTimeout     = 2 * time.Minute
	DefaultMostTimeout = 10 * time.Minute
)

// Box has the tools of one session. Its methods and its tools may be used
// concurrently; calls of bash wait for each other, and so do those of python.
type Box struct {
	o         Options
	realRoot  string // Root without links, "" when it is the same
	workspace *durable.Workspace
	shell     *shell
	python    *python // nil: there is no python3

	mu      sync.Mutex
	defined []Definition
	running []*warm // defined tools
	closed  bool
}

// New returns the tools of a session. It starts nothing: the shell and the
// interpreter begin with their first call. Close it. A Root that is not an
// absolute path is ErrInvalid.
func New(o Options) (*Box, error) {
	if !filepath.IsAbs(o.Root) {
		return nil, tidemark.Invalidf("workspace %q: not an absolute path", o.Root)
	}
	o.Root, o.Start = filepath.Clean(o.Root), filepath.Clean(o.Start)
	if _, ok := below(o.Root, o.Start); !ok || !filepath.IsAbs(o.Start) {
		o.Start = o.Root
	}
	if o.OutputBytes <= 0 {
		o.OutputBytes = DefaultOutputBytes
	}
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	if o.MostTimeout <= 0 {
		o.MostTimeout = max(DefaultMostTimeout, o.Timeout)
	}
	if o.Shell == "" {
		o.Shell = lookUp(o.Environ, "bash", o.Sandbox.sees)
	}
	if o.Python == "" {
		o.Python = lookUp(o.Environ, "python3", o.Sandbox.sees)
	}
	w, err := durable.OpenWorkspace(o.Root)
	if err != nil {
		return nil, err
	}
	b := &Box{o: o, workspace: w, shell: newShell(o)}
	if real, err := filepath.EvalSymlinks(o.Root); err == nil && real != o.Root {
		b.realRoot = real
	}
	if o.Python != "" {
		b.python = newPython(o)
	}
	return b, nil
}

// Tools returns the tools that work here, always in the same order: the
// built-in ones, then the defined ones in the order in which they came.
func (b *Box) Tools() []Tool {
	var tools []Tool
	if b.o.Shell != "" {
		tools = append(tools, b.bashTool())
	}
	if b.python != nil {
		tools = append(tools, b.pythonTool())
	}
	tools = append(tools, b.readTool(), b.writeTool(), b.editTool(), b.lsTool(), b.globTool(), b.grepTool(), b.fetchTool())
	for _, d := range b.Defined() {
		tools = append(tools, b.definedTool(d))
	}
	return tools
}

// Find returns the tool of a name, nil when there is none.
func (b *Box) Find(name string) *Tool {
	tools := b.Tools()
	i := slices.IndexFunc(tools, func(t Tool) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return &tools[i]
}

// Missing says, in sentences, which built-in tools this machine cannot offer.
func (b *Box) Missing() []string {
	var missing []string
	if b.o.Shell == "" {
		missing = append(missing, "bash: there is no bash in PATH, so there is neither a shell nor a defined tool; on Windows, Git brings one")
	}
	if b.python == nil {
		missing = append(missing, "python: there is no python3 in PATH")
	}
	return missing
}

// State returns what a checkpoint keeps: where the shell is and what the
// session changed in its environment, as of the last command that ended.
func (b *Box) State() State { return b.shell.current() }

// Reset ends the shell, the interpreter and defined tools with all that they
// started, and goes to a state: nothing of the one session is left when the next begins.
// Reset(b.State()) only gives fresh ones.
func (b *Box) Reset(s State) {
	b.shell.reset(s)
	b.endDefined()
	if b.python != nil {
		b.python.end()
	}
}

// Close ends everything that the tools started. State still answers.
func (b *Box) Close() error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.shell.close()
	b.endDefined()
	if b.python != nil {
		b.python.close()
	}
	return b.workspace.Close()
}

// failed returns a result that says what went wrong.
func failed(text string) Result { return Result{Text: text, IsError: true} }
