// Package sync keeps the same sessions in the stores of several machines. They meet
// at a remote, a place for blobs that nobody has to trust: what lies there is sealed,
// and whatever is wrong with it harms no store. There is no server and no master;
// each machine writes its own blobs and reads those of the others.
//
// A store keeps its own logs, with its own seqs. What machines add while they are
// apart becomes branches of one session. What people say about sessions is merged by
// versions, never by clocks. docs/formats/remote.md has the rules and the bytes.
//
// Approvals, loops, wakes, checkpoints and all that fleets keep never leave a machine.
// Sessions with the tag private do not, either.
//
//	err := sync.Of(s.Records(), host, nil).Add(ctx, "home", "file:/media/stick", "")
//	report, err := sync.Run(ctx, s, "home", sync.Options{Holder: who, Push: true, Pull: true})
package sync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
	"github.com/tidemark-sessions/tidemark/seal"
	"github.com/tidemark-sessions/tidemark/store"
	"github.com/tidemark-sessions/tidemark/transfer/remote"
)

// Private is the tag of sessions that do not leave this machine.
const Private = "private"

// Options say what to do.
type Options struct {
	Holder     tidemark.Holder
	Host       string // what other machines call this one
	Places     *remote.Options
	Push, Pull bool
	DryRun     bool   // only count
	Project    string // only sessions of this project
	Tag        string // only sessions with this tag
	Progress   func(done int, what string)

	patience time.Duration                                       // of Attend; 0: attendAtOnce
	check    *Checked                                            // read everything, and neither push nor pull
	open     func(context.Context, string) (remote.Blobs, error) // nil: remote.Open
}

// Report is what was done, or would be.
type Report struct {
	Remote   string    `json:"remote"`
	Pushed   Count     `json:"pushed"`
	Pulled   Count     `json:"pulled"`
	Purged   int       `json:"purged"`                // sessions that other machines purged
	Renamed  string    `json:"new_machine,omitempty"` // the id that this machine took, because another one writes under the one it had
	Problems []Problem `json:"problems,omitempty"`
}

// Text tells people what travelled or, of a dry run, what would have.
func (r Report) Text(dry bool) string {
	pulled, pushed, purged := "pulled", "pushed", "purged"
	if dry {
		pulled, pushed, purged = "would pull", "would push", "would purge"
	}
	text := fmt.Sprintf("%s: %s %s; %s %s\n", r.Remote, pulled, r.Pulled.text(), pushed, r.Pushed.text())
	if r.Purged > 0 {
		text += fmt.Sprintf("%s: %s %s that another machine purged\n", r.Remote, purged, counted(int64(r.Purged), "session", "sessions"))
	}
	return text
}

func (c Count) text() string {
	return counted(int64(c.Sessions), "session", "sessions") + ", " + counted(c.Entries, "entry", "entries")
}

// counted returns a number with the word for one or for several.
func counted(n int64, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, several)
}

// Count is how much went one way.
type Count struct {
	Sessions int   `json:"sessions"`
	Entries  int64 `json:"entries"`
	Bytes    int64 `json:"bytes"`
}

// Problem is a session or machine that could not be dealt with, and why. Whatever
// Waits is tried again by the next run; the rest is a fault of the remote.
type Problem struct {
	Session tidemark.SessionID `json:"session,omitempty"`
	Machine string             `json:"machine,omitempty"`
	What    string             `json:"what"`
	Waits   bool               `json:"waits,omitempty"`
}

func (p Problem) String() string {
	switch {
	case p.Session != "" && p.Machine != "":
		return fmt.Sprintf("session %.8s of %s: %s", p.Session, p.Machine, p.What)
	case p.Session != "":
		return fmt.Sprintf("session %.8s: %s", p.Session, p.What)
	case p.Machine != "":
		return fmt.Sprintf("machine %s: %s", p.Machine, p.What)
	}
	return p.What
}

// Faults counts the problems that are faults of the remote.
func (r *Report) Faults() (n int) {
	for _, p := range r.Problems {
		n += btoi(!p.Waits)
	}
	return n
}

// syncer is one run with one remote.
type syncer struct {
	s       *store.Store
	k       *records.Kernel
	o       Options
	remotes *Remotes
	me      thisMachine
	c       *settings
	blobs   remote.Blobs
	ring    *seal.Ring
	report  *Report

	inProject func(path string) bool // is the one that is selected
	machines  map[string]bool        // that have a head
	states    map[int]*shardState    // that were loaded
	renamed   bool                   // this machine was called something else at the remote
	anew      bool                   // nothing of this machine is at the remote, whatever it remembers
	past      *past                  // what pastOf returned last
	head      *head                  // of this machine
	published map[int]string         // the shards that it named when the run began
	claimed   bool                   // it is newer than any backup
	refused   error                  // why it cannot be made so
	out       *outgoing
	in        *incoming // nil: nothing is fetched ahead
}

