package tidemark

import "strings"

// The kinds of audit logs: who did what. A line is committed in the same batch
// as the change that it describes.
const (
	// ActKind is in the clear even in a sealed store, for readers without a key.
	// Package postgres keeps it in a separate table, where its writer can
	// neither change nor read it.
	ActKind = "act"
	// SealedActKind is sealed like everything else, for readers that have the
	// key.
	SealedActKind = "sealedact"
)

// ActLog names the audit log of one boot: one start of a server on a node, for
// one tenant. Each commit to it is made after the one before was settled, so its
// lines have no gap. None of the names holds a dot.
func ActLog(kind, tenant, node, boot string) Key {
	return Key{Kind: kind, ID: tenant + "." + node + "." + boot}
}

// Act is the reverse of ActLog.
func (k Key) Act() (tenant, node, boot string, ok bool) {
	parts := strings.Split(k.ID, ".")
	if k.Kind != ActKind && k.Kind != SealedActKind || len(parts) != 3 {
		return "", "", "", false
	}
	return parts[0], parts[1], parts[2], true
}
