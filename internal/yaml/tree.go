package yaml

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v4"
)

// tree makes nodes from parsed YAML.
type tree struct {
	Limits
	restore         func(string) string
	made            map[*yaml.Node]*Node // what aliases point to; nil while it is being made
	values, anchors int
	over            bool // a limit was exceeded and reported, and the rest is ignored
	problems        []Problem
}

func (t *tree) report(at *Node, message, hint string) {
	t.problems = append(t.problems, Problem{Line: at.Line, Column: at.Column, Message: message, Hint: hint})
}

// stop reports, once, that the text exceeds a limit.
func (t *tree) stop(at *Node, message string) *Node {
	if !t.over {
		t.report(at, message, "")
	}
	t.over = true
	return at
}

// node converts n. It always returns a node, an empty one if n is invalid.
func (t *tree) node(n *yaml.Node, depth int) *Node {
	out := &Node{Shape: Null, Line: max(1, n.Line), Column: max(1, n.Column), Size: 1}
	tagged := n.Style&yaml.TaggedStyle != 0
	for _, marked := range []bool{n.Anchor != "", tagged, n.Kind == yaml.AliasNode} {
		if marked {
			t.anchors++
		}
	}
	t.values++
	switch {
	case t.over:
		return out
	case depth > t.Depth:
		return t.stop(out, "this is too deep inside")
	case t.values > t.Values:
		return t.stop(out, "this is too much when aliases are replaced")
	case t.anchors > t.Anchors:
		return t.stop(out, fmt.Sprintf("more than %d anchors, aliases and tags", t.Anchors))
	case len(n.Content) > 2*t.Keys && n.Kind == yaml.MappingNode:
		return t.stop(out, fmt.Sprintf("a mapping of more than %d keys", t.Keys))
	case tagged && (n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str"):
		t.report(out, fmt.Sprintf("tag %.40s has no meaning here", n.ShortTag()), "take it out")
		return out
	}
	if n.Anchor != "" {
		t.made[n] = nil
	}
	switch n.Kind {
	case yaml.AliasNode:
		return t.alias(n, out)
	case yaml.MappingNode:
		t.mapping(n, out, depth)
	case yaml.SequenceNode:
		out.Shape = List
		for _, v := range n.Content {
			item := t.node(v, depth+1)
			out.Items = append(out.Items, item)
			out.Size += item.Size
		}
	case yaml.ScalarNode:
		t.scalar(n, out)
	}
	if n.Anchor != "" {
		t.made[n] = out
	}
	return out
}

func (t *tree) scalar(n *yaml.Node, out *Node) {
	n.Value = t.restore(n.Value)
	out.Shape, out.Text = Text, n.Value
	switch n.ShortTag() {
	case "!!null":
		out.Shape = Null
	case "!!bool":
		out.Shape = Bool
	case "!!int", "!!float":
		out.Shape = Number
	}
}

func (t *tree) alias(n *yaml.Node, out *Node) *Node {
	to := t.made[n.Alias]
	if to == nil {
		t.report(out, fmt.Sprintf("alias *%.40s: there is no anchor &%.40s before it", n.Value, n.Value), "")
		return out
	}
	if t.values += to.Size; t.values > t.Values {
		return t.stop(out, "this is too much when aliases are replaced")
	}
	return to
}

func (t *tree) mapping(n *yaml.Node, out *Node, depth int) {
	out.Shape = Map
	seen := make(map[string]int, len(n.Content)/2)
	var merges []*Node
	for i := 0; i+1 < len(n.Content) && !t.over; i += 2 {
		merge := n.Content[i].ShortTag() == "!!merge"
		key, value := t.node(n.Content[i], depth+1), t.node(n.Content[i+1], depth+1)
		out.Size += value.Size
		line, again := seen[key.Text]
		switch {
		case key.Shape == List || key.Shape == Map:
			t.report(key, "a key that is no text", "")
		case merge:
			merges = append(merges, t.merges(value)...)
		case again:
			t.report(key, fmt.Sprintf("key %.40q is there twice", key.Text), fmt.Sprintf("the first one is in line %d", line))
		default:
			seen[key.Text] = key.Line
			out.Entries = append(out.Entries, Entry{Key: key.Text, Value: value, Line: key.Line, Column: key.Column})
		}
	}
	for _, m := range merges {
		if t.values += len(m.Entries); t.values > t.Values {
			t.stop(out, "this is too much when aliases are replaced")
			return
		}
		for _, e := range m.Entries {
			if _, ok := seen[e.Key]; !ok {
				seen[e.Key] = e.Line
				out.Entries = append(out.Entries, e)
				out.Size += e.Value.Size
			}
		}
	}
}

// merges returns the mappings that << names: one, or a list of them of which
// the first wins.
func (t *tree) merges(value *Node) []*Node {
	all := []*Node{value}
	if value.Shape == List {
		all = value.Items
	}
	var maps []*Node
	for _, m := range all {
		if m.Shape == Map {
			maps = append(maps, m)
			continue
		}
		t.report(m, "<< takes mappings, and this is "+string(m.Shape), "name one by an alias: <<: *name")
	}
	return maps
}

// Find returns the entry of a key that is present and not null.
func (n *Node) Find(key string) (Entry, bool) {
	if n != nil {
		for _, e := range n.Entries {
			if e.Key == key {
				return e, e.Value.Shape != Null
			}
		}
	}
	return Entry{}, false
}

// Get returns the value of a key, nil when it is missing or null.
func (n *Node) Get(key string) *Node {
	e, ok := n.Find(key)
	if !ok {
		return nil
	}
	return e.Value
}

// Says reports whether a key is present, even without a value.
func (n *Node) Says(key string) bool {
	return n != nil && slices.ContainsFunc(n.Entries, func(e Entry) bool { return e.Key == key })
}

// Own returns the entry of a key that is present and not inherited.
func (n *Node) Own(key string) (Entry, bool) {
	e, ok := n.Find(key)
	return e, ok && !e.Inherited
}

// Merged returns a mapping with missing keys taken from its defaults, key by key
// where both have a mapping. Anything else replaces its default, a list as a
// whole and a null, too.
func Merged(own, defaults *Node) *Node {
	if own == nil || defaults == nil || own.Shape != Map || defaults.Shape != Map {
		return own
	}
	both := *own
	both.Entries = make([]Entry, 0, len(own.Entries)+len(defaults.Entries))
	said := make(map[string]bool, len(own.Entries))
	for _, e := range own.Entries {
		said[e.Key] = true
		e.Value = Merged(e.Value, defaults.Get(e.Key))
		both.Entries = append(both.Entries, e)
	}
	for _, e := range defaults.Entries {
		if !said[e.Key] {
			e.Inherited = true
			both.Entries = append(both.Entries, e)
		}
	}
	return &both
}

// JSON returns the value as JSON of at most the given size: aliases repeat what
// they refer to. A number that JSON would write differently may be meant as a
// string, and becomes one; so does a time.
func (n *Node) JSON(most int) (json.RawMessage, error) {
	b, err := n.appendJSON(nil, most)
	if err != nil {
		return nil, err
	}
	return b, nil
}

func (n *Node) appendJSON(b []byte, most int) ([]byte, error) {
	if len(b)+len(n.Text) > most {
		return nil, Problem{Line: n.Line, Column: n.Column, Message: "this is too much when aliases are replaced"}
	}
	var err error
	switch {
	case n.Shape == Null:
		return append(b, "null"...), nil
	case n.Shape == Bool && (n.Text[0] == 't' || n.Text[0] == 'T'):
		return append(b, "true"...), nil
	case n.Shape == Bool:
		return append(b, "false"...), nil
	case n.Shape == Number && json.Valid([]byte(n.Text)):
		return append(b, n.Text...), nil
	case n.Shape == List:
		b = append(b, '[')
		for i, item := range n.Items {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = item.appendJSON(b, most); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	case n.Shape == Map:
		b = append(b, '{')
		for i, e := range n.Entries {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendText(b, e.Key), ':')
			if b, err = e.Value.appendJSON(b, most); err != nil {
				return nil, err
			}
		}
		return append(b, '}'), nil
	}
	return appendText(b, n.Text), nil
}

func appendText(b []byte, s string) []byte {
	var quoted bytes.Buffer
	e := json.NewEncoder(&quoted)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string can always be encoded
	return append(b, bytes.TrimSuffix(quoted.Bytes(), []byte("\n"))...)
}
