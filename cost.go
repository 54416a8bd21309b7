package tidemark

import "math"

// Where a cost comes from.
const (
	CostRecorded  = "recorded"  // the tool or the provider reported it
	CostEstimated = "estimated" // tokens times a price
	CostMixed     = "mixed"     // some of it the one, some the other
)

// Cost is what answers cost, as far as that is known. An unknown cost is not
// zero: CostUSD is nil, or UnpricedMessages says how many answers it leaves out.
type Cost struct {
	CostUSD          *float64 `json:"cost_usd"`                    // nil: not known
	CostSource       string   `json:"cost_source,omitempty"`       // recorded, estimated or mixed
	PricesAsOf       string   `json:"prices_as_of,omitempty"`      // the oldest price in it: a date
	UnpricedMessages int64    `json:"unpriced_messages,omitempty"` // answers whose cost is not known and not in it

	nano int64 // the cost so far: sums of binary fractions drift
}

// nanoUSD is the resolution, in parts of a dollar: a token of the cheapest model
// costs tens of them.
const nanoUSD = 1e9

// Spend adds a known amount and where it comes from; asOf is the date of the
// price behind an estimate.
func (c *Cost) Spend(usd float64, source, asOf string) {
	c.spend(int64(min(max(math.Round(usd*nanoUSD), 0), math.MaxInt64/2)), source, asOf)
}

// Add adds another cost.
func (c *Cost) Add(o Cost) {
	c.UnpricedMessages += o.UnpricedMessages
	if o.CostUSD != nil {
		c.spend(o.nano, o.CostSource, o.PricesAsOf)
	}
}

// USD is the cost, 0 when it is not known.
func (c Cost) USD() float64 {
	if c.CostUSD == nil {
		return 0
	}
	return *c.CostUSD
}

func (c *Cost) spend(parts int64, source, asOf string) {
	c.nano = min(c.nano, math.MaxInt64/2) + min(parts, math.MaxInt64/2)
	usd := float64(c.nano) / nanoUSD
	c.CostUSD = &usd
	switch c.CostSource {
	case "", source:
		c.CostSource = source
	default:
		c.CostSource = CostMixed
	}
	if asOf != "" && (c.PricesAsOf == "" || asOf < c.PricesAsOf) {
		c.PricesAsOf = asOf
	}
}
