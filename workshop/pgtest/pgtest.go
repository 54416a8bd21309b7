// Package pgtest runs a private PostgreSQL for tests, and for programs that try
// and measure: in a folder of its own, on a unix socket, under a user who is
// not root, and gone with the process that started it, however that ends. It
// never touches a server that it did not start, and nothing that people
// install links it.
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
//	func TestIt(t *testing.T)   { db := pgtest.Start(t).Database(t); open(db.Server) }
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemark-sessions/tidemark/workshop/machine"
)

// serverTimeout is how long a server may take to start or to end. It is long
// because many tests share a small machine; a healthy server takes about a
// second.
const serverTimeout = 2 * time.Minute

// Options says how a cluster differs from the shared one.
type Options struct {
	// Durable keeps what was committed after the server is killed. It does not
	// sync: what a killed process has written, the kernel still has.
	Durable bool

	// Synced is Durable on a disk, with a sync for each commit, as servers of
	// people have it: for what measures or loads.
	Synced bool

	// Settings are put on the server's command line as they are.
	Settings map[string]string
}

// Cluster is one running server.
type Cluster struct {
	bin      string // folder of its programs
	dir      string // its data and its socket
	as       account
	settings []string
	guard    *guard

	mu       sync.Mutex
	server   *exec.Cmd
	ended    chan struct{} // closed when server has ended
	made     int           // databases
	standbys int           // that were started

	preparing sync.Mutex
	originals map[string]*Database // what Prepared copies
}

// shared are the clusters of this process, by their options. Starting one
// takes two seconds, too long for every test.
var shared struct {
	sync.Mutex
	clusters map[string]*started
}

// started is a cluster, or why there is none.
type started struct {
	*Cluster
	err error
}

// Start returns the cluster of this process, and starts it on the first call.
// It is fast and loses everything when it is killed; tests that kill use New.
// Without PostgreSQL on this machine the test is skipped, or fails when the
// environment says CI=true.
func Start(t testing.TB) *Cluster {
	t.Helper()
	return StartWith(t, Options{})
}

// StartWith is Start for tests that need other options: all that need the same
// share a cluster.
func StartWith(t testing.TB, o Options) *Cluster {
	t.Helper()
	quick(t)
	shared.Lock()
	defer shared.Unlock()
	key := fmt.Sprint(o) // which prints maps in the order of their keys
	one := shared.clusters[key]
	if one == nil {
		one = new(started)
		one.Cluster, one.err = start(o)
		if shared.clusters == nil {
			shared.clusters = make(map[string]*started)
		}
		shared.clusters[key] = one
	}
	return given(t, one.Cluster, one.err)
}

// New starts a cluster for this test alone, which ends with it.
func New(t testing.TB, o Options) *Cluster {
	t.Helper()
	quick(t)
	c, err := start(o)
	c = given(t, c, err)
	t.Cleanup(c.end)
	return c
}

// Main runs the tests of a package and ends the shared clusters after them. It
// is all that a TestMain needs. Without it they end as well, a moment after the
// process.
func Main(m *testing.M) int {
	code := m.Run()
	shared.Lock()
	defer shared.Unlock()
	for _, one := range shared.clusters {
		if one.err == nil {
			one.end()
		}
	}
	clear(shared.clusters)
	return code
}

// missing is why no server can be started on this machine.
type missing string

func (m missing) Error() string { return string(m) }

// quick skips a test that make quick leaves out.
func quick(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("make quick leaves out what needs PostgreSQL")
	}
}

func given(t testing.TB, c *Cluster, err error) *Cluster {
	t.Helper()
	var m missing
	switch {
	case errors.As(err, &m):
		without(t, string(m))
	case err != nil:
		t.Fatal(err)
	}
	return c
}

// without skips a test that needs something this machine lacks. In CI that
// is a failure: a test that is skipped there protects nothing.
func without(t testing.TB, reason string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s, and CI=true: make deps installs it", reason)
		return
	}
	t.Skipf("%s: make deps installs it", reason)
}

