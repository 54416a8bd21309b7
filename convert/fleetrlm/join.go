package fleetrlm

import (
	"slices"

	"github.com/tidemark-sessions/tidemark/convert"
)

// join gives a session the turns of its manifest together with those that only
// the sidecar database still has, and returns their number. fleet-rlm truncates
// the history of a manifest, but keeps the rows of the database. If the two do
// not match, the rows become a branch of their own.
func join(s *convert.Session, said, rows []turn) int {
	all, fit := fitTogether(said, rows)
	entries := collect(&speaker{said: map[string]int{}, last: s.CreatedAt}, all)
	if !fit {
		sp := &speaker{said: map[string]int{}, last: s.CreatedAt}
		entries = collect(sp, said)
		s.Head = entries[len(entries)-1].ID
		beside := collect(sp, rows)
		beside[0].Parent = convert.Root
		entries, all = append(entries, beside...), said
	}
	s.Entries = convert.All(entries)
	return len(all)
}

func collect(sp *speaker, turns []turn) (entries []convert.Entry) {
	for _, t := range turns {
		entries = append(entries, sp.entries(t)...)
	}
	return entries
}

// fitTogether returns the rows before those of the manifest, the turns of the
// manifest completed from their rows, and the rows after them.
func fitTogether(said, rows []turn) (all []turn, fit bool) {
	var own []int // the turns that are not summaries
	for i, t := range said {
		if !t.isSummary() {
			own = append(own, i)
		}
	}
	if len(rows) == 0 {
		return said, true
	}
	if len(own) == 0 {
		return append(slices.Clone(rows), said...), true
	}
	shift, fit := shiftOf(said, own, rows)
	if !fit {
		return nil, false
	}
	for k := range own {
		if j := k + shift; j >= 0 && j < len(rows) {
			t, r := &said[own[k]], rows[j]
			t.at = firstTime(t.at, r.at)
			t.note.Latency = r.note.Latency
			if r.usage != nil {
				t.usage = r.usage
			}
		}
	}
	all = append(all, rows[:max(shift, 0)]...)
	all = append(all, said...)
	return append(all, rows[min(max(len(own)+shift, 0), len(rows)):]...), true
}

// maxShifts bounds how many alignments are tried.
const maxShifts = 64

// shiftOf finds how many rows come before the first turn of the manifest;
// negative when the manifest has more.
func shiftOf(said []turn, own []int, rows []turn) (shift int, fit bool) {
	shifts := []int{len(rows) - len(own), 0}
	for j := len(rows) - 1; j >= 0 && len(shifts) < maxShifts; j-- {
		if rows[j].request == said[own[0]].request {
			shifts = append(shifts, j)
		}
	}
	for _, shift := range shifts {
		if fits(said, own, rows, shift) {
			return shift, true
		}
	}
	return 0, false
}

func fits(said []turn, own []int, rows []turn, shift int) bool {
	met := false
	for k := range own {
		j := k + shift
		if j < 0 || j >= len(rows) {
			continue
		}
		t, r := said[own[k]], rows[j]
		if t.request != r.request || t.answer != r.answer && t.answer != "" && r.answer != "" {
			return false
		}
		met = true
	}
	return met
}
