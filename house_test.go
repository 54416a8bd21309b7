package tidemark_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The plan of the house is kept by a test: docs/ARCHITECTURE.md draws the
// floors, the rules below hold them. Rooms that the plan names and that are
// not built yet are no error; a room that the plan does not name is one, so
// that somebody decides on which floor it stands.

const module = "github.com/tidemark-sessions/tidemark"

// floors lists the rooms by floor. A name with /... stands for every room
// below it, too.
var floors = map[string][]string{
	"ground": {
		".", "internal/records", "internal/durable/...", "internal/process", "internal/sandbox", "internal/prices", "internal/yaml", "internal/text",
		"internal/hint",
	},
	"craft": {
		"store", "fleet/file", "fleet/due", "internal/tenant",
		"backend/...", "seal", "redact", "search", "archive", "compact", "convert/...", "render", "model/...", "tool", "api",
		"internal/grant", "internal/terminal", "internal/picker", "web",
	},
	"work":  {"chat", "agent/...", "runner", "fleet", "fleet/daemon", "dispatch"},
	"doors": {"open", "transfer", "server/...", "mcp", "acp"},
	"roof":  {"cmd/tidemark"},
	// Programs and helpers that prove things about the rest. They may use
	// everything, and nothing but tests may use them.
	"workshop": {"workshop/...", "scripts/...", "examples/..."},
}

// neighbours are the rooms of one floor that may know each other.
var neighbours = []struct{ from, to, reason string }{
	{"convert/...", "convert", "a foreign format fulfils the contract of convert"},
	{"model/...", "model", "a provider fulfils the contract of model"},
	{"backend/remote", "api", "client and server share the wire types"},
	{"backend/backendtest", "backend/memory", "memory is the model that the suite compares with"},
	{"server", "web", "the server serves the pages"},
	{"fleet", "runner", "a job runs its agent"},
	{"fleet/daemon", "runner", "a job runs its agent"},
	{"fleet/daemon", "fleet", "the daemon follows the rules of fleets"},
	{"runner", "agent", "the built-in agent is a conversation"},
	{"transfer", "open", "what is brought in or out lies in a store that somebody opens"},
	{"server/...", "server/...", "the rooms of the server are made for each other"},
	{"server/...", "transfer", "people bring sessions in and out over HTTP"},
	{"runner", "chat", "the built-in agent is a chat"},
	{"agent/...", "chat", "a conversation is a chat with all that it needs"},
	{"agent/...", "agent", "what people type in a conversation is over how it is assembled"},
	{"workshop/...", "workshop/...", "the workshop may use everything, itself too"},
	{"internal/sandbox", "internal/durable", "what a sandbox puts into its root is written like any other file"},
	{"internal/durable/...", "internal/durable", "its fake disk fulfils its contract"},
}

// tenants are modules that one room alone, or those named, has a reason to
// import.
var tenants = map[string]string{
	"github.com/spf13/":                "cmd/tidemark",
	"github.com/itchyny/gojq":          "cmd/tidemark",
	"go.yaml.in/yaml/":                 "internal/yaml",
	"github.com/goccy/go-yaml":         "tests",
	"golang.org/x/term":                "cmd/tidemark",
	"golang.org/x/text":                "search",
	"github.com/muesli/":               "internal/terminal",
	"mvdan.cc/sh/":                     "tool",
	"github.com/coder/acp":             "runner acp",
	"github.com/modelcontextprotocol/": "mcp",
	"github.com/netresearch/":          "fleet",
	// AgentZero derives the keys of its sessions as this house does.
	"golang.org/x/crypto/argon2":           "seal convert/agentzero",
	"golang.org/x/crypto/chacha20poly1305": "seal",
	"filippo.io/age":                       "seal",
	"github.com/klauspost/":                "archive",
	"github.com/yuin/goldmark":             "render",
	"charm.land/":                          "internal/picker",
	"github.com/charmbracelet/":            "internal/picker",
	"github.com/chromedp/":                 "tests",
	"github.com/creack/pty":                "tests",
	"github.com/hinshun/vt10x":             "tests",
	"modernc.org/":                         "backend/sqlite",
	"github.com/jackc/":                    "backend/postgres dispatch",
	"github.com/pressly/":                  "backend/postgres",
	"github.com/riverqueue/":               "dispatch",
	"github.com/danielgtaylor/":            "server",
	"github.com/coder/websocket":           "server",
	"github.com/coreos/":                   "server",
	"go.opentelemetry.io/":                 "server",
	"github.com/rogpeppe/":                 "tests",
	"github.com/google/go-cmp/":            "tests",
	"pgregory.net/rapid":                   "tests",
}

