// Package claudecode imports the sessions of Claude Code and exports sessions so
// that Claude Code can resume them. It reads transcripts and the files beside
// them, and of the settings how long the client keeps them; it opens no credentials.
//
// A transcript is JSON Lines. Records with a uuid form a tree; one reply is many
// records with one message id, and they become one entry here. Records without a
// uuid are notes of the client; they are kept in the Extra of the next entry, so
// that an export can write them again. The request logs, which repeat the
// conversation, are left out.
//
//	for s, err := range claudecode.Tool().Import(ctx, place) { … }
package claudecode

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark/convert"
)

// name is the name of the tool, and its key in Extra.
const name = "claude-code"

// provider is the provider of the raw blocks.
const provider = "anthropic"

// Tool returns the converter of Claude Code.
func Tool() convert.Tool {
	return convert.Tool{
		Name:     name,
		Title:    "Claude Code",
		Homes:    []string{".claude", ".config/claude"},
		Moved:    []convert.Moved{{Variable: "CLAUDE_CONFIG_DIR"}},
		Detect:   detect,
		Import:   importAll,
		Grows:    true,
		Files:    list,
		Kin:      kinOf,
		Export:   export,
		Handover: &convert.Handover{AsIs: true, Adrift: adrift},

		Offered:   func(project string) string { return path.Join("projects", Folder(project)) },
		Salvages:  true,
		Retention: retention,
	}
}

func detect(ctx context.Context, p convert.Source) bool {
	if convert.IsFile(p.FS, p.Path) {
		return strings.HasSuffix(p.Path, ".jsonl") && looksRight(p.FS, p.Path)
	}
	listed := false
	for f, err := range list(ctx, p) {
		if err == nil && path.Base(f.Path) == historyFile {
			if looksTyped(p.FS, f.Path) {
				return true
			}
			continue
		}
		listed = listed || err != nil || f.Unit == f.Path
		if err == nil && f.Unit == f.Path && looksRight(p.FS, f.Path) {
			return true // without a look at the other projects
		}
	}
	if listed {
		return false
	}
	found, _ := findBare(p)
	return len(found) > 0
}

// known are types of records that no other tool writes together with a
// sessionId.
var known = []string{"user", "assistant", "system", "attachment", "summary", "progress", "queue-operation", "last-prompt", "custom-title",
	"agent-name", "mode", "permission-mode", "file-history-snapshot"}

// looksRight reports whether one of the first lines is a record of a
// transcript.
func looksRight(fsys fs.FS, file string) bool {
	for line, err := range convert.Lines(fsys, file) {
		if err != nil || line.Number > 20 {
			return false
		}
		r, err := decode(line.Text)
		if err != nil || !slices.Contains(known, r.Type) {
			continue
		}
		switch r.Type {
		case "user", "assistant":
			return r.UUID != "" && r.Session != "" && r.Message.Content != nil
		case "file-history-snapshot":
			return true
		case "summary":
			return r.Leaf != ""
		default:
			if r.Session != "" && r.Provenance == "" {
				return true
			}
		}
	}
	return false
}

func importAll(ctx context.Context, p convert.Source) iter.Seq2[*convert.Session, error] {
	return func(yield func(*convert.Session, error) bool) {
		found, skips := find(p)
		if convert.IsFile(p.FS, p.Path) {
			found, skips = one(p)
		}
		sources, more, err := lineage(ctx, p, found)
		if err != nil {
			yield(nil, err)
			return
		}
		for _, skip := range append(skips, more...) {
			if !yield(nil, skip) {
				return
			}
		}
		for s, err := range sessions(ctx, p.FS, sources) {
			if !yield(s, err) || err != nil && !convert.IsSkip(err) {
				return
			}
		}
		for s, err := range salvage(ctx, p, sources) {
			if !yield(s, err) {
				return
			}
		}
	}
}

// keptDays is for how many days the client keeps a transcript by default.
const keptDays = 30

// retention reads how long the client keeps transcripts. Where its settings cannot
// be read, it deletes nothing.
func retention(p convert.Source) convert.Retention {
	r := convert.Retention{Days: keptDays, Change: `"cleanupPeriodDays": 3650 in settings.json`, Spares: histories(p)}
	for _, below := range projectFolders {
		raw, err := convert.ReadFile(p.FS, path.Join(p.Path, path.Dir(below), "settings.json"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var settings struct {
			Days *float64 `json:"cleanupPeriodDays"`
		}
		switch {
		case err != nil || json.Unmarshal(raw, &settings) != nil:
			r.Days = 0
		case settings.Days != nil:
			r.Days = int(max(*settings.Days, 1))
		}
		return r
	}
	return r
}
