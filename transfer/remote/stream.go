package remote

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/hint"
)

// A place at the other end of a pair of pipes. Whoever serves it begins:
//
//	greeting  "tidemark blobs 1\n", then one answer: whether the place is there
//	question  operation (1 byte) | length of the name (2) | name | length of the data (4) | data
//	answer    what it is (1 byte) | length (4) | data
//
// Numbers are big endian. Answers come in the order of the questions. Questions may be
// asked before earlier ones are answered, and whoever serves may deal with several at
// the same time.
const (
	greeting      = "tidemark blobs "
	streamVersion = "1"

	// maxChatter bounds what the shell at the other end may say before the greeting.
	maxChatter = 64 << 10
	// maxAnswer bounds an answer that is no blob: an error, or some names.
	maxAnswer = 1 << 20
	// maxNames bounds a list, so that no one who serves can fill the memory.
	maxNames = 4 << 20
)

// The operations, one for each of the five calls.
const (
	opGet     = 'g'
	opPutNew  = 'n'
	opReplace = 'r'
	opList    = 'l'
	opDelete  = 'd'
)

// What an answer is.
const (
	isDone  = 'd' // its data are the blob that was asked for, or none
	isNames = 'n' // some names, each with a newline behind it; more follow
	isError = 'e' // the name of its code, its hint and its text, each on a line
)

// Serve answers the calls of one client about a folder until the client is gone.
// The folder has to be there.
func Serve(ctx context.Context, dir string, in io.Reader, out io.Writer) error {
	r, w := bufio.NewReaderSize(in, 64<<10), bufio.NewWriterSize(out, 64<<10)
	if _, err := w.WriteString(greeting + streamVersion + "\n"); err != nil {
		return err
	}
	place, err := openFolder(dir)
	if err := errors.Join(answer(w, nil, err), w.Flush()); err != nil {
		return err
	}
	if err != nil {
		return err
	}
	defer place.Close()
	v := &served{place: place, w: w, answers: make(chan chan func() error, flightUnits), under: NewFlight()}
	done := make(chan error, 1)
	go func() { done <- v.answer() }()
	err = v.questions(ctx, r)
	close(v.answers)
	return errors.Join(err, <-done)
}

// served is a place that is served to one client.
type served struct {
	place   Blobs
	w       *bufio.Writer
	answers chan chan func() error // in the order of the questions
	under   *Flight
	gone    atomic.Bool // the client takes no answers any more
}

// questions reads questions until the client is gone, and has them dealt with.
func (v *served) questions(ctx context.Context, r *bufio.Reader) error {
	for !v.gone.Load() {
		op, name, data, err := readQuestion(r)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return tidemark.Invalidf("what the client says is no question: %w", err)
		}
		if err := v.under.Enter(ctx, int64(len(data))); err != nil {
			return err
		}
		answered := make(chan func() error, 1)
		v.answers <- answered
		if op == opList {
			v.under.Leave(int64(len(data)))
			answered <- func() error { return serveList(ctx, v.w, v.place, name) }
			continue
		}
		go func() {
			back, err := serveCall(ctx, v.place, op, name, data)
			v.under.Leave(int64(len(data)))
			answered <- func() error { return answer(v.w, back, err) }
		}()
	}
	return nil
}

// answer writes the answers, and goes on to wait for them when they cannot be written.
func (v *served) answer() (err error) {
	for answered := range v.answers {
		say := <-answered
		if err != nil {
			continue
		}
		if err = say(); err == nil && len(v.answers) == 0 {
			err = v.w.Flush()
		}
		v.gone.Store(err != nil)
	}
	return err
}

func serveCall(ctx context.Context, place Blobs, op byte, name string, data []byte) ([]byte, error) {
	switch op {
	case opGet:
		return place.Get(ctx, name)
	case opPutNew:
		return nil, place.PutNew(ctx, name, data)
	case opReplace:
		return nil, place.Replace(ctx, name, data)
	case opDelete:
		return nil, place.Delete(ctx, name)
	}
	return nil, tidemark.Unsupportedf("there is no operation %q", op)
}

