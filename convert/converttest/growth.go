package converttest

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/tidemark-sessions/tidemark/convert"
)

// Bounds of the states of one file that are imported, in any test and in a short
// one.
const (
	cutsOfFile = 100
	fewCuts    = 12
)

// CheckGrowth imports each file of a Source that grows selects as it was while
// its tool wrote it: after every line, and at random bytes, with only those files
// beside it that grows names. What is final in one state has to be there in the next one and in
// the finished file, the same entries in the same order. It returns how many
// entries of the finished files are drafts, and how many there are.
func CheckGrowth(t *testing.T, tool convert.Tool, p convert.Source, grows func(file string) (ok bool, beside []string)) (drafts, entries int) {
	t.Helper()
	files := 0
	err := fs.WalkDir(p.FS, p.Path, func(file string, d fs.DirEntry, err error) error {
		ok, beside := grows(file)
		if err != nil || !d.Type().IsRegular() || !ok {
			return err
		}
		data, err := fs.ReadFile(p.FS, file)
		if err != nil {
			return err
		}
		only := fstest.MapFS{}
		for _, name := range beside {
			other, err := fs.ReadFile(p.FS, name)
			if err != nil {
				return err
			}
			only[name] = &fstest.MapFile{Data: other}
		}
		state := func(n int) logs {
			only[file] = &fstest.MapFile{Data: data[:n]}
			return readLogs(t, tool, convert.Source{FS: only, Path: p.Path})
		}
		files++
		whole := state(len(data))
		for _, log := range whole {
			entries += len(log.entries)
			drafts += len(log.entries) - log.final
		}
		before, last := logs{}, 0
		for _, n := range cuts(data) {
			now := state(n)
			now.continues(t, before, fmt.Sprintf("%s: after %d and %d bytes", file, last, n))
			whole.continues(t, now, fmt.Sprintf("%s: after %d bytes and all %d", file, n, len(data)))
			if before, last = now, n; t.Failed() {
				return fs.SkipAll
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files == 0 {
		t.Error("there is no file that grows")
	}
	return drafts, entries
}

// cuts are lengths that a file had: after each line, and by chance some in it.
func cuts(data []byte) (all []int) {
	random := rand.New(rand.NewPCG(uint64(len(data)), 1))
	for at := 0; at < len(data); {
		n := bytes.IndexByte(data[at:], '\n') + 1
		if n == 0 {
			n = len(data) - at
		}
		for range 3 {
			all = append(all, at+random.IntN(n))
		}
		at += n
		all = append(all, at)
	}
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	most := cutsOfFile
	if testing.Short() {
		most = fewCuts
	}
	all = all[:min(len(all), most)]
	slices.Sort(all)
	return slices.Compact(all)
}

// logs are the entries of sessions and workers, by their names.
type logs map[string]*grownLog

// grownLog is a log as text to compare: the first entries are final.
type grownLog struct {
	entries []string
	final   int
}

func readLogs(t *testing.T, tool convert.Tool, p convert.Source) logs {
	t.Helper()
	all := logs{}
	for _, s := range Read(t, tool, p).Sessions {
		all[s.ForeignID] = newLog(t, s.ForeignID, s.Entries)
		for _, w := range s.Workers {
			name := s.ForeignID + " worker " + w.Name
			all[name] = newLog(t, name, w.Entries)
		}
	}
	return all
}

func newLog(t *testing.T, name string, entries []convert.Entry) *grownLog {
	t.Helper()
	log := &grownLog{}
	for _, e := range entries {
		switch {
		case e.Draft:
		case log.final < len(log.entries):
			t.Errorf("%s: entry %s follows a draft, and is none", name, e.ID)
		default:
			log.final++
		}
		if e.Usage != nil {
			u := *e.Usage
			u.CostUSD = 0 // may become known later
			e.Usage = &u
		}
		line, err := e.Line()
		if err != nil {
			t.Fatalf("%s: entry %s: %v", name, e.ID, err)
		}
		log.entries = append(log.entries, fmt.Sprintf("%s after %q: %s %s %s", e.ID, e.Parent, line.Kind, line.At, line.Body))
	}
	return log
}

// continues checks that what was final still is.
func (now logs) continues(t *testing.T, before logs, when string) {
	t.Helper()
	for name, was := range before {
		is := now[name]
		if is == nil || is.final < was.final {
			t.Errorf("%s: %s: entries that were final are not any more", when, name)
			continue
		}
		for i, e := range was.entries[:was.final] {
			if is.entries[i] != e {
				t.Errorf("%s: %s: a final entry was\n%.1500s\nand is\n%.1500s", when, name, e, is.entries[i])
				break
			}
		}
	}
}
