package file

import (
	_ "embed"
	"slices"
)

// Uncommenting an example means to take out its #, which stands right before
// it; what is explained has a space after the #.
//
//go:embed template.yaml
var template []byte

// Template returns the file that tidemark fleet init writes: one agent that
// runs without a key or a network, and every key there is, explained.
func Template() []byte { return slices.Clone(template) }
