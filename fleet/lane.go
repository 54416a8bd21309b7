package fleet

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/internal/records"
)

// A job that runs stands in a lane of its agent and, where the fleet has a
// limit, in one of the fleet. A lane is a record that is there while the job
// runs: the commit that starts the job makes it, the one that ends the job
// removes it. A limit of n is n lanes, numbered from 0, and two jobs meet only
// when they want the same one; without a limit the lane is called after the job,
// and nobody meets.
//
// Earlier programs kept one list of the jobs that run for each agent and one for
// the fleet, which every start and every end replaced. What such a program left
// in its lists is counted, and interrupted when its owner is dead.

// ErrBusy says that as many jobs run as are allowed.
var ErrBusy = errors.New("as many jobs run as are allowed")

// ErrNobody says that no daemon which is up has the agent of a job.
var ErrNobody = errors.New("no fleet that is up has its agent")

// SlotLimits bound how many jobs run at once; 0: no limit.
type SlotLimits struct {
	Agent int
	Fleet int
}

// ofFleet is whose the lanes of the fleet are; no agent is called so.
const ofFleet = "-"

// lane is the body of its record.
type lane struct {
	Job string `json:"job"`
}

// taken is a lane in which a job runs. A lane whose record is damaged has no
// job, and is taken nevertheless.
type taken struct {
	tidemark.Precondition
	of   string // the agent, or ofFleet
	name string
	job  string
	at   time.Time
}

func laneKey(of, name string) tidemark.Key { return tidemark.Key{Kind: kindLane, ID: of + "." + name} }

// lanes lists the lanes of an agent or of the fleet in which jobs run, all when
// of is "", the one that was taken first before the others.
func (s *Store) lanes(ctx context.Context, of string) ([]taken, error) {
	var all []taken
	for r, err := range s.k.Backend().List(ctx, tidemark.Query{Kind: kindLane, Group: of, Order: tidemark.ByID}) {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return nil, err
		}
		at := strings.LastIndexByte(r.ID, '.')
		if at < 0 {
			continue // not a key of ours
		}
		t := taken{Precondition: tidemark.Precondition{Key: r.Key, Version: r.Version}, of: r.ID[:at], name: r.ID[at+1:], at: r.UpdatedAt}
		var body lane
		if err == nil && records.Decode(r, &body) == nil {
			t.job = body.Job
		}
		all = append(all, t)
	}
	slices.SortStableFunc(all, func(a, b taken) int { return a.at.Compare(b.at) })
	return all, nil
}

// slots are the jobs that an earlier program runs, of one agent or of the whole
// fleet.
type slots struct {
	Running []string `json:"running"`
}

func slotsKey(of string) tidemark.Key { return tidemark.Key{Kind: kindSlots, ID: of} }

// earlier returns the jobs that an earlier program runs.
func (s *Store) earlier(ctx context.Context, of string) ([]string, error) {
	var have slots
	_, err := s.k.Get(ctx, slotsKey(of), &have)
	return have.Running, err
}

// enter puts a job into its lanes: ErrBusy when none is free. It returns what
// has to be removed when the job ends.
func (s *Store) enter(ctx context.Context, b *tidemark.Batch, j tidemark.Job, limits SlotLimits) ([]tidemark.Precondition, error) {
	of := j.Agent
	if limits.Fleet > 0 {
		of = "" // how many run in all has to be known
	}
	all, err := s.lanes(ctx, of)
	if err != nil {
		return nil, err
	}
	before, err := s.earlier(ctx, j.Agent)
	if err != nil {
		return nil, err
	}
	names := []string{freeLane(j.ID, limits.Agent, lanesOf(all, j.Agent), len(before))}
	whose := []string{j.Agent}
	if limits.Fleet > 0 {
		if before, err = s.earlier(ctx, ofFleet); err != nil {
			return nil, err
		}
		own := lanesOf(all, ofFleet)
		names, whose = append(names, freeLane(j.ID, limits.Fleet, own, len(before)+outside(all, own))), append(whose, ofFleet)
	}
	var made []tidemark.Precondition
	for i, name := range names {
		if name == "" {
			return nil, ErrBusy
		}
		r, err := records.Put(laneKey(whose[i], name), 0, lane{Job: j.ID})
		if err != nil {
			return nil, err
		}
		r.Group = whose[i]
		b.Puts = append(b.Puts, r)
		made = append(made, tidemark.Precondition{Key: r.Key, Version: r.Version})
	}
	return made, nil
}

