package files_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/backendtest"
	"github.com/tidemark-sessions/tidemark/backend/files"
	"github.com/tidemark-sessions/tidemark/internal/durable/crashfs"
)

// listedKinds is what the program keeps lists of.
var listedKinds = []string{"session", "job"}

// manySessions is more than the changes after which a list is written.
const manySessions = 150

func sessionKey(i int) tidemark.Key {
	return tidemark.Key{Kind: "session", ID: fmt.Sprintf("s%04d", i)}
}

var listNoon = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

// commitAt commits parts as of some minutes after noon.
func commitAt(t testing.TB, b tidemark.Backend, minutes int, parts ...any) {
	t.Helper()
	batch := batchOf(parts...)
	batch.At = listNoon.Add(time.Duration(minutes) * time.Minute)
	if _, err := b.Commit(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
}

// aSession is a record in one of three groups and two states.
func aSession(i int, version int64, state string) tidemark.Record {
	r := backendtest.NewRecord(sessionKey(i), version, `{}`)
	r.Group, r.State = fmt.Sprint("g", i%3), state
	return r
}

// fillListed makes a store with sessions whose list is kept.
func fillListed(t testing.TB, dir string) {
	t.Helper()
	b := open(t, dir, &files.Options{Create: true, Listed: listedKinds})
	for i := range manySessions {
		commitAt(t, b, i, aSession(i, 1, "idle"), run(sessionKey(i), 1, 1))
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}

var listQueries = []tidemark.Query{
	{Kind: "session", Limit: 5}, {Kind: "session"}, {Kind: "session", Group: "g1", Limit: 10}, {Kind: "session", State: "busy"},
	{Kind: "session", Order: tidemark.ByID, State: "idle"}, {Kind: "session", Prefix: "s001"}, {Kind: "session", Prefix: "s001", Group: "g2"},
}

func idsOf(t testing.TB, b tidemark.Backend, q tidemark.Query) (ids []string) {
	t.Helper()
	for r, err := range b.List(t.Context(), q) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, fmt.Sprintf("%s v%d %d %s", r.ID, r.Version, r.Head.Length, r.State))
	}
	return ids
}

// wantSameLists compares what a process lists that has just begun, with and without the
// lists that are kept.
func wantSameLists(t testing.TB, dir, when string) {
	t.Helper()
	with := open(t, dir, &files.Options{ReadOnly: true, Listed: listedKinds})
	without := open(t, dir, &files.Options{ReadOnly: true})
	defer with.Close()
	defer without.Close()
	for _, q := range listQueries {
		want := idsOf(t, without, q)
		for _, again := range []string{"", ", again"} {
			if d := cmp.Diff(want, idsOf(t, with, q)); d != "" {
				t.Fatalf("%s, %+v%s (-without a list +with one):\n%s", when, q, again, d)
			}
		}
	}
}

// Whoever changes a record or appends to a log, a program included that knows nothing of
// lists, is seen by the next process.
func TestAListIsRightWhoeverChangesTheStore(t *testing.T) {
	dir := t.TempDir()
	fillListed(t, dir)
	wantSameLists(t, dir, "at first")
	earlier := open(t, dir, &files.Options{})
	r := rand.New(rand.NewPCG(1, 2))
	version, length := map[int]int64{}, map[int]int64{}
	for i := range manySessions {
		version[i], length[i] = 1, 1
	}
	next := manySessions
	for step := range 60 {
		ours := tidemark.Backend(earlier)
		if step%3 == 0 {
			ours = open(t, dir, &files.Options{Listed: listedKinds})
		}
		i, at := r.IntN(next), manySessions+step
		for version[i] == 0 {
			i = r.IntN(next)
		}
		what := ""
		switch r.IntN(5) {
		case 0:
			what = "a new session"
			version[next], length[next] = 1, 1
			commitAt(t, ours, at, aSession(next, 1, "busy"), run(sessionKey(next), 1, 1))
			next++
		case 1:
			what = "a session that goes"
			commitAt(t, ours, at, tidemark.Precondition{Key: sessionKey(i), Version: version[i]}, sessionKey(i))
			version[i], length[i] = 0, 0
		case 2:
			what = "a session that changes"
			version[i]++
			commitAt(t, ours, at, aSession(i, version[i], "busy"))
		default:
			what = "an append"
			length[i]++
			commitAt(t, ours, at, run(sessionKey(i), length[i], length[i]))
		}
		if ours != tidemark.Backend(earlier) {
			if err := ours.Close(); err != nil {
				t.Fatal(err)
			}
		}
		wantSameLists(t, dir, fmt.Sprintf("step %d, %s", step, what))
	}
}

