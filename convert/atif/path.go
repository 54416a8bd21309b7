// Package atif exports sessions in two forms for evaluation and training:
// trajectories (ATIF) and traces (OpenTelemetry, with its conventions for
// generative AI). It imports nothing and sends nothing anywhere.
//
//	lost, err := atif.Tool().Export(ctx, out, session)
package atif

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// written is a tool that only exports.
func written(name, title string, export func(context.Context, convert.Out, *convert.Session) ([]string, error)) convert.Tool {
	return convert.Tool{
		Name: name, Title: title, Export: export,
		Detect: func(context.Context, convert.Source) bool { return false },
	}
}

// losses counts what cannot be represented.
type losses map[string]int

func (l losses) add(what string, n int) {
	if n > 0 {
		l[what] += n
	}
}

func (l losses) report(s *convert.Session) []string {
	l.add("names of entries", len(s.Labels))
	l.add("files", len(s.Files))
	l.add("a checkpoint", min(len(s.Checkpoint), 1))
	lost := slices.Clone(s.Lost)
	for _, what := range slices.Sorted(maps.Keys(l)) {
		lost = append(lost, fmt.Sprintf("%s (%d)", what, l[what]))
	}
	return lost
}

// pathTo returns the entries from the root to the head, "" for the last one:
// both forms have a single path.
func (l losses) pathTo(ctx context.Context, entries iter.Seq2[convert.Entry, error], head string) ([]convert.Entry, error) {
	b, err := convert.BranchTo(ctx, entries, head)
	if err != nil {
		return nil, err
	}
	l.add("damaged entries", b.Damaged)
	l.add("entries of other branches", b.Beside)
	// Branch markers place the entries after them, and have no content.
	return slices.DeleteFunc(b.Entries, func(e convert.Entry) bool {
		return e.Kind == tidemark.KindBranch || e.Kind == tidemark.KindGap
	}), nil
}

// idOf is the session's own id, or that of the tool it came from.
func idOf(s *convert.Session) string { return cmp.Or(string(s.ID), s.ForeignID) }

// fileName turns any id into a safe file name.
func fileName(id string) string {
	if tidemark.CheckID(id) == nil {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:8])
}

func isMessage(e convert.Entry) bool { return e.Kind == "" || e.Kind == tidemark.KindMessage }

// write makes a file of JSON.
func write(out convert.Out, name string, v any) error {
	b, err := convert.Encode(v)
	if err != nil {
		return tidemark.Invalidf("%s: %w", name, err)
	}
	return convert.WriteFile(out, name, append(b, '\n'))
}

// asObject is a call's input, which both forms require to be an object.
func asObject(input json.RawMessage) any {
	var fields map[string]json.RawMessage
	switch {
	case len(input) == 0 || string(input) == "null":
		return map[string]any{}
	case json.Unmarshal(input, &fields) == nil && fields != nil:
		return input
	}
	return map[string]any{"arguments": input}
}
