//go:build !windows

package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/backend/files"
	"github.com/tidemark-sessions/tidemark/backend/sqlite"
	"github.com/tidemark-sessions/tidemark/workshop/pgtest"
)

// desk is a home with a store in it, and the program.
type desk struct {
	t   *testing.T
	dir string
	env []string
}

func newDesk(t *testing.T, store string) *desk {
	t.Helper()
	dir := t.TempDir()
	return &desk{t, dir, []string{"HOME=" + dir + "/home", "XDG_DATA_HOME=" + dir + "/home/data", "XDG_CONFIG_HOME=" + dir + "/home/config",
		"TIDEMARK_STORE=" + strings.ReplaceAll(store, "DIR", dir)}}
}

// run returns what a command printed, what it said, and its exit code.
func (d *desk) run(input string, args ...string) (stdout, stderr string, code int) {
	d.t.Helper()
	cmd := tidemarkIn(d.dir, args...)
	cmd.Env, cmd.Stdin = append(cmd.Env, d.env...), strings.NewReader(input)
	var out, said strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		d.t.Fatal(err)
	}
	return out.String(), said.String(), cmd.ProcessState.ExitCode()
}

// want runs a command that has to succeed.
func (d *desk) want(input string, args ...string) string {
	d.t.Helper()
	out, said, code := d.run(input, args...)
	if code != 0 {
		d.t.Fatalf("tidemark %s: exit %d: %s%s", strings.Join(args, " "), code, out, said)
	}
	return out
}

// tree returns every file below dir, with mode and content.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		all[path] = info.Mode().String()
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			all[path] += " " + string(data)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func unpack(t *testing.T, archive, dir string) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o700)
		} else {
			var data []byte
			if data, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(path, data, 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// whatItSays reads every session of a store in testdata/stores, as the program
// did that wrote it. Trees are told by their nodes: how they are drawn is no
// matter of the store.
func (d *desk) whatItSays() string {
	d.t.Helper()
	var all strings.Builder
	for _, name := range []string{"tides", "forked tides", "New Name", "a chat"} {
		for _, args := range [][]string{{"cat", name, "--all"}, {"cat", name}, {"tree", name}} {
			out, _, _ := d.run("", args...) // not every program had a chat
			all.WriteString(nodesOnly(out))
		}
	}
	return all.String()
}

// nodesOnly leaves of the lines of a tree what names their nodes.
func nodesOnly(text string) string {
	return treeLine.ReplaceAllString(text, "$1")
}

var treeLine = regexp.MustCompile(`(?m)^[^\w{\n]*(n\d+ (?:\[[^]]*\] )?\(\d+ msgs\)).*$`)

// Each store was written by the program of one commit, which its name tells,
// and lies beside what that program read from it.
func TestStoresOfEarlierProgramsOpen(t *testing.T) {
	t.Parallel()
	archives, err := filepath.Glob("testdata/stores/*.tgz")
	if err != nil || len(archives) < 6 {
		t.Fatalf("%d stores, %v", len(archives), err)
	}
	for _, archive := range archives {
		name := strings.TrimSuffix(filepath.Base(archive), ".tgz")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := "files:DIR/store"
			if strings.Contains(name, "sqlite") {
				store = "sqlite:DIR/store.db"
			}
			d := newDesk(t, store)
			unpack(t, archive, d.dir)
			if strings.Contains(name, "sealed") {
				d.env = append(d.env, "TIDEMARK_KEY_FILE="+d.dir+"/key")
			}
			said, err := os.ReadFile(filepath.Join(d.dir, "said"))
			if err != nil {
				t.Fatal(err)
			}
			before := tree(t, d.dir)
			if diff := cmp.Diff(nodesOnly(string(said)), d.whatItSays()); diff != "" {
				t.Errorf("reads otherwise:\n%s", diff)
			}
			if told := d.want("", "doctor"); !strings.Contains(told, "upgrades it to") || !strings.Contains(told, "MB are free") {
				t.Errorf("doctor does not say what the upgrade needs:\n%s", told)
			}
			if diff := cmp.Diff(before, tree(t, d.dir)); diff != "" {
				t.Errorf("reading changed something:\n%s", diff)
			}
			_, told, _ := d.run(`{"role":"user","blocks":[{"type":"text","text":"Wattenmeer"}]}`, "append", "New Name")
			d.testOldCopy(told, string(said))
			d.testOldStore(strings.HasPrefix(name, "fc207bf"))
		})
	}
}

