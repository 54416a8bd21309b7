package transfer

import (
	"context"
	"strings"

	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/convert/dialogue"
)

// Anthropic's limits for an image, which other providers are above.
const (
	maxImageBytes = 5 << 20 / 4 * 3 // encoded they are a third longer
	maxImageSide  = 8000
)

// asIs is what a session may have that a tool writes as it is.
var asIs = dialogue.Takes{Thinking: true, Links: true, Summary: true, MaxImage: maxImageBytes, MaxSide: maxImageSide, Signed: signature}

// Fit makes the entries of a session such that a model accepts them, for a tool that
// writes them as they are, and returns what is not there any more. A session of the
// tool itself is left as it is unless something is wrong with it.
func Fit(ctx context.Context, tool convert.Tool, s *convert.Session) ([]string, error) {
	if tool.Handover == nil || !tool.Handover.AsIs {
		return nil, nil
	}
	own := false
	for e, err := range s.Entries {
		if err != nil && !convert.IsSkip(err) {
			return nil, err
		}
		own = own || err == nil && strings.HasPrefix(e.Key, tool.Name+":")
	}
	d, err := dialogue.Of(ctx, &convert.Session{Entries: s.Entries, Head: s.Head}, asIs)
	if err != nil || own && len(d.Faults) == 0 {
		return nil, err
	}
	seq := int64(0)
	var all []convert.Entry
	for _, m := range d.Messages {
		if m.Summary {
			m.Kind, m.Role = convert.KindCompaction, ""
		}
		if m.Seq == 0 {
			m.Seq = seq // what had to be added belongs to what is before it
		}
		seq = m.Seq
		all = append(all, m.Entry)
	}
	s.Entries, s.Head = convert.All(all), ""
	return d.Lost.List(), nil
}
