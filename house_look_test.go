package tidemark_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// room is one package: its path below the module, "." for the root, and its
// files for all platforms, those of its tests apart.
type room struct {
	path, name string
	fset       *token.FileSet
	files      []*ast.File
	tests      []*ast.File
}

// at says where something is: the file in its room, the line and the column.
func (r room) at(n ast.Node) string {
	p := r.fset.Position(n.Pos())
	p.Filename = filepath.Base(p.Filename)
	return p.String()
}

func load(t *testing.T) []room {
	t.Helper()
	var rooms []room
	dec := json.NewDecoder(strings.NewReader(goList(t, "-e", "-find", "-json=Dir,ImportPath,Name", "./...")))
	for {
		var p struct{ Dir, ImportPath, Name string }
		err := dec.Decode(&p)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		rooms = append(rooms, parse(t, p.Dir, p.ImportPath, p.Name))
	}
	if len(rooms) < 2 {
		t.Fatalf("go list found %d packages", len(rooms))
	}
	return rooms
}

// parse reads every Go file of a room, so that the rules hold for platforms
// other than the one that runs the test, too.
func parse(t *testing.T, dir, importPath, name string) room {
	t.Helper()
	r := room{path: relative(importPath), name: name, fset: token.NewFileSet()}
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		f, err := parser.ParseFile(r.fset, n, nil, parser.ParseComments)
		switch {
		case err != nil:
			t.Fatal(err)
		case strings.HasSuffix(n, "_test.go"):
			r.tests = append(r.tests, f)
		default:
			r.files = append(r.files, f)
		}
	}
	return r
}

func goList(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		t.Fatalf("%s: %v\n%s", cmd, err, exit.Stderr)
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// relative returns the path of a package below the module, "." for the root
// and "" for a package from elsewhere.
func relative(importPath string) string {
	if importPath == module {
		return "."
	}
	below, ok := strings.CutPrefix(importPath, module+"/")
	if !ok {
		return ""
	}
	return below
}

// imports returns the paths that files import, each once.
func imports(files []*ast.File) []string {
	seen := make(map[string]bool)
	for _, f := range files {
		for _, spec := range f.Imports {
			p, _ := strconv.Unquote(spec.Path.Value)
			seen[p] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}
