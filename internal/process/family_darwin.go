package process

import "syscall"

// signal sends s to the group, and reports whether anybody was there. There is
// no cheap way to find processes that left it.
func (f Family) signal(s syscall.Signal, _ relatives) (someone bool) { return f.signalGroup(s) }
