package tidemark

import (
	"errors"
	"fmt"
	"go/ast"
	source "go/parser"
	"go/token"
	"io"
	"strings"
	"testing"
)

// sentinelNames reads the names of the sentinels from the source, so that one
// which is added without a row in Codes is noticed.
func sentinelNames(t *testing.T) []string {
	t.Helper()
	file, err := source.ParseFile(token.NewFileSet(), "errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.VAR {
			continue
		}
		for _, s := range g.Specs {
			v := s.(*ast.ValueSpec)
			for i, n := range v.Names {
				call, _ := v.Values[i].(*ast.CallExpr)
				if strings.HasPrefix(n.Name, "Err") && !isErrorf(call) {
					names = append(names, n.Name)
				}
			}
		}
	}
	return names
}

// isErrorf reports whether a finer kind is made, which has its sentinel's row.
func isErrorf(call *ast.CallExpr) bool {
	if call == nil {
		return false
	}
	name, ok := call.Fun.(*ast.Ident)
	return ok && name.Name == "Errorf"
}

// exits is the contract of the command line. What is not in it is exit 1.
var exits = map[string]struct {
	err  error
	exit int
}{
	"ErrInvalid":     {ErrInvalid, 2},
	"ErrDenied":      {ErrDenied, 4},
	"ErrNotFound":    {ErrNotFound, 5},
	"ErrNoStore":     {ErrNoStore, 10},
	"ErrHeld":        {ErrHeld, 11},
	"ErrSealed":      {ErrSealed, 12},
	"ErrCorrupt":     {ErrCorrupt, 13},
	"ErrStorage":     {ErrStorage, 14},
	"ErrExists":      {ErrExists, 1},
	"ErrConflict":    {ErrConflict, 1},
	"ErrUnsupported": {ErrUnsupported, 1},
	"ErrUnknown":     {ErrUnknown, 1},
}

func TestEverySentinelHasARowAndItsExitCode(t *testing.T) {
	names := sentinelNames(t)
	if len(names) != len(Codes) || len(names) != len(exits) {
		t.Errorf("%d sentinels, %d rows, %d exit codes: want one of each for each", len(names), len(Codes), len(exits))
	}
	for _, name := range names {
		want, ok := exits[name]
		if !ok {
			t.Errorf("%s has no exit code", name)
			continue
		}
		if got := CodeOf(fmt.Errorf("session 7f3a: %w", want.err)); got.Err != want.err || got.Exit != want.exit {
			t.Errorf("CodeOf(%s) = %+v, want exit %d", name, got, want.exit)
		}
	}
}

func TestRowsAreDistinctAndWellFormed(t *testing.T) {
	names, errs := make(map[string]bool), make(map[error]bool)
	for _, c := range Codes {
		if names[c.Name] || errs[c.Err] {
			t.Errorf("%s appears twice", c.Name)
		}
		names[c.Name], errs[c.Err] = true, true
		if c.Name == "" || strings.Trim(c.Name, "abcdefghijklmnopqrstuvwxyz_") != "" {
			t.Errorf("%q is not a snake_case name", c.Name)
		}
		if c.HTTP < 400 || c.HTTP > 599 {
			t.Errorf("%s: status %d is not an error's", c.Name, c.HTTP)
		}
		if c.Exit == 0 || c.Exit == 3 || c.Exit > 14 {
			t.Errorf("%s: exit %d means something else", c.Name, c.Exit)
		}
	}
	if names["failed"] {
		t.Error(`"failed" is the name of what has no row`)
	}
}

func TestAnErrorWithoutARowFailed(t *testing.T) {
	got := CodeOf(io.ErrUnexpectedEOF)
	if got.Err != io.ErrUnexpectedEOF || got.Name != "failed" || got.Exit != 1 || got.HTTP != 500 {
		t.Errorf("CodeOf = %+v, want failed, 1, 500", got)
	}
}

func TestDamageAnswersToErrCorruptAndSaysWhere(t *testing.T) {
	err := fmt.Errorf("reading: %w", &Damage{Key: Key{"log", "a"}, Seq: 12, Place: "a.ndjson:13", What: "sum does not match"})
	if !errors.Is(err, ErrCorrupt) || errors.Is(err, ErrInvalid) {
		t.Errorf("%v: want ErrCorrupt alone", err)
	}
	if got := CodeOf(err).Exit; got != 13 {
		t.Errorf("exit %d, want 13", got)
	}
	var d *Damage
	if !errors.As(err, &d) || d.Seq != 12 {
		t.Errorf("%v: the damage is lost", err)
	}
	for want, d := range map[string]*Damage{
		"log/a: line 12 (a.ndjson:13): damaged: sum does not match": {Key: Key{"log", "a"}, Seq: 12, Place: "a.ndjson:13", What: "sum does not match"},
		"session/b: damaged: not JSON":                              {Key: Key{"session", "b"}, What: "not JSON"},
	} {
		if d.Error() != want {
			t.Errorf("got %q, want %q", d.Error(), want)
		}
	}
}

func TestErrorsOfAKindKeepTheirSentenceAndTheirCause(t *testing.T) {
	for _, c := range []struct {
		make func(string, ...any) error
		want error
	}{{Invalidf, ErrInvalid}, {NotFoundf, ErrNotFound}, {Conflictf, ErrConflict}, {Storagef, ErrStorage}, {Unsupportedf, ErrUnsupported}} {
		err := c.make("session %s: %w", "7f3a", io.ErrUnexpectedEOF)
		if err.Error() != "session 7f3a: unexpected EOF" {
			t.Errorf("got %q", err)
		}
		if !errors.Is(err, c.want) || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%v: want %v and its cause", err, c.want)
		}
		for _, row := range Codes {
			if row.Err != c.want && errors.Is(err, row.Err) {
				t.Errorf("an error of %v answers to %v too", c.want, row.Err)
			}
		}
	}
}

func TestFinerKindsAnswerToTheirSentinelAndNotToEachOther(t *testing.T) {
	finer := map[error]error{ErrTrashed: ErrNotFound, ErrNoSessions: ErrNotFound, ErrOnHold: ErrDenied, ErrLocalOnly: ErrInvalid}
	for kind, sentinel := range finer {
		err := fmt.Errorf("reading: %w", Errorf(kind, "session x: %w", sentinel))
		if !errors.Is(err, kind) || CodeOf(err).Err != sentinel {
			t.Errorf("%v: has the row of %v, want %v", kind, CodeOf(err).Err, sentinel)
		}
		for other := range finer {
			if other != kind && errors.Is(err, other) {
				t.Errorf("%v answers to %v", kind, other)
			}
		}
	}
}
