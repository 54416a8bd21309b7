package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/durable"
)

// state is what is known of a log at one moment.
type state struct {
	head
	size   int64            // of the file; bytes between end and size were never acknowledged
	synced int64            // everything before it is known to be durable
	exists bool             // there is a file
	id     uint64           // of the file
	lost   *tidemark.Damage // the log is shorter than its head says
	places *lineStarts      // of some lines; nil: of none
}

// readHead returns the head of a log; ok is false when there is none, or none
// that can be read.
func (b *Backend) readHead(log tidemark.Key) (h head, ok bool) {
	name := headPath(log)
	data, done, err := durable.ReadSmall(b.fs, name)
	if !done {
		var f durable.File
		if f, err = b.fs.OpenFile(name, os.O_RDONLY); err == nil {
			defer f.Close()
			var buf [headBytes + 1]byte
			n, err := f.ReadAt(buf[:], 0)
			if err != nil && err != io.EOF {
				return head{file: true}, false
			}
			data = buf[:n]
		}
	}
	if err != nil {
		return h, false
	}
	ok = parseHead(data, log, &h)
	h.file = true
	return h, ok
}

// look returns the state of a log as a reader sees it, usually without opening
// it. The head is read first: a log only grows, so one that is shorter than a
// head read earlier is damaged, and not just about to be extended.
func (b *Backend) look(log tidemark.Key) (state, error) { return b.lookFor(log, floorUnread) }

// lookFor is look for a caller that knows the floor of the log, usually because
// it read the record anyway.
func (b *Backend) lookFor(log tidemark.Key, floor int64) (state, error) {
	st, before, ok := b.recallLog(log)
	if ok {
		if st.atLeast(log, floor, true); st.lost == nil {
			return st, nil
		}
	}
	for tries := 0; ; tries++ {
		st, err := b.lookOnce(log, floor, before)
		if err != nil || st.lost == nil || tries == 2 {
			return st, err
		}
		// A log that was dropped and begun again between the two looks is not
		// damaged; a damaged one stays so.
		floor = b.floor(log)
		before = durable.Info{}
	}
}

func (b *Backend) lookOnce(log tidemark.Key, floor int64, before durable.Info) (state, error) {
	h, ok := b.readHead(log)
	info, err := b.fs.Stat(logPath(log))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return state{}, err
	}
	var st state
	if err == nil && ok && info.Size == h.end {
		st = state{head: h, size: h.end, synced: h.end, exists: true}
	} else if st, err = b.examine(log, h, ok); err != nil {
		return st, err
	}
	if floor == floorUnread && !ok {
		floor = b.floor(log)
	}
	st.atLeast(log, floor, h.file)
	b.rememberLog(log, before, info, &st)
	return st, nil
}

// examine opens a log and finds its end.
func (b *Backend) examine(log tidemark.Key, h head, known bool) (state, error) {
	f, err := b.fs.OpenFile(logPath(log), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		if !known {
			return state{}, nil
		}
		return state{head: h, lost: lostTail(log, 0, h.Length)}, nil
	}
	if err != nil {
		return state{}, err
	}
	defer f.Close()
	return settle(f, log, h, known)
}

func lostTail(log tidemark.Key, have, want int64) *tidemark.Damage {
	return &tidemark.Damage{Key: log, Seq: have + 1, Place: logPath(log),
		What: fmt.Sprintf("the log ends at line %d, and %d were kept", have, want)}
}

// settle finds where an open log ends: after the last append that is complete.
// The head tells where to start looking; without one it searches backwards for a
// complete append.
func settle(f durable.File, log tidemark.Key, h head, known bool) (state, error) {
	info, err := f.Stat()
	if err != nil {
		return state{}, err
	}
	st := state{size: info.Size, exists: true, id: info.ID}
	if known && h.end == info.Size {
		st.head, st.synced = h, h.end
		return st, nil
	}
	if known && h.end < info.Size && endsRow(f, h.end) {
		t := tally{head: h}
		err := t.walk(&forward{f: f, at: h.end, limit: info.Size}, log)
		st.head, st.synced = t.head, h.end
		return st, err
	}
	t, err := newest(f, log, info.Size)
	if err != nil {
		return st, err
	}
	if t.Length > 0 {
		if t.Trimmed, _, err = markOf(f, log); err != nil {
			return st, err
		}
	}
	st.head = t.head
	switch {
	case !known && t.Length == 0 && ofAnother(f, log, info.Size):
		st.lost = &tidemark.Damage{Key: log, Seq: 1, Place: logPath(log), What: "its lines were changed, or are those of another log"}
		st.Length, st.end, st.synced = 1, info.Size, info.Size
	case !known:
	case h.end > info.Size:
		st.lost = lostTail(log, t.Length, h.Length)
		st.head, st.end, st.synced = h, info.Size, info.Size
	case t.Length < h.Length:
		// The newest lines are there but damaged: they were acknowledged, so
		// they are not a torn tail.
		st.head, st.end, st.synced = h, max(h.end, t.end), h.end
	default:
		st.life, st.synced = h.life, h.end
	}
	return st, nil
}

func endsRow(f durable.File, at int64) bool {
	var c [1]byte
	n, _ := f.ReadAt(c[:], at-1)
	return n == 1 && c[0] == '\n'
}

// newest finds the last complete append of a log by reading ever larger parts of
// its end.
func newest(f durable.File, log tidemark.Key, size int64) (t tally, err error) {
	for window := int64(readBytes); ; window *= 4 {
		r := forward{f: f, at: max(size-window, 0), limit: size}
		if r.at > 0 {
			if _, err := r.next(); err != nil && err != io.EOF { // the rest of a line
				return t, err
			}
		}
		t = tally{}
		if err := t.walk(&r, log); err != nil || t.Length > 0 || window >= size {
			return t, err
		}
	}
}

// tally follows the appends of a log and holds the head as of the last complete
// one. Lines of an incomplete append do not count, unless a complete append
// follows: then the incomplete one was once seen complete, and its missing lines
// are damaged.
type tally struct {
	head
	append    string // the batch that wrote the append that is being followed
	next, all int64  // the part that comes next, and how many there are
}

func (t *tally) walk(r *forward, log tidemark.Key) error {
	var l line
	for {
		row, err := r.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if row.newline && parseLine(row.bytes, log, &l) == nil {
			t.add(&l, row.stop)
			continue
		}
		t.next = 0
		glued := salvage(row, log)
		if n := len(glued); n > 0 && !row.newline {
			// A last line without its newline may be cut short at a point where
			// it looks whole; it was never acknowledged.
			glued = glued[:n-1]
		}
		for i := range glued {
			t.add(&glued[i].line, glued[i].stop)
		}
	}
}

func (t *tally) add(l *line, stop int64) {
	switch {
	case l.part == 1:
		t.append, t.next, t.all = l.writer(), 1, l.parts
	case l.part != t.next || l.parts != t.all || l.writer() != t.append:
		t.next = 0
		return
	}
	t.next++
	if l.part == l.parts && l.Seq > t.Length {
		t.end = stop
		t.Head = tidemark.Head{Length: l.Seq, UpdatedAt: l.batchAt, Position: l.Position, Chain: l.Chain, Trimmed: t.Trimmed}
	}
}
