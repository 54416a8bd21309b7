package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"
)

// contender is one of the ways to do the same work.
type contender struct {
	name string
	run  func() (sample, error)
}

// sample is what one repetition cost, in nanoseconds for one operation.
type sample struct {
	each          float64
	p50, p95, p99 float64 // of single operations, 0 where they were not timed one by one
}

// samples holds one sample for each repetition, by contender.
type samples map[string][]sample

// compare runs every contender once in each repetition, so that disturbances
// of the machine affect all of them. Each repetition begins with another
// contender. One more, before the first, is not counted.
func (r *run) compare(ctx context.Context, contenders ...contender) (samples, error) {
	return r.compareTimes(ctx, r.size.reps, contenders...)
}

// compareTimes is compare with another number of repetitions.
func (r *run) compareTimes(ctx context.Context, reps int, contenders ...contender) (samples, error) {
	all := make(samples)
	for rep := -1; rep < reps; rep++ {
		for i := range contenders {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			c := contenders[(i+rep+1)%len(contenders)]
			runtime.GC() // nobody pays for the garbage of the one before
			s, err := c.run()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			if rep >= 0 {
				all[c.name] = append(all[c.name], s)
			}
		}
	}
	return all, nil
}

// inTurns is compare for differences of a few percent: the contenders take
// turns operation by operation, n of each in a repetition. ready is called
// before each repetition.
func (r *run) inTurns(ctx context.Context, n int, ready func() error, names []string, ops ...func() error) (samples, error) {
	all := make(samples)
	for rep := -1; rep < r.size.reps; rep++ {
		runtime.GC()
		if err := errors.Join(ctx.Err(), ready()); err != nil {
			return nil, err
		}
		latencies := make([][]time.Duration, len(ops))
		total := make([]time.Duration, len(ops))
		for turn := range n * len(ops) {
			i := (turn + turn/len(ops)) % len(ops) // each round begins with another
			begin := time.Now()
			if err := ops[i](); err != nil {
				return nil, fmt.Errorf("%s: %w", names[i], err)
			}
			took := time.Since(begin)
			latencies[i], total[i] = append(latencies[i], took), total[i]+took
		}
		for i, name := range names {
			if rep >= 0 {
				all[name] = append(all[name], sampleOf(total[i], latencies[i]))
			}
		}
	}
	return all, nil
}

// times does an operation n times, one after the other.
func times(n int, op func() error) func() (sample, error) {
	return func() (sample, error) {
		begin := time.Now()
		for range n {
			if err := op(); err != nil {
				return sample{}, err
			}
		}
		return sample{each: float64(time.Since(begin)) / float64(n)}, nil
	}
}

// together lets several doers do an operation n times each, concurrently.
// The cost of one is the time of all divided by their number. ready, unless
// nil, is called before the clock starts.
func together(doers, n int, ready, op func(doer int) error) func() (sample, error) {
	return func() (sample, error) {
		for d := range doers {
			if ready == nil {
				break
			}
			if err := ready(d); err != nil {
				return sample{}, err
			}
		}
		var (
			gate      = make(chan struct{})
			wait      sync.WaitGroup
			latencies = make([]time.Duration, doers*n)
			errs      = make([]error, doers)
		)
		for d := range doers {
			wait.Go(func() {
				<-gate
				for i := range n {
					begin := time.Now()
					if errs[d] = op(d); errs[d] != nil {
						return
					}
					latencies[d*n+i] = time.Since(begin)
				}
			})
		}
		begin := time.Now()
		close(gate)
		wait.Wait()
		all := time.Since(begin)
		for _, err := range errs {
			if err != nil {
				return sample{}, err
			}
		}
		return sampleOf(all, latencies), nil
	}
}

// oneByOne does an operation n times, one after the other, and times each.
func oneByOne(n int, op func() error) func() (sample, error) {
	return together(1, n, nil, func(int) error { return op() })
}

// sampleOf is the cost of single operations that took all together.
func sampleOf(all time.Duration, latencies []time.Duration) sample {
	slices.Sort(latencies)
	at := func(share float64) float64 { return float64(latencies[int(share*float64(len(latencies)-1))]) }
	return sample{each: float64(all) / float64(len(latencies)), p50: at(0.50), p95: at(0.95), p99: at(0.99)}
}

// spread is a median with its quartiles: on a shared machine the lowest
// and the highest only show what the neighbours did.
type spread struct{ median, low, high float64 }

func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	s := slices.Sorted(slices.Values(values))
	at := func(share float64) float64 {
		place := share * float64(len(s)-1)
		below := int(place)
		above := min(below+1, len(s)-1)
		return s[below] + (s[above]-s[below])*(place-float64(below))
	}
	return spread{at(0.5), at(0.25), at(0.75)}
}

func (s spread) times(f float64) spread { return spread{s.median * f, s.low * f, s.high * f} }

// of collects one figure of a contender's samples.
func (s samples) of(name string, figure func(sample) float64) spread {
	var values []float64
	for _, one := range s[name] {
		values = append(values, figure(one))
	}
	return spreadOf(values)
}

func (s samples) time(name string) spread { return s.of(name, each) }

// ratio is how many times as much as base name costs, repetition by
// repetition.
func (s samples) ratio(name, base string) spread { return s.ratioOf(name, base, each) }

// ratioOf is the ratio of another figure.
func (s samples) ratioOf(name, base string, figure func(sample) float64) spread {
	var values []float64
	for i := range s[name] {
		values = append(values, figure(s[name][i])/figure(s[base][i]))
	}
	return spreadOf(values)
}

// faster is how many times as fast as base name is.
func (s samples) faster(name, base string) spread { return s.ratio(base, name) }

func each(s sample) float64 { return s.each }
func p50(s sample) float64  { return s.p50 }
func p95(s sample) float64  { return s.p95 }
