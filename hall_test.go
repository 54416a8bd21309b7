package tidemark_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The hall of bugs is a page that promises tests. Its own test holds it to
// that: whoever renames or removes one of them is told which bug it was for.

const (
	hallPage = "docs/hall-of-bugs.md"
	hallRows = 60
)

func TestEveryBugOfTheHallHasItsTest(t *testing.T) {
	page, err := os.ReadFile(hallPage)
	if err != nil {
		t.Fatal(err)
	}
	faults, rows := hallFaults(string(page))
	for _, f := range faults {
		t.Errorf("%s: %s", hallPage, f)
	}
	if rows < hallRows {
		t.Errorf("%s has %d rows, want at least %d", hallPage, rows, hallRows)
	}
}

func TestWhatIsWrongWithTheHallIsFound(t *testing.T) {
	const good = "| 1 | It broke. | a/b#1, CVE-2026-1 | It does not. | `store.TestTrashAndRestore`, `backend/sqlite.TestBackend/a record is found as it was put`, `cmd/tidemark: script/lock.txtar: SIGTERM: it lets go.` |"
	if faults, rows := hallFaults(good); len(faults) > 0 || rows != 1 {
		t.Errorf("a good page has %d rows and %q", rows, faults)
	}
	for want, page := range map[string]string{
		"no public reference":              "| 1 | It broke. | everywhere | It does not. | `store.TestTrashAndRestore` |",
		"row 2: a/b#1 is in row 1":         good + "\n| 2 | It broke again. | a/b#1 | It does not. | `store.TestTrashAndRestore` |",
		"row 2: says what row 1 says":      good + "\n| 2 | It broke. | a/b#2 | It does not. | `store.TestTrashAndRestore` |",
		"row 3: comes after 1":             good + "\n| 3 | It broke again. | a/b#2 | It does not. | `store.TestTrashAndRestore` |",
		"want 5 columns":                   "| 1 | It broke. | a/b#1 | It does not. |",
		"names no test":                    "| 1 | It broke. | a/b#1 | It does not. | one day |",
		"store has no TestNothing":         "| 1 | It broke. | a/b#1 | It does not. | `store.TestNothing` |",
		"nowhere has no TestTrash":         "| 1 | It broke. | a/b#1 | It does not. | `nowhere.TestTrash` |",
		"has no part \"no such part\"":     "| 1 | It broke. | a/b#1 | It does not. | `backend/sqlite.TestBackend/no such part` |",
		"script/nothing.txtar":             "| 1 | It broke. | a/b#1 | It does not. | `cmd/tidemark: script/nothing.txtar: x` |",
		"lock.txtar has no line \"never\"": "| 1 | It broke. | a/b#1 | It does not. | `cmd/tidemark: script/lock.txtar: never` |",
		"names no line of lock.txtar":      "| 1 | It broke. | a/b#1 | It does not. | `cmd/tidemark: script/lock.txtar` |",
	} {
		if faults, _ := hallFaults(page); !strings.Contains(strings.Join(faults, "\n"), want) {
			t.Errorf("%q is not found: %q", want, faults)
		}
	}
	for _, body := range []string{`t.Skip("later")`, "t.Helper()\n\tt.SkipNow()", `t.Skipf("%d", 1)`} {
		f, err := parser.ParseFile(token.NewFileSet(), "x_test.go", "package x\nfunc TestX(t *testing.T) {\n\t"+body+"\n}", 0)
		if err != nil {
			t.Fatal(err)
		}
		if !alwaysSkipped(f.Decls[0].(*ast.FuncDecl)) {
			t.Errorf("%q does not count as skipped", body)
		}
	}
	if !skipsAlways("exec true\nskip 'later'\n") || skipsAlways("[windows] skip 'no links'\n# skip\n") {
		t.Error("a script that is skipped is not told from one that is not")
	}
}

var (
	hallRow       = regexp.MustCompile(`(?m)^\| *(\d+) \|.*$`)
	hallReference = regexp.MustCompile(`^([\w.-]+/[\w.-]+#\d+|CVE-\d{4}-\d+)$`)
	hallTest      = regexp.MustCompile("`([^`]+)`")
)

