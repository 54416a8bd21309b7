package sync

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"pgregory.net/rapid"

	"github.com/tidemark-sessions/tidemark/transfer/remote"
	"github.com/tidemark-sessions/tidemark/workshop/placetest"
)

func TestMain(m *testing.M) { os.Exit(placetest.Main(m, os.Args, os.Stdin, os.Stdout)) }

// TestHistoriesConvergeByEveryKindOfPlace has three homes meet by a real sshd, a real
// server that speaks S3, and a Tidemark server; TestRandomHistoriesConverge tries
// folders. Each history is the same in every run. TIDEMARK_EVERY_CASE tries more.
func TestHistoriesConvergeByEveryKindOfPlace(t *testing.T) {
	t.Parallel()
	for kind, start := range map[string]func(t *testing.T) func(t *testing.T, n int) (string, *remote.Options){
		"ssh": func(t *testing.T) func(*testing.T, int) (string, *remote.Options) {
			s := placetest.SSH(t)
			return func(t *testing.T, _ int) (string, *remote.Options) {
				return s.URL(t.TempDir(), placetest.Program(t)), s.Options
			}
		},
		"s3": func(t *testing.T) func(*testing.T, int) (string, *remote.Options) {
			s := placetest.S3(t, "../..")
			return func(_ *testing.T, n int) (string, *remote.Options) {
				return s.URL(fmt.Sprintf("trial/%d", n)), s.Options
			}
		},
		"server": func(t *testing.T) func(*testing.T, int) (string, *remote.Options) {
			s := placetest.Server(t)
			return func(_ *testing.T, n int) (string, *remote.Options) {
				return fmt.Sprintf("%s?place=trial-%d", s.URL, n), s.As("acme/ada")
			}
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			trials, steps := 3, 20
			if kind == "ssh" { // a connection takes a while to be made
				trials, steps = 1, 12
			}
			if os.Getenv("TIDEMARK_EVERY_CASE") != "" {
				trials, steps = 40, 40
			}
			place := start(t)
			for n := range trials {
				url, o := place(t, n)
				random := make([]byte, 64<<10)
				rand.NewChaCha8([32]byte{byte(n)}).Read(random)
				rapid.MakeFuzz(func(rt *rapid.T) { converge(t, rt, steps, url, o) })(t, random)
				hidesWhatIsSaid(t, url, o)
			}
		})
	}
}

// hidesWhatIsSaid looks for what the homes of converge say in every blob of a place.
func hidesWhatIsSaid(t *testing.T, url string, o *remote.Options) {
	t.Helper()
	p, err := remote.Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	blobs := 0
	for name, err := range p.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		data, err := p.Get(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if blobs++; bytes.Contains(data, []byte("text ")) || bytes.Contains(data, []byte("title")) {
			t.Errorf("%s is in the clear", name)
		}
	}
	if blobs < 7 { // of each machine a head and its sign, and a keyring
		t.Errorf("%d blobs: the homes never met there", blobs)
	}
}
