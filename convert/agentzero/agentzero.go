// Package agentzero imports and exports sessions of AgentZero: the plain and the
// encrypted session file, the checkpoint and the tree. It stores no passphrase,
// and about a wrong one says only that it is wrong. See
// docs/formats/agentzero.md.
//
//	for s, err := range agentzero.Tool().Import(ctx, place) { … }
package agentzero

import (
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

const (
	toolName      = "agentzero"
	plainEnd      = ".json"
	sealedEnd     = ".json.enc"
	checkpointEnd = ".checkpoint.json"
	treeEnd       = ".tree.json"
)

// Tool returns AgentZero.
func Tool() convert.Tool {
	return convert.Tool{
		Name:   toolName,
		Title:  "AgentZero",
		Homes:  []string{".agentzero/sessions"},
		Local:  ".agentzero",
		Detect: detect,
		Import: importAll,
		Export: export,
	}
}

// sniffBytes is how much of a file Detect reads to tell whether it is a session.
const sniffBytes = 64 << 10

func detect(_ context.Context, p convert.Source) bool {
	if convert.IsFile(p.FS, p.Path) {
		return isSession(p.FS, p.Path)
	}
	dir, ids, err := find(p)
	return err == nil && convert.Sniff(ids, func(id string) bool {
		return slices.ContainsFunc(ends(), func(end string) bool { return isSession(p.FS, path.Join(dir, id+end)) })
	})
}

// find lists the sessions of a project, of its .agentzero, or of a folder of
// sessions.
func find(p convert.Source) (dir string, ids []string, err error) {
	return p.IDs(idOf, ".agentzero/sessions", "sessions")
}

// ends are the suffixes of the files of a session, the long ones first.
func ends() []string { return []string{checkpointEnd, treeEnd, sealedEnd, plainEnd} }

// idOf returns which session a file belongs to.
func idOf(name string) (id string, ok bool) {
	for _, end := range ends() {
		if id, ok = strings.CutSuffix(name, end); ok {
			break
		}
	}
	return id, ok && id != "" && !strings.HasPrefix(id, ".")
}

// isSession reports whether a file begins like one of AgentZero's.
func isSession(fsys fs.FS, name string) bool {
	if !convert.IsFile(fsys, name) {
		return false
	}
	f, err := fsys.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	r := io.LimitReader(f, sniffBytes)
	id, _ := idOf(path.Base(name))
	_, err = tidemark.ParseSessionID(id)
	named := err == nil
	if strings.HasSuffix(name, sealedEnd) {
		b, err := io.ReadAll(r)
		return err == nil && named && len(b) >= 60 && !strings.ContainsFunc(strings.TrimSpace(string(b)), notBase64)
	}
	if base, ok := strings.CutSuffix(name, treeEnd); ok && !convert.IsFile(fsys, base+plainEnd) && !convert.IsFile(fsys, base+checkpointEnd) && !convert.IsFile(fsys, base+sealedEnd) {
		return false
	} else if ok {
		return named
	}
	return strings.HasSuffix(name, plainEnd) && looksLikeSession(json.NewDecoder(r), named)
}

func notBase64(r rune) bool {
	return !('A' <= r && r <= 'Z' || 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '+' || r == '/' || r == '=')
}

// looksLikeSession reads keys up to the messages, and further if these are
// short.
func looksLikeSession(dec *json.Decoder, named bool) bool {
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return false
	}
	seen := map[string]bool{}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			break
		}
		k, _ := key.(string)
		var value json.RawMessage
		seen[k] = true
		if err := dec.Decode(&value); err != nil {
			break
		}
		if k == "messages" && !strings.HasPrefix(string(value), "[") {
			return false
		}
	}
	return seen["messages"] && (seen["message_count"] && (named || seen["session_id"] || seen["mode"]) ||
		seen["session_id"] && (seen["session_approvals"] || seen["mode"] || named && (seen["model"] || seen["version"])))
}

func importAll(ctx context.Context, p convert.Source) iter.Seq2[*convert.Session, error] {
	return func(yield func(*convert.Session, error) bool) {
		dir, ids, err := find(p)
		if err != nil && !yield(nil, &convert.Skip{What: dir, Why: err}) {
			return
		}
		keys := newPassphrases(p.Env)
		for _, id := range ids {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			r := &reading{fsys: p.FS, base: path.Join(dir, id), id: id, keys: keys}
			s := r.session()
			for _, skip := range r.skips {
				if !yield(nil, skip) {
					return
				}
			}
			if s != nil && !yield(s, nil) {
				return
			}
		}
	}
}
