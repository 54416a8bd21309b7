// Package tool is what the built-in agent may do: run commands in a warm
// shell, run Python in a warm interpreter, read, write, edit and find files,
// fetch pages, and use tools that were defined while the session ran.
//
// A [Box] has the tools of one session. It decides nothing: its caller asks
// the user whether a call may run, and [Tool.Asks] says what to ask. It reads
// no environment, keeps nothing by itself and writes files only in the user's
// folders, through internal/durable, or in the session's durable storage,
// through [Files]. What a tool returns is data for the model and never an
// instruction.
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
	Network Effect = "network" // contacts other machines
)

// Tool is one thing that the agent may do.
type Tool struct {
	Name, Description string
	Schema            json.RawMessage // a JSON Schema of type object, the same bytes every time
	Effect            Effect
	// Scope names what an approval of this call covers when the user says "always": all
	// calls of this tool with an equal Scope. bash: the vetted forms of a command, else
	// exactly this command; python: the code; files: the folder; fetch: the host; a defined
	// tool: its command. It is "" where there is nothing to distinguish, and for reading
	// the workspace or the session's own storage. It is never nil, and accepts any input.
	Scope func(input json.RawMessage) string
	// Command is what a defined tool runs, to be shown for approval.
	Command string
	// Widens returns what a call needs beyond the sandbox that programs run
	// in; nil for tools that start none. A person decides about it each time,
	// and WithSeen tells Run the decision.
	Widens func(input json.RawMessage) sandbox.Widening
	// EachTime returns why a call needs approval each time, whatever was
	// approved before; "" when it does not. Nil: it never does.
	EachTime func(input json.RawMessage) string
	// Change returns what a call would do to a file, so that it can be shown
	// and the approval be bound to it; nil for tools that change no file
	// themselves. An error says why there is nothing to show.
	Change func(ctx context.Context, input json.RawMessage) (Change, error)
	// Run runs the call. Invalid input and failures of the tool are a Result
	// with IsError that tells the model what to do about it. An error is
	// returned when ctx ended, with the output so far, or when the Box itself
	// cannot continue.
	Run func(ctx context.Context, input json.RawMessage) (Result, error)
}

// Asks reports whether a call needs the user's approval, and its scope. Only
// reading inside the workspace and inside the session's own storage needs
// none; reading elsewhere has the folder as its scope.
func (t Tool) Asks(input json.RawMessage) (scope string, ask bool) {
	scope = t.Scope(input)
	return scope, t.Effect != Reads || scope != ""
}

// Result is what the model gets from a call.
type Result struct {
	Text      string           // valid UTF-8, at most about Options.OutputBytes
	IsError   bool             // it did not do what the call asked for
	Truncated bool             // Text is incomplete, and says so
	Blocks    []tidemark.Block // images, in addition to Text
	// Refused is what the sandbox denied to a program, in a sentence that Text
	// also contains.
	Refused string
}

// Options are the settings of a Box. Only Root is required.
type Options struct {
	// Root is the workspace: the absolute path of an existing folder.
	Root string
	// Start is the folder in Root that the shell and the interpreter start in;
	// default Root.
	Start string
	// AskToLook means that Root is no project but, for example, a home
	// folder: reading in it needs approval, as it does outside of a project.
	AskToLook bool
	// Environ is the environment of everything that the tools start, in the
	// form of os.Environ. The caller leaves out what the agent should not see,
	// such as the keys of models. PATH and HOME in it are used to find
	// programs and to resolve ~/.
	Environ []string
	// Sandbox confines everything that the tools start; nil: nothing is
	// confined.
	Sandbox *Sandbox
	// Unfenced says why programs that should be in a sandbox are in none: then
	// each call that starts one needs approval. "": they are, or need not be.
	Unfenced string
	// Hidden are absolute paths of files and folders that no tool opens: keys,
	// the store.
	Hidden []string
	// State is the state of an earlier Box of the same session.
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
	// Timeout applies to commands that name none, default 2 minutes;
	// MostTimeout is the longest that a call may ask for, default 10
	// minutes.
	Timeout, MostTimeout time.Duration
	// PrivateNetwork lets fetch connect to addresses that only this machine or
	// its own network can reach. It is off by default: a page that the agent
	// reads can talk it into such a request, and routers, databases and the
	// credentials of cloud machines are behind such addresses.
	PrivateNetwork bool
	// Output receives what commands print while they run: bytes as they come,
	// at most OutputBytes per call. It is called from several goroutines, but
	// never concurrently for one call.
	Output func(tool string, chunk []byte)
}

// Defaults of Options.
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
	python    *python // nil if there is no python3

	mu      sync.Mutex
	defined []Definition
	running []*warm // defined tools that are running
	closed  bool
}

// New returns the tools of a session. It starts nothing: the shell and the
// interpreter start with their first call. The caller closes it. A Root
// that is not an absolute path is ErrInvalid.
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
		o.Shell = o.Sandbox.LookUp(o.Environ, "bash")
	}
	if o.Python == "" {
		o.Python = o.Sandbox.LookUp(o.Environ, "python3")
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
// built-in ones, then the defined ones in the order of their
// definition.
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

// Find returns the tool with a name, nil when there is none.
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

// State returns what a checkpoint keeps: the shell's directory and what
// the session changed in its environment, as of the last command that
// ended.
func (b *Box) State() State { return b.shell.current() }

// Reset ends the shell, the interpreter and defined tools with all that they started,
// and switches to a state: nothing of one session is left when the next begins.
// Reset(b.State()) only restarts them.
func (b *Box) Reset(s State) {
	b.shell.reset(s)
	b.endDefined()
	if b.python != nil {
		b.python.end()
	}
}

// Close ends everything that the tools started. State still works afterwards.
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