// hallFaults returns what is wrong with a page, and how many rows it has.
func hallFaults(page string) (faults []string, rows int) {
	seen := make(map[string]int)
	tests := make(map[string]*testRoom)
	for _, m := range hallRow.FindAllStringSubmatch(page, -1) {
		n, _ := strconv.Atoi(m[1])
		fault := func(format string, args ...any) {
			faults = append(faults, fmt.Sprintf("row %d: ", n)+fmt.Sprintf(format, args...))
		}
		if rows++; n != rows {
			fault("comes after %d", rows-1)
		}
		columns := strings.Split(strings.Trim(m[0], "| "), " | ")
		if len(columns) != 5 {
			fault("%d columns, want 5 columns", len(columns))
			continue
		}
		if before, ok := seen[columns[1]]; ok {
			fault("says what row %d says", before)
		}
		seen[columns[1]] = n
		for _, reference := range strings.Split(columns[2], ", ") {
			if !hallReference.MatchString(reference) {
				fault("%q is no public reference", reference)
			}
			if before, ok := seen[reference]; ok {
				fault("%s is in row %d", reference, before)
			}
			seen[reference] = n
		}
		named := hallTest.FindAllStringSubmatch(columns[4], -1)
		if len(named) == 0 {
			fault("names no test")
		}
		for _, name := range named {
			if what := missing(name[1], tests); what != "" {
				fault("%s", what)
			}
		}
	}
	return faults, rows
}

// missing says what a name of a test leads to that is not there, or "".
func missing(name string, rooms map[string]*testRoom) string {
	if script, ok := strings.CutPrefix(name, "cmd/tidemark: script/"); ok {
		file, line, _ := strings.Cut(script, ": ")
		text, err := os.ReadFile(filepath.Join("cmd/tidemark/testdata/script", file))
		switch {
		case err != nil:
			return "there is no script/" + file
		case line == "":
			return "names no line of " + file
		case !strings.Contains(string(text), line):
			return fmt.Sprintf("%s has no line %q", file, line)
		case skipsAlways(string(text)):
			return file + " is always skipped"
		}
		return ""
	}
	room, test, _ := strings.Cut(name, ".")
	test, part, _ := strings.Cut(test, "/")
	if rooms[room] == nil {
		rooms[room] = testsOf(room)
	}
	f := rooms[room].tests[test]
	switch {
	case f == nil:
		return fmt.Sprintf("%s has no %s", room, test)
	case alwaysSkipped(f):
		return name + " is always skipped"
	case part != "" && !rooms[room].texts[part]:
		return fmt.Sprintf("%s has no part %q", room, part)
	}
	return ""
}

// testRoom is what the tests of a room are made of: functions by their names,
// and every text, since parts of a test are called by texts.
type testRoom struct {
	tests map[string]*ast.FuncDecl
	texts map[string]bool
}

func testsOf(room string) *testRoom {
	r := &testRoom{make(map[string]*ast.FuncDecl), make(map[string]bool)}
	if room == "tidemark" {
		room = "."
	}
	files, _ := filepath.Glob(filepath.Join(room, "*_test.go"))
	suite, _ := filepath.Glob("backend/backendtest/*.go") // every backend has its parts
	for _, name := range append(files, suite...) {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			continue // the compiler says so
		}
		for n := range ast.Preorder(f) {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv == nil && strings.HasPrefix(n.Name.Name, "Test") {
					r.tests[n.Name.Name] = n
				}
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
					r.texts[text] = true
				}
			}
		}
	}
	return r
}

// alwaysSkipped reports whether a test skips itself whatever happens.
func alwaysSkipped(f *ast.FuncDecl) bool {
	for _, s := range f.Body.List {
		e, ok := s.(*ast.ExprStmt)
		if !ok {
			continue
		}
		if call, ok := e.X.(*ast.CallExpr); ok {
			if s, ok := call.Fun.(*ast.SelectorExpr); ok && strings.HasPrefix(s.Sel.Name, "Skip") {
				return true
			}
		}
	}
	return false
}

// skipsAlways reports whether a script skips itself without a condition.
func skipsAlways(script string) bool {
	return regexp.MustCompile(`(?m)^skip\b`).MatchString(script)
}
