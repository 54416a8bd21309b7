package process

import (
	"github.com/tidemark-sessions/tidemark"
)

// Find returns the family of a process that somebody else started, to end it
// when that one died. h is who the process is, and mark what it was started
// with, or "". On Linux a mark is enough: whoever inherited it is found, also
// if the process itself has ended or its pid is not known, and h has only the
// host, boot and namespace of its owner. Elsewhere the group is found while
// the process is there, on Windows the process alone.
//
// Nobody else is harmed: of a pid that was given to another process since, and
// of a process of another host, boot or namespace, there is no family. It is
// empty then, and Stop has nothing to do.
func Find(h tidemark.Holder, mark string) Family {
	me := Self("")
	if h.PID < 0 || h.Host != me.Host || h.BootID != me.BootID || h.Namespace != me.Namespace {
		return Family{}
	}
	return familyOf(h, mark)
}

// same reports whether the pid still belongs to the process that h names, or
// to what remains of it.
func same(h tidemark.Holder) bool {
	return h.PID > 0 && h.StartedAt != "" && look(h.PID).started == h.StartedAt
}
