package tidemark_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
)

// matches reports whether a room is, or with /... lies in, what a pattern
// names.
func matches(pattern, room string) bool {
	top, below := strings.CutSuffix(pattern, "/...")
	return room == top || below && strings.HasPrefix(room, top+"/")
}

// floorOf returns the floor of a room, "" when the plan does not name it. The
// workshop has what no other floor claims.
func floorOf(room string) string {
	for _, floor := range []string{"ground", "craft", "work", "doors", "roof", "workshop"} {
		for _, pattern := range floors[floor] {
			if matches(pattern, room) {
				return floor
			}
		}
	}
	return ""
}

func onlyIf(broken bool, what string) []string {
	if !broken {
		return nil
	}
	return []string{what}
}

// forTests says that a room is there for the tests of others.
func (r room) forTests() bool {
	return r.path == "backend/backendtest" || r.path == "model/modeltest" || r.path == "model/standin" || r.path == "server/auth/authtest" || floorOf(r.path) == "workshop"
}

func groundIsPure(r room) (broken []string) {
	if r.path != "." {
		return nil
	}
	for _, p := range imports(r.files) {
		if first, _, _ := strings.Cut(p, "/"); strings.Contains(first, ".") {
			broken = append(broken, "imports "+p+", which is not in the standard library")
		}
		for _, o := range outside {
			if p == o || strings.HasPrefix(p, o+"/") {
				broken = append(broken, "imports "+p+", which does I/O")
			}
		}
	}
	return broken
}

func importsPointDown(r room) (broken []string) {
	below := map[string][]string{
		"ground":   {},
		"craft":    {"ground"},
		"work":     {"ground", "craft"},
		"doors":    {"ground", "craft", "work"},
		"roof":     {"ground", "craft", "work", "doors"},
		"workshop": {"ground", "craft", "work", "doors", "roof"},
	}
	from := floorOf(r.path)
	for _, p := range imports(r.files) {
		to := relative(p)
		if to == "" || slices.Contains(below[from], floorOf(to)) {
			continue
		}
		// Ground rooms other than the words themselves may use the words.
		if from == "ground" && to == "." {
			continue
		}
		if !knows(r.path, to) {
			broken = append(broken, fmt.Sprintf("on floor %q imports %s on floor %q", from, to, floorOf(to)))
		}
	}
	return broken
}

func knows(from, to string) bool {
	for _, n := range neighbours {
		if matches(n.from, from) && matches(n.to, to) {
			return true
		}
	}
	return false
}

func tenantsStayHome(r room) (broken []string) {
	for _, p := range imports(r.files) {
		for tenant, home := range tenants {
			if strings.HasPrefix(p, tenant) && !slices.ContainsFunc(strings.Fields(home), func(h string) bool { return matches(h, r.path) }) && !r.forTests() {
				broken = append(broken, "imports "+p+", which lives in "+home)
			}
		}
	}
	return broken
}

// uses returns where a room uses what names lists, by import path.
func (r room) uses(names map[string][]string) (found []string) {
	for _, f := range r.files {
		local := make(map[string]string) // import path by the name it has in this file
		for _, spec := range f.Imports {
			p, _ := strconv.Unquote(spec.Path.Value)
			name := path.Base(p)
			if spec.Name != nil {
				name = spec.Name.Name
			}
			local[name] = p
		}
		ast.Inspect(f, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := sel.X.(*ast.Ident)
			if !ok || x.Obj != nil { // a variable that is called like a package
				return true
			}
			if p := local[x.Name]; slices.Contains(names[p], sel.Sel.Name) {
				found = append(found, fmt.Sprintf("%s: %s.%s", r.at(sel), p, sel.Sel.Name))
			}
			return true
		})
	}
	return found
}

// disksAreDurables also wants that a room which calls a method Sync, Rename or
// Flock has its files from durable: what it cannot open itself it cannot sync
// itself.
func disksAreDurables(r room) []string {
	if matches("internal/durable/...", r.path) || r.forTests() {
		return nil
	}
	broken := r.uses(diskCalls)
	if slices.Contains(imports(r.files), module+"/internal/durable") {
		return broken
	}
	for _, f := range r.files {
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			switch name, args := sel.Sel.Name, len(call.Args); {
			case name == "Sync" && args == 0, name == "Rename" && args == 2 && isBackend(r), name == "Flock", name == "Fdatasync":
				broken = append(broken, fmt.Sprintf("%s: calls %s without internal/durable", r.at(call), name))
			}
			return true
		})
	}
	return broken
}

// isBackend tells the rooms in which a Rename of two arguments means files;
// elsewhere it may be a session's.
func isBackend(r room) bool { return strings.HasPrefix(r.path, "backend/") }

func callersAreCmds(r room) []string {
	if floorOf(r.path) == "roof" || r.name == "main" && floorOf(r.path) == "workshop" || r.path == "backend/backendtest" || r.path == "workshop/pgtest" {
		return nil
	}
	return r.uses(callerWorld)
}

