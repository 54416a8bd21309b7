package agentsfleet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
	"github.com/tidemark-sessions/tidemark/internal/text"
)

// read returns one session, nil when there is nothing to import, and what of it
// could not be imported. Transcripts are read when the session's Entries are;
// only the session file itself is read to its end first, so that a truncated
// file is not taken for a session.
func read(fsys fs.FS, dir, id string) (*convert.Session, []error) {
	file := path.Join(dir, id+jsonEnd)
	fields, inlined := object{}, 0
	if _, err := fs.Stat(fsys, file); !errors.Is(err, fs.ErrNotExist) {
		if fields, inlined, err = readFile(fsys, file); err != nil {
			return nil, []error{skip(file, err)}
		}
	}
	var skips []error
	sibling := fields.text("transcriptPath")
	if sibling == "" {
		sibling = id + siblingEnd
	}
	t := transcript{fsys: fsys, file: file, inlined: inlined}
	switch err := checkFile(fsys, dir, sibling); {
	case err == nil:
		t.sibling = path.Join(dir, sibling)
	case !errors.Is(err, fs.ErrNotExist):
		skips = append(skips, skip(file+": transcript", err))
	case inlined == 0 && fields.number("msgCount") > 0:
		skips = append(skips, convert.Skipf(file, "its transcript %.80q is not there", sibling))
	}
	t.compare()

	s := &convert.Session{}
	s.ForeignID = id
	s.Title, s.Model = fields.take("name"), fields.take("model")
	if s.Title == "" {
		s.Title = fields.text("title")
	}
	for _, k := range []string{"cwd", "workingDirectory", "projectPath"} {
		if s.Project == "" {
			s.Project = fields.text(k)
		}
	}
	if s.UpdatedAt = fields.takeTime("updatedAt"); s.UpdatedAt.IsZero() {
		fields[unsaid] = json.RawMessage("true")
	}
	s.CreatedAt = fields.takeTime("createdAt")
	if s.CreatedAt.IsZero() {
		if s.CreatedAt = t.firstTime(); !s.CreatedAt.IsZero() {
			fields[untimed] = json.RawMessage("true")
		} else if info, err := fs.Stat(fsys, t.name()); err == nil {
			s.CreatedAt = info.ModTime().UTC().Truncate(time.Millisecond)
		}
	}
	t.start = s.CreatedAt
	s.Entries = t.entries()
	workers, bad := readWorkers(fsys, dir, id, fields["workers"], s.CreatedAt)
	s.Workers, skips = workers, append(skips, bad...)
	s.Extra = fields.sessionExtra(id)
	return s, skips
}

// skip says that what could not be imported, and names it once.
func skip(what string, err error) error {
	if convert.IsSkip(err) {
		return err
	}
	return &convert.Skip{What: what, Why: err}
}

// sessionExtra returns the fields of the session file to keep. Counts and
// default paths are recomputed.
func (o object) sessionExtra(id string) json.RawMessage {
	if o.text("sessionId") == id {
		delete(o, "sessionId")
	}
	if n := o.number("schemaVersion"); n <= version {
		delete(o, "schemaVersion")
	}
	if o.text("transcriptPath") == id+siblingEnd {
		delete(o, "transcriptPath")
	}
	delete(o, "msgCount")
	return o.extra()
}

func (o object) number(key string) (n float64) {
	if json.Unmarshal(o[key], &n) != nil {
		return 0
	}
	return n
}

// readFile returns the fields of a session file without its transcript, and the
// number of the transcript's entries.
func readFile(fsys fs.FS, name string) (fields object, inlined int, err error) {
	fields = object{}
	there, held := false, 0
	err = walk(fsys, name, func(key string, dec *json.Decoder) error {
		if key != "transcript" {
			var value json.RawMessage
			if err := dec.Decode(&value); err != nil {
				return err
			}
			return fields.add(key, value, &held)
		}
		if there {
			return tidemark.Invalidf("has two transcripts")
		}
		there = true
		return elements(dec, func(json.RawMessage) bool { inlined++; return true })
	})
	if err == nil && !there && fields["transcriptPath"] == nil && fields["workers"] == nil && fields["schemaVersion"] == nil {
		err = tidemark.Invalidf("is no session of agents-fleet: it has no transcript")
	}
	return fields, inlined, err
}

