// Package watch follows the folders in which the agents of a machine keep their
// sessions, and imports what they write, as long as it runs.
//
// It only reads those folders, and has no rules about sessions: each change is an
// import by package transfer, which finds what is here already. So a watcher that
// is killed at any moment loses and doubles nothing; the next one imports what
// changed meanwhile. Notifications of the system make it fast, and are never relied
// on: every folder is also looked through from time to time.
//
//	err := watch.New(watch.Options{Opened: opened, Holder: who, Home: home}).Run(ctx)
package watch

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/process"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/open"
	"github.com/tidemark-sessions/tidemark/render"
	"github.com/tidemark-sessions/tidemark/transfer"
)

// Options say what is watched, and where it goes.
type Options struct {
	Opened *open.Opened
	Open   *open.Options // for the environment of the tools
	Holder tidemark.Holder
	User   string // whose watcher it is; a store has one for each user and machine
	Home   string // the home folder that is watched

	// Tool restricts the watcher to one tool; "": all.
	Tool string
	// StorePath is the file or folder of the store, "" if it is not on this
	// machine. MaxBytes is how large it may become before nothing more is
	// imported; 0: any size.
	StorePath string
	MaxBytes  int64

	// Notify begins notifications; nil: those of the operating system.
	Notify func() (Notifier, error)
	// MaxFolders bounds the folders that notifications are asked for; 0: 8,192.
	MaxFolders int
	// SweepAfter is when a home is looked through again after a change, and
	// SweepAtLeast how often when nothing changes; zero: 5 s and 5 min.
	SweepAfter, SweepAtLeast time.Duration
	// AnswerWithin is how long the disk of a home may be silent before the other homes
	// are followed without it; zero: 10 s.
	AnswerWithin time.Duration
	// ImportAtMost is how long one import of a home may take, so that a file that
	// never ends does not keep the others waiting; zero: 10 min.
	ImportAtMost time.Duration

	// Begun is called when it is certain that no other one watches, Tell with what
	// happened, and Progress during an import that takes
	// long. They may be nil.
	Begun    func()
	Tell     func(Event)
	Progress func(Progress)

	// hang waits as a disk does that hangs. Only tests have it.
	hang func(home string)
}

// Progress is how far an import of a home is.
type Progress struct {
	Tool, Path string
	Done       int // sessions
	Expected   int // about how many there are; 0: not known
	For        time.Duration
}

// String says it in a line.
func (p Progress) String() string { return render.Progress(p.For, p.Done, p.Expected, "sessions") }

// Event is something that happened to a home.
type Event struct {
	At       time.Time `json:"at"`
	Tool     string    `json:"tool"`
	Path     string    `json:"path"`
	Sessions int       `json:"sessions"` // that are new or changed
	Entries  int       `json:"entries"`  // that are new
	Drafts   int       `json:"drafts,omitempty"`
	Ignored  int       `json:"ignored,omitempty"`
	Trashed  int       `json:"trashed,omitempty"` // passed over: in the trash here
	Purged   int       `json:"purged,omitempty"`  // passed over: purged here
	Waiting  int       `json:"waiting,omitempty"` // somebody has them open here; they are tried again
	LagMS    int64     `json:"lag_ms"`            // from the first notice of a change until it was imported
	Problems []string  `json:"problems,omitempty"`
	// State is following, or why nothing is imported now, such as paused or full.
	State string `json:"state"`
	// Swept says why changes are found by looking only; "": the system tells them.
	Swept string `json:"swept,omitempty"`

	changed []tidemark.SessionID // those that Sessions counts
}

// sessionSet are hashes of sessions that changed, each of which counts once.
type sessionSet map[uint64]bool

// add adds the sessions of an event, and returns how many there are now.
func (s sessionSet) add(e Event) int {
	for _, id := range e.changed {
		s[unitHash(string(id))] = true
	}
	return len(s)
}