func modesAreNarrow(r room) (broken []string) {
	for _, f := range r.files {
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			for _, arg := range call.Args {
				lit, ok := arg.(*ast.BasicLit)
				if !ok || lit.Kind != token.INT || !strings.HasPrefix(lit.Value, "0") {
					continue
				}
				mode, err := strconv.ParseInt(lit.Value, 0, 64)
				if octal := !strings.ContainsAny(lit.Value, "xXbB"); err == nil && octal && mode <= 0o7777 && mode&0o700 != 0 && mode&0o077 != 0 {
					broken = append(broken, fmt.Sprintf("%s: mode %s", r.at(lit), lit.Value))
				}
			}
			return true
		})
	}
	return broken
}

func noInits(r room) (broken []string) {
	for _, f := range r.files {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				broken = append(broken, fmt.Sprintf("%s: an init function", r.at(fn)))
			}
		}
	}
	return broken
}

// nothingIsCompiled looks for expressions and templates that every start of the
// program would compile: those of variables of a room, outside every function.
func nothingIsCompiled(r room) (broken []string) {
	if r.forTests() {
		return nil
	}
	for _, f := range r.files {
		for _, d := range f.Decls {
			vars, ok := d.(*ast.GenDecl)
			if !ok || vars.Tok != token.VAR {
				continue
			}
			ast.Inspect(vars, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.FuncLit:
					return false
				case *ast.SelectorExpr:
					if in, ok := n.X.(*ast.Ident); ok && (in.Name == "regexp" || in.Name == "template") && strings.HasPrefix(n.Sel.Name, "Must") {
						broken = append(broken, fmt.Sprintf("%s: %s.%s for a variable of the room", r.at(n), in.Name, n.Sel.Name))
					}
				}
				return true
			})
		}
	}
	return broken
}

func oneComment(r room) []string {
	want := "Package " + r.name
	if r.name == "main" {
		want = "Command " + path.Base(r.path)
	}
	var comments []string
	for _, f := range r.files {
		if f.Doc != nil {
			comments = append(comments, f.Doc.Text())
		}
	}
	switch {
	case len(r.files) == 0:
		return nil // tests alone, as in a room of end-to-end tests
	case len(comments) != 1:
		return []string{fmt.Sprintf("has %d package comments", len(comments))}
	}
	rest, ok := strings.CutPrefix(comments[0], want)
	return onlyIf(!ok || strings.Trim(rest[:1], " \n,") != "", fmt.Sprintf("its package comment does not begin with %q", want))
}

func namesSaySomething(r room) []string {
	var broken []string
	for _, part := range strings.Split(r.path, "/") {
		broken = append(broken, onlyIf(slices.Contains(drawers, part), "is called "+part)...)
	}
	named := r.path == "." || r.name == "main" || r.name == path.Base(r.path)
	return append(broken, onlyIf(!named, "holds package "+r.name)...)
}

func plainTests(r room) (broken []string) {
	for _, p := range imports(append(slices.Clone(r.tests), r.files...)) {
		for _, framework := range []string{"github.com/stretchr/", "go.uber.org/mock", "github.com/golang/mock", "github.com/onsi/", "gotest.tools"} {
			if strings.HasPrefix(p, framework) {
				broken = append(broken, "imports "+p)
			}
		}
	}
	return broken
}

// commandsAreForPeople finds commands that nobody types, and copies of the app:
// both are made to call another command from inside the program.
func commandsAreForPeople(r room) (broken []string) {
	if floorOf(r.path) != "roof" {
		return nil
	}
	for _, f := range r.files {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CompositeLit:
				if sel, ok := n.Type.(*ast.SelectorExpr); ok && sel.Sel.Name == "Command" && isNamed(sel.X, "cobra") && !hasField(n, "Short") {
					broken = append(broken, fmt.Sprintf("%s: a command without a line of help", r.at(n)))
				}
			case *ast.AssignStmt:
				for _, right := range n.Rhs {
					if star, ok := right.(*ast.StarExpr); ok && isApp(star.X) {
						broken = append(broken, fmt.Sprintf("%s: copies the app", r.at(n)))
					}
				}
			}
			return true
		})
	}
	return broken
}

func isNamed(x ast.Expr, name string) bool {
	id, ok := x.(*ast.Ident)
	return ok && id.Name == name
}

func hasField(lit *ast.CompositeLit, name string) bool {
	return slices.ContainsFunc(lit.Elts, func(e ast.Expr) bool {
		kv, ok := e.(*ast.KeyValueExpr)
		if !ok {
			return false
		}
		return isNamed(kv.Key, name)
	})
}

// isApp tells what this room calls the app: a, or a field of that name.
func isApp(x ast.Expr) bool {
	sel, ok := x.(*ast.SelectorExpr)
	return isNamed(x, "a") || ok && sel.Sel.Name == "app"
}
