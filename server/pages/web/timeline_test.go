package web

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemark-sessions/tidemark"
)

var noon = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

func drawn(agent, status string, start, end time.Duration) JobItem {
	j := JobItem{Job: tidemark.Job{ID: "job-" + agent + status, Agent: agent, Status: status, StartedAt: noon.Add(start)}}
	if status != tidemark.JobRunning {
		j.FinishedAt = noon.Add(end)
	}
	return j
}

func byAgent(j JobItem) string { return j.Agent }

func TestEachAgentHasALaneAndWhatRunsIsOpenEnded(t *testing.T) {
	got := NewTimeline([]JobItem{drawn("b", tidemark.JobRunning, -30*time.Minute, 0), drawn("a", tidemark.JobCompleted, -50*time.Minute, -20*time.Minute),
		drawn("a", tidemark.JobFailed, -3*time.Hour, -2*time.Hour)}, noon.Add(-time.Hour), noon, byAgent)
	if len(got.Lanes) != 2 || got.Lanes[0].Name != "a" || got.Lanes[1].Name != "b" || len(got.Lanes[0].Bars) != 1 {
		t.Fatalf("lanes %+v; want a with one bar, since the other ended before, and b", got.Lanes)
	}
	if strings.Contains(got.Lanes[0].Bars[0].Path, "L") || !strings.Contains(got.Lanes[1].Bars[0].Path, "L") {
		t.Errorf("only what runs has a tip: %q %q", got.Lanes[0].Bars[0].Path, got.Lanes[1].Bars[0].Path)
	}
	if len(got.Ticks) != 6 || got.Ticks[0].Label != "11:10" {
		t.Errorf("ticks %+v", got.Ticks)
	}
}

func TestJobsAtTheSameTimeDoNotCoverEachOther(t *testing.T) {
	got := NewTimeline([]JobItem{drawn("a", tidemark.JobCompleted, -50*time.Minute, -20*time.Minute), drawn("a", tidemark.JobFailed, -40*time.Minute, -30*time.Minute)},
		noon.Add(-time.Hour), noon, byAgent)
	bars := got.Lanes[0].Bars
	if len(bars) != 2 || bars[0].Y == bars[1].Y {
		t.Errorf("bars %+v", bars)
	}
}

// Whatever the times of jobs are, the picture has a size and every job its bar.
func TestAnyJobsMakeAPicture(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		statuses := []string{tidemark.JobPending, tidemark.JobRunning, tidemark.JobCompleted, tidemark.JobFailed, "strange"}
		var jobs []JobItem
		for range rapid.IntRange(0, 40).Draw(t, "jobs") {
			start := time.Duration(rapid.Int64Range(-int64(100*time.Hour), int64(time.Hour)).Draw(t, "start"))
			jobs = append(jobs, drawn(rapid.SampledFrom([]string{"a", "b", ""}).Draw(t, "agent"), rapid.SampledFrom(statuses).Draw(t, "status"), start,
				start+time.Duration(rapid.Int64Range(-int64(time.Hour), int64(9*time.Hour)).Draw(t, "took"))))
		}
		got := NewTimeline(jobs, noon.Add(-6*time.Hour), noon, byAgent)
		want := 0
		for _, j := range jobs {
			if !endOf(j, noon).Before(got.From) {
				want++
			}
		}
		bars := 0
		for _, l := range got.Lanes {
			for _, b := range l.Bars {
				bars += b.Count
			}
		}
		if bars != want || got.Height < lineTop || got.Height > lineTop+3*(laneHead+mostRows*(barHeight+barGap)+barGap) || len(got.Ticks) > mostTicks+1 {
			t.Fatalf("%d bars of %d, height %d, %d ticks", bars, want, got.Height, len(got.Ticks))
		}
	})
}

