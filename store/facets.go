package store

import (
	"cmp"
	"maps"
	"slices"

	"github.com/tidemark-sessions/tidemark"
)

// The names of facets: what hits are counted by.
const (
	FacetRole    = "role"
	FacetProject = "project"
	FacetAgent   = "agent"
	FacetTool    = "tool"
	FacetModel   = "model"
	FacetTag     = "tag"
	FacetDay     = "day"
	FacetError   = "error"
	FacetCost    = "cost"
)

// maxFacetValues bounds the values of a facet that are told: those with the most
// hits.
const maxFacetValues = 50

// Facet is how many hits have each value of something.
type Facet struct {
	Name    string       `json:"name" doc:"role, project, agent, tool, model, tag, day (UTC) or error"`
	Values  []FacetValue `json:"values" nullable:"false" doc:"those with the most hits first"`
	More    int          `json:"more,omitempty" doc:"how many values are not listed"`
	AtLeast bool         `json:"at_least,omitempty" doc:"there may be more hits than were counted"`
}

// FacetValue is one value of a Facet.
type FacetValue struct {
	Value string `json:"value"`
	N     int64  `json:"n"`
}

// tally counts hits.
type tally struct{ by map[string]map[string]int64 }

func (t *tally) add(f Found, costOf func(Info) string) {
	if t.by == nil {
		t.by = make(map[string]map[string]int64)
	}
	count := func(name string, values ...string) {
		if t.by[name] == nil {
			t.by[name] = make(map[string]int64)
		}
		for _, v := range values {
			if v != "" {
				t.by[name][v]++
			}
		}
	}
	count(FacetRole, f.Role())
	count(FacetProject, f.Info.Project)
	count(FacetAgent, f.Info.Agent)
	count(FacetTool, cmp.Or(f.Info.Tool, Native))
	count(FacetModel, cmp.Or(f.Entry.Model, f.Info.Model))
	count(FacetTag, f.Info.Tags...)
	count(FacetDay, f.At.UTC().Format("2006-01-02"))
	if failed(f.Entry) {
		count(FacetError, "yes")
	}
	if costOf != nil {
		count(FacetCost, costOf(f.Info))
	}
}

// failed reports whether an entry tells of an error.
func failed(e tidemark.Entry) bool {
	return e.Kind == tidemark.KindError || slices.ContainsFunc(e.Blocks, func(b tidemark.Block) bool { return b.IsError })
}

// facets returns what was counted, in a fixed order.
func (t *tally) facets(atLeast bool) []Facet {
	var all []Facet
	for _, name := range []string{FacetRole, FacetProject, FacetAgent, FacetTool, FacetModel, FacetTag, FacetCost, FacetDay, FacetError} {
		f := Facet{Name: name, Values: []FacetValue{}, AtLeast: atLeast}
		for _, v := range slices.Sorted(maps.Keys(t.by[name])) {
			f.Values = append(f.Values, FacetValue{v, t.by[name][v]})
		}
		slices.SortStableFunc(f.Values, func(a, b FacetValue) int { return cmp.Compare(b.N, a.N) })
		if len(f.Values) > maxFacetValues {
			f.Values, f.More = f.Values[:maxFacetValues], len(f.Values)-maxFacetValues
		}
		if len(f.Values) > 0 {
			all = append(all, f)
		}
	}
	return all
}
