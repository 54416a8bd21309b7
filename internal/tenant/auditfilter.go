package tenant

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
)

// AuditFilter says which lines of the audit log are meant; empty fields say nothing.
type AuditFilter struct {
	Who   string `query:"who" maxLength:"200" doc:"a part of the name or id of who did it, or of the token's id"`
	What  string `query:"what" maxLength:"200" doc:"a part of what was done, to what, or how it ended"`
	Since string `query:"since" maxLength:"10" doc:"from this day on (UTC), such as 2026-11-15"`
	Until string `query:"until" maxLength:"10" doc:"up to the end of this day (UTC)"`
}

// Match returns whether a line is meant, nil if all are. words say an action as
// people do, and may be nil.
func (f AuditFilter) Match(words func(action string) string) (func(AuditLine) bool, error) {
	if f == (AuditFilter{}) {
		return nil, nil
	}
	day := func(name, text string) (time.Time, error) {
		if text == "" {
			return time.Time{}, nil
		}
		at, err := time.Parse(time.DateOnly, text)
		if err != nil {
			return at, tidemark.Invalidf("%s %.20q: want a day, such as 2026-11-15", name, text)
		}
		return at, nil
	}
	from, err := day("since", f.Since)
	if err != nil {
		return nil, err
	}
	to, err := day("until", f.Until)
	if err != nil {
		return nil, err
	}
	if !to.IsZero() {
		to = to.AddDate(0, 0, 1) // the day is included
	}
	has := func(part string, texts ...string) bool {
		return part == "" || slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(strings.ToLower(text), strings.ToLower(part)) })
	}
	if words == nil {
		words = func(string) string { return "" }
	}
	return func(l AuditLine) bool {
		return has(f.Who, l.Name, l.Who, l.Token) && has(f.What, words(l.Action), l.Action, l.Thing, l.Outcome) &&
			!l.At.Before(from) && (to.IsZero() || l.At.Before(to))
	}, nil
}

// notedAtOnce is how many chained lines are held against those that were not chained
// when an export began.
const notedAtOnce = 20_000

// ExportAudit yields the lines of the audit log of a tenant that match, the oldest
// first, and behind them those that are not chained yet, which are read from the places
// in from. An unreadable one comes with its error. match may be nil.
func (d *Directory) ExportAudit(ctx context.Context, tenant string, from []tidemark.Backend, match func(AuditLine) bool) (iter.Seq2[AuditLine, error], error) {
	// They are read first: one that is chained meanwhile is met twice, not missed.
	fresh, err := d.unchainedLines(ctx, tenant, from, nil)
	if err != nil {
		return nil, err
	}
	return func(yield func(AuditLine, error) bool) {
		var chained []AuditLine
		for l, err := range d.AuditLines(ctx, tenant, tidemark.Span{}) {
			if (err != nil || match == nil || match(l)) && !yield(l, err) {
				return
			}
			if chained = append(chained, l); len(chained) == notedAtOnce {
				fresh, chained = NotIn(fresh, chained), chained[:0]
			}
		}
		for _, l := range NotIn(fresh, chained) {
			if (match == nil || match(l)) && !yield(l, nil) {
				return
			}
		}
	}, nil
}

// WriteAudit writes lines as JSON, one in each line. What cannot be read is said in
// its place.
func WriteAudit(w io.Writer, lines iter.Seq2[AuditLine, error]) error {
	out := json.NewEncoder(w)
	for l, err := range lines {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return err
		}
		if err != nil {
			l.Action, l.Outcome = "damaged", "damaged"
		}
		if err := out.Encode(l); err != nil {
			return err
		}
	}
	return nil
}
