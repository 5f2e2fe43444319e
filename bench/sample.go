package main

import (
	"errors"
	"slices"
	"sync"
	"time"
)

// sample is a set of durations.
type sample []time.Duration

// at returns the duration that a fraction p of the sample does not exceed, by nearest rank. An
// empty sample yields 0.
func (s sample) at(p float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	rank := int(p*float64(len(sorted))+0.999999) - 1
	return sorted[min(max(rank, 0), len(sorted)-1)]
}

// micros converts a duration to microseconds.
func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// median returns the middle value, or the mean of the two middle values. It returns 0 for no
// values.
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

// perSecond returns a rate.
func perSecond(n int, d time.Duration) float64 { return float64(n) / max(d, 1).Seconds() }

// cpuTimes is the duration of some work: wall time, and CPU time of this process.
type cpuTimes struct{ wall, cpu time.Duration }

// maxConcurrent runs n workers concurrently and returns the time until the last one is done.
func maxConcurrent(n int, work func(worker int) error) (cpuTimes, error) {
	var group sync.WaitGroup
	errs := make([]error, n)
	began, busy := time.Now(), cpuTime()
	for i := range n {
		group.Go(func() { errs[i] = work(i) })
	}
	group.Wait()
	return cpuTimes{wall: time.Since(began), cpu: cpuTime() - busy}, errors.Join(errs...)
}

// throughput contains the rounds of one kind of call.
type throughput struct{ perSecond, cpuMicros []float64 }

// add adds a round of n calls.
func (t *throughput) add(n int, took cpuTimes) {
	t.perSecond = append(t.perSecond, perSecond(n, took.wall))
	t.cpuMicros = append(t.cpuMicros, micros(took.cpu)/float64(n))
}
