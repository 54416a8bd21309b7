package sync

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/transfer/remote"
	"github.com/tidemark-sessions/tidemark/workshop/placetest"
)

// trialsVariable is how many histories are tried by each kind of place.
const trialsVariable = "TIDEMARK_PLACE_TRIALS"

// kind is a kind of place. At returns the nth empty one.
type kind struct {
	trials, steps int
	history       history // what is the same for all
	at            func(t *testing.T, n int) (url string)
	kept          func(t *testing.T) []byte // what whoever keeps the places has besides blobs
}

// kinds starts one of each kind of place, behind what cuts its connections.
func kinds(t *testing.T, name string) kind {
	switch name {
	case "ssh":
		s := placetest.SSH(t)
		c := placetest.Cut(t, s.Addr)
		s.Addr = c.Addr
		return kind{1, 16, history{places: s.Options, cutter: c}, func(t *testing.T, _ int) string { return s.URL(t.TempDir(), placetest.Program(t)) }, nil}
	case "s3":
		s := placetest.S3(t, "../..")
		c := placetest.Cut(t, strings.TrimPrefix(s.Endpoint, "http://"))
		s.Endpoint = "http://" + c.Addr
		return kind{2, 20, history{places: s.Options, cutter: c}, func(_ *testing.T, n int) string { return s.URL(fmt.Sprintf("trial/%d", n)) }, nil}
	case "server":
		s := placetest.Server(t)
		c := placetest.Cut(t, strings.TrimPrefix(s.URL, "http://"))
		s.URL = "http://" + c.Addr
		const token = "acme/ada"
		return kind{2, 20, history{places: s.As(token), token: token, cutter: c}, func(_ *testing.T, n int) string { return fmt.Sprintf("%s?place=trial-%d", s.URL, n) },
			func(t *testing.T) []byte { return everything(t, s.Of(tidemark.TenantOf("acme", "ada"))) }}
	}
	return kind{2, 30, history{}, func(t *testing.T, _ int) string { return "file:" + t.TempDir() }, nil}
}

// TestHistoriesConvergeByEveryKindOfPlace has three homes on disk meet by a folder, a
// real sshd, a real server that speaks S3, and a Tidemark server, with processes that
// are killed, connections that are cut, and places that lie. What is drawn is the same
// in every run.
func TestHistoriesConvergeByEveryKindOfPlace(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"folder", "ssh", "s3", "server"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := kinds(t, name)
			if more, err := strconv.Atoi(os.Getenv(trialsVariable)); err == nil {
				k.trials, k.steps = more, 40
			}
			done := make(map[string]int)
			for n := range k.trials {
				t.Run(strconv.Itoa(n), func(t *testing.T) { k.try(t, name, n, done) })
			}
			if k.kept != nil {
				hides(t, "the server", k.kept(t))
			}
			t.Logf("%d histories by %s: %v", k.trials, name, done)
		})
	}
}

// try has three homes on disk live through the nth history by a kind of place.
func (k kind) try(t *testing.T, name string, n int, done map[string]int) {
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[copy(seed[:8], name):], uint64(n))
	random := rand.New(rand.NewChaCha8(seed))
	g := k.history
	g.draw = func(_ string, n int) int { return random.IntN(n) }
	g.t, g.failed, g.steps, g.url, g.onDisk, g.done = t, t, k.steps, k.at(t, n), true, done
	defer func() {
		if t.Failed() {
			t.Logf("what they did: %s", strings.Join(g.trace, ", "))
		}
	}()
	g.converge()
	hidesWhatIsSaid(t, g.url, g.places)
}

// hidesWhatIsSaid looks for what the homes of a history say in every blob of a place.
func hidesWhatIsSaid(t *testing.T, url string, o *remote.Options) {
	t.Helper()
	all := blobsAt(t, url, o)
	for name, data := range all {
		hides(t, name, data)
	}
	if len(all) < 7 { // of each machine a head and its sign, and a keyring
		t.Errorf("%d blobs: the homes never met there", len(all))
	}
}

// hides wants nothing that the homes of a history say, also not compressed.
func hides(t *testing.T, what string, data []byte) {
	t.Helper()
	for from := 0; ; {
		at := bytes.Index(data[from:], []byte{0x28, 0xb5, 0x2f, 0xfd}) // zstd
		if at < 0 {
			break
		}
		if plain, err := decompress(data[from+at:]); err == nil {
			hides(t, what+", compressed", plain)
		}
		from += at + 1
	}
	for _, text := range []string{"text 0", "title ", `"helper"`, `"blocks"`, `"ada"`, `"eve"`} {
		if bytes.Contains(data, []byte(text)) {
			t.Errorf("%s has %q", what, text)
		}
	}
}

// everything returns all records and lines of a store.
func everything(t *testing.T, b tidemark.Backend) (all []byte) {
	t.Helper()
	for k, err := range b.Walk(context.Background(), tidemark.Key{}) {
		if err != nil {
			t.Fatal(err)
		}
		r, err := b.Get(context.Background(), k)
		if err != nil && !isAbsent(err) {
			t.Fatal(err)
		}
		all = append(append(append(all, cmp.Or(k.ID, k.Kind)...), r.Body...), '\n')
	}
	return all
}
