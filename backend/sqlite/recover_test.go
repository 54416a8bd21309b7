package sqlite

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
)

// narrowPages makes a store one as it was made before.
var narrowPages = fmt.Sprintf("PRAGMA journal_mode=DELETE; PRAGMA page_size=%d; VACUUM; PRAGMA journal_mode=WAL", narrowBytes)

// flipStore makes the store of the flip tests, closed, and returns its bytes
// and the pages that its schema is kept in.
func flipStore(t *testing.T, finish string) (path string, whole []byte, schema []int64) {
	t.Helper()
	b := made(t)
	for i := range flipSessions {
		log := key("session", fmt.Sprint("s", i))
		r := record(log, 1, fmt.Sprintf(`{"title":"session %d"}`, i))
		r.State, r.Group = "open", "g"
		a := tidemark.Append{Log: log}
		for seq := int64(1); seq <= flipLines; seq++ {
			a.Lines = append(a.Lines, line(log, seq, "user", fmt.Sprintf(`{"blocks":[{"type":"text","text":"%d of %d"}]}`, seq, i)))
		}
		keep(t, b, tidemark.Batch{Puts: []tidemark.Record{r}, Appends: []tidemark.Append{a}})
	}
	harm(t, b, finish)
	err := b.writer.c.do(`SELECT pageno FROM dbstat WHERE name = 'sqlite_schema'`, nil, func(s *stmt) { schema = append(schema, s.int(0)) })
	if err != nil {
		t.Fatal(err)
	}
	b.Close()
	whole, err = os.ReadFile(b.path)
	if err != nil {
		t.Fatal(err)
	}
	return b.path, whole, schema
}

// repaired does what doctor --fix does.
func repaired(path string) (said string, err error) {
	did, err := Recover(context.Background(), path)
	said = strings.Join(did, "\n")
	if err != nil {
		return said, err
	}
	b, err := Open(context.Background(), path, nil)
	if err != nil {
		return said, err
	}
	defer b.Close()
	for s, err := range b.Mend(context.Background()) {
		if err != nil {
			return said, err
		}
		said += s + "\n"
	}
	for err := range b.Check(context.Background()) {
		return said, err
	}
	return said, nil
}

// Whatever byte of the pages that the schema is kept in is damaged: everything
// is read as it was, or the error says so and a repair brings everything back.
func TestFlippedBytesOfTheSchemaHideNothing(t *testing.T) {
	t.Parallel()
	for what, finish := range map[string]string{"as it was made": "SELECT 1", "made smaller": "VACUUM", "with the pages of before": narrowPages} {
		t.Run(what, func(t *testing.T) {
			from, whole, schema := flipStore(t, finish)
			good, complained := readAll(from)
			if complained || len(good) != flipSessions*(2+flipLines) {
				t.Fatalf("%d things, want %d", len(good), flipSessions*(2+flipLines))
			}
			rnd := rand.New(rand.NewPCG(3, 4))
			step := 197
			if testing.Short() {
				step = 401
			}
			if os.Getenv("TIDEMARK_EVERY_BYTE") != "" {
				step = 1
			}
			dir := t.TempDir()
			pageBytes := int64(wideBytes)
			if finish == narrowPages {
				pageBytes = narrowBytes
			}
			var flips, read, written int
			for _, page := range schema {
				for at := 0; at < int(pageBytes); at += 1 + rnd.IntN(2*step-1) {
					flips++
					r, w := flip(t, dir, whole, good, (page-1)*pageBytes+int64(at), byte(1)<<rnd.IntN(8))
					read, written = read+r, written+w
				}
			}
			// One size may be turned into another one that stores have.
			for bit := 1; bit < 256; bit += max(step/32, 1) {
				flip(t, dir, whole, good, atPageSize, byte(bit))
			}
			flip(t, dir, whole, good, atPageSize, (wideBytes^narrowBytes)>>8)
			for at := range int64(headerBytes + 12) { // and every byte of the header
				flips++
				r, w := flip(t, dir, whole, good, at, byte(1)<<rnd.IntN(8))
				read, written = read+r, written+w
			}
			t.Logf("%d flips on %d pages: read without a repair after %d, opened for writing after %d; everything was there after the repair of all", flips, len(schema), read, written)
		})
	}
}

// A program that knew only small pages takes a store with large ones for damaged. What
// it wrote over the header to repair it is undone.
func TestAHeaderThatAnOlderProgramRepairedIsMended(t *testing.T) {
	t.Parallel()
	path, whole, _ := flipStore(t, "SELECT 1")
	good, _ := readAll(path)
	binary.BigEndian.PutUint16(whole[atPageSize:], narrowBytes)
	binary.BigEndian.PutUint32(whole[atPageCount:], uint32(len(whole)/narrowBytes))
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), path, nil); !errors.Is(err, tidemark.ErrCorrupt) {
		t.Errorf("Open = %v, want ErrCorrupt", err)
	}
	said, err := repaired(path)
	if got, complained := readAll(path); err != nil || complained || !maps.Equal(got, good) {
		t.Errorf("after the repair %d of %d things are read: %v\n%s", len(got), len(good), err, said)
	}
}

// flip damages one byte of a copy and looks what becomes of it.
func flip(t *testing.T, dir string, whole []byte, good map[string]string, at int64, bit byte) (read, written int) {
	t.Helper()
	path := filepath.Join(dir, "flipped.db")
	old, _ := filepath.Glob(path + "*")
	for _, name := range old {
		os.Remove(name)
	}
	whole[at] ^= bit
	err := os.WriteFile(path, whole, 0o600)
	whole[at] ^= bit
	if err != nil {
		t.Fatal(err)
	}
	got, complained := readAll(path)
	for thing, text := range got {
		if good[thing] != text {
			t.Errorf("bit %#x of byte %d: %s is given as %.200q", bit, at, thing, text)
		}
	}
	if maps.Equal(got, good) {
		read = 1
	} else if !complained {
		t.Errorf("bit %#x of byte %d: %d of %d things are read, and nothing is said", bit, at, len(got), len(good))
	}
	b, err := Open(context.Background(), path, nil)
	if err == nil {
		b.Close()
		written = 1
	} else if errors.Is(err, tidemark.ErrUnsupported) && at == atVersion+3 {
		return read, written // a format that a newer program may have written
	} else if !errors.Is(err, tidemark.ErrCorrupt) {
		t.Errorf("bit %#x of byte %d: Open = %v, want ErrCorrupt", bit, at, err)
	}
	said, err := repaired(path)
	if err != nil {
		t.Errorf("bit %#x of byte %d: repair: %v\n%s", bit, at, err, said)
	}
	if got, complained := readAll(path); complained || !maps.Equal(got, good) {
		t.Errorf("bit %#x of byte %d: after the repair %d of %d things are read\n%s", bit, at, len(got), len(good), said)
	}
	return read, written
}
