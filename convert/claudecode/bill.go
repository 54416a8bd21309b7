package claudecode

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/tidemark-sessions/tidemark/convert"
)

// After each turn the client records what a session has cost so far, by model. A
// bill distributes that over the answers of the turn, so that each has its cost,
// and the costs add up to what the client recorded.

// statement is what the answers of a model used and cost in total.
type statement struct {
	Input  float64 `json:"inputTokens"`
	Output float64 `json:"outputTokens"`
	Read   float64 `json:"cacheReadInputTokens"`
	Write  float64 `json:"cacheCreationInputTokens"`
	Cost   float64 `json:"costUSD"`
}

// weight is the share of a cost that tokens bear: the client's prices of all
// models have these ratios.
func weight(in, out, read, write float64) float64 { return in + 5*out + 0.1*read + 1.25*write }

func (s statement) weight() float64 { return weight(s.Input, s.Output, s.Read, s.Write) }

// since is what was added after an earlier statement. A client that started
// counting over has a smaller statement, which then is all new.
func (s statement) since(was statement) statement {
	d := statement{s.Input - was.Input, s.Output - was.Output, s.Read - was.Read, s.Write - was.Write, s.Cost - was.Cost}
	if d.Input < 0 || d.Output < 0 || d.Read < 0 || d.Write < 0 || d.Cost < 0 {
		return s
	}
	return d
}

// answer is a reply that has tokens.
type answer struct {
	id     uint32 // of the message, as all texts by number
	model  uint32
	lead   int32 // the first record of its entry; below 0: it is before those that are read
	weight float64
}

// bill is the costs of a transcript, as they become known.
type bill struct {
	texts  *convert.Interner    // ids and models
	open   []answer             // since the last statement
	before int                  // how many of them are from a point
	seen   convert.Memory       // message ids
	stated map[string]statement // by model, as of the last statement
	costs  map[int32]float64    // by leading record
	last   int32                // the leading record of the newest answer that was settled
	shared bool                 // workers share what is left over

	names   map[int32]string // the uuids of leading records before those that are read
	unknown bool             // answers before those are not known
	missed  bool             // a statement was about them
}

func newBill(texts *convert.Interner) *bill {
	return &bill{texts: texts, seen: convert.MemoryOf(texts), stated: map[string]statement{}, costs: map[int32]float64{}}
}

// see adds a record of a reply; earlier records may belong to the same reply.
func (b *bill) see(r record, lead int32) {
	if r.Type != "assistant" || r.APIError || r.Message.Model == synthetic {
		return
	}
	u := r.tokens()
	if u == nil {
		return
	}
	w := weight(float64(u.InputTokens), float64(u.OutputTokens), float64(u.CacheReadTokens), float64(u.CacheWriteTokens))
	id := r.Message.ID
	if a, known := b.answer(id); known {
		if a != nil {
			a.weight = w // the last record of a reply has the figures
		}
		return
	}
	b.seen.Set(ofBill, id, "")
	b.open = append(b.open, answer{b.texts.Intern(id), b.texts.Intern(r.Message.Model), lead, w})
}

// answer returns the open answer of a message id, and whether the id is known, also of
// an answer that is settled. A session may have answers without end and no statement,
// so only those of a point are looked through for an id that is new.
func (b *bill) answer(id string) (open *answer, known bool) {
	if id == "" {
		return nil, false
	}
	number := b.texts.Intern(id)
	for i := range b.open[:b.before] {
		if b.open[i].id == number {
			return &b.open[i], true
		}
	}
	if !b.seen.Has(ofBill, id) {
		return nil, false
	}
	for i := len(b.open) - 1; i >= b.before; i-- { // mostly the newest
		if b.open[i].id == number {
			return &b.open[i], true
		}
	}
	return nil, true
}

// settle distributes a statement over the answers since the previous one, the
// newest first: a restarted client may have forgotten earlier answers.
func (b *bill) settle(models map[string]json.RawMessage) {
	left := 0.0
	b.missed = b.missed || b.unknown
	b.stated = maps.Clone(b.stated) // a bookmark has the one before
	// In order, because the last digit of a sum of floats depends on it.
	for _, model := range slices.Sorted(maps.Keys(models)) {
		var s statement
		if convert.Loose(models[model], &s) != nil || !(s.Cost >= 0) {
			continue
		}
		d := s.since(b.stated[model])
		b.stated[model] = s
		rest := d.Cost
		named := b.texts.Intern(model)
		for i := len(b.open) - 1; i >= 0 && d.weight() > 0; i-- {
			a := b.open[i]
			if a.model != named {
				continue
			}
			share := d.Cost * a.weight / d.weight()
			if share <= 0 || share > rest*(1+1e-9) {
				break
			}
			b.costs[a.lead] = share
			rest = max(0, rest-share)
		}
		left += rest
	}
	for _, a := range b.open {
		b.last = max(b.last, a.lead)
	}
	// What is left over was spent on calls that no record shows: of a worker,
	// which has its own share, or of the client itself.
	if !b.shared && b.costs[b.last] > 0 {
		b.costs[b.last] += left
	}
	b.open, b.before = nil, 0
}

// charge gives answers that no statement covers the rate of the same model in
// the session: a worker's transcript has no statements.
func (b *bill) charge(rates map[string]float64) {
	for _, a := range b.open {
		if cost := rates[b.texts.Text(a.model)] * a.weight; cost > 0 {
			b.costs[a.lead] = cost
		}
	}
}

// close lets go what only the first reading needs.
func (b *bill) close() { b.open, b.seen = nil, convert.Memory{} }

// rates are what one unit of weight costs, by model.
func (b *bill) rates() map[string]float64 {
	rates := map[string]float64{}
	for model, s := range b.stated {
		if w := s.weight(); w > 0 && s.Cost > 0 {
			rates[model] = s.Cost / w
		}
	}
	return rates
}
