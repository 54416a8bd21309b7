package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark/internal/sandbox"
)

// python is the long-running interpreter of a session. Like the shell it
// starts with the first call and again after it ended, but nothing of it is
// kept.
type python struct {
	o    Options
	turn chan struct{}

	mu     sync.Mutex
	warm   *warm
	beside *warm // interpreter for one call that may do more than the others
	closed bool
	begun  bool // an interpreter was started before
}

func newPython(o Options) *python { return &python{o: o, turn: make(chan struct{}, 1)} }

// end ends the interpreter with all its globals.
func (p *python) end() {
	p.mu.Lock()
	both := []*warm{p.warm, p.beside}
	p.warm, p.beside, p.begun = nil, nil, false
	p.mu.Unlock()
	for _, w := range both {
		if w != nil {
			w.kill()
		}
	}
}

func (p *python) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.end()
}

// ensure returns a living interpreter, and whether it replaced one that
// ended.
func (p *python) ensure() (w *warm, again bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, false, errClosed
	}
	if p.warm != nil && p.warm.alive() {
		if !p.o.Sandbox.outOfDate(p.warm) {
			return p.warm, false, nil
		}
		p.warm.kill()
	}
	if w, err = p.start(sandbox.Widening{}); err != nil {
		return nil, false, err
	}
	again = p.begun
	p.warm, p.begun = w, true
	return w, again, nil
}

// alone returns an interpreter for one call that may do more than the sandbox
// allows. The caller kills it.
func (p *python) alone(more sandbox.Widening) (w *warm, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed
	}
	p.beside, err = p.start(more)
	return p.beside, err
}

func (p *python) start(more sandbox.Widening) (*warm, error) {
	dir, _ := p.o.folder(p.o.Start)
	return startWarm(p.o, program{path: p.o.Python, args: []string{"-c", pythonDriver}, dir: dir, environ: p.o.Environ, more: more})
}

// pythonDriver runs one cell after another in the module __main__. It keeps
// its own copies of what cells can take away from it: the output, the streams
// of sys, and its process id, since a cell may fork.
const pythonDriver = `
import ast, builtins, json, linecache, os, sys, traceback, types
def serve():
    requests, reports, output = os.fdopen(os.dup(0), 'rb'), os.dup(2), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    me = os.getpid()
    def stream(fd, old):
        os.dup2(output, fd)
        if old is None or old.closed:
            return open(fd, 'w', 1, encoding='utf-8', errors='backslashreplace', closefd=False)
        return old
    out, err = stream(1, None), stream(2, None)
    sys.stdout, sys.stderr = out, err
    main = types.ModuleType('__main__')
    main.__builtins__ = builtins
    sys.modules['__main__'] = main
    def send(fd, data):
        while data:
            data = data[os.write(fd, data):]
    def cell(name, code):
        tree, last = ast.parse(code, name), None
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            last = ast.Expression(tree.body.pop().value)
        exec(compile(tree, name, 'exec'), main.__dict__)
        if last is not None:
            value = eval(compile(last, name, 'eval'), main.__dict__)
            if value is not None:
                print(repr(value))
    count = 0
    for line in requests:
        request = json.loads(line)
        code, mark, count, status, said = request['code'], request['mark'].encode(), count + 1, b'ok', ''
        name = '<cell %d>' % count
        linecache.cache[name] = (len(code), None, code.splitlines(True), name)
        try:
            cell(name, code)
        except SystemExit as e:
            said = 'SystemExit: %s\n' % (e.code,)
            status = b'ok' if e.code in (None, 0) else b'error'
        except BaseException as e:
            own = e.__traceback__
            while own is not None and not own.tb_frame.f_code.co_filename.startswith('<cell '):
                own = own.tb_next
            said, status = ''.join(traceback.format_exception(type(e), e, own)), b'error'
        if os.getpid() != me:
            os._exit(0)
        for s in (sys.stdout, sys.stderr, out, err):
            try:
                s.flush()
            except Exception:
                pass
        out, err = stream(1, out), stream(2, err)
        sys.stdout, sys.stderr = out, err
        err.write(said)
        err.flush()
        send(output, b'\0' + mark + b'\0')
        send(reports, b'\0' + mark + b'\0' + status + b'\0\0')
serve()
`

