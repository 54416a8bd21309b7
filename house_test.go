package tidemark_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"slices"
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
		".", "internal/records", "internal/vault", "internal/durable/...", "internal/process", "internal/sandbox", "internal/prices", "internal/yaml", "internal/text",
		"internal/hint", "internal/project", "internal/unit", "internal/expression",
	},
	"craft": {
		"store", "store/upkeep", "store/hits", "store/rewind", "fleet", "fleet/file", "fleet/due", "fleet/unit", "internal/tenant",
		"backend/...", "seal", "redact", "search", "search/segment", "search/index", "archive", "compact", "convert/...", "render", "render/data", "model/...", "tool", "api",
		"internal/grant", "internal/instructions", "internal/extension", "internal/terminal", "internal/manual",
	},
	"work":  {"chat", "agent/...", "runner", "fleet/daemon", "dispatch"},
	"doors": {"open", "transfer", "transfer/watch", "transfer/remote", "transfer/sync", "transfer/link", "transfer/resume", "server/...", "mcp", "acp"},
	"roof":  {"cmd/tidemark"},
	// Programs and helpers that prove things about the rest. They may use
	// everything, and nothing but tests may use them.
	"workshop": {"workshop/...", "scripts/...", "examples/..."},
}

// neighbours are the rooms of one floor that may know each other.
var neighbours = []struct{ from, to, reason string }{
	{"convert/...", "convert", "a foreign format fulfils the contract of convert"},
	{"convert/...", "convert/wire", "tools that took over the shape of a model's interface share its decoder"},
	{"convert/...", "convert/dialogue", "what one tool is given of another one's session is the same for all of them"},
	{"convert/...", "convert/bundle", "the data exports of web services are zips with lists of conversations"},
	{"store", "search/index", "the store keeps its search index where it keeps sessions"},
	{"store/upkeep", "store", "upkeep goes from session to session by the rules of the store"},
	{"store/rewind", "store", "files are put back from what a session keeps"},
	{"store/hits", "store", "a hit is what the store found, in the form that everybody gets"},
	{"store/hits", "search", "the query says what to show of an entry, and what to mark in it"},
	{"store/hits", "render", "what is shown of an entry is made harmless before it is cut"},
	{"search/index", "search/segment", "an index is made of segments"},
	{"render/data", "render", "JSON for programs may be read on a terminal, too"},
	{"model/...", "model", "a provider fulfils the contract of model"},
	{"backend/remote", "api", "client and server share the wire types"},
	{"backend/backendtest", "backend/memory", "memory is the model that the suite compares with"},
	{"fleet/daemon", "runner", "a job runs its agent"},
	{"fleet/daemon", "agent", "the built-in agent of a fleet is a conversation"},
	{"fleet/daemon", "chat", "the built-in agent of a fleet is a chat"},
	{"fleet/file", "fleet", "the file is written in the words of the fleet"},
	{"fleet/due", "fleet", "a schedule is due by the words of the fleet"},
	{"fleet/file", "fleet/due", "a cron expression in a file is checked by what reads it later"},
	{"fleet/file", "redact", "what looks like a secret does not belong into a file"},
	{"fleet/file", "model", "an agent of a file names one of the providers that there are"},
	{"fleet/file", "convert/herdctl", "a configuration of herdctl becomes a file"},
	{"runner", "agent", "the built-in agent is a conversation"},
	{"transfer", "open", "what is brought in or out lies in a store that somebody opens"},
	{"transfer/watch", "transfer", "a watcher imports what changed"},
	{"transfer/watch", "open", "what is imported lies in a store that somebody opens"},
	{"transfer/sync", "transfer/remote", "what is synced lies in a remote"},
	{"transfer/sync", "open", "a checkup of a store says what is nowhere else"},
	{"transfer/link", "transfer", "a link leads to what an export writes"},
	{"server/...", "transfer/link", "a server answers to a link with the page that opens it"},
	{"transfer/resume", "transfer", "a session goes on in a tool that was given it"},
	{"mcp", "transfer/resume", "a session is left to somebody in a tool that it can go on in"},
	{"server/...", "server/...", "the rooms of the server are made for each other"},
	{"server/...", "transfer", "people bring sessions in and out over HTTP"},
	{"server/pages", "transfer/resume", "pages name the agents that a session can go on in"},
	{"server/serve", "transfer/watch", "pages say which folders of tools are followed"},
	{"server/serve", "open", "a server answers from stores that somebody opens"},
	{"runner", "chat", "the built-in agent is a chat"},
	{"agent/...", "chat", "a conversation is a chat with all that it needs"},
	{"agent/...", "agent", "what people type in a conversation is over how it is assembled"},
	{"agent/tour", "agent/repl", "the tour ends in a chat, and waits as long as that takes to leave"},
	{"agent/slash", "agent/hook", "people see the hooks of a conversation by a command"},
	{"agent/slash", "agent/mcpclient", "people see and direct the servers of a conversation by commands"},
	{"agent/repl", "agent/slash", "the conversation at a terminal has commands that people type"},
	{"workshop/...", "workshop/...", "the workshop may use everything, itself too"},
	{"model/modeltest", "model/standin", "providers are also asked over HTTP, before a stand-in for their server"},
	{"internal/sandbox", "internal/durable", "what a sandbox puts into its root is written like any other file"},
	{"internal/project", "internal/durable", "a work tree belongs to this user"},
	{"internal/project", "internal/expression", "a folder is looked at with an expression that most runs do not need"},
	{"internal/vault", "internal/records", "what a mask stands for is a record"},
	{"internal/durable/...", "internal/durable", "its fake disk fulfils its contract"},
}

