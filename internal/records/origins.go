package records

import "github.com/tidemark-sessions/tidemark"

// MachinesKey is the record of what a store remembers of the machines that it shares
// sessions with, to name them.
var MachinesKey = tidemark.Key{Kind: KindRemote, ID: "machines"}

// MachineKey is the record of what a store itself is called by other machines. One
// that never had a remote has none.
var MachineKey = tidemark.Key{Kind: KindRemote, ID: "machine"}

// Origins is the part of a record of KindOrigins that says which lines of a log here
// are which lines on other machines.
type Origins struct {
	Runs []Run `json:"runs,omitempty"`
	// Markers are the lines that sync added so that the head stays where the person
	// at this machine left it, with the seq that each points at. They stay here.
	Markers map[int64]int64 `json:"markers,omitempty"`
}

// Run says that lines here are lines of a machine.
type Run struct {
	Local   int64  `json:"local"`
	Count   int64  `json:"count"`
	Machine string `json:"machine"`
	Line    int64  `json:"line"`
	Born    bool   `json:"born,omitempty"` // they were first there
	Via     string `json:"via,omitempty"`  // the remote that they came by
}

// OriginsKey is the record of a session or, with a name, of a worker of it.
func OriginsKey(id tidemark.SessionID, worker string) tidemark.Key {
	key := tidemark.Key{Kind: KindOrigins, ID: string(id)}
	if worker != "" {
		key.ID += "." + worker
	}
	return key
}

// Born returns the machine that a line was first on, and its line there; not ok when
// no remote was given it yet.
func (o *Origins) Born(local int64) (machine string, line int64, ok bool) {
	for i := len(o.Runs) - 1; i >= 0; i-- {
		if r := &o.Runs[i]; r.Born && r.Local <= local && local < r.Local+r.Count {
			return r.Machine, r.Line + local - r.Local, true
		}
	}
	return "", 0, false
}
