package process

import (
	"github.com/tidemark-sessions/tidemark"
)

// Find returns the family of a process that another owner started, to end it
// after that owner died. h identifies the process, and mark is what it was
// started with, or "". On Linux a mark is enough: everything that inherited it
// is found, even if the process itself has ended or its pid is not known and h
// has only the host, boot and namespace of its owner. Elsewhere the group is
// found while the process exists, and on Windows only the process.
//
// Nothing else is harmed: a pid that now belongs to another process, and a
// process of another host, boot or namespace, have no family. It is empty then,
// and Stop has nothing to do.
func Find(h tidemark.Holder, mark string) Family {
	me := Self("")
	if h.PID < 0 || h.Host != me.Host || h.BootID != me.BootID || h.Namespace != me.Namespace {
		return Family{}
	}
	return familyOf(h, mark)
}

// same reports whether the pid still belongs to the process that h names, or to
// its zombie.
func same(h tidemark.Holder) bool {
	return h.PID > 0 && h.StartedAt != "" && lookUp(h.PID).started == h.StartedAt
}