// The states of an Event.
const (
	Following = "following"
	Paused    = "paused"
	Full      = "full"
	Missing   = "missing" // the folder is not there any more
	Left      = "left"    // the user does not want it followed any more
	Silent    = "silent"  // its disk does not answer; the other homes go on
	Reading   = "reading" // it has a session that takes long to read; the other homes go on
)

const (
	// settleTime is for how long changes are collected: tools write several lines
	// at once.
	settleTime = 25 * time.Millisecond
	// A home is not imported again before a multiple of the time that its last
	// import took, so that a home that is slow to read leaves the machine to
	// others.
	restFactor, maxRest = 5, 10 * time.Second
	// discoverEvery is how often homes are looked for that nobody told of.
	discoverEvery = 30 * time.Second
	// reportEvery is how often a report is kept at most.
	reportEvery = 5 * time.Second
	// maxProblems bounds the problems of a home that are reported.
	maxProblems = 5
)

// Watcher follows the homes of tools. New returns one; Run and Once are for one
// goroutine.
type Watcher struct {
	o       Options
	control *Control

	// turn is held by whoever works on what follows or on a home, but not while it
	// waits for the disk of one; see away.
	turn sync.Mutex

	homes      map[string]*home // by tool and path
	waiting    map[string]bool  // folders in which homes may appear
	discover   time.Time        // when homes are looked for again
	looksAfter time.Time        // when one is looked through again only to be sure
	ignored    []string         // as they were when homes were last looked for
	notifier   Notifier         // nil: there are no notifications
	unheard    string           // why there are none
	reported   time.Time
	news       bool // something happened since then
	sized      time.Time
	bytes      int64
	grown      int  // sessions that were imported since memory was given back
	rested     bool // memory was given back after the first look
	answered   map[string]int64

	mu       sync.Mutex // guards what follows, and the flags of homes
	settings Settings
	byFolder map[string][]*home // the homes that a folder belongs to
	rescan   bool               // homes may have come
	wake     chan struct{}
}

// New returns a Watcher.
func New(o Options) *Watcher {
	if o.Notify == nil {
		o.Notify = SystemNotifier
	}
	o.MaxFolders = cmp.Or(o.MaxFolders, 8192)
	o.SweepAfter, o.SweepAtLeast = cmp.Or(o.SweepAfter, 5*time.Second), cmp.Or(o.SweepAtLeast, 5*time.Minute)
	o.ImportAtMost = cmp.Or(o.ImportAtMost, 10*time.Minute)
	o.AnswerWithin = cmp.Or(o.AnswerWithin, 10*time.Second)
	if o.hang == nil {
		o.hang = func(string) {}
	}
	if o.Begun == nil {
		o.Begun = func() {}
	}
	if o.Tell == nil {
		o.Tell = func(Event) {}
	}
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	return &Watcher{o: o, control: ControlOf(o), homes: make(map[string]*home), waiting: make(map[string]bool),
		byFolder: make(map[string][]*home), wake: make(chan struct{}, 1)}
}

// check refuses what cannot be watched.
func (o Options) check() error {
	switch {
	case o.Home == "":
		return tidemark.Invalidf("there is no home folder to watch")
	case o.MaxBytes > 0 && o.StorePath == "":
		return tidemark.Unsupportedf("watch: max_bytes: the size of a store is known for sqlite: and files: only")
	}
	return nil
}

// Once imports what changed in every home, unless the user wants a pause, and
// returns what happened in each, also if it was ended early; that one cannot be read, or
// that its disk does not answer, is a problem of that one. Where
// a watcher runs, that one does it, and the homes are as it reports them.
func (w *Watcher) Once(ctx context.Context) (all []Event, err error) {
	if err := w.o.check(); err != nil {
		return nil, err
	}
	if all, told, err := w.control.Now(ctx, w.o.Tool); told || err != nil {
		return all, err
	}
	if w.settings, err = w.control.Settings(ctx); err != nil {
		return nil, err
	}
	w.turn.Lock()
	defer w.turn.Unlock()
	w.find(ctx)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // for what still waits for a disk
	var looks []*look
	fatal := func(err error) bool { return err != nil && (ctx.Err() != nil || !transfer.ConcernsInput(err)) }
	for _, h := range w.inOrder() {
		if time.Now().Before(w.settings.PausedUntil) {
			h.event.State = Paused
			all = append(all, h.event)
			continue
		}
		l := w.takeWithin(ctx, h)
		if looks = append(looks, l); fatal(l.failed()) {
			break
		}
	}
	for _, l := range looks {
		w.waitFor(l) // it may have answered meanwhile
		e := l.event()
		all = append(all, e)
		if err := l.failed(); fatal(err) {
			return all, err
		} else if err != nil {
			e.Problems = append(e.Problems, problemText(err))
			all[len(all)-1] = e
		}
		l.home.event, l.home.total = e, e
	}
	w.news = true
	w.report(ctx, true)
	return all, nil
}

