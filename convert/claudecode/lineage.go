package claudecode

import (
	"context"
	"io/fs"
	"slices"

	"github.com/tidemark-sessions/tidemark/convert"
)

// lineage gives the sources their ids and finds where forks came from. It
// returns originals before their forks, and files that are not transcripts as
// skips.
func lineage(ctx context.Context, p convert.Source, found []source) (sources []source, skips []error, err error) {
	byID := map[string]int{}
	groups := map[string][]int{}
	for _, s := range found {
		h, known, growth, err := headOf(ctx, p, s.file)
		if err != nil {
			if !convert.IsSkip(err) {
				return nil, nil, err
			}
			skips = append(skips, err)
			continue
		}
		s.head = h
		if len(s.agents) == 0 {
			s.growth = growth
		}
		s.same = known && s.besideUnchanged(p)
		if h.From != h.ID {
			s.copied = h.From
		}
		if h.Placed != nil {
			s.copied, s.first = h.Placed.Copied, h.Placed.Own
		}
		if other, twice := byID[s.ID]; twice {
			skips = append(skips, convert.Skipf(s.file, "session %s is in %s, too", s.ID, sources[other].file))
			continue
		}
		byID[s.ID] = len(sources)
		groups[h.First] = append(groups[h.First], len(sources))
		sources = append(sources, s)
	}
	for _, group := range groups {
		if err := relate(ctx, p.FS, sources, group, byID); err != nil {
			return nil, nil, err
		}
	}
	return inOrder(sources, byID), skips, nil
}

// peek returns a transcript's first record.
func peek(ctx context.Context, fsys fs.FS, file string) (record, error) {
	t := transcript{fsys: fsys, file: file, mine: notAside, bare: true}
	for it, err := range t.records(ctx, nil) {
		if convert.IsSkip(err) {
			continue
		}
		if err != nil {
			return record{}, err
		}
		if it.Session == "" && named(file) == "" {
			return record{}, convert.Skipf(file, "neither its name nor its records say which session it is")
		}
		it.ForkedFrom = slices.Clone(it.ForkedFrom) // the line is gone after this
		return it.record, nil
	}
	f, err := fsys.Open(file)
	if err != nil {
		return record{}, &convert.Skip{What: file, Why: err}
	}
	f.Close()
	return record{}, convert.Skipf(file, "holds no message of Claude Code")
}

// inOrder puts originals before their forks. A cycle, which only a damaged store
// has, is cut where it is found.
func inOrder(sources []source, byID map[string]int) []source {
	var ordered []source
	state := make([]int, len(sources))
	for i := range sources {
		var chain []int
		for at, ok := i, true; ok && state[at] == 0; at, ok = follow(byID, sources[at].copied) {
			state[at] = 1
			chain = append(chain, at)
		}
		if n := len(chain); n > 0 {
			if next, ok := byID[sources[chain[n-1]].copied]; ok && slices.Contains(chain, next) {
				sources[chain[n-1]].copied = ""
			}
		}
		for _, at := range slices.Backward(chain) {
			ordered = append(ordered, sources[at])
		}
	}
	return ordered
}

func follow(m map[string]int, key string) (int, bool) {
	at, ok := m[key]
	return at, ok
}