// outside is what the ground may not import, because it opens or writes
// something. crypto/rand is not among them: ids have to come from somewhere.
var outside = []string{"os", "net", "syscall", "unsafe", "plugin", "embed", "log", "testing", "flag",
	"io/fs", "io/ioutil", "path/filepath", "database/sql", "runtime/debug", "internal"}

// diskCalls change what is on disk or lock it.
var diskCalls = map[string][]string{
	"os": {"Rename", "Link", "Symlink", "Create", "CreateTemp", "OpenFile", "OpenRoot", "WriteFile", "Truncate",
		"Mkdir", "MkdirAll", "MkdirTemp", "Remove", "RemoveAll", "CopyFS"},
	"syscall": {"Flock", "Fsync", "Fdatasync", "FcntlFlock", "Rename", "Ftruncate", "FlushFileBuffers"},
	"golang.org/x/sys/unix": {"Flock", "Fsync", "Fdatasync", "FcntlFlock", "Rename", "Renameat", "Renameat2",
		"Ftruncate", "SyncFileRange", "Syncfs", "Sync"},
	"golang.org/x/sys/windows": {"LockFileEx", "UnlockFileEx", "MoveFileEx", "FlushFileBuffers"},
}

// callerWorld is what belongs to the person who called the program.
var callerWorld = map[string][]string{
	"os": {"Args", "Getenv", "LookupEnv", "Environ", "ExpandEnv", "Setenv", "Unsetenv", "Clearenv", "Exit",
		"Stdin", "Stdout", "Stderr", "Getwd", "Chdir", "UserHomeDir", "UserConfigDir", "UserCacheDir"},
	"syscall":   {"Getenv", "Exit", "Stdin", "Stdout", "Stderr"},
	"fmt":       {"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
	"log":       {"Print", "Printf", "Println", "Fatal", "Fatalf", "Fatalln"},
	"os/signal": {"Notify", "NotifyContext", "Ignore"},
}

// drawers are names that say nothing about what is inside.
var drawers = []string{"util", "utils", "common", "helper", "helpers", "types", "manager", "service", "impl", "misc", "base", "shared"}

// rule is one promise about the whole house. planted is a room, by its path,
// with a file that breaks the rule: a rule that cannot turn red watches
// nothing.
type rule struct {
	name, reason string
	broken       func(room) []string
	plantedAt    string
	planted      string
}

var rules = []rule{
	{
		name:      "every room has a floor",
		reason:    "a room that nobody placed is imported from everywhere within a month; name it in floors",
		broken:    func(r room) []string { return onlyIf(floorOf(r.path) == "", "stands on no floor") },
		plantedAt: "sessions",
		planted:   "// Package sessions is new.\npackage sessions",
	},
	{
		name:      "the ground needs the standard library alone and does no I/O",
		reason:    "whoever reads the words of the house should not have to trust a disk, a network or a third party",
		broken:    groundIsPure,
		plantedAt: ".",
		planted:   "// Package tidemark opens things.\npackage tidemark\nimport _ \"os\"",
	},
	{
		name:      "imports point down, and rooms of one floor do not know each other",
		reason:    "what a room needs from a sibling it takes as a function or a small interface that cmd fills; so each can be read, tested and replaced alone",
		broken:    importsPointDown,
		plantedAt: "render",
		planted:   "// Package render reads the store.\npackage render\nimport _ \"" + module + "/store\"",
	},
	{
		name:      "a third-party module lives in one room",
		reason:    "a module that is imported in two places cannot be replaced in one",
		broken:    tenantsStayHome,
		plantedAt: "store",
		planted:   "// Package store prints help.\npackage store\nimport _ \"github.com/spf13/cobra\"",
	},
	{
		name:      "internal/durable alone writes, syncs, renames and locks files",
		reason:    "the order of write, sync, rename and sync of the directory is what a power cut tests; it is right in one place or in none",
		broken:    disksAreDurables,
		plantedAt: "backend/files",
		planted:   "// Package files renames.\npackage files\nimport \"os\"\nfunc f() { os.Rename(\"a\", \"b\") }",
	},
	{
		name:      "cmd/tidemark alone touches arguments, environment, terminal and exit codes",
		reason:    "a library that reads the environment or prints cannot be used twice in one process, nor tested",
		broken:    callersAreCmds,
		plantedAt: "store",
		planted:   "// Package store looks around.\npackage store\nimport \"os\"\nvar home = os.Getenv(\"HOME\")",
	},
	{
		name:      "no file is made wider than 0600 and no directory than 0700",
		reason:    "conversations are private, whatever the umask",
		broken:    modesAreNarrow,
		plantedAt: "internal/durable",
		planted:   "// Package durable makes a directory.\npackage durable\nimport \"os\"\nvar err = os.Mkdir(\"x\", 0o755)",
	},
	{
		name:      "nothing runs because a package was linked",
		reason:    "init functions cost every start of the program and hide what is wired to what; cmd composes",
		broken:    noInits,
		plantedAt: "store",
		planted:   "// Package store registers.\npackage store\nfunc init() {}",
	},
	{
		name:      "every room has one package comment, and it says its name first",
		reason:    "the package comment is the manual of the room; two of them contradict each other sooner or later",
		broken:    oneComment,
		plantedAt: "store",
		planted:   "package store",
	},
	{
		name:      "a room is named after what is in it",
		reason:    "a drawer called util or common takes in everything and means nothing",
		broken:    namesSaySomething,
		plantedAt: "internal/common",
		planted:   "// Package common holds things.\npackage common",
	},
	{
		name:      "tests use no mocks and no assertion framework",
		reason:    "memory is the fake, go-cmp shows the difference, and a failing test should read like the code around it",
		broken:    plainTests,
		plantedAt: "store",
		planted:   "// Package store is tested.\npackage store\nimport _ \"github.com/stretchr/testify/assert\"",
	},
}

func TestHouseKeepsItsPlan(t *testing.T) {
	rooms := load(t)
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			for _, room := range rooms {
				for _, what := range r.broken(room) {
					t.Errorf("%s: %s\nreason for the rule: %s", room.path, what, r.reason)
				}
			}
		})
	}
}