func serveList(ctx context.Context, w *bufio.Writer, place Blobs, prefix string) error {
	var names []byte
	for name, err := range place.List(ctx, prefix) {
		if err != nil {
			return answer(w, nil, err)
		}
		if names = append(append(names, name...), '\n'); len(names) > maxAnswer/2 {
			if err := writeAnswer(w, isNames, names); err != nil {
				return err
			}
			names = names[:0]
		}
	}
	if err := writeAnswer(w, isNames, names); err != nil {
		return err
	}
	return answer(w, nil, nil)
}

func readQuestion(r *bufio.Reader) (op byte, name string, data []byte, err error) {
	if op, err = r.ReadByte(); err != nil {
		return 0, "", nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(r, size[:2]); err != nil {
		return 0, "", nil, io.ErrUnexpectedEOF
	}
	text := make([]byte, binary.BigEndian.Uint16(size[:2]))
	if _, err := io.ReadFull(r, text); err != nil {
		return 0, "", nil, io.ErrUnexpectedEOF
	}
	data, err = readSized(r, MaxBytes)
	return op, string(text), data, err
}

// readSized reads a length, which is at most most, and as many bytes.
func readSized(r io.Reader, most uint32) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, io.ErrUnexpectedEOF
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > most {
		return nil, fmt.Errorf("%d bytes are too many", n)
	}
	var data bytes.Buffer // grows with what comes, not with what was announced
	if _, err := io.CopyN(&data, r, int64(n)); err != nil {
		return nil, io.ErrUnexpectedEOF
	}
	return data.Bytes(), nil
}

func answer(w *bufio.Writer, data []byte, err error) error {
	if err == nil {
		return writeAnswer(w, isDone, data)
	}
	line := func(text string) string { return strings.ReplaceAll(text, "\n", " ") }
	text := tidemark.CodeOf(err).Name + "\n" + line(hint.Of(err)) + "\n" + line(err.Error())
	return writeAnswer(w, isError, []byte(text)[:min(len(text), maxAnswer)])
}

func writeAnswer(w *bufio.Writer, is byte, data []byte) error {
	w.WriteByte(is)
	w.Write(binary.BigEndian.AppendUint32(nil, uint32(len(data))))
	_, err := w.Write(data)
	return err
}

// stream is a place that somebody else serves.
type stream struct {
	where string // for people
	in    *bufio.Reader
	out   *bufio.Writer
	end   func() error          // ends the conversation, and says why it broke, if that is known
	told  func(err error) error // what an error of the conversation means to people

	mu     sync.Mutex    // one question at a time
	turn   chan struct{} // closed when the answer to the last question was read; nil: none was asked
	broken atomic.Pointer[error]
}

// greet reads the greeting, and whether the place is there.
func (s *stream) greet(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { s.end() })()
	for seen := 0; ; {
		line, err := s.in.ReadSlice('\n')
		if seen += len(line); err != nil && !errors.Is(err, bufio.ErrBufferFull) || seen > maxChatter {
			return s.fail(ctx, errors.New("no greeting came"))
		}
		if version, is := strings.CutPrefix(string(line), greeting); is {
			if version = strings.TrimSpace(version); version != streamVersion {
				return hint.With(tidemark.Unsupportedf("%s: the program there speaks version %.20q of these calls, this one version %s", s.where, version, streamVersion), "use the same version of tidemark on both machines")
			}
			break
		}
	}
	_, err := s.answer(ctx, maxAnswer, nil)
	return err
}

// ask asks one question. A caller that gives up, or a conversation that breaks, ends
// it: what the next answer belongs to would be unknown.
func (s *stream) ask(ctx context.Context, op byte, name string, data []byte, names func([]byte) error) ([]byte, error) {
	if len(data) > MaxBytes {
		return nil, tidemark.Invalidf("%s: %d bytes are too many for a blob", name, len(data))
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { s.end() })
	defer stop()
	before, mine, err := s.say(op, name, data)
	defer close(mine)
	if before != nil {
		<-before
	}
	if broken := s.broken.Load(); broken != nil {
		return nil, *broken
	}
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return s.answer(ctx, MaxBytes, names)
}

