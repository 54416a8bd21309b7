package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/tidemark-sessions/tidemark/transfer/remote"
)

// What a sync between machines may cost.
const (
	syncedSessions = 10_000
	syncedBytes    = 200_000 // where nothing changed
	syncedIn       = 100 << 20
	linkRate       = 100e6 / 8 // bytes a second of the link that changed sessions go over
	linkShare      = 0.5       // of the link, or of what zstd makes of them
)

// sharing measures two machines that share their sessions by a third one: one where
// nothing changed, and one that everything is new to.
func (r *run) sharing(ctx context.Context) error {
	if !r.hasProgram() {
		return nil
	}
	if err := r.unchangedSync(ctx); err != nil {
		return err
	}
	return r.changedSync(ctx)
}

// linkCommand makes this program stand for ssh: it answers for the other machine
// itself, over a link of a known rate, and writes down what came over it.
const linkCommand = "link"

// serveLink is that: link FILE RATE, then what ssh is given.
func serveLink(args []string) int {
	words := strings.Split(args[len(args)-1], "'")
	rate := 0.0
	fmt.Sscan(args[1], &rate)
	l := &link{rate: rate}
	err := remote.Serve(context.Background(), words[len(words)-2], &linkEnd{l: l, r: os.Stdin}, &linkEnd{l: l, w: os.Stdout})
	if err == nil {
		err = os.WriteFile(args[0], fmt.Appendf(nil, "%d %d", l.calls.Load(), l.bytes.Load()), 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// link is what passes, and how fast it may in each direction.
type link struct {
	rate         float64 // bytes a second; 0: as fast as it goes
	bytes, calls atomic.Int64
}

// linkEnd is one direction of it.
type linkEnd struct {
	l    *link
	r    io.Reader
	w    io.Writer
	free time.Time // when what passed has passed
	head []byte    // of the call that is being read
	body int64     // what is left of it
}

func (e *linkEnd) pass(n int) {
	e.l.bytes.Add(int64(n))
	if e.l.rate == 0 {
		return
	}
	if now := time.Now(); e.free.Before(now) {
		e.free = now
	}
	e.free = e.free.Add(time.Duration(float64(n) / e.l.rate * 1e9))
	time.Sleep(time.Until(e.free))
}

func (e *linkEnd) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	e.count(p[:n])
	e.pass(n)
	return n, err
}

func (e *linkEnd) Write(p []byte) (int, error) {
	e.pass(len(p))
	return e.w.Write(p)
}

// count counts the calls: each has a letter, the length of a name and the name, the
// length of the data and the data.
func (e *linkEnd) count(p []byte) {
	for len(p) > 0 {
		if e.body > 0 {
			n := min(e.body, int64(len(p)))
			e.body, p = e.body-n, p[n:]
			continue
		}
		e.head, p = append(e.head, p[0]), p[1:]
		if len(e.head) < 3 {
			continue
		}
		if name := int(binary.BigEndian.Uint16(e.head[1:])); len(e.head) == 3+name+4 {
			e.l.calls.Add(1)
			e.body, e.head = int64(binary.BigEndian.Uint32(e.head[3+name:])), nil
		}
	}
}

// shared is a remote that two stores have, behind a link.
type shared struct {
	from, to *place
	dir      string // its blobs
	log      string // what passed
}

// share makes a remote of two stores.
func (r *run) share(ctx context.Context, name string, from *place) (*shared, error) {
	to, err := r.open(ctx, inSQLite, "to "+name)
	if err != nil {
		return nil, err
	}
	s := &shared{from: from, to: to, dir: filepath.Join(to.dir, "blobs"), log: filepath.Join(to.dir, "passed")}
	code := filepath.Join(to.dir, "code")
	if err := errors.Join(from.close(), to.close(), os.Mkdir(s.dir, 0o700), s.link(0)); err != nil {
		return nil, err
	}
	url := "ssh://box.example.org" + filepath.ToSlash(s.dir)
	if err := r.start(ctx, from, "remote", "add", "box", url); err != nil {
		return nil, err
	}
	words, err := r.commandOf(ctx, r.program, from, "remote", "pair", "box").Output()
	if err == nil {
		err = os.WriteFile(code, words, 0o600)
	}
	if err != nil {
		return nil, err
	}
	return s, r.start(ctx, to, "remote", "add", "box", url, "--code-file", code)
}

// link has this program be the ssh of both, with a link of so many bytes a second; 0: as
// fast as it goes.
func (s *shared) link(rate float64) error {
	self, err := os.Executable()
	for _, p := range []*place{s.from, s.to} {
		p.environ = []string{fmt.Sprintf("%s=%s %s %s %.0f", remote.SSHVariable, self, linkCommand, s.log, rate)}
	}
	return err
}

// passed returns what came over the link at the last command.
func (s *shared) passed() (calls, bytes int64, err error) {
	text, err := os.ReadFile(s.log)
	if err == nil {
		_, err = fmt.Sscan(string(text), &calls, &bytes)
	}
	return calls, bytes, err
}

// unchangedSync measures a sync of few and of many sessions of which none changed.
func (r *run) unchangedSync(ctx context.Context) error {
	sizes := []int{r.size.few, r.size.synced}
	var contenders []contender
	var last *shared
	for _, n := range sizes {
		r.say("two machines with %s sessions", short(n))
		p, err := r.open(ctx, inSQLite, "synced "+short(n))
		if err != nil {
			return err
		}
		defer p.leave()
		if err := p.populate(ctx, n); err != nil {
			return err
		}
		s, err := r.share(ctx, short(n), p)
		if err != nil {
			return err
		}
		defer s.to.leave()
		for _, one := range []*place{p, s.to, p} {
			if err := r.start(ctx, one, "sync"); err != nil {
				return err
			}
		}
		last = s
		contenders = append(contenders, contender{short(n), times(1, func() error { return r.start(ctx, p, "sync") })})
	}
	contenders = append(contenders, contender{"version", times(1, func() error { return r.start(ctx, nil, "version") })})
	s, err := r.compareTimes(ctx, min(r.size.reps, againReps), contenders...)
	if err != nil {
		return err
	}
	if err := r.start(ctx, last.from, "sync"); err != nil {
		return err
	}
	calls, bytes, err := last.passed()
	if err != nil {
		return err
	}
	for _, n := range sizes {
		one := row{goal: "P18", what: fmt.Sprintf("sync of %s sessions of two machines, nothing new", short(n)), time: s.time(short(n)), against: "tidemark version", ratio: s.ratio(short(n), "version")}
		if n >= syncedSessions {
			one.want = want{timeAtMost: 1e9}
		}
		r.table.add(one)
	}
	// What it asks for: the list of keyrings and the newest, its own head, the list of
	// machines and the head of the other one.
	met := bytes <= syncedBytes && calls <= 5
	r.table.add(row{goal: "P18", what: fmt.Sprintf("the same, %s: what passes", short(r.size.synced)), value: fmt.Sprintf("%s B in %d calls", group(bytes), calls),
		want: want{text: "≤ 200,000 B, a head for each machine", met: &met}})
	return nil
}

// changedSync measures what is new to one machine and then to the other, over a link.
func (r *run) changedSync(ctx context.Context) error {
	l := newCorpus(r.size.moved)
	p, err := r.open(ctx, inSQLite, "pushed")
	if err != nil {
		return err
	}
	defer p.leave()
	r.say("two machines with %s entries that are new", short(r.size.moved))
	var text bytes.Buffer
	for n := range l.sessions() {
		sess, entries := l.session(n)
		w := p.Create(sess, p.who)
		if _, err := w.Append(ctx, entries...); err != nil {
			return err
		}
		for _, e := range entries {
			line, err := e.Line()
			if err != nil {
				return err
			}
			text.Write(line.Body)
		}
		if err := w.Close(ctx); err != nil {
			return err
		}
	}
	s, err := r.share(ctx, "pushed", p)
	if err != nil {
		return err
	}
	defer s.to.leave()
	if err := s.link(linkRate); err != nil {
		return err
	}
	packed, packs, err := packing(text.Bytes())
	if err != nil {
		return err
	}
	r.table.add(row{what: fmt.Sprintf("zstd alone, %s of entries", megabytes(int64(text.Len()))), value: rate(int64(text.Len()), float64(packs)), against: "what is left of them", ratio: spread{median: float64(packed) / float64(text.Len())}})
	for _, way := range []struct {
		name string
		at   *place
	}{{"push", s.from}, {"pull", s.to}} {
		if err := r.overLink(ctx, s, way.at, way.name, int64(text.Len()), packs); err != nil {
			return err
		}
	}
	return nil
}

// packing compresses a text as one machine would.
func packing(text []byte) (packed int, took time.Duration, err error) {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return 0, 0, err
	}
	defer z.Close()
	for range 3 {
		begin := time.Now()
		packed = 0
		for from := 0; from < len(text); from += 1 << 20 {
			packed += len(z.EncodeAll(text[from:min(from+1<<20, len(text))], nil))
		}
		if one := time.Since(begin); took == 0 || one < took {
			took = one
		}
	}
	return packed, took, nil
}

// overLink measures one way over the link.
func (r *run) overLink(ctx context.Context, s *shared, at *place, way string, text int64, packs time.Duration) error {
	c, err := r.cost(ctx, at, way)
	if err != nil {
		return err
	}
	_, passed, err := s.passed()
	if err != nil {
		return err
	}
	// The slower of both is what bounds it.
	onLink, byZstd := float64(passed)/linkRate/c.took.Seconds(), packs.Seconds()/c.took.Seconds()
	met := max(onLink, byZstd) >= linkShare
	r.table.add(row{goal: "P18", what: fmt.Sprintf("%s of %s entries that are new, over a link of 100 Mbit/s", way, short(r.size.moved)), value: fmt.Sprintf("%s; %.0f %% of the link", rate(text, float64(c.took)), 100*onLink),
		against: "zstd alone", ratio: spread{median: 1 / byZstd}, want: want{text: "≥ 50 % of the link or of zstd", met: &met}})
	if c.peak > 0 {
		met := c.peak <= syncedIn
		r.table.add(row{goal: "P18", what: "memory of " + way, value: megabytes(c.peak), want: want{text: "≤ " + megabytes(syncedIn), met: &met}})
	}
	return nil
}
