package archive_test

import (
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/archive"
	"github.com/tidemark-sessions/tidemark/backend/memory"
)

const aSegment = "7f3a0c1e-0000-4000-8000-000000000001"

// derived adds what a search index consists of.
func (f *filler) derived() {
	f.Helper()
	f.lines(key(tidemark.KindSegment, aSegment), "block", "block")
	f.put(key(tidemark.KindSegment, aSegment), "{}")
	f.put(key(tidemark.KindIndex, "index"), "{}")
	f.put(key("lease", "index"), "{}")
	f.put(key("pulse", "index"), "{}")
}

func TestASearchIndexIsNeitherArchivedNorCopied(t *testing.T) {
	plain := memory.New()
	small(t, plain).derived()
	above, below, _ := sealedStore(t)
	small(t, above).derived()
	for name, from := range map[string]tidemark.Backend{"plain": plain, "sealed": below, "opened": above} {
		t.Run(name, func(t *testing.T) {
			data, m := write(t, from, nil)
			if m.Kinds[tidemark.KindSegment].Lines > 0 {
				t.Errorf("the archive counts %v", m.Kinds)
			}
			archived, copied := memory.New(), memory.New()
			read(t, data, archived)
			if _, err := archive.Copy(ctx, from, copied, nil); err != nil {
				t.Fatal(err)
			}
			for how, to := range map[string]tidemark.Backend{"archived": archived, "copied": copied} {
				if err := archive.Same(ctx, from, to, nil); err != nil {
					t.Errorf("%s: %v", how, err)
				}
				if _, err := to.Get(ctx, key("lease", "a")); err != nil {
					t.Errorf("%s: the lease of a session: %v", how, err)
				}
				for k := range to.Walk(ctx, tidemark.Key{}) {
					if k.Derived() || strings.Contains(k.ID, aSegment) {
						t.Errorf("%s: %s", how, k)
					}
				}
			}
		})
	}
}