// outside is how many jobs run in no lane of the fleet: they were started while
// it had no limit.
func outside(all, own []taken) (n int) {
	for _, t := range all {
		if t.of != ofFleet && !slices.ContainsFunc(own, func(o taken) bool { return o.job == t.job }) {
			n++
		}
	}
	return n
}

func lanesOf(all []taken, of string) []taken {
	return slices.DeleteFunc(slices.Clone(all), func(t taken) bool { return t.of != of })
}

// freeLane returns a lane for a job, "" when none is free. Which of the free ones it
// is is left to chance, so that those who pick at the same time seldom meet.
//
// Jobs that run beside the lanes, and in lanes that an earlier and greater limit
// had, take away from what may be picked: the lanes that may be are the first
// ones, as many as there would be if all of them were taken. So whoever picks
// from an older look has fewer to choose from, and never one too many.
func freeLane(job string, limit int, lanes []taken, beside int) string {
	if limit == 0 {
		return job
	}
	isTaken := make(map[int]bool)
	for _, t := range lanes {
		n, err := strconv.Atoi(t.name)
		if err != nil || n < 0 || n >= limit {
			beside++
			continue
		}
		isTaken[n] = true
	}
	usable := limit
	for above := 0; usable > 0 && usable+above+beside > limit; {
		usable--
		if isTaken[usable] {
			above++
		}
	}
	var free []int
	for n := range usable {
		if !isTaken[n] {
			free = append(free, n)
		}
	}
	if len(free) == 0 {
		return ""
	}
	return strconv.Itoa(free[rand.IntN(len(free))])
}

// standsIn finds the lanes of a job.
func (s *Store) standsIn(ctx context.Context, j tidemark.Job) ([]tidemark.Precondition, error) {
	var in []tidemark.Precondition
	for _, of := range []string{j.Agent, ofFleet} {
		all, err := s.lanes(ctx, of)
		if err != nil {
			return nil, err
		}
		for _, t := range all {
			if t.job == j.ID {
				in = append(in, t.Precondition)
			}
		}
	}
	return in, nil
}

// leaveEarlier takes a job out of the lists of an earlier program.
func (s *Store) leaveEarlier(ctx context.Context, b *tidemark.Batch, j tidemark.Job) error {
	for _, of := range []string{j.Agent, ofFleet} {
		var have slots
		r, err := s.k.Get(ctx, slotsKey(of), &have)
		if err != nil {
			return err
		}
		if !slices.Contains(have.Running, j.ID) {
			continue
		}
		have.Running = slices.DeleteFunc(have.Running, func(id string) bool { return id == j.ID })
		p, err := records.Put(slotsKey(of), r.Version, have)
		if err != nil {
			return err
		}
		b.Puts = append(b.Puts, p)
	}
	return nil
}

// Running lists the jobs of an agent that run, or of the whole fleet when that
// is "", the one that started last behind the others.
func (s *Store) Running(ctx context.Context, agent string) ([]string, error) {
	all, err := s.lanes(ctx, agent)
	if err != nil {
		return nil, err
	}
	running, err := s.earlier(ctx, cmp.Or(agent, ofFleet))
	for _, t := range all {
		if t.job != "" && t.of != ofFleet {
			running = append(running, t.job)
		}
	}
	return running, err
}
