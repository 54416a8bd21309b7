package sync

import (
	"strings"
	"testing"

	"github.com/tidemark-sessions/tidemark/open"
)

func TestACheckupSaysWhatIsNowhereElse(t *testing.T) {
	a := newHome(t, "a")
	says := func(want ...string) {
		t.Helper()
		c := &open.Checkup{}
		a.must(CheckElsewhere(t.Context(), c, a.s))
		var got []string
		for _, d := range c.Found {
			got = append(got, d.State+" "+d.What+": "+d.Says)
		}
		all := strings.Join(got, "\n")
		for _, w := range want {
			if !strings.Contains(all, w) {
				t.Errorf("it does not say %q:\n%s", w, all)
			}
		}
	}
	id := a.create("plan", "one")
	says("ok sessions elsewhere: no remote")
	a.join(t.TempDir(), nil)
	a.must(a.remotes().Add(t.Context(), "second", "file:"+t.TempDir(), ""))
	says("warning sessions elsewhere: 1 are", "remote r: file:", "never met")
	a.sync() // by one of the two
	says("ok sessions elsewhere: each is", "last met at", "remote second", "never met")
	a.add(id, "two")
	a.create("more", "three")
	says("warning sessions elsewhere: 2 are")
	a.must(a.s.Tag(t.Context(), id, []string{Private}, nil))
	says("warning sessions elsewhere: 1 are")
	a.sync()
	says("ok sessions elsewhere: each is")
	a.must(a.s.Purge(t.Context(), id, a.holder()))
	says("ok sessions elsewhere: each is")
}