// say sends a question. Its answer comes when before is closed; mine has to be closed
// when it was read.
func (s *stream) say(op byte, name string, data []byte) (before, mine chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, mine = s.turn, make(chan struct{})
	s.turn = mine
	if s.broken.Load() != nil {
		return before, mine, nil
	}
	head := binary.BigEndian.AppendUint16([]byte{op}, uint16(len(name)))
	head = append(head, name...)
	s.out.Write(binary.BigEndian.AppendUint32(head, uint32(len(data))))
	s.out.Write(data)
	return before, mine, s.out.Flush()
}

func (s *stream) answer(ctx context.Context, most uint32, names func([]byte) error) ([]byte, error) {
	for {
		is, err := s.in.ReadByte()
		if err != nil {
			return nil, s.fail(ctx, err)
		}
		if is != isDone {
			most = maxAnswer
		}
		data, err := readSized(s.in, most)
		switch {
		case err != nil:
			return nil, s.fail(ctx, err)
		case is == isDone:
			return data, nil
		case is == isError:
			return nil, s.errorOf(string(data))
		case is != isNames || names == nil:
			return nil, s.fail(ctx, fmt.Errorf("an answer of kind %q", is))
		}
		if err := names(data); err != nil {
			return nil, s.fail(ctx, err)
		}
	}
}

// errorOf is an error of the other end.
func (s *stream) errorOf(text string) error {
	code, rest, _ := strings.Cut(text, "\n")
	way, text, _ := strings.Cut(rest, "\n")
	err := tidemark.Storagef("%s: %s", s.where, text)
	for _, c := range tidemark.Codes {
		if c.Name == code {
			err = tidemark.Errorf(c.Err, "%s: %s", s.where, text)
		}
	}
	if way != "" {
		err = hint.With(err, "there: %s", way)
	}
	return err
}

// fail ends the conversation because of an error.
func (s *stream) fail(ctx context.Context, err error) error {
	why := s.end()
	if ctx.Err() != nil {
		err = ctx.Err()
	} else {
		err = s.told(errors.Join(why, err))
	}
	broken := tidemark.Storagef("%s: the connection ended: %w", s.where, err)
	s.broken.Store(&broken)
	return err
}

func (s *stream) Get(ctx context.Context, name string) ([]byte, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	return s.ask(ctx, opGet, name, nil, nil)
}

func (s *stream) PutNew(ctx context.Context, name string, data []byte) error {
	return s.change(ctx, opPutNew, name, data)
}

func (s *stream) Replace(ctx context.Context, name string, data []byte) error {
	return s.change(ctx, opReplace, name, data)
}

func (s *stream) Delete(ctx context.Context, name string) error {
	return s.change(ctx, opDelete, name, nil)
}

func (s *stream) change(ctx context.Context, op byte, name string, data []byte) error {
	err := CheckName(name)
	if err == nil {
		_, err = s.ask(ctx, op, name, data, nil)
	}
	return err
}

// List has all names before it yields the first: whoever is in the midst of them may
// ask for blobs.
func (s *stream) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		var all []string
		_, err := s.ask(ctx, opList, prefix, nil, func(names []byte) error {
			for name := range strings.FieldsSeq(string(names)) {
				if CheckName(name) != nil || !strings.HasPrefix(name, prefix) {
					return fmt.Errorf("%.40q is no name that was asked for", name)
				}
				all = append(all, name)
			}
			if len(all) > maxNames {
				return fmt.Errorf("it lists more than %d blobs", maxNames)
			}
			return nil
		})
		for _, name := range all {
			if err == nil && !yield(name, nil) {
				return
			}
		}
		if err != nil {
			yield("", err)
		}
	}
}

func (s *stream) Close() error {
	s.end()
	return nil
}