// tenants are modules that one room alone, or those named, has a reason to
// import.
var tenants = map[string]string{
	"github.com/spf13/":                "cmd/tidemark",
	"github.com/itchyny/gojq":          "render/data",
	"go.yaml.in/yaml/":                 "internal/yaml",
	"github.com/goccy/go-yaml":         "tests",
	"golang.org/x/term":                "cmd/tidemark",
	"golang.org/x/text":                "search",
	"github.com/muesli/":               "internal/terminal",
	"rsc.io/qr":                        "internal/terminal",
	"mvdan.cc/sh/":                     "tool",
	"github.com/coder/acp":             "runner acp",
	"github.com/fsnotify/":             "transfer/watch",
	"github.com/modelcontextprotocol/": "mcp agent/mcpclient",
	// AgentZero derives the keys of its sessions as this house does.
	"golang.org/x/crypto/argon2":           "seal convert/agentzero",
	"golang.org/x/crypto/chacha20poly1305": "seal",
	"filippo.io/age":                       "seal",
	"github.com/klauspost/":                "archive transfer/sync backend/cold seal",
	"github.com/yuin/goldmark":             "render",
	"github.com/chromedp/":                 "tests",
	"github.com/creack/pty":                "tests",
	"github.com/hinshun/vt10x":             "tests",
	"modernc.org/":                         "backend/sqlite",
	"github.com/jackc/":                    "backend/postgres dispatch",
	"github.com/pressly/":                  "backend/postgres",
	"github.com/riverqueue/":               "dispatch",
	"github.com/danielgtaylor/":            "server/...",
	"github.com/coder/websocket":           "server/...",
	"github.com/coreos/":                   "server/...",
	"go.opentelemetry.io/":                 "server/...",
	"github.com/go-json-experiment/":       "server/... transfer agent/repl internal/records",
	"golang.org/x/time/":                   "server/...",
	"golang.org/x/sys/":                    "internal/durable internal/process internal/sandbox internal/terminal backend/sqlite",
	"github.com/rogpeppe/":                 "tests",
	"github.com/google/go-cmp/":            "tests",
	"github.com/google/jsonschema-go":      "tests",
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
		name:      "no command is built to call another one",
		reason:    "what two commands do is a function of a room below; a command that nobody types drags flags, printing and exit codes along",
		broken:    commandsAreForPeople,
		plantedAt: "cmd/tidemark",
		planted:   "// Command tidemark calls itself.\npackage main\nimport \"github.com/spf13/cobra\"\nvar fake = &cobra.Command{Use: \"serve\"}",
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
		name:      "no expression and no template is compiled because a package was linked",
		reason:    "a run of the program needs few of them and would wait for all, at every start; internal/expression compiles one at its first use",
		broken:    nothingIsCompiled,
		plantedAt: "store",
		planted:   "// Package store matches.\npackage store\nimport \"regexp\"\nvar word = regexp.MustCompile(`a`)",
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

// folders are edges between the folders at the top of the tree: which imports
// which. The plan is also kept by somebody who looks at folders alone.
type folders map[string]map[string]bool

// foldersOf draws the house folder by folder. Tests are not drawn: the tests of
// a room may use rooms above it.
func foldersOf(rooms []room) folders {
	top := func(path string) string { first, _, _ := strings.Cut(path, "/"); return first }
	drawn := make(folders)
	for _, r := range rooms {
		for _, p := range imports(r.files) {
			from, to := top(r.path), top(relative(p))
			if relative(p) == "" || from == to {
				continue
			}
			if drawn[from] == nil {
				drawn[from] = make(map[string]bool)
			}
			drawn[from][to] = true
		}
	}
	return drawn
}

// circle returns folders that import each other in a circle, nil when none do.
func (f folders) circle() []string {
	done := make(map[string]bool)
	var walk func(path []string) []string
	walk = func(path []string) []string {
		here := path[len(path)-1]
		if i := slices.Index(path[:len(path)-1], here); i >= 0 {
			return path[i:]
		}
		if done[here] {
			return nil
		}
		for _, next := range slices.Sorted(maps.Keys(f[here])) {
			if found := walk(append(slices.Clone(path), next)); found != nil {
				return found
			}
		}
		done[here] = true
		return nil
	}
	for _, from := range slices.Sorted(maps.Keys(f)) {
		if found := walk([]string{from}); found != nil {
			return found
		}
	}
	return nil
}

func TestFoldersImportEachOtherOneWay(t *testing.T) {
	if found := foldersOf(load(t)).circle(); found != nil {
		t.Errorf("folders import each other in a circle: %s", strings.Join(found, " → "))
	}
	planted := folders{"store": {"internal": true}, "internal": {"render": true}, "render": {"store": true}}
	if planted.circle() == nil {
		t.Error("a planted circle is not found")
	}
}

// unwatched returns the modules that go.mod names itself and nothing here knows.
func unwatched(mod string) (found []string) {
	for line := range strings.Lines(mod) {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		name, version, ok := strings.Cut(line, " ")
		if !ok || !strings.HasPrefix(version, "v") || strings.Contains(version, "// indirect") {
			continue
		}
		known := func(tenant string) bool {
			return strings.HasPrefix(name+"/", tenant) || strings.HasPrefix(tenant, name+"/") || name == tenant
		}
		if !slices.ContainsFunc(slices.Collect(maps.Keys(tenants)), known) {
			found = append(found, name)
		}
	}
	return found
}

func TestEveryDirectDependencyIsWatched(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(mod), "github.com/spf13/cobra v") {
		t.Fatal("go.mod does not even name cobra")
	}
	for _, name := range unwatched(string(mod)) {
		t.Errorf("%s: nobody says which room it lives in; name it in tenants", name)
	}
	if planted := unwatched("require (\n\texample.org/new v1.0.0\n\texample.org/deep v1.0.0 // indirect\n)"); len(planted) != 1 {
		t.Errorf("planted modules: %q are unwatched, want the direct one", planted)
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