// errStop ends a walk that has found what it wanted.
var errStop = errors.New("stop")

// bounded fails when one value of a file is too long.
type bounded struct {
	r   io.Reader
	dec *json.Decoder
	n   int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.dec != nil {
		room := maxValue + 1 - (b.n - b.dec.InputOffset())
		if room <= 0 {
			return 0, tidemark.Invalidf("holds a value of more than %d bytes", maxValue)
		}
		p = p[:min(int64(len(p)), room)]
	}
	n, err := b.r.Read(p)
	b.n += int64(n)
	return n, err
}

// walk calls f for each key of the object in a file, with the decoder at its
// value. It holds no more of the file than one value.
func walk(fsys fs.FS, name string, f func(key string, dec *json.Decoder) error) error {
	if info, err := fs.Stat(fsys, name); err != nil {
		return err
	} else if !info.Mode().IsRegular() {
		return tidemark.Invalidf("is no file")
	} else if info.Size() == 0 {
		return tidemark.Invalidf("is empty")
	} else if info.Size() > convert.MaxFile {
		return tidemark.Invalidf("is larger than %d bytes", convert.MaxFile)
	}
	file, err := fsys.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	r := &bounded{r: io.LimitReader(file, convert.MaxFile)}
	dec := json.NewDecoder(r)
	r.dec = dec
	t, err := dec.Token()
	if err == nil && t != json.Delim('{') {
		return tidemark.Invalidf("is no JSON object")
	}
	for err == nil && dec.More() {
		if t, err = dec.Token(); err == nil {
			key, _ := t.(string)
			err = f(key, dec)
		}
	}
	if err == nil {
		_, err = dec.Token()
	}
	if err == nil {
		if _, err := dec.Token(); !errors.Is(err, io.EOF) {
			return tidemark.Invalidf("goes on behind its end")
		}
		return nil
	}
	var syntax *json.SyntaxError
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &syntax) {
		return tidemark.Invalidf("is not whole JSON: %w", err)
	}
	return err
}

// elements calls f for each element of an array; null is an empty one.
func elements(dec *json.Decoder, f func(json.RawMessage) bool) error {
	t, err := dec.Token()
	if err != nil || t == nil {
		return err
	}
	if t != json.Delim('[') {
		return tidemark.Invalidf("its transcript is no list")
	}
	for dec.More() {
		var e json.RawMessage
		if err := dec.Decode(&e); err != nil {
			return err
		}
		if !f(e) {
			return errStop
		}
	}
	_, err = dec.Token()
	return err
}

// inline yields the entries of the transcript inside a session file.
func inline(fsys fs.FS, name string) iter.Seq2[convert.Line, error] {
	return func(yield func(convert.Line, error) bool) {
		n := 0
		err := walk(fsys, name, func(key string, dec *json.Decoder) error {
			if key != "transcript" {
				var skipped json.RawMessage
				return dec.Decode(&skipped)
			}
			return elements(dec, func(e json.RawMessage) bool {
				n++
				return yield(convert.Line{Number: n, Text: e}, nil)
			})
		})
		if err != nil && !errors.Is(err, errStop) {
			yield(convert.Line{}, err)
		}
	}
}

// glued is how a line begins, searched for inside another line: a process that
// was killed while writing leaves half a line, and the next line may follow
// directly.
var glued = []byte(`{"role":`)

// salvage returns the whole line at the end of a damaged one, nil for none.
func salvage(line []byte) []byte {
	if i := bytes.LastIndex(line, glued); i > 0 && json.Valid(line[i:]) {
		return line[i:]
	}
	return nil
}