// testOldCopy looks at what was kept before a store was upgraded.
func (d *desk) testOldCopy(told, said string) {
	d.t.Helper()
	copies, _ := filepath.Glob(d.dir + "/store*.bak-*")
	if len(copies) != 1 || !strings.Contains(told, "is upgraded to format") || !strings.Contains(told, copies[0]) {
		d.t.Fatalf("copies %v, and what was said is %q", copies, told)
	}
	info, err := os.Stat(copies[0])
	if err != nil || info.Mode().Perm()&0o077 != 0 {
		d.t.Errorf("the copy: %v, %v", info.Mode(), err)
	}
	kind := "sqlite:"
	if info.IsDir() {
		kind = "files:"
	}
	old := *d
	old.env = append(old.env, "TIDEMARK_STORE="+kind+copies[0])
	if diff := cmp.Diff(nodesOnly(said), old.whatItSays()); diff != "" {
		d.t.Errorf("the copy reads otherwise:\n%s", diff)
	}
}

// testOldStore uses a store of an earlier program as one would use one's own.
func (d *desk) testOldStore(fleet bool) {
	t := d.t
	t.Helper()
	d.want("", "verify")
	d.want("", "doctor")
	for _, word := range []string{"Husum", "Wattenmeer"} {
		if !strings.Contains(d.want("", "search", word), word) {
			t.Errorf("%s is not found", word)
		}
	}
	if out := d.want("", "show", "tides@low water", "-n", "1"); !strings.Contains(out, "At six") {
		t.Errorf("at the label: %s", out)
	}
	if out := d.want("", "ls", "--trash", "--jq", ".[].title"); out != "rubbish\n" {
		t.Errorf("the trash holds %q", out)
	}
	d.want("", "restore", "rubbish")
	if fleet {
		if out := d.want("", "jobs", "--jq", ".[].status"); out != "completed\n" {
			t.Errorf("jobs: %q", out)
		}
		if out := d.want("", "logs", "clock"); !strings.Contains(out, "tick") {
			t.Errorf("log of the job: %q", out)
		}
	}
	d.want("", "export", "--all", "-o", "all.tidemark")
	d.want("", "restore-drill", "all.tidemark")
	d.want("", "purge", "tides", "--yes")
	if out := d.want("", "cat", "forked tides"); !strings.Contains(out, "Husum") {
		t.Errorf("the fork lost its past: %s", out)
	}
	d.want("", "verify")
}

func TestStoreOfANewerProgramIsRefusedOnEveryWayIn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		store, file, says string
		newer             func([]byte) []byte
	}{
		"sqlite": {"sqlite:DIR/store.db", "store.db", "has format 99, made by a newer program; this one knows format 3", func(b []byte) []byte {
			return append(binary.BigEndian.AppendUint32(b[:60:60], 99), b[64:]...) // PRAGMA user_version
		}},
		"files": {"files:DIR/store", "store/tidemark.json", "has format 99, made by a newer program; this one knows format 2", func(b []byte) []byte {
			return []byte(strings.Replace(string(b), `"version":2`, `"version":99`, 1))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, c.store)
			d.want(`{"role":"user","blocks":[{"type":"text","text":"hello"}]}`, "--no-encrypt", "append", "new", "--session-meta", `{"title":"one"}`)
			d.want("", "export", "--all", "-o", "all.tidemark")
			d.want("", "agents")
			path := filepath.Join(d.dir, c.file)
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, c.newer(data), 0o600); err != nil {
				t.Fatal(err)
			}
			other := "TIDEMARK_STORE=sqlite:" + d.dir + "/other.db"
			before := tree(t, d.dir)
			for _, args := range [][]string{
				{"ls", "-A", "--json"}, {"show", "one"}, {"tail", "one"}, {"cat", "one"}, {"tree", "one"}, {"search", "hello"}, {"stats"}, {"scan"},
				{"verify"}, {"doctor"}, {"doctor", "--fix"}, {"lock", "one"}, {"jobs"}, {"agents"}, {"memory", "ls"}, {"record", "get", "session", "x"},
				{"append", "new"}, {"append", "one"}, {"rename", "one", "two"}, {"tag", "one", "+x"}, {"label", "one", "x"}, {"branch", "one@n0"}, {"fork", "one"},
				{"pin", "one"}, {"hold", "one"}, {"rm", "one"}, {"restore", "one"}, {"purge", "one", "--yes"}, {"gc"}, {"memory", "add", "x", "y"},
				{"export", "one"}, {"export", "--all", "-o", "-"}, {"import", "all.tidemark"}, {"migrate", "--to", "memory:"}, {"key", "show"}, {"key", "rotate"},
				{"chat", "-p", "hello", "--provider", "demo"}, {"run", "x"}, {"serve", "--addr", "127.0.0.1:0"}, {"token", "ls"}, {"audit", "ls"},
			} {
				out, said, code := d.run("{}", args...)
				if code != 1 || out != "" || !strings.Contains(said, c.says) || !strings.Contains(said, "hint: use a newer tidemark") {
					t.Errorf("tidemark %s: exit %d: %s%s", strings.Join(args, " "), code, out, said)
				}
			}
			into := *d
			into.env = append(into.env, other)
			into.want(`{"role":"user","blocks":[{"type":"text","text":"hello"}]}`, "--no-encrypt", "append", "new")
			if _, said, code := into.run("", "migrate", "--no-encrypt", "--to", strings.ReplaceAll(c.store, "DIR", d.dir)); code != 1 || !strings.Contains(said, c.says) {
				t.Errorf("migrate into it: exit %d: %s", code, said)
			}
			after := tree(t, d.dir)
			for path := range after {
				if strings.Contains(path, "/other.db") || strings.Contains(path, "/home") {
					delete(after, path)
					delete(before, path)
				}
			}
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("something was changed:\n%s", diff)
			}
		})
	}
}

