package tidemark

import "strings"

// The kinds of the logs that say who did what. A line of one is committed in
// the batch of the change that it speaks of, by whoever makes the change.
const (
	// ActKind is in the clear, also in a sealed store, for a reader who has no
	// key. Package postgres keeps it apart, where its writer can neither change
	// it nor read it.
	ActKind = "act"
	// SealedActKind is sealed as everything else, where who reads it has the key.
	SealedActKind = "sealedact"
)

// ActLog names the log of one boot: a run of commits, each made after the one
// before it was settled, of one start of a server on a node, for a tenant. So
// its lines have no gap. None of the names holds a dot.
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
