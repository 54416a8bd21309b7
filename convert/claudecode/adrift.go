package claudecode

import (
	"encoding/json"

	"github.com/tidemark-sessions/tidemark/convert"
)

// adrift finds records that follow one that is not there, which Claude Code begins the
// session with, and compactions without a summary, which it begins the session behind.
// Of a session that other tools added to only the latter are found: which records it
// wrote for their entries is not known.
func adrift(entries []convert.Entry) (all []convert.Adrift) {
	seen := make(map[string]bool)
	cut, own := "", true
	noSummary := func() {
		if cut != "" {
			all = append(all, convert.Adrift{ID: cut, Why: "the session was compacted here, and the summary of what was said before is not there"})
		}
		cut = ""
	}
	var parted []convert.Adrift
	for _, e := range entries {
		records := recordsOf(e)
		own = own && len(records) > 0
		for _, r := range records {
			switch {
			case r.Subtype == "compact_boundary":
				noSummary()
				cut = e.ID
			case r.Summarizes:
				cut = ""
			case r.Parent != "" && !seen[r.Parent]:
				parted = append(parted, convert.Adrift{ID: e.ID, Why: "what it follows is not there, and with it all that was said before"})
			}
			seen[r.UUID] = true
		}
	}
	noSummary()
	if own {
		all = append(all, parted...)
	}
	return all
}

// recordsOf are the records that an entry was made of.
func recordsOf(e convert.Entry) (all []record) {
	var extra map[string]struct {
		Records []struct {
			Record record `json:"record"`
		} `json:"records"`
	}
	_ = json.Unmarshal(e.Extra, &extra) // another tool's Extra is ignored
	for _, k := range extra[name].Records {
		all = append(all, k.Record)
	}
	return all
}
