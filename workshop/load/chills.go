package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/api"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/workshop/placetest"
)

// coldPlace starts the storage that older lines are moved to, and tells all programs of it.
func (t *trial) coldPlace(dir string) error {
	program, err := filepath.Abs(t.o.storage)
	if err != nil {
		return err
	}
	if _, err := os.Stat(program); err != nil {
		return &skipped{"there is no " + t.o.storage + ": scripts/deps.sh brings it"}
	}
	if t.storage, err = placetest.RunS3(program, filepath.Join(dir, "storage")); err != nil {
		return err
	}
	t.place.Env = append(t.place.Env, append(t.storage.Options.Environ, open.ColdVariable+"="+t.storage.URL("cold"))...)
	return nil
}

// Sessions that nobody goes on with are what is moved: quietSessions of quietEntries each, of
// which the newest 64 stay.
const (
	quietSessions = 20
	quietEntries  = 200
)

// quiet makes these sessions. The servers then begin anew, so that none of them holds one.
func (t *trial) quiet(ctx context.Context) error {
	if t.storage == nil {
		return nil
	}
	for q := range quietSessions {
		node := t.nodes[q%len(t.nodes)].URL
		id, err := t.client.Create(ctx, node, fmt.Sprintf("quiet %d", q))
		if err != nil {
			return err
		}
		var all []api.NewEntry
		for n := range quietEntries {
			all = append(all, api.NewEntry{Role: tidemark.User, Content: quietText(q, n)})
		}
		if err := t.client.AppendAll(ctx, node, id, all); err != nil {
			return err
		}
		t.calm = append(t.calm, id)
	}
	for _, n := range t.nodes {
		if err := n.Drain(); err != nil {
			return err
		}
		if err := n.Again(ctx); err != nil {
			return err
		}
	}
	return nil
}

// quietText is long and hard to compress: little is not worth a request to a storage.
func quietText(q, n int) string {
	random := rand.NewChaCha8([32]byte{byte(q), byte(n)})
	noise := make([]byte, 500)
	random.Read(noise)
	return fmt.Sprintf("quiet %d said %d %x", q, n, noise)
}

// readQuiet reads a session that may be at the storage: nothing may be missing from what is
// answered, nor be otherwise than it was said.
func (t *trial) readQuiet(ctx context.Context, node string, q int) error {
	entries, err := t.client.Log(ctx, node, t.calm[q])
	if err != nil {
		return err
	}
	if len(entries) != quietEntries {
		t.book.fault("quiet %d: %d entries of %d", q, len(entries), quietEntries)
	}
	for n, e := range entries {
		if n >= quietEntries || e.Text() != quietText(q, n) || e.Seq != int64(n+1) {
			t.book.fault("quiet %d: entry %d is %.60q at %d", q, n, e.Text(), e.Seq)
			break
		}
	}
	t.book.struck.reads.Add(1)
	return nil
}

// readAll reads these sessions in turn, from one server and another, until all is written. A
// server or a storage that is away may refuse.
func (t *trial) readAll(ctx context.Context) {
	for i := 0; t.storage != nil && ctx.Err() == nil; i++ {
		if err := t.readQuiet(ctx, t.nodes[i%len(t.nodes)].URL, i%quietSessions); err != nil && ctx.Err() == nil {
			t.book.refuse("read", err)
		}
		away(ctx, firstPause)
	}
}

// storageDies is how long a move to the storage goes on at most before that is killed.
const storageDies = 1500 * time.Millisecond

// chill moves the older lines of quiet sessions to the storage, which is killed meanwhile and
// comes back a moment later. Then all are moved; every other time they were brought back first.
func (t *trial) chill(ctx context.Context) error {
	t.book.struck.chills++
	tell := func(args ...string) (err error) {
		for range 20 {
			said, fault := t.place.Tell(ctx, append([]string{"cold"}, args...)...)
			if err = fault; err == nil || ctx.Err() != nil {
				fmt.Fprintf(t.o.log, "load: %s", said)
				break
			}
			time.Sleep(time.Second) // what a dead mover held is let go, or the database comes back
		}
		return err
	}
	if t.book.struck.chills%2 == 0 {
		if err := tell("bring-back", "--all"); err != nil {
			return err
		}
	}
	move := []string{"move", "--older", "1ms", "--to", t.storage.URL("cold")}
	moved := make(chan struct{})
	go func() {
		defer close(moved)
		t.place.Tell(ctx, append([]string{"cold"}, move...)...) // it may fail, and does not have to
	}()
	time.Sleep(time.Duration(t.random.Int64N(int64(storageDies))))
	t.storage.Kill()
	<-moved
	time.Sleep(time.Second)
	if err := t.storage.Start(); err != nil {
		return err
	}
	return tell(move...)
}

// lookAtStorage reads what is at the storage a last time, wants that it was there, and brings
// it back for who looks at the database.
func (t *trial) lookAtStorage(ctx context.Context, node string) error {
	if t.storage == nil {
		return nil
	}
	objects := 0
	err := filepath.WalkDir(t.storage.Dir, func(_ string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			objects++
		}
		return err
	})
	if err != nil {
		return err
	}
	if objects < quietSessions {
		t.book.fault("%d objects are at the storage, of %d sessions", objects, quietSessions)
	}
	for q := range t.calm {
		if err := t.readQuiet(ctx, node, q); err != nil {
			return err
		}
	}
	fmt.Fprintf(t.o.log, "load: %d objects are at the storage; quiet sessions were read %d times\n", objects, t.book.struck.reads.Load())
	_, err = t.place.Tell(ctx, "cold", "bring-back", "--all")
	return err
}