// readWorkers returns the workers of a session: those of its roster, and those
// that were never added to it. A path in the roster that is not a file in the
// session's own folder is an error, and the rest continues.
func readWorkers(fsys fs.FS, dir, id string, roster json.RawMessage, start time.Time) (all []convert.Worker, skips []error) {
	folder := path.Join(dir, id+workersEnd)
	names, files := names{}, map[string]bool{}
	add := func(name, call, file string) {
		files[file] = true
		t := transcript{fsys: fsys, sibling: path.Join(folder, file), start: start}
		all = append(all, convert.Worker{Name: names.unique(name), Call: call, Entries: t.entries()})
	}
	if err := checkParts(roster); err != nil {
		skips = append(skips, skip(path.Join(dir, id+jsonEnd)+": workers", err))
	}
	for i, w := range rosterOf(roster) {
		what := fmt.Sprintf("%s: worker %s", path.Join(dir, id+jsonEnd), strconv.Quote(text.Shorten(w.name(i), 60)))
		file := w.file()
		switch err := checkFile(fsys, folder, file); {
		case errors.Is(err, fs.ErrNotExist):
			skips = append(skips, convert.Skipf(what, "its transcript %.80q is not there", file))
		case err != nil:
			skips = append(skips, skip(what, err))
		case files[file]:
			skips = append(skips, convert.Skipf(what, "path %.80q: is another worker's", file))
		default:
			add(w.name(i), w.text("toolCallId"), file)
		}
	}
	if info, err := fs.Lstat(fsys, folder); err != nil || !info.IsDir() {
		return all, skips
	}
	list, err := fs.ReadDir(fsys, folder)
	if err != nil {
		skips = append(skips, skip(folder, err))
	}
	for _, f := range list {
		name, ok := strings.CutSuffix(f.Name(), workerEnd)
		if ok && name != "" && !files[f.Name()] && f.Type().IsRegular() && checkName(f.Name()) == nil {
			add(name, "", f.Name())
		}
	}
	return all, skips
}

// rosterOf returns the workers that a session file lists; an element that is a
// string is a path, and a roster of too many parts lists none.
func rosterOf(raw json.RawMessage) []object {
	var list []json.RawMessage
	if checkParts(raw) != nil || json.Unmarshal(raw, &list) != nil {
		return nil
	}
	all := make([]object, len(list))
	for i, w := range list {
		if json.Unmarshal(w, &all[i]) != nil || all[i] == nil {
			all[i] = object{"transcriptPath": w}
		}
	}
	return all
}

// file returns the path of a worker's transcript, which is named after the
// worker when the roster does not say.
func (o object) file() string {
	for _, k := range []string{"transcriptPath", "path", "ndjsonPath", "file"} {
		if o[k] != nil {
			return o.text(k)
		}
	}
	if id := o.text("agentId"); id != "" {
		return id + workerEnd
	}
	return ""
}

func (o object) name(i int) string {
	for _, k := range []string{"agentId", "id", "name"} {
		if s := o.text(k); s != "" {
			return s
		}
	}
	if s := strings.TrimSuffix(o.file(), workerEnd); s != "" {
		return s
	}
	return "worker-" + strconv.Itoa(i+1)
}

// fit makes the name of a worker fit for an id and for a file, so that it is the
// same on import and export. The roster keeps the original.
func fit(name string) string {
	name = strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || '0' <= r && r <= '9' || 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z' {
			return r
		}
		return '-'
	}, name)
	if name = strings.Trim(name[:min(len(name), 56)], "-"); name == "" {
		return "worker"
	}
	return name
}

// names counts how often each name was used.
type names map[string]int

// unique returns a name that no other worker has, always the same for the same
// order.
func (n names) unique(name string) string {
	name = fit(name)
	for {
		n[name]++
		if n[name] == 1 {
			return name
		}
		if next := name + "-" + strconv.Itoa(n[name]); n[next] == 0 {
			n[next] = 1
			return next
		}
	}
}
