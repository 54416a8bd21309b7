package tenant_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/backend/memory"
	"github.com/tidemark-sessions/tidemark/internal/tenant"
	"github.com/tidemark-sessions/tidemark/store"
)

const audited = "0a0a0a0a-0000-8000-8000-000000000001"

func audit(t *testing.T, s place, n int) {
	t.Helper()
	for i := range n {
		if err := s.Audit(t.Context(), audited, tenant.Audited{Who: "ada", Action: "session.delete", Thing: fmt.Sprint("thing ", i), Outcome: tenant.AuditDone}); err != nil {
			t.Fatal(err)
		}
	}
}

func verified(t *testing.T, s place, anchors ...tenant.Anchor) []tenant.AuditFault {
	t.Helper()
	_, faults, err := s.VerifyAudit(t.Context(), audited, nil, anchors...)
	if err != nil {
		t.Fatal(err)
	}
	return faults
}

// tampered returns a store whose audit log was changed by somebody who can
// write every byte of it, checksums included.
func tampered(t *testing.T, from place, change func([]tidemark.Line) []tidemark.Line) place {
	t.Helper()
	log := tidemark.Key{Kind: "audit", ID: audited}
	var lines []tidemark.Line
	for l, err := range from.Backend().Lines(t.Context(), log) {
		if err != nil {
			t.Fatal(err)
		}
		l.Body = slices.Clone(l.Body)
		lines = append(lines, l)
	}
	lines = change(lines)
	for i := range lines {
		lines[i].Seq, lines[i].Batch = int64(i+1), ""
		lines[i].Sum = lines[i].Checksum(log)
	}
	b := memory.New()
	_, err := b.Commit(t.Context(), tidemark.Batch{ID: tidemark.NewBatchID(), At: lines[0].At, Appends: []tidemark.Append{{Log: log, Lines: lines}}})
	if err != nil {
		t.Fatal(err)
	}
	return placeOf(store.New(b, nil))
}