// Run watches until ctx ends, which is no error. ErrHeld: somebody watches
// already. ErrConflict: another one took over.
func (w *Watcher) Run(ctx context.Context) error {
	if err := w.o.check(); err != nil {
		return err
	}
	holding, err := w.control.take(ctx, w.o.Holder)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		w.keep(ctx, holding, cancel)
	}()
	defer func() {
		cancel(nil)
		<-kept
	}()
	if w.settings, err = w.control.Settings(ctx); err != nil {
		return errors.Join(err, w.control.free(context.WithoutCancel(ctx), holding))
	}
	w.o.Begun()
	stop := w.listen()
	w.loop(ctx)
	stop()
	w.turn.Lock()
	w.news = true
	w.report(context.WithoutCancel(ctx), true)
	w.turn.Unlock()
	err = w.control.free(context.WithoutCancel(ctx), holding)
	if cause := context.Cause(ctx); errors.Is(cause, tidemark.ErrConflict) {
		return cause
	}
	return err
}

// keep renews the lease, and looks what the user wants.
func (w *Watcher) keep(ctx context.Context, holding *records.Holding, cancel context.CancelCauseFunc) {
	look := func() {
		s, err := w.control.Settings(ctx)
		w.mu.Lock()
		defer w.mu.Unlock()
		if err == nil && s.version != w.settings.version {
			for tool, n := range s.Asked {
				if n > w.settings.Asked[tool] {
					w.asked(tool)
				}
			}
			w.settings, w.rescan = s, true
			w.ring()
		}
	}
	lost := func(err error) bool { return errors.Is(err, tidemark.ErrConflict) }
	if err := holding.KeepAlive(ctx, look, lost); err != nil {
		cancel(err)
	}
}

// asked has the homes of a tool looked through at once.
func (w *Watcher) asked(tool string) {
	for _, h := range w.homes {
		if tool == "" || h.Tool.Name == tool {
			h.asked = true
			h.mark(time.Now(), "", true)
		}
	}
}

// answer reports what somebody waits for, once no home is to be looked through for it.
func (w *Watcher) answer(ctx context.Context, paused bool) {
	w.mu.Lock()
	asked := w.settings.Asked
	for _, h := range w.homes {
		if h.asked = h.asked && !paused; !h.late() && (h.asked || h.sweepAt.IsZero() && !paused) {
			asked = nil
		}
	}
	w.mu.Unlock()
	if asked != nil && !maps.Equal(asked, w.answered) {
		w.answered, w.news = asked, true
		w.report(ctx, true)
	}
}

// ring wakes the loop.
func (w *Watcher) ring() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// loop imports what is due, one home after the other.
func (w *Watcher) loop(ctx context.Context) {
	w.turn.Lock()
	defer w.turn.Unlock()
	for ctx.Err() == nil {
		w.mu.Lock()
		rescan := w.rescan
		w.rescan = false
		paused := w.settings.PausedUntil
		w.mu.Unlock()
		now := time.Now()
		if rescan || !now.Before(w.discover) {
			w.find(ctx)
			w.discover = time.Now().Add(discoverEvery)
		}
		w.answer(ctx, now.Before(paused))
		if now.Before(paused) {
			w.tellPaused(now)
			w.report(ctx, false)
			w.wait(ctx, paused)
			continue
		}
		h, at := w.next(now)
		if h == nil {
			w.rests()
			w.report(ctx, false)
			if w.news && w.reported.Add(reportEvery).Before(at) {
				at = w.reported.Add(reportEvery)
			}
			w.wait(ctx, at)
			continue
		}
		w.serve(ctx, h)
	}
}

