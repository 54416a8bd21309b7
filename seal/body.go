package seal

import (
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"sync"

	"github.com/tidemark-sessions/tidemark"
)

// The first byte of a sealed body. It is authenticated with the rest, so one
// form cannot be turned into another.
const (
	formBody   = 1
	formNone   = 2 // there was no body, which is not the same as an empty one
	formPacked = 3 // of a line: the body is compressed
)

const (
	startBytes = 1 + nonceBytes        // before the ciphertext
	overhead   = startBytes + tagBytes // of a sealed record
	maxChain   = 64 - tagBytes         // of a caller's chain
	roomBytes  = 1024                  // for the bound data
	lineExtra  = binary.MaxVarintLen64 // at most, before the key of a line
)

// rooms hold the bound data of a thing while it is sealed or opened.
var rooms = sync.Pool{New: func() any { return new([roomBytes]byte) }}

type nonce [nonceBytes]byte

func newNonce() (n nonce) {
	rand.Read(n[:])
	return n
}

func formOf(body []byte) byte {
	if body == nil {
		return formNone
	}
	return formBody
}

// start begins a sealed body with space for n bytes and their tag.
func start(form byte, at nonce, n int) []byte {
	out := make([]byte, startBytes, startBytes+n+tagBytes)
	out[0] = form
	copy(out[1:], at[:])
	return out
}

// finish seals in place what follows the start.
func finish(a cipher.AEAD, out, bound []byte) []byte {
	return a.Seal(out[:startBytes], out[1:startBytes], out[startBytes:], bound)
}

// openBody returns what was sealed, in a room that is large enough for it.
func openBody(a cipher.AEAD, room, sealed, bound []byte) ([]byte, error) {
	plain, err := a.Open(room, sealed[1:startBytes], sealed[startBytes:], bound)
	if err != nil {
		return nil, errors.New("it does not open with its data key: it was changed, or stood elsewhere")
	}
	return plain, nil
}

func isForm(b byte) bool { return b >= formBody && b <= formPacked }

// checkForm says what is wrong with bytes that cannot be a sealed body.
func checkForm(sealed []byte) error {
	switch {
	case len(sealed) == 0 || !isForm(sealed[0]):
		return errors.New("it is not sealed: it was put into the sealed store without its key, or changed")
	case len(sealed) < overhead:
		return errors.New("it is too short to be sealed: it was cut")
	}
	return nil
}

// recordBound is what the body of a record is bound to. Version, group, state
// and due are not part of it: a listing may have to change them without the key.
func recordBound(room []byte, store storeID, form byte, key tidemark.Key) []byte {
	room = bind(room, "record", store)
	room = append(room, form)
	room = bindText(room, key.Kind)
	return bindText(room, key.ID)
}

func sealRecord(k *dataKey, store storeID, at nonce, key tidemark.Key, body []byte) []byte {
	room := rooms.Get().(*[roomBytes]byte)
	defer rooms.Put(room)
	form := formOf(body)
	out := append(start(form, at, len(body)), body...)
	return finish(k.bodies, out, recordBound(room[:0], store, form, key))
}

func openRecord(k *dataKey, store storeID, key tidemark.Key, sealed []byte) ([]byte, error) {
	if err := checkForm(sealed); err != nil {
		return nil, err
	}
	room := rooms.Get().(*[roomBytes]byte)
	defer rooms.Put(room)
	plain, err := openBody(k.bodies, make([]byte, 0, len(sealed)-overhead), sealed, recordBound(room[:0], store, sealed[0], key))
	if err != nil {
		return nil, err
	}
	return withForm(sealed[0], plain)
}

func withForm(form byte, plain []byte) ([]byte, error) {
	switch {
	case form == formBody:
		return plain, nil
	case form == formPacked:
		body, err := unpacker().DecodeAll(plain, nil)
		if err != nil {
			return nil, errors.New("what was sealed in it is not compressed as it says")
		}
		return body, nil
	case len(plain) != 0:
		return nil, errors.New("it says that it is empty, and is not")
	}
	return nil, nil
}

// lineBound is what the body of a line is bound to: all its fields except the
// batch, with key and chain in the form that the Backend underneath has.
func lineBound(room []byte, store storeID, form byte, log tidemark.Key, l *tidemark.Line) []byte {
	return boundBehind(boundStart(room, store, log), form, l)
}

// boundStart is the part of lineBound that all lines of a log have, and the place of the
// form.
func boundStart(room []byte, store storeID, log tidemark.Key) []byte {
	room = bind(room, "line", store)
	room = append(room, 0)
	room = bindText(room, log.Kind)
	return bindText(room, log.ID)
}

// formAt is the place of the form: behind what bind adds.
const formAt = 2 + len(bindWords+"line") + len(storeID{})

