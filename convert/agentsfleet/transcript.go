package agentsfleet

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"iter"
	"strconv"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// transcript is what was said in a session or by a worker: inside the session
// file, in a file of its own, or both. An older agents-fleet appends to the one
// and leaves the other unchanged, a newer one may do the reverse; so the longer
// one is used, and two that diverge become two branches.
type transcript struct {
	fsys    fs.FS
	file    string // of the session, "" for a worker
	sibling string // "" when there is none
	inlined int    // entries inside file
	start   time.Time

	// parts is set when both continue differently after their first shared
	// entries.
	parts  bool
	shared int
}

// name returns the file that holds the transcript.
func (t *transcript) name() string {
	if t.sibling != "" && (t.inlined == 0 || t.file == "") {
		return t.sibling
	}
	return t.file
}

// compare decides which of two transcripts is read.
func (t *transcript) compare() {
	if t.sibling == "" || t.inlined == 0 {
		return
	}
	next, stop := iter.Pull2(whole(convert.Lines(t.fsys, t.sibling)))
	defer stop()
	aside, more, n := []byte(nil), true, 0
	for line := range whole(inline(t.fsys, t.file)) {
		if aside, _, more = next(); !more || !convert.SameJSON(line, aside) {
			break
		}
		n++
	}
	switch {
	case n == t.inlined:
		t.inlined = 0 // the sibling has all of it, and perhaps more
	case !more:
		t.sibling = ""
	default:
		t.parts, t.shared = true, n
	}
}

// whole leaves out damaged lines.
func whole(lines iter.Seq2[convert.Line, error]) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for line, err := range lines {
			text := line.Text
			if !isObject(text) {
				text = salvage(text)
			}
			if err == nil && text != nil && !yield(text, nil) {
				return
			}
		}
	}
}

func isObject(text []byte) bool {
	text = bytes.TrimLeft(text, " \t")
	return len(text) > 0 && text[0] == '{' && json.Valid(text) && checkParts(text) == nil
}

// firstTime returns the time of the first entry, zero when it has none.
func (t *transcript) firstTime() time.Time {
	for e, err := range t.entries() {
		if err != nil {
			continue
		}
		return e.At
	}
	return time.Time{}
}

// entries yields the entries. Their ids are numbers, so that an entry keeps its
// id when a transcript moves out of the session file.
func (t *transcript) entries() iter.Seq2[convert.Entry, error] {
	fsys, file, sibling, start, shared := t.fsys, t.file, t.sibling, t.start, t.shared
	in, aside := t.inlined > 0, t.sibling != ""
	both := t.parts
	return func(yield func(convert.Entry, error) bool) {
		r := &reader{at: start, yield: yield}
		switch {
		case both:
			parted := convert.Root
			if shared > 0 {
				parted = "m" + strconv.Itoa(shared-1)
			}
			_ = r.all(inline(fsys, file), part{name: file, prefix: "m", end: shared}) &&
				r.all(convert.Lines(fsys, sibling), part{name: sibling, prefix: "s", first: shared, end: -1, parent: parted}) &&
				r.all(inline(fsys, file), part{name: file, prefix: "m", first: shared, end: -1, parent: parted})
		case in:
			r.all(inline(fsys, file), part{name: file, prefix: "m", end: -1})
		case aside:
			r.all(convert.Lines(fsys, sibling), part{name: sibling, prefix: "m", end: -1})
		}
	}
}

type reader struct {
	at    time.Time // of the previous entry
	yield func(convert.Entry, error) bool
}

// part is a run of the lines of a file, from number first to before end, -1: to
// the last. Its first entry follows parent, "": the previous one.
type part struct {
	name, prefix string
	first, end   int
	parent       string
}

// all yields the entries of a part. It is false when the caller stopped.
func (r *reader) all(lines iter.Seq2[convert.Line, error], p part) bool {
	n := 0
	for line, err := range lines {
		if n == p.end {
			return true
		}
		text := line.Text
		var e convert.Entry
		if err == nil {
			e, err = entryOf(text, p.prefix+strconv.Itoa(n), r.at)
		}
		if err != nil {
			err = r.damage(line, err)
			if n >= p.first && !r.yield(convert.Entry{}, skip(p.name, err)) {
				return false
			}
			if text = salvage(text); text == nil {
				continue
			}
			if e, err = entryOf(text, p.prefix+strconv.Itoa(n), r.at); err != nil {
				continue
			}
		}
		if n++; n <= p.first {
			continue
		}
		r.at = e.At
		e.Parent, p.parent = p.parent, ""
		if !r.yield(e, nil) {
			return false
		}
	}
	return true
}

// damage says what is wrong with a line that is no entry. A read error in the
// file is treated alike: what came before it stays.
func (r *reader) damage(line convert.Line, err error) error {
	switch {
	case line.Text == nil || checkParts(line.Text) != nil:
		return err
	case line.Torn:
		return tidemark.Invalidf("line %d is torn: it was never finished", line.Number)
	}
	return tidemark.Invalidf("line %d is no JSON object", line.Number)
}