type pythonArguments struct {
	Code    string  `json:"code" say:"Python 3 code; the value of a last expression is printed" need:"yes"`
	Timeout int     `json:"timeout_seconds" say:"after how many seconds to give up; without it, and at most, what this installation allows"`
	Sandbox request `json:"sandbox"`
}

func (b *Box) pythonTool() Tool {
	return Tool{
		Name: "python",
		Description: "Runs Python 3 code in the interpreter of this session, in the root of the workspace. Globals stay from call to call while the interpreter lives; " +
			"they are lost when the session is resumed later, when code takes too long, and when the process ends. What has to last, write to a file. The value of a last expression is printed. There is nothing on stdin. " +
			sandboxed,
		Schema: schemaOf(pythonArguments{}),
		Effect: Runs,
		// Code is approved exactly as it was shown: an approval of Python as
		// such would cover everything.
		Scope: func(input json.RawMessage) string {
			var a pythonArguments
			if readArgs(input, &a) != nil {
				return exactPrefix
			}
			return ExactScope(a.Code)
		},
		Widens:   func(input json.RawMessage) sandbox.Widening { return b.widening(requestIn(input)) },
		EachTime: b.unfenced,
		Run: func(ctx context.Context, input json.RawMessage) (Result, error) {
			var a pythonArguments
			if err := readArgs(input, &a); err != nil {
				return failed(err.Error()), nil
			}
			if strings.TrimSpace(a.Code) == "" {
				return failed("the code is empty"), nil
			}
			more, err := b.widened(ctx, a.Sandbox)
			if err != nil {
				return failed(err.Error()), nil
			}
			return b.python.run(ctx, a.Code, b.timeout(a.Timeout), b.live("python"), more)
		},
	}
}

// run runs a cell. One that may do more than the sandbox allows gets
// an interpreter of its own.
func (p *python) run(ctx context.Context, code string, timeout time.Duration, live func([]byte), more sandbox.Widening) (Result, error) {
	release, err := take(ctx, p.turn)
	if err != nil {
		return failed("stopped before it began"), err
	}
	defer release()
	var w *warm
	var again bool
	var notes []string
	if more.Empty() {
		w, again, err = p.ensure()
	} else if w, err = p.alone(more); err == nil {
		defer w.kill()
		notes = append(notes, "this ran in an interpreter of its own; its globals are not kept")
	}
	switch {
	case errors.Is(err, errClosed):
		return failed(err.Error()), err
	case err != nil:
		return failed("python3 cannot be started: " + err.Error()), nil
	}
	request := func(mark string) string {
		// Strings always encode, and JSON has no raw newline.
		line, _ := json.Marshal(map[string]string{"mark": mark, "code": code})
		return string(line) + "\n"
	}
	o, err := w.run(ctx, request, timeout, live)
	res := Result{Text: o.text, Truncated: o.truncated}
	if o.notStarted != "" {
		return failed("python3 cannot be started: " + o.notStarted), err
	}
	if again {
		notes = append(notes, "this was a fresh interpreter: earlier globals are gone")
	}
	switch {
	case err != nil:
		notes = append(notes, "stopped; globals are gone")
	case o.timedOut:
		notes = append(notes, fmt.Sprintf("stopped after %s; globals are gone", timeout))
	case o.report == nil:
		notes = append(notes, fmt.Sprintf("the interpreter ended: %s; globals are gone", o.state))
	}
	res.IsError = err != nil || o.report == nil || o.report[0] != "ok"
	return res.ended(w, notes, code), err
}