func start(o Options) (*Cluster, error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	as, err := whom()
	if err != nil {
		return nil, err
	}
	dir, err := folder(as, parents(o))
	if err != nil {
		return nil, err
	}
	c := &Cluster{bin: bin, dir: dir, as: as, settings: settings(dir, o), originals: make(map[string]*Database)}
	if c.guard, err = watch(dir, "QUIT"); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := c.initialise(); err != nil {
		c.guard.end()
		return nil, err
	}
	if err := c.launch(); err != nil {
		c.guard.end()
		return nil, err
	}
	return c, nil
}

func settings(dir string, o Options) []string {
	all := map[string]string{
		"listen_addresses":        "",
		"unix_socket_directories": dir,
		"max_connections":         "200",
		"shared_buffers":          "64MB",
		"timezone":                "UTC",
	}
	if !o.Synced {
		all["fsync"] = "off"
		// Compiling a plan takes longer than running it on the little that tests
		// keep. The log is used again after a few segments, so that what is in
		// memory stays small.
		all["jit"] = "off"
		all["min_wal_size"], all["max_wal_size"] = "32MB", "96MB"
		if !o.Durable {
			all["synchronous_commit"], all["full_page_writes"] = "off", "off"
		}
	}
	for name, value := range o.Settings {
		all[name] = value
	}
	var args []string
	for name, value := range all {
		args = append(args, "-c", name+"="+value)
	}
	return args
}

