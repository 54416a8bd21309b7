package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/workshop/machine"
)

// A foreign store consists of one session with half of the data and many
// short ones: the first shows whether memory grows with a session, the
// others what each session costs.
const (
	foreignEntry   = 1450 // bytes of a record, about
	foreignSession = 150  // records of a short session
	// copiesOfForeign is how much space it needs at most: itself, a copy,
	// and the store that it is imported into, with its index.
	copiesOfForeign = 6
)

// bringing measures the import of transcripts of Claude Code, and a second
// import of the same, when nothing is new.
func (r *run) bringing(ctx context.Context) error {
	if !r.hasProgram() {
		return nil
	}
	if free, err := machine.Free(r.dir); err != nil || free < r.size.foreign*copiesOfForeign {
		r.table.skip("import of %.0f MB: there is not enough room on the disk", float64(r.size.foreign)/1e6)
		return err
	}
	r.say("making %.0f MB of transcripts", float64(r.size.foreign)/1e6)
	home := filepath.Join(r.dir, "foreign")
	defer os.RemoveAll(home)
	dir := filepath.Join(home, ".claude", "projects", "-home-ada-demo")
	bytes, err := writeForeign(ctx, dir, r.size.foreign)
	if err != nil {
		return err
	}
	reps := r.size.moves
	if bytes > 50e6 {
		reps = 1 // each takes minutes
	}
	var trips []*trip
	copied := filepath.Join(r.dir, "copy")
	defer os.Remove(copied)
	s := make(samples)
	for range reps {
		one, err := times(1, func() error { return joinFiles(dir, copied) })()
		if err != nil {
			return err
		}
		s[copyTexts] = append(s[copyTexts], one)
	}
	for _, backend := range shelves {
		r.say("import of %.0f MB into %s", float64(bytes)/1e6, backend)
		first, again := foreignTrips(backend, bytes)
		for range reps {
			if err := r.bring(ctx, backend, home, s, first, again); err != nil {
				return err
			}
		}
		trips = append(trips, first, again)
	}
	r.brought(bytes, s, trips)
	return nil
}

func foreignTrips(backend string, bytes int64) (first, again *trip) {
	first = &trip{name: "import with its index: " + backend, text: bytes, least: importsAll}
	if backend == inFiles || backend == sealed+inFiles {
		first = &trip{name: "import, no index: " + backend, text: bytes}
	}
	return first, &trip{name: "import of the same again: " + backend, text: bytes}
}

// bring imports a home folder twice into a new store.
func (r *run) bring(ctx context.Context, backend, home string, s samples, first, again *trip) error {
	p, err := r.open(ctx, backend, "brought")
	if err != nil {
		return err
	}
	defer p.leave()
	if err := p.close(); err != nil { // as it is when no process has it open
		return err
	}
	args := []string{"import", "--no-encrypt", home}
	if p.keyFile != "" {
		args = []string{"import", home}
	}
	var lines [2]int64
	for i, t := range []*trip{first, again} {
		t.run = func() (cost, error) { return r.cost(ctx, p, args...) }
		one, err := t.sample()
		if err != nil {
			return err
		}
		s[t.name] = append(s[t.name], one)
		if lines[i], err = p.count(ctx); err != nil {
			return err
		}
	}
	if lines[0] == 0 || lines[0] != lines[1] {
		return fmt.Errorf("%s: %d entries after the first import, %d after the second", backend, lines[0], lines[1])
	}
	return nil
}

// count returns how many entries a closed store holds.
func (p *place) count(ctx context.Context) (n int64, err error) {
	if err := p.open(ctx); err != nil {
		return 0, err
	}
	for info, err := range p.Sessions(ctx, store.Filter{}) {
		if err != nil {
			return 0, errors.Join(err, p.close())
		}
		n += info.Entries
	}
	return n, p.close()
}

