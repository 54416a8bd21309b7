package agentzero

import (
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"time"

	"github.com/tidemark-sessions/tidemark/convert"
)

// forest holds the messages of a session from all its files, each once.
// AgentZero stores the same conversation in up to four of them, cut at different
// points; two messages are the same when all messages before them are.
type forest struct {
	all    []leaf
	byPath map[[sha256.Size]byte]int
	asked  map[int][]call // the calls of messages that were decoded
}

// leaf is a message after the ones before it. Depth counts from 1. For a tool's
// message, caller is the message whose call number slot it answers, -1: none.
type leaf struct {
	raw          []byte // in canonical form: many messages are held, few are decoded
	path         [sha256.Size]byte
	parent       int // -1: none
	root         int // the first message on the path to it
	depth        int
	tool         bool
	caller, slot int
	at           time.Time
	model        string
}

// nowhere is the place before the first message.
const nowhere = -1

func newForest() *forest {
	return &forest{byPath: map[[sha256.Size]byte]int{}, asked: map[int][]call{}}
}

func (f *forest) msg(n int) object {
	return parseMessage(f.all[n].raw)
}

// calls returns the calls of a message, which many results may need.
func (f *forest) calls(n int) []call {
	all, known := f.asked[n]
	if !known {
		all = calls(f.msg(n))
		f.asked[n] = all
	}
	return all
}

// add adds a message after parent and returns its number.
func (f *forest) add(parent int, msg object) int {
	msg, when, model := metaOf(msg)
	if msg["content"] == nil {
		// AgentZero reads no message without it, so none is written without it.
		msg = msg.Without()
		msg.Set("content", "")
	}
	h := sha256.New()
	if parent != nowhere {
		h.Write(f.all[parent].path[:])
	}
	raw := canonical(msg)
	h.Write(raw)
	l := leaf{raw: raw, parent: parent, depth: 1, caller: -1, at: when, model: model}
	h.Sum(l.path[:0])
	if n, known := f.byPath[l.path]; known {
		if f.all[n].at.IsZero() {
			f.all[n].at = when
		}
		return n
	}
	l.root = len(f.all)
	l.tool = msg.Text("role") == "tool"
	if parent != nowhere {
		before := f.all[parent]
		l.depth, l.root = before.depth+1, before.root
		switch {
		case !l.tool:
		case before.tool:
			l.caller, l.slot = before.caller, before.slot+1
		case len(f.calls(parent)) > 0:
			l.caller = parent
		}
	}
	f.all = append(f.all, l)
	f.byPath[l.path] = len(f.all) - 1
	return len(f.all) - 1
}

func (f *forest) depth(at int) int {
	if at == nowhere {
		return 0
	}
	return f.all[at].depth
}

// id names a message by a hash of everything up to it, so that it does not
// depend on the order in which the files are read.
func (f *forest) id(n int) string {
	if n == nowhere {
		return convert.Root
	}
	return hex.EncodeToString(f.all[n].path[:16])
}

// entries yields the messages in the order in which they were added. One without
// a time gets the time at.
func (f *forest) entries(at time.Time) iter.Seq2[convert.Entry, error] {
	return func(yield func(convert.Entry, error) bool) {
		for n, l := range f.all {
			e := convert.Entry{Entry: f.entryOf(n), ID: f.id(n)}
			if e.At.IsZero() {
				e.At = at
			}
			if l.parent != n-1 {
				e.Parent = f.id(l.parent)
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}
