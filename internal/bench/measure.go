package main

import (
	"context"
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
	each     float64
	p50, p99 float64 // of single operations, 0 where they were not timed one by one
}

// samples holds one sample for each repetition, by contender.
type samples map[string][]sample

// compare runs every contender once in each repetition, so that what disturbs
// the machine meanwhile disturbs all of them. Each repetition begins with
// another contender. One more, before the first, is not counted.
func (r *run) compare(ctx context.Context, contenders ...contender) (samples, error) {
	all := make(samples)
	for rep := -1; rep < r.size.reps; rep++ {
		for i := range contenders {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			c := contenders[(i+rep+1)%len(contenders)]
			runtime.GC() // nobody pays for what the one before left
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

// together lets several do an operation n times each, at the same time. The
// cost of one is the time of all divided by their number. Before the clock
// runs, ready is called when it is not nil.
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
		slices.Sort(latencies)
		at := func(share float64) float64 { return float64(latencies[int(share*float64(len(latencies)-1))]) }
		return sample{each: float64(all) / float64(len(latencies)), p50: at(0.50), p99: at(0.99)}, nil
	}
}

// spread is a median with the quartiles beside it: on a shared machine the
// lowest and the highest only tell what the neighbours did.
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
func (s samples) ratio(name, base string) spread {
	var values []float64
	for i := range s[name] {
		values = append(values, s[name][i].each/s[base][i].each)
	}
	return spreadOf(values)
}

// faster is how many times as fast as base name is.
func (s samples) faster(name, base string) spread { return s.ratio(base, name) }

func each(s sample) float64 { return s.each }
