package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// look compares the store with the book, asking each question in a fresh
// process, and records what it saw: from now on that has to stay. With
// all, it also reads sessions that nobody touched.
func (b *book) look(p place, writers []*writer, all bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer func() { b.shut = false }()
	if there, err := b.verify(p); err != nil || !there {
		return err
	}
	seen, err := b.list(p)
	if err != nil {
		return err
	}
	if err := b.compareStates(p, seen); err != nil {
		return err
	}
	for _, s := range b.sessions {
		if s.state.now == gone || !s.touched && !all {
			continue
		}
		s.touched = false
		if err := b.readSession(p, s); err != nil {
			return err
		}
	}
	for _, w := range writers {
		b.noHoles(w)
	}
	if err := b.secrecy(p); err != nil {
		return err
	}
	b.sessions = slices.DeleteFunc(b.sessions, func(s *session) bool { return s.state.now == gone })
	return nil
}

// secrecy scans every file of an encrypted store for the text that was written
// to it.
func (b *book) secrecy(p place) error {
	if p.plain {
		return nil
	}
	return filepath.WalkDir(p.dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && (bytes.Contains(data, []byte(canary)) || strings.Contains(name, canary)) {
			b.fault(&b.unreadable, "%s holds something of a sealed store in the clear", filepath.Base(name))
		}
		return err
	})
}

// verify checks whether the store is sound, and reports whether there is one.
// What a killed writer left may be reported as damage until somebody opens
// the store for writing; acknowledged entries have to be readable even so,
// and the next writer has to repair the rest without being asked.
func (b *book) verify(p place) (there bool, err error) {
	a, err := p.ask("", "verify")
	switch {
	case err != nil:
		return false, err
	case a.code == 10 && b.nothingKept():
		b.sessions = nil // the store itself was never created
		return false, nil
	case a.code == 13:
		b.leftovers++
		if err := b.peek(p); err != nil {
			return false, err
		}
		if _, err := p.ask("", "append", "new"); err != nil { // opens the store, and appends nothing
			return false, err
		}
		if a, err = p.ask("", "verify"); err != nil {
			return false, err
		}
	}
	if a.code != 0 {
		b.fault(&b.aid, "verify ends with %d: %s%s", a.code, a.out, a.err)
	}
	return true, nil
}

// peek looks for acknowledged entries in a store that nobody has
// repaired yet.
func (b *book) peek(p place) error {
	for _, s := range b.sessions {
		if s.id == "" || s.state.now != live || len(s.state.maybe) > 0 || !s.touched {
			continue
		}
		a, err := p.ask("", "cat", "--all", s.id)
		if err != nil {
			return err
		}
		if a.code != 0 {
			b.fault(&b.unreadable, "before a writer came, cat --all %s ends with %d: %s", s.id, a.code, a.err)
		}
		for _, sent := range s.sent {
			if sent.seq != 0 && !strings.Contains(a.out, sent.text) {
				b.fault(&b.lost, "before a writer came, session %s: entry %d (%.20s) is not there", s.id, sent.seq, sent.text)
			}
		}
	}
	return nil
}

// reader returns a function that reads while others write and are
// killed: everything acknowledged before has to be there.
func (b *book) reader(p place, r *rand.Rand) func() {
	b.mu.Lock()
	defer b.mu.Unlock()
	var settled []*session
	for _, s := range b.sessions {
		if s.id != "" && s.state.now == live && len(s.state.maybe) == 0 && !s.errand {
			settled = append(settled, s)
		}
	}
	s, ok := pick(r, settled)
	if !ok {
		return func() {}
	}
	var promised []*promise
	for _, sent := range s.sent {
		if sent.seq != 0 {
			promised = append(promised, sent)
		}
	}
	return func() {
		a, err := p.ask("", "cat", "--all", s.id)
		b.heard(func() {
			if err != nil || a.code != 0 {
				b.fault(&b.unreadable, "cat --all %s beside its writer ends with %d, %v: %s", s.id, a.code, err, a.err)
				return
			}
			for _, sent := range promised {
				if !strings.Contains(a.out, sent.text) {
					b.fault(&b.lost, "beside its writer, session %s: entry %d (%.20s) is not there", s.id, sent.seq, sent.text)
				}
			}
		})
	}
}