// Run pushes to a remote, pulls from it, or both; "" means the only remote. Each
// session is whole in itself: killed at any moment, the next run goes on.
//
// ErrNotFound: there is no such remote, or its place is not there. ErrHeld: another
// run is under way. What is wrong with single sessions or machines is in the Report.
func Run(ctx context.Context, s *store.Store, name string, o Options) (report Report, err error) {
	y := &syncer{s: s, k: s.Records(), o: o, remotes: Of(s.Records(), o.Host, o.Places), report: &report,
		inProject: inProject(ctx, s, o.Project), machines: make(map[string]bool), states: make(map[int]*shardState), out: &outgoing{under: remote.NewFlight()}}
	if y.o.open == nil {
		y.o.open = func(ctx context.Context, url string) (remote.Blobs, error) { return remote.Open(ctx, url, o.Places) }
	}
	if y.o.Progress == nil {
		y.o.Progress = func(int, string) {}
	}
	if y.c, err = y.remotes.load(ctx, name); err != nil {
		return report, err
	}
	report.Remote = y.c.Name
	release, err := y.lock(ctx)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, release()) }()
	// It may have been changed before the lock was there.
	if y.c, err = y.remotes.load(ctx, y.c.Name); err != nil {
		return report, err
	}
	called := y.c.Machine
	if y.me, err = y.remotes.machineAt(ctx, y.c); err != nil {
		return report, err
	}
	y.renamed = called != "" && y.me.ID != called
	if y.me.ID != called && !o.DryRun { // before anything is named by it
		if err := y.remotes.save(ctx, y.c); err != nil {
			return report, err
		}
	}
	if y.blobs, err = y.o.open(ctx, y.c.URL); err != nil {
		return report, y.c.named(err)
	}
	y.blobs = y.c.naming(y.blobs)
	defer y.blobs.Close()
	defer y.out.arrived() // whatever the run says of it: nothing is under way when the place is closed
	return report, y.run(ctx)
}

func (y *syncer) run(ctx context.Context) (err error) {
	if y.ring, err = y.c.openRing(ctx, y.blobs); err != nil {
		return err
	}
	own, err := y.ownHead(ctx)
	if err != nil {
		return err
	}
	y.begin(own)
	heads, err := y.heads(ctx)
	if err != nil {
		return err
	}
	if y.c.Again && y.o.Push {
		y.anew, y.c.Again = true, y.o.DryRun
		own.Shards = make(map[int]string)
	}
	if y.anew {
		if err := y.disbelieve(ctx); err != nil {
			return err
		}
	}
	if y.c.Own.Generation == 0 && !y.o.DryRun {
		if err := y.recognise(ctx, heads); err != nil {
			return err
		}
	}
	if y.o.check != nil {
		if err := y.check(ctx, own, heads); err != nil {
			return err
		}
	}
	if y.o.Pull {
		if err := y.pull(ctx, heads); err != nil {
			return err
		}
	}
	if y.o.Push {
		if err := y.push(ctx, own); err != nil {
			return err
		}
	}
	if y.o.DryRun {
		return nil
	}
	y.advise(ctx)
	if y.report.Faults() == 0 {
		y.c.MetAt = y.k.Clock()
	}
	if err := y.saveStates(ctx); err != nil {
		return err
	}
	if err := y.remotes.save(ctx, y.c); err != nil {
		return err
	}
	return y.remotes.noteMachines(ctx, y.c)
}

// disbelieve forgets that what is said about sessions is kept at the remote: it may
// have been this machine that kept it.
func (y *syncer) disbelieve(ctx context.Context) error {
	for n := range shards {
		all, err := y.shardState(ctx, n)
		if err != nil {
			return err
		}
		for _, st := range all.Sessions {
			st.Known, all.changed = "", true
		}
	}
	return nil
}

// lock makes this the only run with any remote of the store: two would give names to
// the same entries.
func (y *syncer) lock(ctx context.Context) (release func() error, err error) {
	l, b, err := y.k.Take(ctx, machineKey, y.o.Holder)
	if err == nil {
		_, err = y.k.Commit(ctx, b)
	}
	var held *records.HeldError
	switch {
	case errors.As(err, &held):
		return nil, tidemark.Errorf(tidemark.ErrHeld, "%s is syncing this store already", held.Lease.Holder)
	case errors.Is(err, tidemark.ErrConflict):
		return nil, tidemark.Errorf(tidemark.ErrHeld, "another sync of this store began at the same moment")
	case err != nil:
		return nil, err
	}
	h := y.k.Hold(l)
	beating, stop := context.WithCancel(ctx)
	go h.KeepAlive(beating, func() {}, func(err error) bool { return errors.Is(err, tidemark.ErrConflict) })
	return func() error {
		stop()
		return h.Close(context.WithoutCancel(ctx))
	}, nil
}