// A list is not relied on where it is torn, of another store, or changed by anybody.
func TestAListThatIsNotWholeIsPassedOver(t *testing.T) {
	dir := t.TempDir()
	fillListed(t, dir)
	name := filepath.Join(dir, "lists", "session")
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	write := func(b []byte) {
		t.Helper()
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for n := 0; n < len(whole); n += 1 + len(whole)/40 {
		write(whole[:n])
		wantSameLists(t, dir, fmt.Sprintf("cut to %d bytes", n))
		changed := bytes.Clone(whole)
		changed[n] ^= 0x41
		write(changed)
		wantSameLists(t, dir, fmt.Sprintf("byte %d changed", n))
	}
	other := t.TempDir()
	fillListed(t, other)
	foreign, err := os.ReadFile(filepath.Join(other, "lists", "session"))
	if err != nil {
		t.Fatal(err)
	}
	write(foreign)
	wantSameLists(t, dir, "the list of another store")
	if err := os.RemoveAll(filepath.Join(dir, "lists")); err != nil {
		t.Fatal(err)
	}
	wantSameLists(t, dir, "without a list")
}

// Each process leaves a dot for each record that it changed. When they are many, the list
// is written anew; who only reads writes nothing.
func TestAListIsWrittenAnewAfterManyChanges(t *testing.T) {
	dir := t.TempDir()
	fillListed(t, dir)
	name := filepath.Join(dir, "lists", "session")
	listOf := func() []byte {
		t.Helper()
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	first := listOf()
	wantSameLists(t, dir, "at first")
	if !bytes.Equal(listOf(), first) {
		t.Error("a process that only reads wrote a list")
	}
	for i := range 127 {
		b := open(t, dir, &files.Options{Listed: listedKinds})
		commitAt(t, b, manySessions+i, run(sessionKey(i), 2, 2))
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if want := append(bytes.Clone(first), bytes.Repeat([]byte{'.'}, 127)...); !bytes.Equal(listOf(), want) {
		t.Errorf("after 127 changes the list has %d bytes, not the %d of before and 127 dots", len(listOf()), len(first))
	}
	b := open(t, dir, &files.Options{Listed: listedKinds})
	commitAt(t, b, 2*manySessions, aSession(140, 2, "busy"))
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if now := listOf(); bytes.HasPrefix(now, first[:64]) || bytes.HasSuffix(now, []byte{'.'}) {
		t.Error("the list was not written anew")
	}
	wantSameLists(t, dir, "at last")
}

// What was purged is not named any more when the process that did it has ended.
func TestAPurgedSessionLeavesTheList(t *testing.T) {
	dir := t.TempDir()
	fillListed(t, dir)
	name := filepath.Join(dir, "lists", "session")
	named := func() bool {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Contains(b, []byte(sessionKey(7).ID))
	}
	if !named() {
		t.Fatal("the list does not name a session that is there")
	}
	b := open(t, dir, &files.Options{Listed: listedKinds})
	commitAt(t, b, manySessions, tidemark.Precondition{Key: sessionKey(7), Version: 1}, sessionKey(7))
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if named() {
		t.Error("the list names a session that was purged")
	}
	wantSameLists(t, dir, "after a purge")
}

// A store that cannot write a list, or dies over it, goes on without.
func TestAListMayBeCutOffAnywhere(t *testing.T) {
	for stop := 1; ; stop++ {
		disk := crashfs.New()
		b := open(t, "store", &files.Options{FS: disk, Create: true, Listed: listedKinds})
		var want []string
		for i := range manySessions {
			commitAt(t, b, i, aSession(i, 1, "idle"))
			want = append([]string{fmt.Sprintf("s%04d v1 0 idle", i)}, want...)
		}
		disk.StopAt(stop)
		if err := b.Close(); err != nil {
			t.Logf("Close = %v", err)
		}
		cut := disk.Changes() >= stop
		for _, loss := range []crashfs.Loss{{}, {Data: crashfs.Torn, Names: crashfs.Torn}} {
			for seed := range uint64(4) {
				again := open(t, "store", &files.Options{FS: disk.Cut(loss, seed), Listed: listedKinds})
				if d := cmp.Diff(want, idsOf(t, again, tidemark.Query{Kind: "session"})); d != "" {
					t.Fatalf("cut off at change %d (-want +got):\n%s", stop, d)
				}
				again.Close()
			}
		}
		if !cut {
			return
		}
	}
}

// Whoever knows that ids end with their group asks for a group without reading the records
// of others, and finds what is found without knowing it.
func TestAGroupThatEndsTheIDsIsFoundByThem(t *testing.T) {
	dir := t.TempDir()
	grouped := &files.Options{Create: true, Grouped: []string{"name"}}
	b, other := open(t, dir, grouped), open(t, dir, nil)
	name := func(i int, group string, version int64) tidemark.Record {
		r := backendtest.NewRecord(tidemark.Key{Kind: "name", ID: fmt.Sprintf("Session%d.%s", i, group)}, version, `{}`)
		r.Group = group
		return r
	}
	want := func(when string) {
		t.Helper()
		for _, q := range []tidemark.Query{{Group: "aa"}, {Group: "bb", Order: tidemark.ByID}, {Group: "a"}, {Group: "aa", Prefix: "Session1"}, {Prefix: "Session2"}, {}} {
			q.Kind = "name"
			if d := cmp.Diff(idsOf(t, other, q), idsOf(t, b, q)); d != "" {
				t.Fatalf("%s, %+v (-as all do +by their ids):\n%s", when, q, d)
			}
		}
	}
	for i := range 20 {
		commitAt(t, []tidemark.Backend{b, other}[i%2], i, name(i, []string{"aa", "bb", "xaa"}[i%3], 1))
		want("with one more")
	}
	commitAt(t, other, 30, name(3, "aa", 2))
	commitAt(t, other, 31, tidemark.Precondition{Key: name(6, "aa", 1).Key, Version: 1})
	want("after changes of another process")
	if err := os.WriteFile(filepath.Join(dir, "records", "name", "%53ession1.bb.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := idsOf(t, open(t, dir, grouped), tidemark.Query{Kind: "name", Group: "aa"}); len(got) == 0 {
		t.Error("nothing is found beside a damaged record of another group")
	}
}
