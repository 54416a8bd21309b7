package herdctl

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"path"
	"unicode/utf8"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/internal/yaml"
)

const (
	// maxDoc bounds one file: prompts and summaries have no limit of their own.
	maxDoc = 4 << 20
	// maxValues and maxBytes bound the result of expanding aliases.
	maxValues = 200_000
	maxBytes  = 2 * maxDoc
)

// bounds of a YAML file. herdctl needs six levels, and writes no anchors; the
// limits suffice for the state of some five thousand agents.
func bounds() yaml.Limits {
	return yaml.Limits{Bytes: maxDoc, Parts: 200_000, Keys: 10_000, Depth: 64, Anchors: 1000, Values: maxValues}
}

// object is a mapping as JSON; YAML is converted to it, too. A scalar that YAML
// considers a time is a string there.
type object map[string]json.RawMessage

// readDoc reads a file that is one mapping: YAML, or JSON by its name.
func readDoc(fsys fs.FS, name string) (object, error) {
	b, err := readBounded(fsys, name)
	if err != nil {
		return nil, err
	}
	if path.Ext(name) == ".json" {
		return parseJSON(b)
	}
	return parseYAML(b)
}

// readBounded reads a regular file whole: reading a pipe would block.
func readBounded(fsys fs.FS, name string) ([]byte, error) {
	if info, err := fs.Stat(fsys, name); err == nil && !info.Mode().IsRegular() {
		return nil, tidemark.Invalidf("is no file")
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxDoc+1))
	switch {
	case err != nil:
		return nil, err
	case len(b) > maxDoc:
		return nil, tidemark.Invalidf("is larger than %d bytes", maxDoc)
	case !utf8.Valid(b):
		return nil, tidemark.Invalidf("is not UTF-8")
	}
	return b, nil
}

func parseJSON(b []byte) (object, error) {
	if err := checkParts(b); err != nil {
		return nil, err
	}
	var o object
	err := json.Unmarshal(b, &o)
	var other *json.UnmarshalTypeError
	switch {
	case errors.As(err, &other):
		return nil, tidemark.Invalidf("is no object of JSON")
	case err != nil:
		return nil, tidemark.Invalidf("is no JSON: %w", err)
	case o == nil:
		return nil, tidemark.Invalidf("is empty")
	}
	return o, nil
}

// checkParts returns ErrInvalid for JSON of too many keys and elements.
func checkParts(b []byte) error {
	if len(b) > 1<<20 && convert.Parts(b) > maxValues { // a shorter one need not be counted
		return tidemark.Invalidf("has more than %d parts", maxValues)
	}
	return nil
}

// parseYAML returns the one mapping of a YAML text.
func parseYAML(b []byte) (object, error) {
	root, problems := yaml.Parse(b, bounds())
	switch {
	case len(problems) > 0:
		return nil, tidemark.Invalidf("%w", problems[0])
	case root == nil:
		return nil, tidemark.Invalidf("is empty")
	case root.Shape != yaml.Map:
		return nil, tidemark.Invalidf("is no mapping")
	}
	raw, err := root.JSON(maxBytes)
	if err != nil {
		return nil, tidemark.Invalidf("%w", err)
	}
	return parseJSON(raw)
}