func (y *syncer) problem(p Problem) { y.report.Problems = append(y.report.Problems, p) }

// ownHead returns the head of this machine as it is at the remote. If another store
// has written it, such as the one of which this is a backup, this one takes another
// id, and what is there is another machine's.
func (y *syncer) ownHead(ctx context.Context) (*head, error) {
	first := !y.renamed && y.c.Own.Generation == 0 && y.c.Pending == nil // it never pushed anything
	data, err := y.blobs.Get(ctx, headName(y.me.ID))
	if isAbsent(err) {
		if y.c.Own.Generation > 0 {
			y.problem(Problem{Machine: y.me.Name, What: "what this machine had pushed is not there any more; it is pushed again"})
		}
		h := y.again()
		y.anew = !first
		return h, nil
	}
	if err != nil {
		return nil, err
	}
	hash := hashOf(data)
	if hash != y.c.Own.Hash && (y.c.Pending == nil || hash != y.c.Pending.Hash) {
		h, err := y.openHead(y.me.ID, data)
		if err == nil && h.Generation > y.c.Own.Generation {
			return y.takeNewID(ctx)
		}
		// It is older than what this machine wrote, or nobody's.
		y.problem(Problem{Machine: y.me.Name, What: "what this machine had pushed was changed or put back there; it is pushed again"})
		return y.again(), nil
	}
	h, err := y.openHead(y.me.ID, data)
	if err != nil || y.c.Pending == nil || hash != y.c.Pending.Hash {
		return h, err
	}
	y.c.Own, y.c.Pending = *y.c.Pending, nil
	return h, y.remember(ctx, h)
}

// again returns a head that names nothing, of a machine that pushes everything once
// more. It is newer than any that others may have seen, also than one that was about
// to be written when an earlier run ended.
func (y *syncer) again() *head {
	h := &head{Format: format, Machine: y.me.ID, Name: y.me.Name, Generation: y.c.Own.Generation, Shards: make(map[int]string)}
	if y.c.Pending != nil {
		h.Generation = max(h.Generation, y.c.Pending.Generation)
	}
	y.anew = true
	return h
}

// remember notes the sessions that this machine keeps at the remote, after a run that
// ended before it could: a purge of one of them has to be told there.
func (y *syncer) remember(ctx context.Context, own *head) error {
	for n, hash := range own.Shards {
		list, err := y.getShard(ctx, y.me.ID, n, hash)
		if ctx.Err() != nil || errors.Is(err, tidemark.ErrStorage) {
			return err
		}
		if err != nil {
			continue // the push finds out, and says so
		}
		for _, k := range list.Sessions {
			st, all, err := y.state(ctx, k.ID)
			if err != nil {
				return err
			}
			if st.Version == 0 && !k.Purged {
				st.Version, all.changed = -1, true // it was here
			}
		}
	}
	return y.saveStates(ctx)
}

// takeNewID makes this store another machine at this remote: what it had pushed under
// its old id keeps its names, and the rest gets names of the new one.
func (y *syncer) takeNewID(ctx context.Context) (*head, error) {
	if y.o.DryRun {
		return nil, tidemark.Conflictf("another store writes to the remote as this machine; a run that is no dry one takes another id")
	}
	var first thisMachine
	r, err := y.k.Get(ctx, machineKey, &first)
	if err != nil {
		return nil, err
	}
	old := y.me.ID
	if y.me.ID = newMachineID(); first.ID == old {
		if y.me, err = y.remotes.rename(ctx, r.Version); err != nil {
			return nil, err
		}
	}
	y.c.Machine, y.c.Own, y.c.Pending = y.me.ID, point{}, nil
	if err := y.remotes.save(ctx, y.c); err != nil {
		return nil, err
	}
	err = y.remotes.changeMachines(ctx, func(m *store.Machines) {
		m.Others = slices.DeleteFunc(m.Others, func(id string) bool { return id == old })
	})
	if err != nil {
		return nil, err
	}
	y.report.Renamed = y.me.ID
	return y.again(), nil
}

func (y *syncer) openHead(machine string, data []byte) (*head, error) {
	plain, err := y.ring.Open(sealedHead(machine), data)
	if err != nil {
		return nil, err
	}
	var h head
	if err := decode(plain, &h); err != nil {
		return nil, err
	}
	if h.Shards == nil {
		h.Shards = make(map[int]string)
	}
	return &h, h.check(machine)
}

