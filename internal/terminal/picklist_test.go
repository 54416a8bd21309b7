package terminal

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// shown returns the ids of what a list shows, those found by content after a +,
// forks indented by dots.
func shown(l *list) []string {
	ids := []string{}
	for i := range l.len() {
		mark := strings.Repeat(".", l.indent(i, 9))
		if i >= len(l.hits) {
			mark = "+"
		}
		ids = append(ids, mark+l.at(i).ID)
	}
	return ids
}

func listed(items ...Item) *list {
	l := newList()
	l.add(newRows(items))
	return l
}

func TestAFilterMatchesEveryWordInWhateverField(t *testing.T) {
	l := listed(
		Item{ID: "a", Title: "Fix the LEASE", Agent: "codex", Project: "/src/harbour"},
		Item{ID: "b", Title: "Lease again", Agent: "demo", Tags: []string{"urgent"}},
		Item{ID: "c", Title: "Straße nach Ελλάς", Agent: "demo"},
		Item{ID: "7f3a", Title: ""},
	)
	for _, c := range []struct {
		filter string
		want   []string
	}{
		{"", []string{"a", "b", "c", "7f3a"}},
		{"lease", []string{"a", "b"}},
		{"harbour LEASE", []string{"a"}},
		{"#urgent", []string{"b"}},
		{"7f3", []string{"7f3a"}},
		{"ΕΛΛΆΣ", []string{"c"}},
		{"STRAßE", []string{"c"}},
		{"leasecodex", []string{}},
		{"lease nothing", []string{}},
		{"  ", []string{"a", "b", "c", "7f3a"}},
	} {
		l.filter(c.filter)
		if diff := cmp.Diff(c.want, shown(l)); diff != "" {
			t.Errorf("filter %q (-want +got):\n%s", c.filter, diff)
		}
	}
}

func TestContentHitsStandBelowTitlesAndOnlyOnce(t *testing.T) {
	l := listed(Item{ID: "a", Title: "lease"}, Item{ID: "b", Title: "other"})
	l.filter("lease")
	l.find(newRows([]Item{{ID: "b", Title: "other"}, {ID: "a", Title: "lease"}, {ID: "z", Title: "lease, not loaded"}}))
	if diff := cmp.Diff([]string{"a", "+b", "+z"}, shown(l)); diff != "" {
		t.Errorf("before the rest is loaded (-want +got):\n%s", diff)
	}
	l.add(newRows([]Item{{ID: "z", Title: "lease, not loaded"}}))
	if diff := cmp.Diff([]string{"a", "z", "+b"}, shown(l)); diff != "" {
		t.Errorf("after the rest is loaded (-want +got):\n%s", diff)
	}
	l.filter("leas")
	if diff := cmp.Diff([]string{"a", "z"}, shown(l)); diff != "" {
		t.Errorf("hits of another filter stay (-want +got):\n%s", diff)
	}
}

func TestAForkStandsBelowItsSourceUnlessItIsNewer(t *testing.T) {
	fork := func(id, of string) Item { return Item{ID: id, Title: id, ForkOf: Fork{ID: of}} }
	l := listed(fork("newest", "root"), Item{ID: "root", Title: "root"}, Item{ID: "x", Title: "x"}, fork("self", "self"))
	l.add(newRows([]Item{fork("old", "root"), fork("older", "old"), Item{ID: "y", Title: "y"}, fork("lost", "nowhere")}))
	want := []string{"newest", "root", ".old", "..older", "x", "self", "y", "lost"}
	if diff := cmp.Diff(want, shown(l)); diff != "" {
		t.Errorf("grouped (-want +got):\n%s", diff)
	}
	l.change("root", func(r *pickRow) { r.gone = true })
	want = []string{"newest", "old", ".older", "x", "self", "y", "lost"}
	if diff := cmp.Diff(want, shown(l)); diff != "" {
		t.Errorf("with the source in the trash (-want +got):\n%s", diff)
	}
	l.filter("ol")
	if diff := cmp.Diff([]string{"old", "older"}, shown(l)); diff != "" {
		t.Errorf("filtered (-want +got):\n%s", diff)
	}
}

func TestASessionThatIsListedTwiceIsShownOnce(t *testing.T) {
	l := listed(Item{ID: "a"}, Item{ID: "b"})
	l.add(newRows([]Item{{ID: "b"}, {ID: "c"}}))
	if diff := cmp.Diff([]string{"a", "b", "c"}, shown(l)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// However somebody types, and however the pages arrive between the keys, the
// list shows what a filter over all of it would.
func TestNarrowingShowsWhatFilteringAnewShows(t *testing.T) {
	letters := rapid.StringOfN(rapid.RuneFrom([]rune("abA ")), 0, 6, -1)
	rapid.Check(t, func(t *rapid.T) {
		l := newList()
		var all []Item
		typed := ""
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"page", "type", "erase", "trash"}).Draw(t, "step") {
			case "page":
				var page []Item
				for range rapid.IntRange(0, 5).Draw(t, "n") {
					it := Item{ID: fmt.Sprintf("%d-", len(all)), Title: letters.Draw(t, "title")}
					page, all = append(page, it), append(all, it)
				}
				l.add(newRows(page))
			case "type":
				typed += letters.Draw(t, "text")
				l.filter(typed)
			case "erase":
				typed = typed[:len(typed)/2]
				l.filter(typed)
			case "trash":
				if len(all) > 0 {
					i := rapid.IntRange(0, len(all)-1).Draw(t, "which")
					l.change(all[i].ID, func(r *pickRow) { r.gone = true })
					all[i].State = "trash"
				}
			}
			want := []string{}
			for _, it := range all {
				missing := func(word string) bool { return !strings.Contains(strings.ToLower(it.Title), word) }
				if it.State == "" && !slices.ContainsFunc(strings.Fields(strings.ToLower(typed)), missing) {
					want = append(want, it.ID)
				}
			}
			if diff := cmp.Diff(want, shown(l)); diff != "" {
				t.Fatalf("filter %q (-want +got):\n%s", typed, diff)
			}
		}
	})
}
