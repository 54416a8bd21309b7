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

// A running job takes a lane of its agent and, if the fleet has a limit, one of
// the fleet. A lane is a record: the commit that starts the job makes it, the one
// that ends the job removes it. A limit of n means n lanes, numbered from 0, and
// two starts conflict only if they want the same lane. Without a limit the lane
// has the name of the job, and starts never conflict.
//
// Earlier releases kept one list of running jobs for each agent and one for the
// fleet, which every start and every end replaced: the legacy slots. Jobs in
// these lists are counted, and are interrupted when their owner is dead.

// ErrBusy means that the limits allow no more running jobs.
var ErrBusy = errors.New("as many jobs run as are allowed")

// ErrNobody means that no live daemon has the agent of a job.
var ErrNobody = errors.New("no fleet that is up has its agent")

// SlotLimits bound how many jobs run at once; 0: no limit.
type SlotLimits struct {
	Agent int
	Fleet int
}

// fleetGroup is the group of the fleet's lanes, those of an agent being grouped
// under its name. No agent can have this name.
const fleetGroup = "-"

// lane is the body of its record.
type lane struct {
	Job string `json:"job"`
}

// takenLane is a lane that a running job takes. A lane whose record is damaged is
// taken, too, though its job is unknown.
type takenLane struct {
	tidemark.Precondition
	group string // the agent, or fleetGroup
	name  string
	job   string
	at    time.Time
}

func laneKey(group, name string) tidemark.Key {
	return tidemark.Key{Kind: kindLane, ID: group + "." + name}
}

// lanes lists the taken lanes of a group, or of all groups if group is "", the one
// that was taken first at the beginning.
func (s *Store) lanes(ctx context.Context, group string) ([]takenLane, error) {
	var all []takenLane
	for r, err := range s.k.Backend().List(ctx, tidemark.Query{Kind: kindLane, Group: group, Order: tidemark.ByID}) {
		if err != nil && !errors.Is(err, tidemark.ErrCorrupt) {
			return nil, err
		}
		at := strings.LastIndexByte(r.ID, '.')
		if at < 0 {
			continue // not a key of ours
		}
		t := takenLane{Precondition: tidemark.Precondition{Key: r.Key, Version: r.Version}, group: r.ID[:at], name: r.ID[at+1:], at: r.UpdatedAt}
		var body lane
		if err == nil && records.Decode(r, &body) == nil {
			t.job = body.Job
		}
		all = append(all, t)
	}
	slices.SortStableFunc(all, func(a, b takenLane) int { return a.at.Compare(b.at) })
	return all, nil
}

// legacySlots are the jobs that a process of an earlier release runs, of one
// agent or of the whole fleet.
type legacySlots struct {
	Running []string `json:"running"`
}

func legacySlotsKey(group string) tidemark.Key { return tidemark.Key{Kind: kindSlots, ID: group} }

// legacyRunning returns the jobs that processes of earlier releases run.
func (s *Store) legacyRunning(ctx context.Context, group string) ([]string, error) {
	var have legacySlots
	_, err := s.k.Get(ctx, legacySlotsKey(group), &have)
	return have.Running, err
}

// takeLanes adds to a batch the lanes that a job takes: ErrBusy when none is free.
// It returns them as what has to be removed when the job ends.
func (s *Store) takeLanes(ctx context.Context, b *tidemark.Batch, j tidemark.Job, limits SlotLimits) ([]tidemark.Precondition, error) {
	group := j.Agent
	if limits.Fleet > 0 {
		group = "" // the limit of the fleet counts the jobs of all agents
	}
	all, err := s.lanes(ctx, group)
	if err != nil {
		return nil, err
	}
	legacy, err := s.legacyRunning(ctx, j.Agent)
	if err != nil {
		return nil, err
	}
	names := []string{freeLane(j.ID, limits.Agent, lanesOf(all, j.Agent), len(legacy))}
	groups := []string{j.Agent}
	if limits.Fleet > 0 {
		if legacy, err = s.legacyRunning(ctx, fleetGroup); err != nil {
			return nil, err
		}
		own := lanesOf(all, fleetGroup)
		names, groups = append(names, freeLane(j.ID, limits.Fleet, own, len(legacy)+countOutsideFleetLanes(all, own))), append(groups, fleetGroup)
	}
	var made []tidemark.Precondition
	for i, name := range names {
		if name == "" {
			return nil, ErrBusy
		}
		r, err := records.Put(laneKey(groups[i], name), 0, lane{Job: j.ID})
		if err != nil {
			return nil, err
		}
		r.Group = groups[i]
		b.Puts = append(b.Puts, r)
		made = append(made, tidemark.Precondition{Key: r.Key, Version: r.Version})
	}
	return made, nil
}

// countOutsideFleetLanes returns the number of jobs that run without a lane of the
// fleet, because they were started while the fleet had no limit.
func countOutsideFleetLanes(all, own []takenLane) (n int) {
	for _, t := range all {
		if t.group != fleetGroup && !slices.ContainsFunc(own, func(o takenLane) bool { return o.job == t.job }) {
			n++
		}
	}
	return n
}

func lanesOf(all []takenLane, group string) []takenLane {
	return slices.DeleteFunc(slices.Clone(all), func(t takenLane) bool { return t.group != group })
}

// freeLane returns a lane for a job, "" when none is free. It picks one of the
// free lanes at random, so that concurrent starts seldom conflict.
//
// Jobs outside the lanes, and those in lanes beyond the limit because the limit
// was higher before, count as well: freeLane uses only the first lanes, so few
// that the limit holds even if all of them are taken. So a start that is based on
// older data has fewer lanes to pick from, and never exceeds the limit.
func freeLane(job string, limit int, lanes []takenLane, outside int) string {
	if limit == 0 {
		return job
	}
	isTaken := make(map[int]bool)
	for _, t := range lanes {
		n, err := strconv.Atoi(t.name)
		if err != nil || n < 0 || n >= limit {
			outside++
			continue
		}
		isTaken[n] = true
	}
	usable := limit
	for above := 0; usable > 0 && usable+above+outside > limit; {
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

// lanesOfJob returns the lanes that a job takes.
func (s *Store) lanesOfJob(ctx context.Context, j tidemark.Job) ([]tidemark.Precondition, error) {
	var in []tidemark.Precondition
	for _, group := range []string{j.Agent, fleetGroup} {
		all, err := s.lanes(ctx, group)
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

// leaveLegacySlots adds to a batch what removes a job from the legacy slots.
func (s *Store) leaveLegacySlots(ctx context.Context, b *tidemark.Batch, j tidemark.Job) error {
	for _, group := range []string{j.Agent, fleetGroup} {
		var have legacySlots
		r, err := s.k.Get(ctx, legacySlotsKey(group), &have)
		if err != nil {
			return err
		}
		if !slices.Contains(have.Running, j.ID) {
			continue
		}
		have.Running = slices.DeleteFunc(have.Running, func(id string) bool { return id == j.ID })
		p, err := records.Put(legacySlotsKey(group), r.Version, have)
		if err != nil {
			return err
		}
		b.Puts = append(b.Puts, p)
	}
	return nil
}

// Running lists the running jobs of an agent, or of the whole fleet if agent is
// "", the one that started last at the end.
func (s *Store) Running(ctx context.Context, agent string) ([]string, error) {
	all, err := s.lanes(ctx, agent)
	if err != nil {
		return nil, err
	}
	running, err := s.legacyRunning(ctx, cmp.Or(agent, fleetGroup))
	for _, t := range all {
		if t.job != "" && t.group != fleetGroup {
			running = append(running, t.job)
		}
	}
	return running, err
}
