package upkeep

import (
	"errors"
	"iter"
	"strings"

	"github.com/tidemark-sessions/tidemark"
)

// Finding is one damage, as JSON for programs.
type Finding struct {
	Kind  string `json:"kind,omitempty"`
	ID    string `json:"id,omitempty"`
	Seq   int64  `json:"seq,omitempty"`
	Place string `json:"place,omitempty"`
	What  string `json:"what"`
}

// Findings collects the damage that a verification yields. The first error that is
// not damage ends it and is returned.
func Findings(found iter.Seq[error]) ([]Finding, error) {
	all := []Finding{}
	for err := range found {
		var d *tidemark.Damage
		switch {
		case errors.As(err, &d):
			all = append(all, Finding{d.Key.Kind, d.Key.ID, d.Seq, d.Place, d.What})
		case errors.Is(err, tidemark.ErrCorrupt):
			all = append(all, Finding{What: err.Error()})
		default:
			return all, err
		}
	}
	return all, nil
}

func (f Finding) String() string {
	if f.Kind == "" {
		return strings.TrimPrefix(f.Place+": "+f.What, ": ")
	}
	d := tidemark.Damage{Key: tidemark.Key{Kind: f.Kind, ID: f.ID}, Seq: f.Seq, Place: f.Place, What: f.What}
	return d.Error()
}