func TestStoreSealedByANewerProgramIsRefusedAndLeftAlone(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"sqlite:DIR/store.db", "files:DIR/store"} {
		kind, path, _ := strings.Cut(store, ":DIR/")
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, store)
			d.want(`{"role":"user","blocks":[{"type":"text","text":"hello"}]}`, "append", "new", "--session-meta", `{"title":"one"}`)
			path = filepath.Join(d.dir, path)
			var b tidemark.Backend
			var err error
			if kind == "sqlite" {
				b, err = sqlite.Open(t.Context(), path, nil)
			} else {
				b, err = files.Open(t.Context(), path, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			r, err := b.Get(t.Context(), tidemark.Key{Kind: "keyring", ID: "keyring"})
			if err != nil {
				t.Fatal(err)
			}
			r.Version, r.Body = r.Version+1, []byte(strings.Replace(string(r.Body), `"format":2`, `"format":7`, 1))
			r.Sum = r.Checksum()
			if _, err := b.Commit(t.Context(), tidemark.Batch{ID: tidemark.NewBatchID(), At: r.UpdatedAt, Puts: []tidemark.Record{r}}); err != nil {
				t.Fatal(err)
			}
			b.Close()
			before := tree(t, d.dir)
			for _, args := range [][]string{{"ls"}, {"cat", "one"}, {"append", "one"}, {"rename", "one", "two"}, {"verify"}, {"doctor"}, {"gc"}, {"key", "show"}, {"key", "rotate"}, {"serve", "--addr", "127.0.0.1:0"}} {
				_, said, code := d.run(`{"role":"user","content":"more"}`, args...)
				if code == 0 || !strings.Contains(said, "has format 7, made by a newer program; this one knows format 2") {
					t.Errorf("tidemark %s: exit %d: %s", strings.Join(args, " "), code, said)
				}
			}
			after := tree(t, d.dir)
			delete(before, path+"-shm") // memory that processes share
			delete(after, path+"-shm")
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("something was changed:\n%s", diff)
			}
		})
	}
}

