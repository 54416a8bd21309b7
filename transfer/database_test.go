package transfer

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
	"github.com/tidemark-sessions/tidemark/convert"
)

// holding names the folder of the database that this process has open for a test,
// as another tool would: the connections of one process share what they know of a
// log.
const holding = "TIDEMARK_TEST_HOLDS"

func TestMain(m *testing.M) {
	if dir, mode, ok := strings.Cut(os.Getenv(holding), "|"); ok {
		if err := holdDatabase(dir, mode); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	if dir := os.Getenv(erasesIn); dir != "" {
		if err := eraseIn(dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	bookmarkFrom = 1 // samples are small
	os.Exit(m.Run())
}

// holdDatabase is the other tool. Each line that it reads is a statement, whose rows
// it tells; an empty one stands for an insert.
func holdDatabase(dir, mode string) error {
	by, err := sqlite.OpenForeign(filepath.Join(dir, "a.db"), false)
	if err != nil {
		return err
	}
	defer by.Close()
	ctx := context.Background()
	statements := []string{"PRAGMA journal_mode=" + mode, "CREATE TABLE t (n INTEGER PRIMARY KEY, said TEXT)"}
	for n := range 40 {
		statements = append(statements, fmt.Sprintf("INSERT INTO t VALUES (%d, 'said %d')", n, n))
	}
	for _, s := range statements {
		if err := by.Exec(ctx, s); err != nil {
			return err
		}
	}
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		told := []any{"ready"}
		for row, err := range by.Query(ctx, cmp.Or(lines.Text(), "INSERT INTO t SELECT min(n) - 1, 'before all' FROM t")) {
			if err != nil {
				return err
			}
			told = append(told, row...)
		}
		fmt.Println(told...)
	}
	return nil
}

// otherTool is a process that has a database open.
type otherTool struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// foreignDatabase has another process make a database with forty rows.
func foreignDatabase(t *testing.T, mode string) (dir string, by *otherTool) {
	t.Helper()
	dir = t.TempDir()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	by = &otherTool{t: t, cmd: exec.CommandContext(t.Context(), program)}
	by.cmd.Env = append(os.Environ(), holding+"="+dir+"|"+mode)
	out, outErr := by.cmd.StdoutPipe()
	by.in, err = by.cmd.StdinPipe()
	if err = errors.Join(err, outErr); err == nil {
		err = by.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	by.out = bufio.NewScanner(out)
	t.Cleanup(by.close)
	by.wait()
	return dir, by
}

// wait waits until the process is ready for more.
func (o *otherTool) wait() {
	o.t.Helper()
	if !o.out.Scan() || o.out.Text() != "ready" {
		o.t.Fatalf("the other process says %q", o.out.Text())
	}
}

// write has the process write to its database.
func (o *otherTool) write() {
	o.t.Helper()
	fmt.Fprintln(o.in)
	o.wait()
}

// does has the process do statements, and returns what the last one told.
func (o *otherTool) does(statements ...string) (told string) {
	o.t.Helper()
	for _, s := range statements {
		fmt.Fprintln(o.in, strings.ReplaceAll(s, "\n", " "))
		if !o.out.Scan() || !strings.HasPrefix(o.out.Text(), "ready") {
			o.t.Fatalf("%s: the other process says %q", s, o.out.Text())
		}
		told = strings.TrimSpace(strings.TrimPrefix(o.out.Text(), "ready"))
	}
	return told
}

// close has the process close its database and end.
func (o *otherTool) close() {
	if o.cmd != nil {
		o.in.Close()
		for o.out.Scan() {
		}
		_ = o.cmd.Wait() // how it ends is told by what it wrote
		o.cmd = nil
	}
}

// asItIs lists the files of a folder with what tells whether they were changed.
func asItIs(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		info, infoErr := e.Info()
		if err := errors.Join(err, infoErr); err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%s %s %s", e.Name(), info.ModTime(), shortOf(data)))
	}
	return all
}

func shortOf(data []byte) string { sum := shortSumOf(string(data)); return fmt.Sprintf("%x", sum[:]) }

// rowsOf reads the rows that a database has.
func rowsOf(t *testing.T, d convert.Database) int {
	t.Helper()
	n := 0
	for row, err := range d.Query(t.Context(), "SELECT n, said FROM t WHERE n >= ? ORDER BY n", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("said %d", n); row[0] != int64(n) || row[1] != want {
			t.Fatalf("row %d is %v", n, row)
		}
		n++
	}
	return n
}

func TestADatabaseIsReadWhereItIs(t *testing.T) {
	for name, c := range map[string]struct {
		mode   string
		open   bool  // its tool has it open
		copied int64 // how much may be copied
		in     string
	}{
		"in use, with a log":      {"WAL", true, maxCopied, "*transfer.inPlace"},
		"closed, with a log":      {"WAL", false, 0, "*transfer.inPlace"},
		"without a log":           {"DELETE", true, 0, "*transfer.inPlace"},
		"small and closed":        {"WAL", false, maxCopied, "*transfer.copied"},
		"small, without a log":    {"DELETE", true, maxCopied, "*transfer.copied"},
		"in use, with much in it": {"WAL", true, 0, "*transfer.inPlace"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, by := foreignDatabase(t, c.mode)
			if !c.open {
				by.close()
			}
			before := asItIs(t, dir)
			d, err := openDatabase(t.Context(), dir, os.DirFS(dir), "a.db", &c.copied)
			if err != nil {
				t.Fatal(err)
			}
			if in := fmt.Sprintf("%T", d); in != c.in {
				t.Errorf("it is a %s, want %s", in, c.in)
			}
			if p, ok := d.(*inPlace); ok {
				p.slice = 0 // a row at a time
			}
			if n := rowsOf(t, d); n != 40 {
				t.Errorf("%d rows", n)
			}
			if err := d.Exec(t.Context(), "DELETE FROM t"); !errors.Is(err, tidemark.ErrUnsupported) {
				t.Errorf("a change: %v", err)
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
			if after := asItIs(t, dir); !slices.Equal(before, after) {
				t.Errorf("it was changed:\n%s\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
			}
			if c.open {
				by.write() // nothing keeps its tool from it
			}
		})
	}
}

func TestADatabaseThatIsChangedWhileItIsReadSaysSo(t *testing.T) {
	dir, by := foreignDatabase(t, "DELETE")
	d, err := openDatabase(t.Context(), dir, os.DirFS(dir), "a.db", new(int64))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	d.(*inPlace).slice = 0
	n := 0
	for _, err = range d.Query(t.Context(), "SELECT n FROM t ORDER BY n") {
		if n++; n == 3 {
			// The lock is not held between two slices.
			by.write()
		}
	}
	if !errors.Is(err, tidemark.ErrConflict) || n > 4 {
		t.Errorf("after %d rows: %v, want ErrConflict", n, err)
	}
}

func TestALargeDatabaseThatWasNotFinishedIsNotCopied(t *testing.T) {
	from, _ := foreignDatabase(t, "WAL")
	dir := t.TempDir() // as after a crash: the log is there, and -shm is not
	for _, name := range []string{"a.db", "a.db-wal"} {
		data, err := os.ReadFile(filepath.Join(from, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := openDatabase(t.Context(), dir, os.DirFS(dir), "a.db", new(int64))
	if !errors.Is(err, tidemark.ErrUnsupported) || !convert.IsSkip(err) {
		t.Errorf("it is opened: %v", err)
	}
	left := int64(maxCopied)
	d, err := openDatabase(t.Context(), dir, os.DirFS(dir), "a.db", &left)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if n := rowsOf(t, d); n != 40 {
		t.Errorf("%d rows of the copy", n)
	}
}

func TestADatabaseBehindALinkIsNotReadInPlace(t *testing.T) {
	real, _ := foreignDatabase(t, "WAL")
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(real, "a.db"), filepath.Join(dir, "a.db")); err != nil {
		t.Skip("no links here")
	}
	if name := nameOf(dir, "a.db"); name != "" {
		t.Errorf("%s would be opened", name)
	}
}

// A transaction that is open keeps the tool from shortening its log.
func TestNoTransactionIsOpenWhileSomethingIsDoneWithRows(t *testing.T) {
	dir, by := foreignDatabase(t, "WAL")
	d, err := openDatabase(t.Context(), dir, os.DirFS(dir), "a.db", new(int64))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	n := 0
	for _, err := range d.Query(t.Context(), "SELECT n FROM t ORDER BY n") {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 3 {
			by.write()
			if told := by.does("PRAGMA wal_checkpoint(TRUNCATE)"); told != "0 0 0" {
				t.Errorf("the tool shortens its log: %q, want that it is not busy and the log empty", told)
			}
		}
	}
	if n != 40 {
		t.Errorf("%d rows, want those of the moment at which they were read", n)
	}
}

func TestALongStatementIsOfOneMomentOrSaysSo(t *testing.T) {
	dir, by := foreignDatabase(t, "WAL")
	d, err := openDatabase(t.Context(), dir, os.DirFS(dir), "a.db", new(int64))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	d.(*inPlace).slice = 0
	if n := rowsOf(t, d); n != 40 {
		t.Errorf("%d rows", n)
	}
	n := 0
	for _, err = range d.Query(t.Context(), "SELECT n FROM t ORDER BY n") {
		if n++; n == 3 {
			by.write()
		}
	}
	if !errors.Is(err, tidemark.ErrConflict) || n > 4 {
		t.Errorf("after %d rows: %v, want ErrConflict", n, err)
	}
}

// A row that takes longer than a slice is cut off, so that its tool gets on, and asked
// for again.
func TestARowThatTakesLongIsCutOffAndComes(t *testing.T) {
	dir, _ := foreignDatabase(t, "WAL")
	d, err := openDatabase(t.Context(), dir, os.DirFS(dir), "a.db", new(int64))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	in := d.(*inPlace)
	const count = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < %d) SELECT count(*) FROM c"
	if rows, more, err := in.some(t.Context(), time.Millisecond, fmt.Sprintf(count, int64(1)<<50), nil, 0); err != nil || !more || len(rows) > 0 {
		t.Fatalf("of what never ends %d rows came, more is %v, %v", len(rows), more, err)
	}
	in.slice = time.Millisecond
	var got []any
	for row, err := range d.Query(t.Context(), fmt.Sprintf(count, 100_000)) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, row...)
	}
	if len(got) != 1 || got[0] != int64(100_000) {
		t.Errorf("the row that takes long is %v", got)
	}
}

// restless is a folder whose files are changed whenever one of them is opened.
type restless struct {
	fs.FS
	change func()
}

func (r restless) Open(name string) (fs.File, error) {
	r.change()
	return r.FS.Open(name)
}

func TestForAChangeNoMoreIsCopiedThanMayBe(t *testing.T) {
	dir, by := foreignDatabase(t, "DELETE")
	by.close()
	name := filepath.Join(dir, "a.db")
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	at := info.ModTime()
	fsys := restless{os.DirFS(dir), func() {
		at = at.Add(-time.Second)
		if err := os.Chtimes(name, at, at); err != nil {
			t.Error(err)
		}
	}}
	left := 7 * info.Size() / 2
	if _, err = copyDatabase(t.Context(), fsys, "a.db", &left); !errors.Is(err, tidemark.ErrConflict) {
		t.Errorf("a database that changes all the time is copied: %v", err)
	}
	if left != 0 {
		t.Errorf("%d bytes are left of three and a half times its size", left)
	}
}