func (b *book) nothingKept() bool {
	return !slices.ContainsFunc(b.sessions, func(s *session) bool { return s.state.now != gone })
}

// listed is a session in the output of ls.
type listed struct {
	ID, Title, State string
}

func (b *book) list(p place) (map[string]listed, error) {
	seen := make(map[string]listed)
	for _, args := range [][]string{{"ls", "-A", "-n", "0", "--json=id,title,state"}, {"ls", "-A", "-n", "0", "--trash", "--json=id,title,state"}} {
		a, err := p.ask("", args...)
		if err != nil {
			return nil, err
		}
		var some []listed
		if err := json.Unmarshal([]byte(a.out), &some); a.code != 0 || err != nil {
			b.fault(&b.unreadable, "%q ends with %d: %s%v", args, a.code, a.err, err)
		}
		for _, l := range some {
			if _, twice := seen[l.ID]; twice {
				b.fault(&b.doubled, "session %s is listed twice", l.ID)
			}
			seen[l.ID] = l
		}
	}
	return seen, nil
}

// compareStates checks whether every session that has to exist does, in
// the state that it has to be in, and no other.
func (b *book) compareStates(p place, seen map[string]listed) error {
	byTitle := make(map[string]string)
	for id, l := range seen {
		byTitle[l.Title] = id
	}
	for _, s := range b.sessions {
		if s.id == "" { // its creator was killed before it could report the id
			s.id = byTitle[s.title.now]
		}
		l, there := seen[s.id]
		delete(seen, s.id)
		if !there {
			l.State = gone
		}
		purge := slices.Contains(s.state.maybe, gone) && s.id != ""
		if !s.state.allows(l.State) && !(purge && l.State == purging) {
			b.fault(&b.lost, "session %s (%s) is %s, not %s", s.id, s.title.now, l.State, &s.state)
		}
		s.state.take(l.State)
		if there && !s.title.allows(l.Title) {
			b.fault(&b.lost, "session %s is called %q, not %s", s.id, l.Title, &s.title)
		}
		if there {
			s.title.take(l.Title)
		}
		if purge {
			if err := b.finishPurge(p, s); err != nil {
				return err
			}
		}
	}
	for id, l := range seen {
		b.fault(&b.doubled, "session %s (%s) was never made", id, l.Title)
	}
	return nil
}

// finishPurge repeats a purge that was killed, as its user would: it may have
// done nothing, everything, or a part, and then continues.
func (b *book) finishPurge(p place, s *session) error {
	a, err := p.ask("", "purge", s.id, "--yes")
	if err != nil {
		return err
	}
	if a.code != 0 && a.code != 5 {
		b.fault(&b.aid, "the purge of %s, repeated, ends with %d: %s", s.id, a.code, a.err)
	}
	s.state.take(gone)
	return nil
}

// readSession compares one session with the book.
func (b *book) readSession(p place, s *session) error {
	a, err := p.ask("", "cat", "--all", s.id)
	if err != nil {
		return err
	}
	if a.code != 0 {
		b.fault(&b.unreadable, "cat --all %s ends with %d: %s", s.id, a.code, a.err)
		return nil
	}
	b.compareLog(s, a.out)
	if err := b.compareLabels(p, s); err != nil {
		return err
	}
	return b.comparePoint(p, s)
}

// kept is an entry as cat prints it.
type kept struct {
	Seq    int64
	Kind   string
	Key    string
	Blocks []struct{ Text string }
}

