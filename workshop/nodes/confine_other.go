//go:build !linux

package nodes

import "errors"

// Confine does not know how to, on this system.
func (n *Node) Confine(int) (func() error, error) {
	return nil, errors.New("a node cannot be confined to a share of the machine on this system")
}