// initialise creates the files of the cluster. The locale has no language and
// all of Unicode, wherever the tests run.
func (c *Cluster) initialise() error {
	locale := "C.UTF-8"
	if runtime.GOOS == "darwin" {
		locale = "C" // there is no C.UTF-8, and C takes any encoding
	}
	cmd := c.command("initdb", "-D", c.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale="+locale, "--no-sync")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return nil
}

func (c *Cluster) data() string { return filepath.Join(c.dir, "data") }

func (c *Cluster) command(name string, args ...string) *exec.Cmd {
	return command(c.as, c.dir, filepath.Join(c.bin, name), args...)
}

// launch starts the server and waits until it answers.
func (c *Cluster) launch() error {
	log, err := os.OpenFile(filepath.Join(c.dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := c.command("postgres", append([]string{"-D", c.data()}, c.settings...)...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		cmd.Wait()
		close(ended)
	}()
	c.mu.Lock()
	c.server, c.ended = cmd, ended
	c.mu.Unlock()
	c.guard.mind(cmd.Process.Pid)
	return c.answers(ended)
}

func (c *Cluster) answers(ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(context.Background(), serverTimeout)
	defer cancel()
	for {
		err := c.tell(ctx, "select 1")
		if err == nil {
			return nil
		}
		select {
		case <-ended:
			return fmt.Errorf("postgres ended at once:\n%s", c.lastWords())
		case <-ctx.Done():
			return fmt.Errorf("postgres does not answer: %w\n%s", err, c.lastWords())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// lastWords returns the end of the server's log.
func (c *Cluster) lastWords() string {
	b, err := os.ReadFile(filepath.Join(c.dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-4000):])
}

// tell runs a statement as superuser.
func (c *Cluster) tell(ctx context.Context, statements ...string) error {
	conn, err := pgx.Connect(ctx, c.url("postgres", "postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, s := range statements {
		if _, err := conn.Exec(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

func (c *Cluster) url(role, database string) string { return address(c.dir, role, database) }

// address returns the URL of a database on the socket in dir.
func address(dir, role, database string) string {
	u := url.URL{Scheme: "postgres", User: url.User(role), Path: "/" + database,
		RawQuery: url.Values{"host": {dir}, "sslmode": {"disable"}}.Encode()}
	return u.String()
}

// Socket returns the socket that the server listens on.
func (c *Cluster) Socket() string { return filepath.Join(c.dir, ".s.PGSQL.5432") }

// Kill ends the whole server with SIGKILL, like a crash: no process in it can
// write anything more. Databases and roles are there after Restart, and
// everything committed if the cluster is Durable.
func (c *Cluster) Kill(t testing.TB) {
	t.Helper()
	if err := c.kill(); err != nil {
		t.Fatal(err)
	}
}

func (c *Cluster) kill() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := killFamily(c.server.Process.Pid, c.ended); err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	<-c.ended
	c.guard.mind(0)
	return nil
}

// Restart starts the server again after Kill. A running one is killed first.
func (c *Cluster) Restart(t testing.TB) {
	t.Helper()
	if err := c.kill(); err != nil {
		t.Fatal(err)
	}
	if err := c.launch(); err != nil {
		t.Fatal(err)
	}
}

// end stops the server and removes all that it kept.
func (c *Cluster) end() { c.guard.end() }

// programs finds the folder with initdb and postgres: the one in PATH, else
// the newest of those where distributions put them.
func programs() (string, error) {
	if p, err := exec.LookPath("initdb"); err == nil {
		if p, err = filepath.EvalSymlinks(p); err == nil && complete(filepath.Dir(p)) {
			return filepath.Dir(p), nil
		}
	}
	best, newest := "", -1
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin", "/usr/local/opt/postgresql@*/bin"} {
		dirs, _ := filepath.Glob(pattern) // the patterns are good
		for _, dir := range dirs {
			version := 0
			name := filepath.Base(filepath.Dir(dir))
			fmt.Sscanf(name[strings.LastIndexAny(name, "-@")+1:], "%d", &version)
			if version > newest && complete(dir) {
				best, newest = dir, version
			}
		}
	}
	if best == "" {
		return "", missing("there is no PostgreSQL server on this machine")
	}
	return best, nil
}

func complete(dir string) bool {
	for _, name := range []string{"initdb", "postgres"} {
		if _, err := exec.LookPath(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

// socketRoom bounds the path of the folder, so that the path of a socket in
// it stays below the 104 bytes that some systems allow.
const socketRoom = 80

// onDisk are the places for folders of servers. Whoever runs the tests may have
// them keep other files in memory.
func onDisk() []string {
	return slices.DeleteFunc([]string{os.TempDir(), "/tmp", "/var/tmp"}, func(dir string) bool { return strings.HasPrefix(dir+"/", inMemory+"/") })
}

const (
	// inMemory is a file system in memory, where a database is copied in a tenth
	// of the time. Only Linux has it.
	inMemory = "/dev/shm"

	// memoryRoom is what must be free there before a server uses it. One takes
	// some 100 MB, and several packages are tested at once.
	memoryRoom = 2 << 30
)

// parents are the places for the folder of a cluster, the best one first.
func parents(o Options) []string {
	if free, err := machine.Free(inMemory); !o.Synced && err == nil && free >= memoryRoom {
		return append([]string{inMemory}, onDisk()...)
	}
	return onDisk()
}

// folder makes a folder in the first of the parents that the server's user can
// reach and that is short enough for a socket.
func folder(as account, parents []string) (string, error) {
	var errs []error
	for _, parent := range parents {
		if !reachable(parent, as) {
			errs = append(errs, fmt.Errorf("%s: not open to %s", parent, as.name))
			continue
		}
		dir, err := os.MkdirTemp(parent, "tidemark-pg-")
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if len(dir) > socketRoom {
			errs = append(errs, fmt.Errorf("%s: too long for a socket", dir), os.Remove(dir))
			continue
		}
		if err := as.own(dir); err != nil {
			return "", errors.Join(err, os.Remove(dir))
		}
		return dir, nil
	}
	return "", fmt.Errorf("no folder for PostgreSQL: %w", errors.Join(errs...))
}

// reachable reports whether another user may pass through dir and all above.
func reachable(dir string, as account) bool {
	if as.name == "" {
		return true
	}
	for {
		info, err := os.Stat(dir)
		if err != nil || info.Mode().Perm()&0o001 == 0 {
			return false
		}
		up := filepath.Dir(dir)
		if up == dir {
			return true
		}
		dir = up
	}
}
