// Package expression compiles regular expressions when they are first used. A run
// of the program uses few of those that it links, and would pay for all of them
// before it begins. It never decides what is matched.
//
//	var nodeRef = expression.WhenNeeded(`^n([0-9]+)$`)
//	nodeRef().MatchString("n3")
package expression

import (
	"regexp"
	"sync"
)

// WhenNeeded returns an expression that is compiled at its first use, once,
// also when several goroutines use it. It panics at that use if the expression
// is invalid, so each expression needs a test that uses it.
func WhenNeeded(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
