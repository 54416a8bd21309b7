package tidemark

import (
	"bytes"
	"encoding/json"
	"strings"
)

// appendBody writes the body of an entry as JSON without newlines.
func appendBody(dst []byte, e *Entry) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false) // people read these files
	if err := enc.Encode(body{e.Blocks, e.Model, e.Usage, e.Extra}); err != nil {
		return nil, err
	}
	return append(dst, bytes.TrimRight(buf.Bytes(), "\n")...), nil
}

func parseBody(b []byte, e *Entry) error {
	var v body
	dec := json.NewDecoder(strings.NewReader(string(b)))
	if err := dec.Decode(&v); err != nil {
		return err
	}
	e.Blocks, e.Model, e.Usage, e.Extra = v.Blocks, v.Model, v.Usage, v.Extra
	return nil
}