func TestAnAuditLogIsWholeAndSaysWhoDidWhat(t *testing.T) {
	onEach(t, func(t *testing.T, s place) {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 5 {
					did := tenant.Audited{Who: "ada", Action: "append", Outcome: tenant.AuditDone}
					if err := s.Audit(context.Background(), audited, did, did); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		head, faults, err := s.VerifyAudit(t.Context(), audited, nil)
		if err != nil || len(faults) > 0 || head.Length != 80 {
			t.Errorf("%+v, %v, %v", head, faults, err)
		}
		n := int64(0)
		for l, err := range s.AuditLines(t.Context(), audited, tidemark.Span{}) {
			if n++; err != nil || l.Seq != n || l.Who != "ada" || l.At.IsZero() || len(l.Hash) != 64 {
				t.Errorf("%+v, %v", l, err)
			}
		}
		if _, faults, err := s.VerifyAudit(t.Context(), "0a0a0a0a-0000-8000-8000-000000000002", nil, head); err != nil || len(faults) > 0 {
			t.Errorf("the log of another tenant: %v, %v", faults, err)
		}
	})
}

func TestVerifyFindsEachKindOfTamperingAndSaysWhere(t *testing.T) {
	s := placeOf(store.New(memory.New(), nil))
	audit(t, s, 6)
	early, err := s.AuditHead(t.Context(), audited)
	if err != nil {
		t.Fatal(err)
	}
	audit(t, s, 4)
	late, err := s.KeepAnchor(t.Context(), audited)
	if err != nil || late.Length != 10 {
		t.Fatalf("%+v, %v", late, err)
	}
	if again, err := s.KeepAnchor(t.Context(), audited); err != nil || again.Hash != late.Hash {
		t.Fatalf("%+v, %v", again, err)
	}
	if kept, err := s.Anchors(t.Context(), audited); err != nil || len(kept) != 1 || kept[0].Hash != late.Hash {
		t.Errorf("kept %+v, %v", kept, err)
	}
	if faults := verified(t, s, early, late); len(faults) > 0 {
		t.Fatalf("an untouched log: %v", faults)
	}
	edit := func(l *tidemark.Line, old, fresh string) {
		body := strings.Replace(string(l.Body), old, fresh, 1)
		if body == string(l.Body) {
			t.Fatalf("%q is not in %s", old, l.Body)
		}
		l.Body = []byte(body)
	}
	for _, c := range []struct {
		name    string
		at      int64
		change  func([]tidemark.Line) []tidemark.Line
		anchors []tenant.Anchor
	}{
		{"changed: who", 3, func(ls []tidemark.Line) []tidemark.Line { edit(&ls[2], `"ada"`, `"eve"`); return ls }, nil},
		{"changed: what", 1, func(ls []tidemark.Line) []tidemark.Line { edit(&ls[0], "delete", "read"); return ls }, nil},
		{"changed: the last line", 10, func(ls []tidemark.Line) []tidemark.Line { edit(&ls[9], "done", "refused"); return ls }, nil},
		{"changed: a space", 5, func(ls []tidemark.Line) []tidemark.Line { edit(&ls[4], `"who":`, `"who": `); return ls }, nil},
		{"changed: a second did", 5, func(ls []tidemark.Line) []tidemark.Line {
			edit(&ls[4], `"seq":5,`, `"seq":5,"did":{"who":"eve"},`)
			return ls
		}, nil},
		{"changed: no JSON", 4, func(ls []tidemark.Line) []tidemark.Line { ls[3].Body = []byte("gone"); return ls }, nil},
		{"removed: the first", 1, func(ls []tidemark.Line) []tidemark.Line { return ls[1:] }, nil},
		{"removed: the fifth", 5, func(ls []tidemark.Line) []tidemark.Line { return slices.Delete(ls, 4, 5) }, nil},
		{"removed and renumbered", 5, func(ls []tidemark.Line) []tidemark.Line {
			ls = slices.Delete(ls, 4, 5)
			edit(&ls[4], `"seq":6`, `"seq":5`)
			return ls
		}, nil},
		{"inserted: a copy", 6, func(ls []tidemark.Line) []tidemark.Line { return slices.Insert(ls, 5, ls[2]) }, nil},
		{"inserted: with a right seq", 5, func(ls []tidemark.Line) []tidemark.Line {
			l := ls[4]
			l.Body = slices.Clone(l.Body)
			edit(&l, `"ada"`, `"eve"`)
			return slices.Insert(ls, 4, l)
		}, nil},
		{"reordered", 2, func(ls []tidemark.Line) []tidemark.Line { ls[1], ls[6] = ls[6], ls[1]; return ls }, nil},
		{"cut off", 8, func(ls []tidemark.Line) []tidemark.Line { return ls[:7] }, []tenant.Anchor{early, late}},
		{"cut off and filled again", 10, func(ls []tidemark.Line) []tidemark.Line { return refilled(t, ls[:9], 10) }, []tenant.Anchor{late}},
		{"cut off, filled again and longer", 6, func(ls []tidemark.Line) []tidemark.Line { return refilled(t, ls[:3], 20) }, []tenant.Anchor{early}},
	} {
		t.Run(c.name, func(t *testing.T) {
			faults := verified(t, tampered(t, s, c.change), c.anchors...)
			if len(faults) == 0 || faults[0].Seq != c.at {
				t.Errorf("found %v, want the first at line %d", faults, c.at)
			}
			if len(c.anchors) > 0 && len(verified(t, tampered(t, s, c.change))) > 0 {
				t.Error("found without the anchor, so the anchor proves nothing")
			}
		})
	}
}

// refilled continues a log that was cut as the store itself would.
func refilled(t *testing.T, lines []tidemark.Line, length int) []tidemark.Line {
	cut := tampered(t, placeOf(store.New(memory.New(), nil)), func([]tidemark.Line) []tidemark.Line { return lines })
	audit(t, cut, length-len(lines))
	var all []tidemark.Line
	for l, err := range cut.Backend().Lines(t.Context(), tidemark.Key{Kind: "audit", ID: audited}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
	return all
}

func TestADamagedLastLineDoesNotEndTheAudit(t *testing.T) {
	s := placeOf(store.New(memory.New(), nil))
	audit(t, s, 3)
	s = tampered(t, s, func(ls []tidemark.Line) []tidemark.Line { ls[2].Body = []byte("gone"); return ls })
	audit(t, s, 2)
	if faults := verified(t, s); len(faults) != 1 || faults[0].Seq != 3 {
		t.Errorf("found %v, want line 3 alone", faults)
	}
}

func TestWhatIsAuditedIsBoundedAndMasked(t *testing.T) {
	s := placeOf(store.New(memory.New(), &store.Options{Redact: store.RedactMask, Secrets: func(e tidemark.Entry) []store.Secret {
		at := strings.Index(e.Text(), "hunter2")
		if at < 0 {
			return nil
		}
		return []store.Secret{{From: at, To: at + len("hunter2"), Rule: "password"}}
	}}))
	err := s.Audit(t.Context(), audited, tenant.Audited{Who: "ada", Action: "x", Thing: "name hunter2"}, tenant.Audited{Who: strings.Repeat("é", 1000), Action: "\xff"})
	if err != nil {
		t.Fatal(err)
	}
	for l, err := range s.AuditLines(t.Context(), audited, tidemark.Span{}) {
		if err != nil || strings.Contains(l.Thing, "hunter2") || len(l.Who) > 310 {
			t.Errorf("%+v, %v", l, err)
		}
	}
	if faults := verified(t, s); len(faults) > 0 {
		t.Error(faults)
	}
}

func TestAnchorsAreReadFromAFile(t *testing.T) {
	a := tenant.Anchor{Tenant: audited, Length: 3, Hash: "abc"}
	line, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	got, err := tenant.ParseAnchors([]byte(string(line) + "\n\n" + string(line) + "\n"))
	if err != nil || len(got) != 2 || got[1] != a {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := tenant.ParseAnchors([]byte("{}\nnot json")); !errors.Is(err, tidemark.ErrInvalid) || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("%v", err)
	}
}
