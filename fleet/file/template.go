package file

import (
	_ "embed"
	"slices"
)

// In the template an example that is commented out has its # directly before it,
// so that deleting the # enables it. In explanations a space follows the #.
//
//go:embed template.yaml
var template []byte

// Template returns the file that tidemark fleet init writes: one agent that
// runs without a key or a network, and every key there is, explained.
func Template() []byte { return slices.Clone(template) }
