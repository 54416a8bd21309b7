// Package fleetrlm imports and exports sessions of fleet-rlm: the manifests on a
// volume with the durable folders beside them, a manifest that was exported
// alone, and the sidecar database of local runs. An imported session replaces
// memory, documents and interpreter state; what its manifest does not mention is
// empty afterwards. It follows no link, and assigns no file of one owner to
// another. See docs/formats/fleet-rlm.md.
//
//	for s, err := range fleetrlm.Tool().Import(ctx, place) { … }
package fleetrlm

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"path"
	"strings"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

const (
	toolName      = "fleet-rlm"
	manifestBegin = "react-session-"
	manifestEnd   = ".json"
)

// Tool returns fleet-rlm.
func Tool() convert.Tool {
	return convert.Tool{
		Name:   toolName,
		Title:  "fleet-rlm",
		Homes:  []string{"memory"}, // where the volume is in a sandbox
		Detect: detect,
		Import: importAll,
		Export: export,
	}
}

// sniffBytes is enough to recognize a manifest by its first keys, and to hold
// the statements that made the first tables of a database.
const sniffBytes = 64 << 10

func detect(ctx context.Context, p convert.Source) bool {
	info, err := fs.Stat(p.FS, p.Path)
	if err != nil {
		return false
	}
	if !info.IsDir() {
		return info.Mode().IsRegular() && (isManifest(p.FS, p.Path) || isSidecar(ctx, p, p.Path))
	}
	found := survey(p)
	if convert.Sniff(found.names(), func(name string) bool { return isManifest(p.FS, name) }) {
		return true
	}
	return found.database != "" && isSidecar(ctx, p, found.database)
}

// sessionOf returns the id in the name of a manifest.
func sessionOf(name string) (id string, ok bool) {
	id, begins := strings.CutPrefix(path.Base(name), manifestBegin)
	id, ends := strings.CutSuffix(id, manifestEnd)
	return id, begins && ends && id != ""
}

// isManifest reports whether a file begins like a manifest. One with the name of
// a manifest needs one known key, or no keys at all: the manifest of an empty
// session.
func isManifest(fsys fs.FS, name string) bool {
	b, err := convert.Head(fsys, name, sniffBytes)
	if err != nil {
		return false
	}
	keys, inState, ok := firstKeys(b)
	if !ok {
		return false
	}
	if _, named := sessionOf(name); named {
		return len(keys) == 0 || anyOf(keys, "rev", "logs", "generated_docs", "metadata", "state", "schema_version", "turns", "history", "core_memory", "daytona")
	}
	return strings.HasSuffix(name, manifestEnd) &&
		(anyOf(inState, "history", "turns", "core_memory", "document_paths", "interpreter_state", "daytona") ||
			keys["turns"] && keys["session_id"] && keys["schema_version"] ||
			keys["history"] && anyOf(keys, "document_access_order", "interpreter_state", "daytona", "document_paths"))
}

func anyOf(keys map[string]bool, names ...string) bool {
	for _, name := range names {
		if keys[name] {
			return true
		}
	}
	return false
}

// firstKeys returns the keys of the object at the start of b, as far as b goes,
// and those of its state.
func firstKeys(b []byte) (keys, inState map[string]bool, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(b, []byte(byteOrderMark))))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, nil, false
	}
	keys, inState = map[string]bool{}, map[string]bool{}
	depth, key, state := 1, true, false // key: a key comes next
	for depth > 0 {
		t, err := dec.Token()
		if err != nil {
			break
		}
		switch name, isText := t.(string); {
		case t == json.Delim('{') || t == json.Delim('['):
			if depth++; depth == 2 {
				state = state && t == json.Delim('{')
			}
			key = true
		case t == json.Delim('}') || t == json.Delim(']'):
			depth--
			key = true
		case key && isText && depth == 1:
			keys[name], state, key = true, name == "state", false
		case key && isText && depth == 2 && state:
			inState[name], key = true, false
		default:
			key = true
		}
	}
	return keys, inState, true
}

// isSidecar reads the columns of a database when its name or its first bytes
// suggest it: reading them means copying it.
func isSidecar(ctx context.Context, p convert.Source, name string) bool {
	b, err := convert.Head(p.FS, name, sniffBytes)
	if err != nil || !bytes.HasPrefix(b, []byte(convert.SQLiteMagic)) || p.SQL == nil {
		return false
	}
	if path.Base(name) != sidecarName && !bytes.Contains(b, []byte("CREATE TABLE chat_sessions")) {
		return false
	}
	db, err := openSidecar(ctx, p, name)
	if err != nil {
		return false
	}
	db.Close()
	return true
}

// safeName makes a name as fleet-rlm does: one element of a path, whatever the
// input.
func safeName(s, otherwise string) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_', r == '-':
			b.WriteRune(r)
		case r == '.' && !strings.HasPrefix(s[i+1:], ".") && (i == 0 || s[i-1] != '.'):
			b.WriteRune(r)
		case r == '.' && i > 0 && s[i-1] == '.':
			// A run of dots becomes one dash, written for its first dot.
		default:
			b.WriteByte('-')
		}
	}
	name := strings.Trim(b.String(), ".")
	name = name[:min(len(name), tidemark.MaxIDBytes)]
	if strings.Trim(name, "-_.") == "" {
		return otherwise
	}
	return name
}
