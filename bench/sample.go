package main

import (
	"errors"
	"slices"
	"sync"
	"time"
)

// sample is a set of durations.
type sample []time.Duration

// at returns the duration that a part p of the sample does not exceed, by the nearest rank. The empty sample has 0.
func (s sample) at(p float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	rank := int(p*float64(len(sorted))+0.999999) - 1
	return sorted[min(max(rank, 0), len(sorted)-1)]
}

// micros is a duration in microseconds, with a fraction.
func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// median returns the middle of the values, or the mean of the two in the middle. No values have 0.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

// perSecond is a rate.
func perSecond(n int, d time.Duration) float64 { return float64(n) / max(d, 1).Seconds() }

// spent is the time that some work took: on the clock of the wall, and on the cores of this process.
type spent struct{ wall, cpu time.Duration }

// together runs n workers at once and says what that took until the last one was done.
func together(n int, work func(worker int) error) (spent, error) {
	var group sync.WaitGroup
	errs := make([]error, n)
	began, busy := time.Now(), cpuTime()
	for i := range n {
		group.Go(func() { errs[i] = work(i) })
	}
	group.Wait()
	return spent{wall: time.Since(began), cpu: cpuTime() - busy}, errors.Join(errs...)
}

// throughput is the rounds of one kind of call.
type throughput struct{ perSecond, cpuMicros []float64 }

// add notes a round of n calls.
func (t *throughput) add(n int, took spent) {
	t.perSecond = append(t.perSecond, perSecond(n, took.wall))
	t.cpuMicros = append(t.cpuMicros, micros(took.cpu)/float64(n))
}