func TestACrowdOfShortJobsSharesABar(t *testing.T) {
	var jobs []JobItem
	for i := range 90 {
		start := -2*time.Hour + time.Duration(i)*time.Second
		jobs = append(jobs, drawn("ticker", tidemark.JobCompleted, start, start+time.Millisecond))
	}
	jobs = append(jobs, drawn("ticker", tidemark.JobCompleted, -2*time.Hour, -time.Hour), drawn("ticker", tidemark.JobFailed, -20*time.Hour, -20*time.Hour+time.Second))
	got := NewTimeline(jobs, noon.Add(-24*time.Hour), noon, byAgent)
	var counts []int
	for _, b := range got.Lanes[0].Bars {
		counts = append(counts, b.Count)
	}
	slices.Sort(counts)
	// The long one and the one that is alone have bars of their own.
	if len(counts) > 4 || counts[0] != 1 || counts[1] != 1 || counts[len(counts)-1] < 45 || got.Height > lineTop+laneHead+4*(barHeight+barGap) {
		t.Errorf("bars of %v jobs, height %d", counts, got.Height)
	}
}

// A day of a busy fleet is a picture of bounded size in which every job is counted.
func TestThousandsOfJobsShareBars(t *testing.T) {
	for _, c := range []struct{ jobs, agents int }{{5000, 1}, {5000, 30}, {5000, 500}, {601, 3}} {
		var jobs []JobItem
		for i := range c.jobs {
			status := tidemark.JobCompleted
			if i%100 == 7 {
				status = tidemark.JobFailed
			} else if i%500 == 0 {
				status = tidemark.JobRunning
			}
			start := -24*time.Hour + time.Duration(i)*24*time.Hour/time.Duration(c.jobs)
			jobs = append(jobs, drawn("agent-"+strconv.Itoa(i%c.agents), status, start, start+time.Minute))
		}
		got := NewTimeline(jobs, noon.Add(-24*time.Hour), noon, byAgent)
		bars, counted, inLanes := 0, 0, 0
		for _, l := range got.Lanes {
			bars += len(l.Bars)
			inLanes += l.Jobs
			for _, b := range l.Bars {
				counted += b.Count
				if b.Failed > 0 && b.Job.Status != tidemark.JobFailed {
					t.Errorf("%d of %d jobs failed, and the bar says %s", b.Failed, b.Count, b.Job.Status)
				}
			}
		}
		if bars > 2*mostBars || counted != inLanes || len(got.Lanes)+got.More != c.agents || got.More == 0 && counted != c.jobs {
			t.Errorf("%d jobs of %d agents: %d bars of %d jobs, %d lanes and %d more", c.jobs, c.agents, bars, counted, len(got.Lanes), got.More)
		}
	}
}

// A bar that several jobs share leads to those that it counts, and to no other.
func TestASharedBarLeadsToTheJobsThatItCounts(t *testing.T) {
	shared := 0
	rapid.Check(t, func(t *rapid.T) {
		statuses := []string{tidemark.JobRunning, tidemark.JobCompleted, tidemark.JobFailed}
		var jobs []JobItem
		n := rapid.SampledFrom([]int{30, 700}).Draw(t, "jobs") // beyond mostBars all share bars
		for range n {
			start := -time.Duration(rapid.Int64Range(0, int64(7*time.Hour)).Draw(t, "start"))
			took := time.Duration(rapid.SampledFrom([]int64{int64(time.Second), int64(2 * time.Minute), int64(2 * time.Hour)}).Draw(t, "took"))
			jobs = append(jobs, drawn(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "agent"), rapid.SampledFrom(statuses).Draw(t, "status"), start, min(start+took, 0)))
		}
		from := noon.Add(-6 * time.Hour)
		for _, lane := range NewTimeline(slices.Clone(jobs), from, noon, byAgent).Lanes {
			for _, b := range lane.Bars {
				if b.Count == 1 {
					continue
				}
				shared++
				of, got := OfBar{From: b.Job.StartedAt, To: b.Last, Runs: b.Runs, Under: b.Under}, 0
				for _, j := range jobs {
					if j.Agent == lane.Name && !endOf(j, noon).Before(from) && of.Has(j, noon) {
						got++
					}
				}
				if got != b.Count {
					t.Fatalf("a bar counts %d jobs and leads to %d", b.Count, got)
				}
			}
		}
	})
	if shared == 0 {
		t.Error("no bar was shared")
	}
}