// heads returns the heads of the other machines that can be believed. Those that
// cannot are problems.
func (y *syncer) heads(ctx context.Context) (map[string]*head, error) {
	heads := make(map[string]*head)
	for name, err := range y.blobs.List(ctx, "machines/") {
		if err != nil {
			return nil, err
		}
		id := strings.TrimPrefix(name, "machines/")
		if !isMachine(id) || id == y.me.ID {
			continue
		}
		h, hash, err := y.readHead(ctx, id)
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, tidemark.ErrStorage) {
				return nil, err
			}
			y.problem(Problem{Machine: y.nameOfMachine(id), What: "its head: " + err.Error(), Waits: isAbsent(err) && y.c.Peers[id] == nil})
			continue
		}
		known := y.c.Peers[id]
		if known != nil && h.Generation < known.Generation || known != nil && h.Generation == known.Generation && hash != known.Hash {
			y.problem(Problem{Machine: h.Name, What: fmt.Sprintf("the remote shows an older state than this machine has seen (%d, not %d)", h.Generation, known.Generation)})
			continue
		}
		if known == nil {
			known = &peer{}
			if y.c.Peers == nil {
				y.c.Peers = make(map[string]*peer)
			}
			y.c.Peers[id] = known
		}
		if known.Shards == nil {
			known.Shards = make(map[int]string)
		}
		known.Name, known.At, known.point = h.Name, h.At, point{h.Generation, hash}
		heads[id], y.machines[id] = h, true
	}
	for id, p := range y.c.Peers {
		if !y.machines[id] && !slices.ContainsFunc(y.report.Problems, func(q Problem) bool { return q.Machine == p.Name }) && id != y.me.ID {
			y.problem(Problem{Machine: p.Name, What: "what it had pushed is not at the remote any more"})
		}
	}
	return heads, nil
}

func (y *syncer) readHead(ctx context.Context, id string) (*head, string, error) {
	data, err := y.blobs.Get(ctx, headName(id))
	if err != nil {
		return nil, "", err
	}
	h, err := y.openHead(id, data)
	return h, hashOf(data), err
}

func (y *syncer) nameOfMachine(id string) string {
	if p := y.c.Peers[id]; p != nil {
		return cmp.Or(p.Name, id)
	}
	return id
}

// get returns a blob of a machine that has this hash: ErrCorrupt when it is another.
func (y *syncer) get(ctx context.Context, machine, hash string) (data []byte, err error) {
	name, ok := blobName(machine, hash), false
	if y.in != nil {
		data, ok, err = y.in.take(name)
	}
	if !ok {
		data, err = y.blobs.Get(ctx, name)
	}
	if err != nil {
		return nil, err
	}
	if hashOf(data) != hash {
		return nil, corruptf("blob %.8s is not what its writer put there, or not all of it", hash)
	}
	return data, nil
}

// put keeps a blob of this machine under its hash. It is there when y.out says so.
func (y *syncer) put(ctx context.Context, data []byte) (hash string, err error) {
	hash = hashOf(data)
	if y.o.DryRun {
		return hash, nil
	}
	y.report.Pushed.Bytes += int64(len(data))
	name := blobName(y.me.ID, hash)
	return hash, y.out.send(ctx, int64(len(data)), func() error {
		err := y.blobs.PutNew(ctx, name, data)
		if errors.Is(err, tidemark.ErrExists) { // half of it
			err = y.blobs.Replace(ctx, name, data)
		}
		return err
	})
}

func (y *syncer) getShard(ctx context.Context, machine string, n int, hash string) (*shard, error) {
	data, err := y.get(ctx, machine, hash)
	if err == nil {
		data, err = y.ring.Open(sealedShard(machine, n), data)
	}
	var s shard
	if err == nil {
		err = decode(data, &s)
	}
	if err == nil {
		err = s.check(n)
	}
	return &s, err
}

// selects reports whether the options include a session with these tags.
func (y *syncer) selects(project string, tags []string) bool {
	return !slices.Contains(tags, Private) && (y.o.Project == "" || y.inProject(project)) && (y.o.Tag == "" || slices.Contains(tags, y.o.Tag))
}

// inProject returns a function that reports whether a path is that of a project, also
// if the project was moved; it remembers what it found.
func inProject(ctx context.Context, s *store.Store, project string) func(path string) bool {
	known := map[string]bool{project: true, "": project == ""}
	return func(path string) bool {
		is, ok := known[path]
		if !ok {
			is, _ = s.SameProject(ctx, project, path) // what cannot be told is not selected
			known[path] = is
		}
		return is
	}
}