func TestEveryHouseRuleCanTurnRed(t *testing.T) {
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, "planted.go", r.planted, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			planted := room{path: r.plantedAt, name: f.Name.Name, fset: fset, files: []*ast.File{f}}
			if len(r.broken(planted)) == 0 {
				t.Errorf("the rule accepts\n%s\nin %s", r.planted, r.plantedAt)
			}
		})
	}
}

// heavy are packages that must not be linked into the program, because what
// they do when it starts costs every command, or because they do not belong
// in it.
var heavy = map[string]string{
	"github.com/alecthomas/chroma":     "its lexers and styles take 15 ms at every start",
	"github.com/charmbracelet/glamour": "it brings chroma and takes up to 28 ms at every start",
	"charm.land/glamour":               "it brings chroma and takes up to 28 ms at every start",
	"testing":                          "it is for tests; a room below imports a test helper",
	"net/http/pprof":                   "it opens a door on the default server when it is linked",
	"expvar":                           "it opens a door on the default server when it is linked",
}

func TestProgramStartsWithoutHeavyPackages(t *testing.T) {
	deps := strings.Fields(goList(t, "-deps", "./cmd/tidemark"))
	if !slices.Contains(deps, "os") {
		t.Fatalf("go list says that the program does not even import os: %d packages", len(deps))
	}
	for _, dep := range deps {
		for name, reason := range heavy {
			if dep == name || strings.HasPrefix(dep, name+"/") && strings.Contains(name, ".") {
				t.Errorf("the program links %s: %s", dep, reason)
			}
		}
	}
}

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

// forTests says that a room is there for the tests of others.
func (r room) forTests() bool {
	return r.path == "backend/backendtest" || r.path == "model/modeltest" || floorOf(r.path) == "workshop"
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
			if strings.HasPrefix(p, tenant) && !slices.Contains(strings.Fields(home), r.path) && !r.forTests() {
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
