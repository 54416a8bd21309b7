package convert

import (
	"cmp"
	"context"
	"iter"
	"slices"
)

// Branch is one path through a session, for a tool that has no branches.
type Branch struct {
	Entries []Entry // from the root to the head
	Beside  int     // entries of other branches
	Damaged int     // entries that could not be read
}

// BranchTo reads entries and returns the path from the root to the one with the
// ID head. It is empty for Root, and ends at the last entry for "" and for an
// unknown ID.
func BranchTo(ctx context.Context, entries iter.Seq2[Entry, error], head string) (Branch, error) {
	var b Branch
	var all []Entry
	index, parent := map[string]int{}, []int{}
	for e, err := range entries {
		if IsSkip(err) {
			b.Damaged++
			continue
		}
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return b, err
		}
		p := len(all) - 1
		if at, ok := index[e.Parent]; ok && e.Parent != "" {
			p = at
		} else if e.Parent == Root {
			p = -1
		}
		index[e.ID] = len(all)
		all, parent = append(all, e), append(parent, p)
	}
	at := len(all) - 1
	if head == Root {
		at = -1
	} else if i, ok := index[head]; ok && head != "" {
		at = i
	}
	for ; at >= 0; at = parent[at] {
		b.Entries = append(b.Entries, all[at])
	}
	slices.Reverse(b.Entries)
	b.Beside = len(all) - len(b.Entries)
	return b, nil
}