func boundBehind(room []byte, form byte, l *tidemark.Line) []byte {
	room[formAt] = form
	for _, v := range [...]int64{l.Seq, l.At.UnixMicro(), l.Position.Parent, l.Position.Depth, l.Position.Nodes, l.Position.Turn} {
		room = binary.LittleEndian.AppendUint64(room, uint64(v))
	}
	room = bindText(room, l.Kind)
	room = bindText(room, l.Key)
	return bindText(room, l.Chain)
}

// tag ends every sealed body.
type tag [tagBytes]byte

func tagOf(sealed []byte) (t tag) {
	copy(t[:], sealed[len(sealed)-tagBytes:])
	return t
}

// sealLine returns l in the form that the Backend underneath stores, following a
// line whose tag is before. With packs, a long body is compressed.
func sealLine(k *dataKey, store storeID, packs bool, at nonce, log tidemark.Key, l tidemark.Line, before tag) tidemark.Line {
	if !packs {
		return sealLineAs(formOf(l.Body), l.Body, k, store, at, log, l, before)
	}
	room := packRooms.Get().(*[]byte)
	defer packRooms.Put(room)
	body, form := pack(l.Body, room)
	return sealLineAs(form, body, k, store, at, log, l, before)
}

func sealLineAs(form byte, body []byte, k *dataKey, store storeID, at nonce, log tidemark.Key, l tidemark.Line, before tag) tidemark.Line {
	key := l.Key
	chain := make([]byte, 0, tagBytes+len(l.Chain))
	l.Chain = append(append(chain, before[:]...), l.Chain...)
	if key != "" {
		l.Key = k.hash(log, key)
	}
	out := start(form, at, lineExtra+len(key)+len(body))
	out = binary.AppendUvarint(out, uint64(len(key)))
	out = append(append(out, key...), body...)
	room := rooms.Get().(*[roomBytes]byte)
	defer rooms.Put(room)
	l.Body = finish(k.bodies, out, lineBound(room[:0], store, form, log, &l))
	l.Sum = l.Checksum(log)
	return l
}

// openLine returns l as it was before sealLine.
func openLine(k *dataKey, store storeID, log tidemark.Key, l tidemark.Line) (tidemark.Line, error) {
	var o lineOpener
	err := o.open(k, store, log, &l)
	return l, err
}

// lineOpener opens lines of one log, one after the other. Short ones share memory in chunks: who keeps
// one of them keeps a few kilobytes.
type lineOpener struct {
	bound []byte // what lines of the log are bound to, up to fixed, and the last one
	fixed int
	chunk []byte // memory for the next bodies
}

const (
	sharedBody  = 512
	sharedBytes = 4 << 10
)

// room returns memory for n bytes, as the end of the chunk or apart.
func (o *lineOpener) room(n int) []byte {
	if n > sharedBody {
		return make([]byte, 0, n)
	}
	if have := cap(o.chunk); have-len(o.chunk) < n {
		o.chunk = make([]byte, 0, max(n, min(2*have, sharedBytes)))
	}
	at := len(o.chunk)
	o.chunk = o.chunk[:at+n]
	return o.chunk[at : at : at+n]
}

// open opens l in place; with an error l is unchanged.
func (o *lineOpener) open(k *dataKey, store storeID, log tidemark.Key, l *tidemark.Line) error {
	if err := checkForm(l.Body); err != nil {
		return err
	}
	if len(l.Chain) < tagBytes {
		return errors.New("it has no place in the chain of its log: it is not sealed, or was changed")
	}
	form := l.Body[0]
	if o.fixed == 0 {
		o.bound = boundStart(make([]byte, 0, roomBytes/2), store, log)
		o.fixed = len(o.bound)
	}
	o.bound = boundBehind(o.bound[:o.fixed], form, l)
	plain, err := openBody(k.bodies, o.room(len(l.Body)-overhead), l.Body, o.bound)
	if err != nil {
		return err
	}
	size, n := binary.Uvarint(plain)
	if n <= 0 || size > uint64(len(plain)-n) {
		return errors.New("what was sealed in it is no line")
	}
	rest := plain[n:]
	body, err := withForm(form, rest[size:])
	if err != nil {
		return err
	}
	l.Key, l.Body, l.Chain = string(rest[:size]), body, chainOf(l.Chain)
	l.Sum = l.Checksum(log)
	return nil
}

// chainOf returns the caller's part of a chain.
func chainOf(stored []byte) []byte {
	if len(stored) <= tagBytes {
		return nil
	}
	return stored[tagBytes:]
}

// isSealedBody reports whether a body has the form of a sealed one. No plain
// record of a session begins like that.
func isSealedBody(body []byte) bool {
	return len(body) >= overhead && isForm(body[0])
}
