// Package prices computes what answers of models cost: from a dated table in the
// program, and from a file that overrides it. It is pure: it reads no file and
// no clock, and uses no network.
//
// A model that is in neither has no price, and none is guessed.
//
//	usd, known := prices.BuiltIn().Cost("claude-sonnet-4-5", at, usage)
package prices

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// MaxAge is how old prices may be before people are warned.
const MaxAge = 90 * 24 * time.Hour

// Price is what a model costs from a day on, in USD per million tokens.
type Price struct {
	From       string   `yaml:"from"` // a date; "": always
	Input      float64  `yaml:"input"`
	Output     float64  `yaml:"output"`
	CacheWrite *float64 `yaml:"cache_write"`    // kept for five minutes; nil: as input
	CacheHour  *float64 `yaml:"cache_write_1h"` // kept for an hour; entries do not distinguish it
	CacheRead  *float64 `yaml:"cache_read"`     // nil: as input
}

// File is the content of a price file.
type File struct {
	AsOf   string             `yaml:"as_of"` // when they were looked up
	Models map[string][]Price `yaml:"models"`
}

// Table is prices by model. It is never changed.
type Table struct {
	models map[string][]priced
}

// priced is a Price, checked.
type priced struct {
	Price
	from, asOf time.Time
}

// With returns a table in which f overrides the prices of its models.
// ErrInvalid: an invalid date or price.
func (t *Table) With(f File) (*Table, error) {
	asOf, err := time.Parse(time.DateOnly, f.AsOf)
	if err != nil {
		return nil, tidemark.Invalidf("as_of %.40q: want a date like 2026-11-15", f.AsOf)
	}
	out := &Table{models: maps.Clone(t.models)}
	for model, list := range f.Models {
		checked, err := check(list, asOf)
		if err != nil {
			return nil, tidemark.Invalidf("%.80s: %w", model, err)
		}
		out.models[nameOf(model)] = checked
	}
	return out, nil
}

func check(list []Price, asOf time.Time) ([]priced, error) {
	var out []priced
	for _, p := range list {
		c := priced{Price: p, asOf: asOf}
		if p.From != "" {
			var err error
			if c.from, err = time.Parse(time.DateOnly, p.From); err != nil {
				return nil, tidemark.Invalidf("from %.40q: want a date like 2026-11-15", p.From)
			}
		}
		for _, usd := range []float64{p.Input, p.Output, or(p.CacheWrite, 0), or(p.CacheHour, 0), or(p.CacheRead, 0)} {
			if !(usd >= 0 && usd <= maxPrice) {
				return nil, tidemark.Invalidf("%g USD for a million tokens: want 0 to %g", usd, float64(maxPrice))
			}
		}
		out = append(out, c)
	}
	slices.SortStableFunc(out, func(a, b priced) int { return a.from.Compare(b.from) })
	return out, nil
}

// maxPrice is far above what any model costs: more is a mistake in the unit.
const maxPrice = 100_000

func or(p *float64, instead float64) float64 {
	if p == nil {
		return instead
	}
	return *p
}

// Cost is what an answer cost at a time; false when the price of the model is
// unknown.
func (t *Table) Cost(model string, at time.Time, u tidemark.Usage) (usd float64, known bool) {
	p, ok := t.at(model, at)
	if !ok {
		return 0, false
	}
	const million = 1e6
	return (float64(max(u.InputTokens, 0))*p.Input + float64(max(u.OutputTokens, 0))*p.Output +
		float64(max(u.CacheReadTokens, 0))*or(p.CacheRead, p.Input) + float64(max(u.CacheWriteTokens, 0))*or(p.CacheWrite, p.Input)) / million, true
}

// AsOf is when the price of a model was looked up.
func (t *Table) AsOf(model string) (time.Time, bool) {
	list := t.models[nameOf(model)]
	if len(list) == 0 {
		return time.Time{}, false
	}
	return list[len(list)-1].asOf, true
}

// Old reports whether prices of a date are older than MaxAge.
func Old(asOf string, now time.Time) bool {
	at, err := time.Parse(time.DateOnly, asOf)
	return err == nil && now.Sub(at) > MaxAge
}

// at is the price of a model at a time: the newest that applied then, or the
// first one for earlier times.
func (t *Table) at(model string, at time.Time) (priced, bool) {
	list := t.models[nameOf(model)]
	if len(list) == 0 {
		return priced{}, false
	}
	is := list[0]
	for _, p := range list[1:] {
		if !p.from.After(at) {
			is = p
		}
	}
	return is, true
}

// nameOf is the name of a model in the table: without the vendor and without the
// release date, which tools write in many ways.
func nameOf(model string) string {
	name := strings.ToLower(strings.TrimSpace(model))
	name = name[strings.LastIndexByte(name, '/')+1:]
	name, _, _ = strings.Cut(name, "[") // a larger window
	name, _, _ = strings.Cut(name, "@") // a release
	name, _, _ = strings.Cut(name, ":") // a release
	for _, region := range []string{"us.", "eu.", "apac.", "global."} {
		name = strings.TrimPrefix(name, region)
	}
	name = strings.TrimPrefix(name, "anthropic.")
	if strings.HasPrefix(name, "claude-") {
		name = strings.ReplaceAll(name, ".", "-") // some write claude-opus-4.5
	}
	name = strings.TrimSuffix(name, "-v1")
	name = strings.TrimSuffix(name, "-latest")
	for _, layout := range []string{"-20060102", "-2006-01-02"} {
		if cut := len(name) - len(layout); cut > 0 {
			if _, err := time.Parse(layout, name[cut:]); err == nil {
				name = name[:cut]
			}
		}
	}
	return name
}
