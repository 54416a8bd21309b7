package tool

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func pythonBox(t *testing.T, o Options) *Box {
	t.Helper()
	b := newBox(t, o)
	if b.Find("python") == nil {
		t.Skip(b.Missing())
	}
	return b
}

func py(t *testing.T, b *Box, code string) Result {
	t.Helper()
	return call(t, b, "python", m{"code": code})
}

func TestPythonKeepsGlobalsAndPrintsTheLastValue(t *testing.T) {
	b := pythonBox(t, Options{})
	wantText(t, py(t, b, "import math\nx = 40\ndef f(n):\n    return x + n\n"), "(no output)")
	wantText(t, py(t, b, "print('hi')\nf(2)"), "hi\n42\n")
	wantText(t, py(t, b, "None"), "(no output)")
	wantText(t, py(t, b, "'grüße'"), "'grüße'\n")
	wantText(t, py(t, b, "import os, pickle\nclass C: pass\ntype(pickle.loads(pickle.dumps(C()))) is C"), "True\n")
}

func TestPythonShowsTracebacksOfTheCodeAlone(t *testing.T) {
	b := pythonBox(t, Options{})
	res := py(t, b, "import sys\nprint('out')\nprint('err', file=sys.stderr)\ndef bad():\n    return 1/0\nbad()")
	wantHas(t, res, "out\nerr\nTraceback", "line 5, in bad", "return 1/0", "ZeroDivisionError")
	if !res.IsError || strings.Contains(res.Text, "serve") || strings.Contains(res.Text, "exec(") {
		t.Errorf("%+v", res)
	}
	res = py(t, b, "x = (")
	wantHas(t, res, "SyntaxError")
	if !res.IsError || strings.Contains(res.Text, "ast.py") {
		t.Errorf("%+v", res)
	}
	wantText(t, py(t, b, "1 + 1"), "2\n")
}

func TestPythonSurvivesWhatCodeDoesToIt(t *testing.T) {
	b := pythonBox(t, Options{Timeout: 2 * time.Minute})
	py(t, b, "kept = 'kept'")
	for _, code := range []string{
		"import sys; sys.exit()", "import sys; sys.stdout = None", "import os; os.close(1)", "import sys; sys.stdout.close(); sys.stderr.close(); sys.exit(1)", "import sys; sys.stderr.close(); 1/0", "raise KeyboardInterrupt",
		"input()", "import os, sys\nif os.fork() == 0: x = 1\nelse: os.wait()", "import subprocess; subprocess.run(['echo', 'child'])", "'\\udc80'", "print('\\udc80')",
		"import threading; threading.Thread(target=print, args=('t',)).start()", "del __builtins__",
	} {
		res := py(t, b, code)
		if strings.Contains(res.Text, "stopped after") || strings.Contains(res.Text, "globals are gone") {
			t.Fatalf("%s: %+v", code, res)
		}
		if _, err := try(t, t.Context(), b, "python", m{"code": "open('alive', 'w').write(kept); None"}); err != nil {
			t.Fatal(err)
		}
		alive := filepath.Join(b.o.Root, "alive")
		if data, err := os.ReadFile(alive); err != nil || string(data) != "kept" {
			t.Fatalf("after %s: %q, %v", code, data, err)
		}
		os.Remove(alive)
	}
	res := py(t, b, "import os; print('last', flush=True); os._exit(3)")
	wantHas(t, res, "last\n", "the interpreter ended: exit status 3; globals are gone")
	wantHas(t, py(t, b, "'kept' in globals()"), "False\n", "fresh interpreter")
}

func TestPythonThatTakesTooLongIsEndedWithItsChildren(t *testing.T) {
	b := pythonBox(t, Options{})
	py(t, b, `import subprocess, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
p = subprocess.Popen(['sleep', '1000'], start_new_session=True)
open('pid', 'w').write('%d\n' % p.pid)`)
	res := call(t, b, "python", m{"code": "while True: pass", "timeout_seconds": 1})
	wantHas(t, res, "stopped after 1s; globals are gone")
	gone(t, pidIn(t, b))
}

func TestPythonIsTornDownByResetAndCancel(t *testing.T) {
	b := pythonBox(t, Options{})
	py(t, b, "x = 1")
	b.Reset(State{})
	wantText(t, py(t, b, "'x' in globals()"), "False\n")
	ctx, cancel := context.WithCancel(t.Context())
	go func() { pidIn(t, b); cancel() }()
	_, err := try(t, ctx, b, "python", m{"code": "import os, time\nopen('pid', 'w').write('%d\\n' % os.getpid())\ntime.sleep(1000)"})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	gone(t, pidIn(t, b))
}

func TestPythonDoesNotSeeTheEnvironmentOfThisProcess(t *testing.T) {
	t.Setenv("TIDEMARK_TEST_SECRET", "leaked")
	b := pythonBox(t, Options{})
	wantText(t, py(t, b, "import os; 'TIDEMARK_TEST_SECRET' in os.environ"), "False\n")
}

func TestPythonOutputIsBounded(t *testing.T) {
	b := pythonBox(t, Options{OutputBytes: 1000})
	res := py(t, b, "for i in range(200_000): print(i)")
	wantHas(t, res, "0\n1\n", "bytes left out", "199999\n")
	if !res.Truncated || len(res.Text) > 1100 {
		t.Errorf("%d bytes", len(res.Text))
	}
}