// manySessions is after how many imported sessions memory is given back: a first import
// takes several times of what a watcher needs, which then runs for months.
const manySessions = 1000

// rests gives the memory back that the first look, or a large import took, and the
// pages of the program that were needed for it.
func (w *Watcher) rests() {
	if w.grown >= manySessions || !w.rested {
		w.grown, w.rested = 0, true
		debug.FreeOSMemory()
		process.ReleasePages()
	}
}

// wait returns at a time, or when something happens.
func (w *Watcher) wait(ctx context.Context, until time.Time) {
	w.turn.Unlock()
	defer w.turn.Lock()
	timer := time.NewTimer(min(time.Until(until), discoverEvery))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-w.wake:
	case <-timer.C:
	}
}

// inOrder returns the homes in the order of the tools.
func (w *Watcher) inOrder() []*home {
	return slices.SortedFunc(maps.Values(w.homes), func(a, b *home) int { return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.Path, b.Path)) })
}

// next returns a home that is due, or when one will be.
func (w *Watcher) next(now time.Time) (due *home, at time.Time) {
	at = now.Add(discoverEvery)
	w.mu.Lock()
	defer w.mu.Unlock()
	var first time.Time
	for _, h := range w.homes {
		if h.busy {
			continue
		}
		when := w.sweepOf(h)
		if !h.changedAt.IsZero() && h.changedAt.Add(settleTime).Before(when) {
			when = h.changedAt.Add(settleTime)
		}
		if when.Before(h.notBefore) {
			when = h.notBefore
		}
		if h.asked {
			when = now
		}
		if !when.After(now) && (due == nil || when.Before(first) || when.Equal(first) && h.sweepAt.Before(due.sweepAt)) {
			due, first = h, when
		}
		if when.Before(at) {
			at = when
		}
	}
	return due, at
}

// tellPaused tells once that nothing is imported now.
func (w *Watcher) tellPaused(now time.Time) {
	for _, h := range w.inOrder() {
		if h.event.State != Paused {
			h.event.State, h.event.At = Paused, now
			w.tell(h)
		}
	}
}

// tell tells what happened to a home.
func (w *Watcher) tell(h *home) {
	w.news = true
	w.o.Tell(h.event)
}

// report keeps what the watcher knows, for people who ask. That it cannot is no
// reason to stop.
func (w *Watcher) report(ctx context.Context, now bool) {
	if !w.news || !now && time.Since(w.reported) < reportEvery {
		return
	}
	r := Report{Unheard: w.unheard, Homes: []Event{}, Answered: w.answered}
	if w.o.Tool != "" { // of the others is known what was before
		if was, err := w.control.Report(ctx); err == nil {
			r.Homes = slices.DeleteFunc(was.Homes, func(e Event) bool { return e.Tool == w.o.Tool })
		}
	}
	for _, h := range w.inOrder() {
		e := h.total
		e.Problems = nil
		for _, p := range h.event.Problems { // which may quote a file
			e.Problems = append(e.Problems, w.o.Opened.Store.MaskText(p))
		}
		e.At, e.LagMS, e.State, e.Swept, e.Waiting = h.event.At, h.event.LagMS, h.event.State, h.event.Swept, h.event.Waiting
		r.Homes = append(r.Homes, e)
	}
	w.reported, w.news = time.Now(), false
	if err := w.control.keepReport(ctx, r); err != nil {
		w.news = ctx.Err() == nil
	}
}

// importer returns an import into the store.
func (w *Watcher) importer() *transfer.Importer {
	return &transfer.Importer{Opened: w.o.Opened, Open: w.o.Open, Holder: w.o.Holder}
}