func (b *book) compareLog(s *session, log string) {
	at := make(map[string][]int64) // seqs of each text
	branches, last := 0, int64(0)
	for line := range strings.Lines(log) {
		var e kept
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			b.fault(&b.unreadable, "session %s: after entry %d: %v", s.id, last, err)
			return
		}
		text := ""
		if len(e.Blocks) > 0 {
			text = e.Blocks[0].Text
		}
		switch {
		case e.Seq <= last, e.Seq > s.base && last >= s.base && e.Seq != last+1:
			b.fault(&b.lost, "session %s: entry %d follows %d", s.id, e.Seq, last)
		case e.Seq <= s.base:
			if want, known := s.past[e.Seq]; known && want != text {
				b.fault(&b.lost, "session %s: entry %d of its past is %.40q, not %.40q", s.id, e.Seq, text, want)
			}
		case e.Kind == "branch":
			branches++
		default:
			at[text] = append(at[text], e.Seq)
		}
		last = e.Seq
	}
	if last < s.base {
		b.fault(&b.lost, "session %s: its past ends at %d, not at %d", s.id, last, s.base)
	}
	for _, p := range s.sent {
		seqs := at[p.text]
		delete(at, p.text)
		switch {
		case len(seqs) == 0 && p.seq != 0:
			b.fault(&b.lost, "session %s: entry %d (%.20s) is not there", s.id, p.seq, p.text)
		case len(seqs) > 1:
			b.fault(&b.doubled, "session %s: %.20s is there as %v", s.id, p.text, seqs)
		case len(seqs) == 1 && p.seq == 0:
			p.seq = seqs[0]
		case len(seqs) == 1 && p.seq != seqs[0]:
			b.fault(&b.lost, "session %s: %.20s is entry %d, not %d", s.id, p.text, seqs[0], p.seq)
		}
	}
	for text, seqs := range at {
		b.fault(&b.unreadable, "session %s: entry %d is %.40q, which nobody sent", s.id, seqs[0], text)
	}
	if branches < s.branches {
		b.fault(&b.lost, "session %s: %d branches, not %d", s.id, branches, s.branches)
	} else if branches > s.branches+s.maybeBranches {
		b.fault(&b.doubled, "session %s: %d branches, not %d", s.id, branches, s.branches+s.maybeBranches)
	}
	s.branches, s.maybeBranches = branches, 0
}

// noHoles checks whether the entries of one process are there up to some
// point and not beyond it: a later one without an earlier one means that
// order was lost.
func (b *book) noHoles(w *writer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	missing := ""
	for _, p := range w.sent {
		switch {
		case p.seq == 0 && missing == "":
			missing = p.text
		case p.seq != 0 && missing != "":
			b.fault(&b.lost, "session %s: entry %d (%.20s) is there, and %.20s, sent before it, is not", w.s.id, p.seq, p.text, missing)
			return
		}
	}
}

// compareLabels checks each label that is not yet known to be kept. A
// newer label of the same entry replaces an older one.
func (b *book) compareLabels(p place, s *session) error {
	if len(s.labels) == 0 {
		return nil
	}
	l := s.labels[len(s.labels)-1]
	a, err := p.ask("", "cat", s.id+"@"+l.text)
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSuffix(a.out, "\n"), "\n")
	var e kept
	switch err := json.Unmarshal([]byte(lines[len(lines)-1]), &e); {
	case a.code == 5 && !l.acked:
	case a.code != 0 || err != nil:
		b.fault(&b.lost, "session %s: the label %s leads nowhere: exit %d: %s", s.id, l.text, a.code, a.err)
	case e.Seq != l.seq:
		b.fault(&b.lost, "session %s: the label %s leads to %d, not to %d", s.id, l.text, e.Seq, l.seq)
	}
	s.labels = nil
	return nil
}

func (b *book) comparePoint(p place, s *session) error {
	if s.point.now == "" && len(s.point.maybe) == 0 {
		return nil
	}
	a, err := p.ask("", "record", "get", "checkpoint", s.id)
	if err != nil {
		return err
	}
	var r struct {
		Version int
		Body    struct{ Reason string }
	}
	seen := ""
	if a.code != 5 {
		if err := json.Unmarshal([]byte(a.out), &r); a.code != 0 || err != nil {
			b.fault(&b.unreadable, "the checkpoint of session %s: exit %d: %s%v", s.id, a.code, a.err, err)
			return nil
		}
		seen = fmt.Sprintf("%d %s", r.Version, r.Body.Reason)
	}
	if !s.point.allows(seen) {
		b.fault(&b.lost, "the checkpoint of session %s is %q, not %s", s.id, seen, &s.point)
	}
	s.point.take(seen)
	return nil
}
