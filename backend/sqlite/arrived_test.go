package sqlite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/backendtest"
)

// never is a time that no test waits for.
const never = 24 * time.Hour

// arrivingAll is a program whose every append arrives first, and moves after a time.
func arrivingAll(after time.Duration) setting {
	set := here
	set.leastLogs, set.moveAfter = 1, after
	return set
}

// TestBackendWhoseLinesArriveFirst runs the suite where lines wait until the store is closed,
// and with TIDEMARK_EVERY_CASE, which make soak sets, also where they are moved at once.
func TestBackendWhoseLinesArriveFirst(t *testing.T) {
	for name, after := range map[string]time.Duration{"moved at once": 0, "moved when it is closed": never} {
		if after == 0 && os.Getenv("TIDEMARK_EVERY_CASE") == "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			backendtest.Run(t, func(t testing.TB) func() tidemark.Backend {
				path := filepath.Join(t.TempDir(), "store.db")
				return func() tidemark.Backend { return openedBy(t, path, arrivingAll(after)) }
			})
		})
	}
}

// openedBy opens a store as another program would.
func openedBy(t testing.TB, path string, set setting) *Backend {
	t.Helper()
	b, err := open(context.Background(), path, &Options{Create: true}, set)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// patient makes a store whose mover waits until it is called.
func patient(t testing.TB) *Backend {
	t.Helper()
	set := here
	set.moveAfter = never
	return openedBy(t, filepath.Join(t.TempDir(), "store.db"), set)
}

func logNamed(i int) tidemark.Key { return key("session", fmt.Sprintf("s%d", i)) }

// together appends line seq to each of n logs, in one commit. Every line has a key.
func together(t testing.TB, b tidemark.Backend, n int, seq int64) {
	t.Helper()
	var batch tidemark.Batch
	for i := range n {
		log := logNamed(i)
		l := line(log, seq, "user", fmt.Sprintf(`{"blocks":[{"type":"text","text":"word%dof%d"}]}`, seq, i))
		l.Key = fmt.Sprintf("key-%d", seq)
		l.Sum = l.Checksum(log)
		batch.Appends = append(batch.Appends, tidemark.Append{Log: log, Lines: []tidemark.Line{l}})
	}
	keep(t, b, batch)
}

// rowsArrived returns how many rows of arrived lines there are.
func rowsArrived(t testing.TB, b *Backend) (n int64) {
	t.Helper()
	err := b.snapshot(t.Context(), func(c *conn) error {
		return c.do(`SELECT count(*) FROM line WHERE id >= ?1`, fromArrivals, func(s *stmt) { n = s.int(0) })
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func formatOfFile(t testing.TB, b *Backend) (format int64) {
	t.Helper()
	err := b.snapshot(t.Context(), func(c *conn) (err error) {
		format, err = c.number("PRAGMA user_version")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return format
}

// step has the mover do one step.
func step(t testing.TB, b *Backend) (more bool) {
	t.Helper()
	err := b.runJob(t.Context(), &job{do: func(w *writer) (err error) {
		more, err = w.moveSome()
		return err
	}})
	if err != nil {
		t.Fatal(err)
	}
	return more
}

// expectTogether checks that each of n logs has what together appended, up to length.
func expectTogether(t *testing.T, b *Backend, n int, length int64) {
	t.Helper()
	for i := range n {
		r, err := b.Get(t.Context(), logNamed(i))
		if err != nil || r.Head.Length != length {
			t.Errorf("log %d: the head says %d, %v; want %d", i, r.Head.Length, err, length)
		}
		for _, span := range []tidemark.Span{{}, {Backwards: true}} {
			lines := 0
			for l, err := range b.Lines(t.Context(), logNamed(i), span) {
				lines++
				if want := fmt.Sprintf("word%dof%d", l.Seq, i); err != nil || !strings.Contains(string(l.Body), want+`"`) || l.Key != fmt.Sprintf("key-%d", l.Seq) {
					t.Fatalf("log %d, line %d: %q, %v", i, l.Seq, l.Body, err)
				}
			}
			if lines != int(length) {
				t.Errorf("log %d: %d lines, want %d", i, lines, length)
			}
		}
	}
	if found := faults(t, b); found != nil {
		t.Errorf("Check: %v", found)
	}
}

// killed copies the files of an open store as they are, as a process that is killed
// leaves them.
func killed(t testing.TB, b *Backend) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "store.db")
	for _, end := range []string{"", "-wal"} {
		data, err := os.ReadFile(b.path + end)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path+end, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func TestLinesOfSeveralSessionsArriveAndThoseOfOneDoNot(t *testing.T) {
	b := patient(t)
	together(t, b, leastLogs-1, 1)
	if n := rowsArrived(t, b); n != 0 {
		t.Errorf("%d rows of %d logs have arrived", n, leastLogs-1)
	}
	together(t, b, leastLogs-1, 2)
	for i := range leastLogs {
		talk(t, b, key("session", fmt.Sprintf("alone%d", i)), 1, 3)
	}
	if n := rowsArrived(t, b); n != 0 {
		t.Errorf("%d rows of single sessions have arrived", n)
	}
	b = patient(t)
	together(t, b, 64, 1)
	if n := rowsArrived(t, b); n < 1 || n > 4 {
		t.Errorf("64 lines arrived in %d rows", n)
	}
	expectTogether(t, b, 64, 1)
}

func TestLinesArriveUpToABoundAndThenGoToTheirPlaces(t *testing.T) {
	b := patient(t)
	b.mover.running = true // nobody moves
	large := strings.Repeat("x", 6000)
	for seq := int64(1); seq <= 200; seq++ {
		var batch tidemark.Batch
		for i := range 5 {
			log := logNamed(i)
			batch.Appends = append(batch.Appends, tidemark.Append{Log: log, Lines: []tidemark.Line{line(log, seq, "user", large)}})
		}
		keep(t, b, batch)
	}
	if n := rowsArrived(t, b) * 8192; n < mostArrived || n > 2*mostArrived {
		t.Errorf("%d bytes have arrived", n)
	}
	for i := range 5 {
		if n := len(linesOf(t, b, logNamed(i))); n != 200 {
			t.Errorf("log %d: %d lines, want 200", i, n)
		}
	}
	if found := faults(t, b); found != nil {
		t.Errorf("Check: %v", found)
	}
}

func TestLineThatIsLargerThanAPageGoesToItsPlace(t *testing.T) {
	b := patient(t)
	for seq := int64(1); seq <= 3; seq++ {
		var batch tidemark.Batch
		for i := range 6 {
			log := logNamed(i)
			body := strings.Repeat("y", 100+i*2000)
			batch.Appends = append(batch.Appends, tidemark.Append{Log: log, Lines: []tidemark.Line{line(log, seq, "user", body)}})
		}
		keep(t, b, batch)
	}
	for range 2 {
		for i := range 6 {
			if lines := linesOf(t, b, logNamed(i)); len(lines) != 3 || len(lines[2].Body) != 100+i*2000 {
				t.Errorf("log %d: %d lines", i, len(lines))
			}
		}
		for step(t, b) {
		}
	}
	if n := rowsArrived(t, b); n != 0 {
		t.Errorf("%d rows were not moved", n)
	}
}

func TestNothingIsLostWhenTheMoverIsKilledAtAnyStep(t *testing.T) {
	b := patient(t)
	const logs, length = 10, 110
	for seq := int64(1); seq <= length; seq++ {
		together(t, b, logs, seq)
	}
	steps := 0
	for more := true; more; steps++ {
		expectTogether(t, b, logs, length)
		for _, what := range []string{"read", "append", "drop", "trim"} {
			afterKill(t, killed(t, b), what, logs, length)
		}
		more = step(t, b)
	}
	if steps < 4 {
		t.Errorf("moved in %d steps, want several", steps)
	}
	expectTogether(t, b, logs, length)
	if n := rowsArrived(t, b); n != 0 || formatOfFile(t, b) != Format {
		t.Errorf("%d rows wait, format %d", n, formatOfFile(t, b))
	}
}

// afterKill opens what a killed process left, does something to log 3, and expects
// everything else as it was, before and after it is closed.
func afterKill(t *testing.T, path, what string, logs int, length int64) {
	t.Helper()
	b := opened(t, path, nil)
	log := logNamed(3)
	want := length
	switch what {
	case "append":
		together(t, b, logs, length+1)
		length, want = length+1, length+1
	case "drop":
		keep(t, b, tidemark.Batch{Drops: []tidemark.Key{log}})
		want = 0
	case "trim":
		keep(t, b, tidemark.Batch{Trims: []tidemark.Trim{{Log: log, Length: length, Upto: 20}}})
	}
	for range 2 {
		for i := range logs {
			span, n := tidemark.Span{}, length
			if i == 3 {
				if n = want; what == "trim" {
					span, n = tidemark.Span{From: 21}, want-20
				}
			}
			for l, err := range b.Lines(t.Context(), logNamed(i), span) {
				n--
				if err != nil || !strings.Contains(string(l.Body), fmt.Sprintf(`"word%dof%d"`, l.Seq, i)) {
					t.Fatalf("%s: log %d, line %d: %q, %v", what, i, l.Seq, l.Body, err)
				}
			}
			if n != 0 {
				t.Errorf("%s: log %d: %d lines too few", what, i, n)
			}
		}
		if found := faults(t, b); found != nil {
			t.Errorf("%s: Check: %v", what, found)
		}
		b.Close()
		b = opened(t, path, nil)
	}
	if n := rowsArrived(t, b); n != 0 || formatOfFile(t, b) != Format {
		t.Errorf("%s: after it was closed, %d rows wait, format %d", what, n, formatOfFile(t, b))
	}
	b.Close()
}

func TestOlderProgramsAreKeptOutWhileLinesWait(t *testing.T) {
	b := patient(t)
	together(t, b, 5, 1)
	if have := formatOfFile(t, b); have != Format|waitingBit || tooNew(b.path, have, Format) == nil {
		t.Errorf("format %d while lines wait: an older program would open it", have)
	}
	if from, to, _, err := b.PendingUpgrade(t.Context()); err != nil || from != to {
		t.Errorf("an upgrade from %d to %d is pending, %v", from, to, err)
	}
	b.Close()
	r := opened(t, b.path, &Options{ReadOnly: true})
	if have := formatOfFile(t, r); have != Format {
		t.Errorf("format %d after it was closed", have)
	}
	expectTogether(t, r, 5, 1)
}

func TestOtherHandlesSeeWhatHasArrived(t *testing.T) {
	b := patient(t)
	other := opened(t, b.path, nil)
	reader := opened(t, b.path, &Options{ReadOnly: true})
	for seq := int64(1); seq <= 20; seq += 2 {
		together(t, b, 6, seq)
		expectTogether(t, other, 6, seq)
		together(t, other, 6, seq+1)
		for _, h := range []*Backend{b, other, reader} {
			expectTogether(t, h, 6, seq+1)
		}
		again := line(logNamed(2), seq+2, "user", "again")
		again.Key = fmt.Sprintf("key-%d", seq+1)
		again.Sum = again.Checksum(logNamed(2))
		err := commit(b, tidemark.Batch{Appends: []tidemark.Append{{Log: logNamed(2), Lines: []tidemark.Line{again}}}})
		if !errors.Is(err, tidemark.ErrExists) {
			t.Fatalf("a key of another handle: %v, want ErrExists", err)
		}
		step(t, other)
	}
}

func TestPurgeLeavesNothingOfWhatHasArrived(t *testing.T) {
	for _, steps := range []int{0, 1, 2, 3} {
		b := patient(t)
		for seq := int64(1); seq <= 40; seq++ {
			together(t, b, 8, seq)
		}
		for range steps {
			step(t, b)
		}
		keep(t, b, tidemark.Batch{Drops: []tidemark.Key{logNamed(5)}})
		for _, end := range []string{"", "-wal"} {
			data, err := os.ReadFile(b.path + end)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(data), `of5"`); n != 0 {
				t.Errorf("after %d steps: %d purged lines are in store%s", steps, n, end)
			}
			if end == "" && !strings.Contains(string(data), `of4"`) {
				t.Error("the lines of another log are gone, too")
			}
		}
	}
}

func TestTransactionThatIsUndoneTakesBackWhatArrived(t *testing.T) {
	b := patient(t)
	together(t, b, 5, 1)
	harm(t, b, `CREATE TRIGGER no BEFORE INSERT ON line WHEN new.kind = 'arrived' BEGIN SELECT raise(ABORT, 'no'); END`)
	var batch tidemark.Batch
	for i := range 5 {
		batch.Appends = append(batch.Appends, tidemark.Append{Log: logNamed(i), Lines: []tidemark.Line{line(logNamed(i), 2, "user", "{}")}})
	}
	if err := commit(b, batch); err == nil {
		t.Fatal("the commit succeeded")
	}
	harm(t, b, `DROP TRIGGER no`)
	expectTogether(t, b, 5, 1)
	together(t, b, 5, 2)
	expectTogether(t, b, 5, 2)
}

func TestChangedByteOfAnArrivedLineIsFoundAndTheOthersAreRead(t *testing.T) {
	b := patient(t)
	const logs = 12
	together(t, b, logs, 1)
	path := killed(t, b)
	opened(t, path, nil).writer.clearWAL() // into the file, and nothing is moved
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := strings.Index(string(whole), "word1of0") / wideBytes * wideBytes
	row := strings.Index(string(whole[at:]), arrivalKind) // what is before it tells SQLite what the row is
	changed, detected, harmless := 0, 0, 0
	for i := at; i < at+wideBytes; i += 3 { // of each field some bytes
		if whole[i] == 0 && i%97 != 0 {
			continue // most of the page is empty
		}
		changed++
		data := slices.Clone(whole)
		data[i] ^= 1 << (i % 8)
		target := filepath.Join(t.TempDir(), "store.db")
		if err := os.WriteFile(target, data, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := Open(t.Context(), target, &Options{ReadOnly: true})
		if err != nil {
			detected++
			continue
		}
		bad := 0
		for n := range logs {
			for l, err := range r.Lines(t.Context(), logNamed(n)) {
				switch {
				case err != nil:
					bad++
				case !strings.Contains(string(l.Body), fmt.Sprintf(`"word1of%d"`, n)) || l.Key != "key-1":
					t.Errorf("byte %d: a wrong line is shown: %q %q", i-at, l.Key, l.Body)
				}
			}
		}
		found := faults(t, r)
		r.Close()
		if bad > 0 && found == nil {
			t.Errorf("byte %d: %d lines cannot be read, and Check finds nothing", i-at, bad)
		}
		if bad > 1 && i >= at+row {
			t.Errorf("byte %d: %d lines cannot be read", i-at, bad)
		}
		if bad > 0 || found != nil {
			detected++
		} else {
			harmless++
		}
	}
	t.Logf("%d bytes changed: %d detected, %d harmless", changed, detected, harmless)
	if detected < changed/2 {
		t.Errorf("%d of %d changed bytes were detected", detected, changed)
	}
}

func TestDamagedRowOfArrivedLinesStaysAndTheRestIsMoved(t *testing.T) {
	b := patient(t)
	for seq := int64(1); seq <= 3; seq++ {
		together(t, b, 6, seq)
	}
	// The head of the frame of log 0 in the second row.
	damage := `UPDATE line SET body = CAST(substr(body, 1, 8) || x'ff' || substr(body, 10) AS BLOB) WHERE id = (SELECT min(id) + 1 FROM line WHERE kind = 'arrived')`
	harm(t, b, damage)
	b.writer.waiting = nil
	look := func(b *Backend, when string) {
		t.Helper()
		for i := range 6 {
			for l, err := range b.Lines(t.Context(), logNamed(i)) {
				if damaged := i == 0 && l.Seq == 2; (err != nil) != damaged {
					t.Errorf("%s: log %d, line %d: %v", when, i, l.Seq, err)
				}
			}
		}
		if found := faults(t, b); len(found) == 0 {
			t.Errorf("%s: Check finds nothing", when)
		}
	}
	look(b, "arrived")
	for step(t, b) {
	}
	look(b, "moved")
	if n := rowsArrived(t, b); n != 1 {
		t.Errorf("%d rows are left, want the damaged one", n)
	}
	together(t, b, 6, 4)
	b.Close()
	again := opened(t, b.path, nil)
	look(again, "opened again")
	keep(t, again, tidemark.Batch{Drops: []tidemark.Key{logNamed(0)}})
	if n := rowsArrived(t, again); n != 0 {
		t.Errorf("%d rows are left after a purge of what may be in them", n)
	}
}

func TestFrameIsReadAsItWasWritten(t *testing.T) {
	l := tidemark.Line{Seq: 7, Kind: "user", Key: "k", At: at, Position: tidemark.Position{Parent: 6, Depth: 5, Nodes: 4, Turn: 3}, Chain: []byte{1, 2},
		Body: []byte("body"), Batch: "batch", Sum: 1<<32 - 1}
	empty := tidemark.Line{Seq: 8, Kind: "note", At: at}
	row := salted(nil, appendFrame(appendFrame(nil, 99, 12, &l, l.Batch), 99, 13, &empty, ""), 99)
	var got []arrivedLine
	if !frames(row, func(a arrivedLine) { got = append(got, a) }) || len(got) != 2 {
		t.Fatalf("%d frames", len(got))
	}
	for i, want := range []arrivedLine{{12, l}, {13, empty}} {
		if fmt.Sprintf("%+v", got[i]) != fmt.Sprintf("%+v", want) {
			t.Errorf("%+v, want %+v", got[i], want)
		}
	}
	for i := range row {
		frames(row[:i], func(arrivedLine) {}) // it ends, and nothing panics
	}
}

func FuzzFrames(f *testing.F) {
	l := tidemark.Line{Seq: 7, Kind: "user", At: at, Body: []byte("body")}
	f.Add(salted(nil, appendFrame(nil, 5, 1, &l, "batch"), 5))
	f.Fuzz(func(t *testing.T, row []byte) {
		bytes := 0
		frames(row, func(a arrivedLine) { bytes += len(a.Body) })
		if bytes > len(row) {
			t.Errorf("%d bytes of lines in a row of %d", bytes, len(row))
		}
	})
}

func TestLogsThatArriveAreMovedBehindTheWriters(t *testing.T) {
	b := made(t)
	for seq := int64(1); seq <= 30; seq++ {
		together(t, b, 8, seq)
	}
	deadline := time.Now().Add(5 * time.Minute)
	for rowsArrived(t, b) > 0 && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	if n := rowsArrived(t, b); n != 0 {
		t.Errorf("%d rows were not moved", n)
	}
	expectTogether(t, b, 8, 30)
}

// arriveForever has eight writers append to logs of their own and prints what was
// acknowledged, until it is killed. Its mover is busy.
func arriveForever(path, name string) error {
	set := here
	set.moveAfter = time.Millisecond
	b, err := open(context.Background(), path, nil, set)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	var out sync.Mutex
	fail := make(chan error, 8)
	for g := range 8 {
		wg.Go(func() {
			log := key("session", fmt.Sprint(name, g))
			r, err := b.Get(context.Background(), log)
			for seq := r.Head.Length + 1; err == nil || errors.Is(err, tidemark.ErrNotFound); seq++ {
				l := line(log, seq, "user", fmt.Sprintf(`{"line":"%s %d"}`, log.ID, seq))
				err = commit(b, tidemark.Batch{Appends: []tidemark.Append{{Log: log, Lines: []tidemark.Line{l}}}})
				if err == nil && seq%50 == 0 && g == 0 { // what has arrived is changed meanwhile
					err = commit(b, tidemark.Batch{Drops: []tidemark.Key{log}})
					seq = 0
				}
				out.Lock()
				fmt.Println(log.ID, seq)
				out.Unlock()
			}
			fail <- err
		})
	}
	wg.Wait()
	return <-fail
}

func TestProcessesWhoseLinesArriveAreKilled(t *testing.T) {
	wanted, kills, entries := 1, 0, int64(0)
	if n, err := strconv.Atoi(os.Getenv("TIDEMARK_ARRIVAL_KILLS")); err == nil {
		wanted = n
	}
	for kills < wanted { // a store that grew through all of them would take too long to read
		n, acknowledged := killWhereLinesArrive(t)
		kills, entries = kills+n, entries+acknowledged
	}
	t.Logf("%d kills, %d entries", kills, entries)
}

// killWhereLinesArrive kills processes of eight writers on a store of its own, and returns
// how often it did, and how many entries were acknowledged.
func killWhereLinesArrive(t *testing.T) (kills int, entries int64) {
	path := filepath.Join(t.TempDir(), "store.db")
	opened(t, path, &Options{Create: true}).Close()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	acknowledged := make(map[string]int64) // of each log; of the ones that are dropped, nothing is known
	waited := 0
	for range 12 {
		var wg sync.WaitGroup
		var mu sync.Mutex
		for _, name := range []string{"a", "b"} {
			kills++
			cmd := exec.Command(exe)
			cmd.Env = append(os.Environ(), childArrive+"="+path, childName+"="+name)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			after := rand.IntN(600)
			wg.Go(func() {
				lines := bufio.NewScanner(out)
				for n := 0; lines.Scan(); n++ {
					var id string
					var seq int64
					if _, err := fmt.Sscan(lines.Text(), &id, &seq); err == nil && !strings.HasSuffix(id, "0") {
						mu.Lock()
						acknowledged[id] = max(acknowledged[id], seq)
						mu.Unlock()
					}
					if n == after {
						cmd.Process.Kill()
					}
				}
				cmd.Wait()
			})
		}
		wg.Wait()
		b := opened(t, path, &Options{ReadOnly: true})
		if rowsArrived(t, b) > 0 {
			waited++
		}
		for id, length := range acknowledged {
			lines := linesOf(t, b, key("session", id))
			if int64(len(lines)) < length {
				t.Errorf("%s: %d lines are there, and %d were acknowledged", id, len(lines), length)
			}
			for _, l := range lines {
				if want := fmt.Sprintf(`{"line":"%s %d"}`, id, l.Seq); string(l.Body) != want {
					t.Errorf("%s, line %d: %s", id, l.Seq, l.Body)
				}
			}
		}
		if found := faults(t, b); found != nil {
			t.Fatalf("Check: %v", found)
		}
		b.Close()
	}
	if waited == 0 {
		t.Error("no kill left lines that had arrived")
	}
	if len(acknowledged) < 14 {
		t.Errorf("lines of %d logs were acknowledged, want 14", len(acknowledged))
	}
	for _, n := range acknowledged {
		entries += n
	}
	return kills, entries
}

// A power cut leaves a beginning of the -wal file. Whichever it is, every line of every
// head is there.
func TestEveryBeginningOfTheLogOfAMoveIsAWholeStore(t *testing.T) {
	b := patient(t)
	const logs = 8
	harm(t, b, "PRAGMA wal_autocheckpoint=0")
	for seq := int64(1); seq <= 40; seq++ {
		together(t, b, logs, seq)
	}
	for more := true; more; {
		more = step(t, b)
	}
	together(t, b, logs, 41)
	keep(t, b, tidemark.Batch{Trims: []tidemark.Trim{{Log: logNamed(1), Length: 41, Upto: 30}}})
	file, err := os.ReadFile(b.path)
	if err != nil {
		t.Fatal(err)
	}
	wal, err := os.ReadFile(b.path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	const frame = 24 + wideBytes
	last := int64(0)
	for n := 0; walHeader+n*frame <= len(wal); n++ {
		path := filepath.Join(t.TempDir(), "store.db")
		for end, data := range map[string][]byte{"": file, "-wal": wal[:walHeader+n*frame]} {
			if err := os.WriteFile(path+end, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r := opened(t, path, nil)
		if found := faults(t, r); found != nil {
			t.Fatalf("after %d frames: %v", n, found)
		}
		head, err := r.Get(t.Context(), logNamed(0))
		if err != nil && !errors.Is(err, tidemark.ErrNotFound) || head.Head.Length < last {
			t.Fatalf("after %d frames: %d lines after %d, %v", n, head.Head.Length, last, err)
		}
		last = head.Head.Length
		if lines := linesOf(t, r, logNamed(0)); int64(len(lines)) != last {
			t.Fatalf("after %d frames: %d lines, the head says %d", n, len(lines), last)
		}
		r.Close()
	}
	if last != 41 {
		t.Errorf("at the end there are %d lines, want 41", last)
	}
}

func TestRecoveredStoreKeepsWhatHasArrived(t *testing.T) {
	b := patient(t)
	keep(t, b, tidemark.Batch{Puts: []tidemark.Record{record(logNamed(0), 1, `{}`)}})
	for seq := int64(1); seq <= 30; seq++ {
		together(t, b, 8, seq)
	}
	step(t, b)
	harm(t, b, "PRAGMA writable_schema=ON; UPDATE sqlite_schema SET sql = replace(sql, 'depth', 'xepth') WHERE name = 'line'")
	path := killed(t, b)
	r := opened(t, path, &Options{ReadOnly: true}) // by the pages of its tables
	for i := range 8 {
		if n := len(linesOf(t, r, logNamed(i))); n != 30 {
			t.Errorf("log %d: %d lines, want 30", i, n)
		}
	}
	r.Close()
	if said, err := repaired(path); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	expectTogether(t, opened(t, path, nil), 8, 30)
}

// Between its last step and its end the mover still counts as running.
func TestWhatArrivesWhenTheMoverIsAboutToEndIsMovedLater(t *testing.T) {
	b := patient(t)
	b.mover.running = true
	together(t, b, 8, 1)
	b.mover.ended(0)
	b.mover.mu.Lock()
	defer b.mover.mu.Unlock()
	if b.mover.timer == nil {
		t.Error("nobody moves what has arrived")
	}
}
