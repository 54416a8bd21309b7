package sync

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/store"
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

func TestMachinesOfOneNameAreToldApart(t *testing.T) {
	r := Remote{Name: "home", URL: "file:/stick", Machines: []Machine{{ID: "0011223344556677", Name: "mac", This: true}, {ID: "8899aabbccddeeff", Name: "mac"}, {ID: "0123456789abcdef", Name: "box"}}}
	if row := r.Row(func(time.Time) string { return "" }); row[2] != "mac (00112233), mac (8899aabb), box" {
		t.Errorf("the machines are %s", row[2])
	}
}

func TestTreesAndListsNameTheMachineOfABranch(t *testing.T) {
	dir := t.TempDir()
	a, b := newHome(t, "ada"), newHome(t, "bob")
	id := a.create("plan", "one", "two")
	if tree := a.machines(id); tree != "n0: n1:" {
		t.Errorf("a store without a remote says %q", tree)
	}
	a.join(dir, nil)
	b.join(dir, a)
	a.sync()
	b.sync()
	if tree, last := b.machines(id), b.last(id); tree != "n0:ada! n1:ada" || last != "ada" {
		t.Errorf("what came says %q, last written on %q", tree, last)
	}
	forked, err := b.s.Fork(t.Context(), id, 0, "apart")
	b.must(err)
	fork := forked.ID
	a.add(id, "three")
	b.add(id, "other")
	b.add(fork, "else")
	a.sync()
	b.sync()
	a.sync()
	if tree, last := b.machines(id), b.last(id); tree != "n0:ada! n1:ada n2:bob! n3:ada" || last != "" {
		t.Errorf("after both went on, bob has %q, last written on %q", tree, last)
	}
	if tree, last := a.machines(id), a.last(id); tree != "n0:ada n1:ada n2:ada n3:bob!" || last != "" {
		t.Errorf("after both went on, ada has %q, last written on %q", tree, last)
	}
	if tree, last := a.machines(fork), a.last(fork); tree != "n0:ada n1:ada n2:bob!" || last != "bob" {
		t.Errorf("the fork is %q, last written on %q", tree, last)
	}
	m, err := a.s.Machines(t.Context())
	a.must(err)
	if met := m.Meetings(); len(met) != 1 || met[0].Remote != "r" || met[0].MetAt.IsZero() {
		t.Errorf("ada met %+v", met)
	}
	a.must(a.remotes().Remove(t.Context(), "r"))
	m, err = a.s.Machines(t.Context())
	a.must(err)
	if met := m.Meetings(); len(met) != 0 || a.last(fork) != "bob" {
		t.Errorf("without the remote: met %+v, last written on %q", met, a.last(fork))
	}
}

// machines returns the nodes of a session with their machines, with a ! where that
// changes.
func (h *home) machines(id tidemark.SessionID) string {
	h.t.Helper()
	v, err := h.s.View(h.t.Context(), id)
	h.must(err)
	nodes, err := v.Tree(h.t.Context())
	h.must(err)
	var all []string
	for _, n := range nodes {
		all = append(all, fmt.Sprintf("n%d:%s%s", n.Number, n.Machine, strings.Repeat("!", btoi(n.Moved))))
	}
	return strings.Join(all, " ")
}

// last returns the machine that a session was last written on, "" for this one.
func (h *home) last(id tidemark.SessionID) string {
	h.t.Helper()
	i, err := h.s.Session(h.t.Context(), id)
	h.must(err)
	one := []store.Info{i}
	h.must(h.s.SetMachines(h.t.Context(), one))
	return one[0].Machine
}
