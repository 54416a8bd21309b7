package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tidemark-sessions/tidemark/internal/tenant"
)

func TestNothingIsLostDoubledOrOutOfOrderWhileServersAreStruck(t *testing.T) {
	var out, log bytes.Buffer
	code := run(t.Context(), []string{"-bin", program(t), "-followers", "20", "-writers", "8", "-entries", "12", "-drains", "1", "-kills", "2", "-cuts", "2", "-crashes", "1", "-from", program(t)}, &out, &log)
	if reason, ok := strings.CutPrefix(out.String(), "skipped: "); ok {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s, and CI=true", reason)
		}
		t.Skip(reason)
	}
	if code != 0 {
		t.Errorf("exit %d\n%s%s", code, log.String(), out.String())
	}
}

func TestNothingIsLostDoubledOrOutOfOrderWhileThingsMove(t *testing.T) {
	for what, args := range map[string][]string{
		"the tenant, between databases":          {"-drains", "1", "-kills", "1", "-cuts", "1", "-moves", "4"},
		"older lines, to storage that is killed": {"-drains", "0", "-kills", "1", "-cuts", "0", "-chills", "2", "-storage", "../../bin/versitygw"},
	} {
		t.Run(what, func(t *testing.T) {
			var out, log bytes.Buffer
			code := run(t.Context(), append([]string{"-bin", program(t), "-followers", "20", "-writers", "8", "-entries", "30"}, args...), &out, &log)
			if reason, ok := strings.CutPrefix(out.String(), "skipped: "); ok {
				if os.Getenv("CI") == "true" {
					t.Fatalf("%s, and CI=true", reason)
				}
				t.Skip(reason)
			}
			if code != 0 {
				t.Errorf("exit %d\n%s%s", code, log.String(), out.String())
			}
		})
	}
}

func TestEveryWriteHasItsAuditLineInAFileToo(t *testing.T) {
	var out, log bytes.Buffer
	code := run(t.Context(), []string{"-bin", program(t), "-sqlite", "-followers", "2", "-writers", "8", "-entries", "12", "-drains", "1", "-kills", "3"}, &out, &log)
	if code != 0 {
		t.Errorf("exit %d\n%s%s", code, log.String(), out.String())
	}
}

func TestAWriteWithoutALineBreaksThePromise(t *testing.T) {
	whole := book{o: options{writers: 1, entries: 1}}
	whole.acknowledged.Store(1)
	if whole.broken() {
		t.Error("nothing is wrong, and it is broken")
	}
	for _, l := range []lines{{missing: 1}, {doubled: 1}, {stray: 1}} {
		b := book{o: whole.o, audit: l}
		b.acknowledged.Store(1)
		if !b.broken() {
			t.Errorf("%+v is not seen", l)
		}
	}
	tr := &trial{book: &book{}}
	told := tr.told([]tenant.AuditLine{
		{Seq: 1, Audited: tenant.Audited{Action: "POST /api/v1/sessions/{id}/entries", Outcome: tenant.AuditDone, Batch: "a"}},
		{Audited: tenant.Audited{Action: "POST /api/v1/sessions/{id}/entries", Outcome: tenant.AuditDone, Batch: "a"}},
		{Seq: 2, Audited: tenant.Audited{Action: "POST /api/v1/sessions/{id}/entries", Outcome: tenant.AuditFailed}},
		{Seq: 3, Audited: tenant.Audited{Action: "POST /api/v1/sessions", Outcome: tenant.AuditDone, Batch: "b"}},
	})
	if len(told) != 1 || told["a"] != 2 || tr.book.audit.all != 2 || tr.book.audit.unchained != 1 {
		t.Errorf("%v, %+v", told, tr.book.audit)
	}
}

// A trial that cannot fail proves nothing.
func TestWhatIsMissingTwiceThereOrOutOfOrderIsSeen(t *testing.T) {
	s := &session{name: "writer 7", acks: make([]atomic.Int64, 3), seqs: make([]int64, 3)}
	for n := range s.acks {
		s.acks[n].Store(1)
	}
	for _, c := range []struct {
		name string
		came []int
		want count
	}{
		{"all", []int{0, 1, 2}, count{}},
		{"missing", []int{0, 1}, count{lost: 1}},
		{"twice", []int{0, 1, 1, 2}, count{doubled: 1}},
		{"turned round", []int{0, 2, 1}, count{disorder: 2}},
		{"a gap", []int{0, 2}, count{lost: 1, disorder: 1}},
		{"foreign", []int{0, 1, 2, 9}, count{disorder: 1}},
	} {
		v := newSeen(s)
		for i, n := range c.came {
			v.take(int64(i+1), s.textOf(n))
		}
		if v.lost = v.missing(); v.count != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, v.count, c.want)
		}
	}
	v := newSeen(s)
	v.take(2, s.textOf(0))
	if v.take(1, s.textOf(1)); v.disorder != 1 {
		t.Errorf("a seq that goes back: %+v", v.count)
	}
}

func TestTheObjectHasWhatTheTableHas(t *testing.T) {
	b := &book{o: options{followers: 5, writers: 2, nodes: 3}, kept: count{lost: 1, doubled: 2, disorder: 4}}
	b.acknowledged.Store(7)
	var got map[string]float64
	if err := json.Unmarshal([]byte(b.object()), &got); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{"followers": 5, "writers": 2, "nodes": 3, "acknowledged": 7, "lost": 1, "doubled": 2, "disorder": 4} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	if cells := strings.Count(strings.SplitN(b.table(), "\n", 2)[0], "|") - 1; len(got) != cells {
		t.Errorf("%d figures for %d cells", len(got), cells)
	}
}

func TestUsageErrorsAreNamed(t *testing.T) {
	for _, args := range [][]string{{"more"}, {"-writers", "0"}, {"-cuts", "-1"}, {"-burn"}} {
		var out, log bytes.Buffer
		if code := run(t.Context(), args, &out, &log); code != 2 || log.Len() == 0 {
			t.Errorf("%q: exit %d, %q", args, code, log.String())
		}
	}
}