// writeForeign writes transcripts of so many bytes, and returns how many they
// are: the long session first, then short ones.
func writeForeign(ctx context.Context, dir string, bytes int64) (total int64, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return 0, err
	}
	c := newCorpus(int(bytes/foreignEntry) + 1)
	for entry := 0; total < bytes; {
		if err := ctx.Err(); err != nil {
			return total, err
		}
		id := fmt.Sprintf("%08x-0000-4000-8000-%012x", entry, entry)
		enough := func(n int, _ int64) bool { return n >= foreignSession }
		if entry == 0 {
			enough = func(_ int, written int64) bool { return written >= bytes/2 }
		}
		n, written, err := c.writeTranscript(filepath.Join(dir, id+".jsonl"), id, entry, enough)
		if err != nil {
			return total, err
		}
		entry, total = entry+n, total+written
	}
	return total, nil
}

// writeTranscript writes a session from an entry of the corpus on, until
// enough says so after an answer.
func (c *corpus) writeTranscript(name, id string, from int, enough func(n int, written int64) bool) (n int, written int64, err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return 0, 0, err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	parent := ""
	for ; n%4 != 0 || !enough(n, written); n++ {
		rec := c.record(from+n, id)
		if n > 0 {
			rec.Parent = &parent
		}
		line, err := json.Marshal(rec)
		if err != nil {
			return n, written, errors.Join(err, f.Close())
		}
		more, err := w.Write(append(line, '\n'))
		if err != nil {
			return n, written, errors.Join(err, f.Close())
		}
		written += int64(more)
		parent = rec.UUID
	}
	return n, written, errors.Join(w.Flush(), f.Close())
}

// foreignRecord is a line of a transcript, with the fields that Claude Code
// writes into each.
type foreignRecord struct {
	Parent    *string        `json:"parentUuid"`
	Sidechain bool           `json:"isSidechain"`
	UserType  string         `json:"userType"`
	Dir       string         `json:"cwd"`
	Session   string         `json:"sessionId"`
	Version   string         `json:"version"`
	Branch    string         `json:"gitBranch"`
	Type      string         `json:"type"`
	Message   map[string]any `json:"message"`
	UUID      string         `json:"uuid"`
	At        string         `json:"timestamp"`
}

// record returns an entry of the corpus as a line: questions and answers in
// turn, and between them a call and its result.
func (c *corpus) record(i int, session string) *foreignRecord {
	e := c.entry(i)
	rec := &foreignRecord{UserType: "external", Dir: "/home/ada/demo", Session: session, Version: "2.1.0", Branch: "main",
		UUID: fmt.Sprintf("%08x-1111-4000-8000-%012x", i, i), At: e.At.UTC().Format("2006-01-02T15:04:05.000Z")}
	var content []any
	for _, b := range e.Blocks {
		switch b.Type {
		case tidemark.BlockText:
			content = append(content, map[string]any{"type": "text", "text": b.Text})
		case tidemark.BlockToolUse:
			content = append(content, map[string]any{"type": "tool_use", "id": fmt.Sprintf("toolu_%d", i), "name": "Read", "input": b.Input})
		case tidemark.BlockToolResult:
			content = append(content, map[string]any{"type": "tool_result", "tool_use_id": fmt.Sprintf("toolu_%d", i-1), "content": b.Text})
		}
	}
	rec.Type, rec.Message = "user", map[string]any{"role": "user", "content": content}
	if e.Role == tidemark.Assistant {
		rec.Type, rec.Message = "assistant", map[string]any{"id": fmt.Sprintf("msg_%d", i), "type": "message", "role": "assistant", "model": "demo",
			"content": content, "usage": map[string]int{"input_tokens": 900, "output_tokens": 300, "cache_read_input_tokens": 20_000}}
	}
	return rec
}

func (r *run) brought(bytes int64, s samples, trips []*trip) {
	r.table.add(row{what: fmt.Sprintf("%s, %.0f MB", copyTexts, float64(bytes)/1e6), value: rate(bytes, s.time(copyTexts).median)})
	judged := r.size.foreign >= full.foreign // the goal is one for a gigabyte
	for _, t := range trips {
		took := s.time(t.name).median
		one := row{what: t.name, value: rate(t.text, took), against: copyTexts, ratio: s.ratio(t.name, copyTexts)}
		if judged {
			one.goal, one.want = t.wanted(took)
		}
		r.table.add(one)
		r.table.addPeak(t, judged)
	}
}
