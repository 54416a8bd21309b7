//go:build unix

package pgtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemark-sessions/tidemark/workshop/machine"
)

// victim tells this program that it is the one to be killed.
const victim = "TIDEMARK_PGTEST_VICTIM"

func TestMain(m *testing.M) {
	if os.Getenv(victim) != "" {
		beVictim()
	}
	Main(m)
}

// beVictim starts a cluster, says where it is, and waits to be killed.
func beVictim() {
	c, err := start(Options{})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	fmt.Println(c.server.Process.Pid, c.dir)
	select {}
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func run(t *testing.T, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func ask[T any](t *testing.T, conn *pgx.Conn, sql string) (v T) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), sql).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func TestFreshDatabasesAreApart(t *testing.T) {
	c := Start(t)
	one, two := c.Database(t), c.Database(t)
	a, b := connect(t, one.Owner), connect(t, two.Owner)
	run(t, a, "create table thing (n int)")
	run(t, b, "create table thing (n int)")
	run(t, a, "insert into thing values (1)")
	if n := ask[int](t, b, "select count(*) from thing"); n != 0 {
		t.Errorf("the other database has %d rows", n)
	}
	if Start(t) != c {
		t.Error("a second Start started a second cluster")
	}
}

func TestClustersAreSharedByThoseWithTheSameOptions(t *testing.T) {
	quiet := func() Options { return Options{Settings: map[string]string{"autovacuum": "off", "jit": "off"}} }
	c := StartWith(t, quiet())
	if c == Start(t) || c != StartWith(t, quiet()) {
		t.Error("a cluster is for all who have the same options, and for nobody else")
	}
	if got := ask[string](t, connect(t, c.Database(t).Owner), "select current_setting('autovacuum')"); got != "off" {
		t.Errorf("autovacuum is %s", got)
	}
}

func TestWhatIsSyncedIsOnADisk(t *testing.T) {
	if got := parents(Options{Synced: true}); slices.Contains(got, inMemory) {
		t.Errorf("a server that syncs may be in %v", got)
	}
	free, err := machine.Free(inMemory)
	if got := parents(Options{}); slices.Contains(got, inMemory) != (err == nil && free >= memoryRoom) {
		t.Errorf("with %d bytes free in memory a server may be in %v", free, got)
	}
}

func TestCopyHasEverythingAndIsApart(t *testing.T) {
	one := Start(t).Database(t)
	a := connect(t, one.Owner)
	run(t, a, "create table thing (n int)")
	run(t, a, "insert into thing values (1)")
	run(t, a, "grant select on thing to "+one.Role)
	a.Close(t.Context())
	two := one.Copy(t)
	run(t, connect(t, two.Owner), "insert into thing values (2)")
	if n := ask[int](t, connect(t, two.Server), "select count(*) from thing"); n != 2 {
		t.Errorf("the copy has %d rows, want 2", n)
	}
	if n := ask[int](t, connect(t, one.Owner), "select count(*) from thing"); n != 1 {
		t.Errorf("the original has %d rows, want 1", n)
	}
}

func TestWhatIsPreparedOnceIsThereInEachCopy(t *testing.T) {
	c := Start(t)
	calls := 0
	prepared := func() *Database {
		return c.Prepared(t, t.Name(), func(db *Database) error {
			calls++
			conn := connect(t, db.Owner)
			run(t, conn, "create table thing (n int)")
			run(t, conn, "insert into thing values (1)")
			return conn.Close(t.Context())
		})
	}
	one, two := prepared(), prepared()
	run(t, connect(t, one.Owner), "insert into thing values (2)")
	if n := ask[int](t, connect(t, two.Owner), "select count(*) from thing"); n != 1 || one.Name == two.Name {
		t.Errorf("the second copy, %s, has %d rows, want 1", two.Name, n)
	}
	if calls != 1 {
		t.Errorf("it was prepared %d times", calls)
	}
	no := errors.New("no")
	if _, err := c.prepared("fails", func(*Database) error { return no }); !errors.Is(err, no) {
		t.Errorf("what cannot be prepared: %v", err)
	}
	if _, err := c.prepared("fails", func(*Database) error { return nil }); err != nil {
		t.Errorf("another attempt: %v", err)
	}
}

func TestRolesArePlain(t *testing.T) {
	db := Start(t).Database(t)
	for _, url := range []string{db.Owner, db.Server} {
		conn := connect(t, url)
		if ask[bool](t, conn, "select rolsuper or rolbypassrls or rolcreaterole or rolcreatedb from pg_roles where rolname = current_user") {
			t.Errorf("%s is more than a plain role", url)
		}
	}
	if ask[bool](t, connect(t, db.Server), "select pg_has_role(current_user, '"+db.owner+"', 'member')") {
		t.Error("the server's role is a member of the owner's")
	}
	_, err := connect(t, db.Server).Exec(t.Context(), "create table thing (n int)")
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || refused.Code != "42501" {
		t.Errorf("the server's role makes a table: %v", err)
	}
	if !ask[bool](t, connect(t, db.Super), "select rolsuper from pg_roles where rolname = current_user") {
		t.Error("Super is no superuser")
	}
}