func TestArchiveOfANewerProgramIsRefused(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "sqlite:DIR/store.db")
	d.want(`{"role":"user","blocks":[{"type":"text","text":"hello"}]}`, "--no-encrypt", "append", "new")
	d.want("", "export", "--all", "-o", "all.tidemark")
	path := filepath.Join(d.dir, "all.tidemark")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	binary.LittleEndian.PutUint16(b[8:], 7)
	binary.LittleEndian.PutUint32(b[12:], crc32.Checksum(b[:12], crc32.MakeTable(crc32.Castagnoli)))
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	before := tree(t, d.dir)
	for _, args := range [][]string{{"import", "all.tidemark"}, {"restore-drill", "all.tidemark"}} {
		_, said, code := d.run("", args...)
		if code != 1 || !strings.Contains(said, "has format 7, made by a newer program; this one knows format 1") || !strings.Contains(said, "hint: ") {
			t.Errorf("tidemark %s: exit %d: %s", strings.Join(args, " "), code, said)
		}
	}
	if diff := cmp.Diff(before, tree(t, d.dir)); diff != "" {
		t.Errorf("something was changed:\n%s", diff)
	}
}

func TestServerOfANewerProgramIsAskedNothingFurther(t *testing.T) {
	t.Parallel()
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method)
		json.NewEncoder(w).Encode(api.About{Service: api.Service, Format: 99, MaxRequestBytes: 1 << 20})
	}))
	defer server.Close()
	d := newDesk(t, server.URL)
	d.env = append(d.env, "TIDEMARK_TOKEN=x")
	for _, args := range [][]string{{"ls"}, {"append", "new"}, {"verify"}, {"gc"}} {
		asked = nil
		_, said, code := d.run(`{"role":"user","content":"hello"}`, args...)
		if code != 1 || !strings.Contains(said, "speaks format 99 of these calls, this program format 2") {
			t.Errorf("tidemark %s: exit %d: %s", strings.Join(args, " "), code, said)
		}
		if !slices.Equal(asked, []string{"GET"}) {
			t.Errorf("tidemark %s asked %v", strings.Join(args, " "), asked)
		}
	}
}

// The owner cannot copy a database, so an upgrade waits for the word of whoever
// can.
func TestDatabaseOfAnOlderProgramIsMigratedWhenThereIsABackup(t *testing.T) {
	t.Parallel()
	db := pgtest.Start(t).Database(t)
	d := newDesk(t, db.Server)
	d.env = append(d.env, "TIDEMARK_DATABASE_OWNER="+db.Owner)
	d.want("", "database", "migrate")
	d.want(`{"role":"user","blocks":[{"type":"text","text":"hello"}]}`, "--no-encrypt", "append", "new", "--session-meta", `{"title":"one"}`)
	c, err := pgx.Connect(t.Context(), db.Owner)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	for _, sql := range []string{ // takes back what came after the second migration
		`drop table tidemark.act`,
		`create table tidemark.word (tenant uuid, owner uuid, log uuid, seq bigint, scope uuid, word bytea, at timestamptz)`,
		`alter table tidemark.log add column indexed bigint not null default 0, add column behind boolean not null default true`,
		`alter table tidemark.log add constraint log_session check (true), add constraint log_scope check (true)`,
		`alter table tidemark.record add constraint record_session check (true), add constraint record_scope check (true)`,
		`delete from tidemark.goose_db_version where version_id > 2`,
	} {
		if _, err := c.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if _, said, code := d.run("", "ls"); code != 1 || !strings.Contains(said, "migrate it as its owner first") {
		t.Errorf("ls: exit %d: %s", code, said)
	}
	for _, args := range [][]string{{"database", "migrate"}, {"serve", "--migrate", "--addr", "127.0.0.1:0"}} {
		_, said, code := d.run("", args...)
		if code != 2 || !strings.Contains(said, "cannot be taken back") || !strings.Contains(said, "--backed-up") {
			t.Errorf("tidemark %s: exit %d: %s", strings.Join(args, " "), code, said)
		}
	}
	d.want("", "database", "migrate", "--backed-up")
	if out := d.want("", "cat", "one"); !strings.Contains(out, "hello") {
		t.Errorf("cat: %s", out)
	}
	for _, sql := range []string{`insert into tidemark.goose_db_version (version_id, is_applied) values (99, true)`, `update tidemark.made set how = '99' where what = 'oldest program'`} {
		if _, err := c.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"ls"}, {"database", "check"}, {"database", "migrate", "--backed-up"}, {"serve", "--migrate", "--addr", "127.0.0.1:0"}} {
		_, said, code := d.run("", args...)
		if code != 1 || !strings.Contains(said, "has format 99, made by a newer program") || !strings.Contains(said, "hint: use a newer tidemark") {
			t.Errorf("tidemark %s: exit %d: %s", strings.Join(args, " "), code, said)
		}
	}
}