func TestLocaleKnowsAllOfUnicode(t *testing.T) {
	conn := connect(t, Start(t).Database(t).Owner)
	if got := ask[string](t, conn, "select upper('é') || chr(128512) || current_setting('server_encoding')"); got != "É😀UTF8" {
		t.Errorf("got %q", got)
	}
}

func TestCommittedRowsAreThereAfterKillAndRestart(t *testing.T) {
	for o, want := range map[*Options]string{{Durable: true}: "off on on", {Synced: true}: "on on on"} {
		t.Run(want, func(t *testing.T) { killAndRestart(t, New(t, *o), want) })
	}
}

func killAndRestart(t *testing.T, c *Cluster, want string) {
	db := c.Database(t)
	conn := connect(t, db.Owner)
	if got := ask[string](t, conn, "select concat_ws(' ', current_setting('fsync'), current_setting('synchronous_commit'), current_setting('full_page_writes'))"); got != want {
		t.Errorf("fsync, synchronous_commit and full_page_writes are %q, want %q", got, want)
	}
	run(t, conn, "create table thing (n int)")
	run(t, conn, "insert into thing values (1)")
	run(t, conn, "begin")
	run(t, conn, "insert into thing values (2)")
	before := c.server.Process.Pid
	c.Kill(t)
	if family, err := childrenOf(before); err != nil || len(family) > 0 {
		t.Errorf("after Kill the server has children %v, %v", family, err)
	}
	if err := conn.Ping(t.Context()); err == nil {
		t.Error("a connection outlived the server")
	}
	if other, err := pgx.Connect(t.Context(), db.Owner); err == nil {
		other.Close(t.Context())
		t.Error("a killed server accepts connections")
	}
	c.Restart(t)
	if n := ask[int](t, connect(t, db.Owner), "select sum(n) from thing"); n != 1 {
		t.Errorf("sum is %d after the crash, want 1", n)
	}
}

func TestKilledTestProcessLeavesNothing(t *testing.T) {
	Start(t) // skips where there is no PostgreSQL
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victim+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
	if _, err := os.Stat(filepath.Join(dir, "data", "PG_VERSION")); err != nil {
		t.Fatalf("said %q: %v", line, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	// The guard is nobody's child now: its work can only be looked at.
	ctx, cancel := context.WithTimeout(t.Context(), serverTimeout)
	defer cancel()
	for there(dir, pid) {
		select {
		case <-ctx.Done():
			t.Fatalf("process %s or folder %s is still there", pid, dir)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// there reports whether the folder or the process is left. Somebody has to
// collect a dead process that nobody waits for; until then it is a zombie.
func there(dir, pid string) bool {
	if _, err := os.Stat(dir); err == nil {
		return true
	}
	var id int
	fmt.Sscan(pid, &id)
	if syscall.Kill(id, 0) != nil {
		return false
	}
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	return err != nil || !strings.Contains(string(stat), ") Z ")
}

func TestEndRemovesTheFolder(t *testing.T) {
	var dir string
	t.Run("one test", func(t *testing.T) { dir = New(t, Options{}).dir })
	if dir == "" {
		t.Skip("no cluster was started")
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder after the test: %v", err)
	}
}

func TestBouncerGivesTheConnectionAwayAfterEachTransaction(t *testing.T) {
	db := Start(t).Database(t)
	there := Bouncer(t, db) + "&default_query_exec_mode=simple_protocol"
	seen := make(map[int]int)
	for range 6 { // more clients than the pooler has connections
		conn := connect(t, there)
		seen[ask[int](t, conn, "select pg_backend_pid()")]++
	}
	if len(seen) > 4 {
		t.Errorf("six clients used %d connections", len(seen))
	}
	if who := ask[string](t, connect(t, there), "select current_user::text"); who != db.Role {
		t.Errorf("the pooler logs in as %s, want %s", who, db.Role)
	}
}

func TestMissingProgramsFailOnlyInCI(t *testing.T) {
	for _, c := range []struct {
		ci   string
		want string
	}{{"", "skip"}, {"true", "fatal"}} {
		t.Setenv("CI", c.ci)
		got := &recorder{TB: t}
		given(got, nil, missing("there is none"))
		if got.ended != c.want || !strings.Contains(got.said, "there is none") {
			t.Errorf("with CI=%q: %s, %q", c.ci, got.ended, got.said)
		}
	}
}

// recorder notes how a test would have ended.
type recorder struct {
	testing.TB
	ended, said string
}

func (r *recorder) Helper() {}
func (r *recorder) Skipf(format string, args ...any) {
	r.ended, r.said = "skip", fmt.Sprintf(format, args...)
}
func (r *recorder) Fatalf(format string, args ...any) {
	r.ended, r.said = "fatal", fmt.Sprintf(format, args...)
}
