package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// groupWriters is the number of concurrent writers to the floor.
const groupWriters = 64

// measureDisk measures the disk and the database without Perdure: a sync, a commit of one row, and
// commits that many writers share.
func measureDisk(ctx context.Context, l *runner) error {
	f, err := l.floor(ctx)
	if err != nil {
		return err
	}
	defer f.close()
	var syncs, commits sample
	var commitRates, groupRates []float64
	for range l.count(5, 1) {
		if !l.onPostgres() { // the disk is the same
			s, err := l.syncs(l.count(200, 5))
			if err != nil {
				return err
			}
			syncs = append(syncs, s...)
		}
		s, err := bareCommits(f, l.count(200, 5))
		if err != nil {
			return err
		}
		commits, commitRates = append(commits, s...), append(commitRates, rateOf(s))
		rate, err := groupCommits(ctx, f, l.count(100, 3))
		if err != nil {
			return err
		}
		groupRates = append(groupRates, rate)
	}
	if !l.onPostgres() {
		l.report.latencies("floor_fsync", syncs)
	}
	l.report.latencies("floor_commit", commits)
	l.report.set("floor_commit", "commits_per_s", median(commitRates))
	l.report.rates("floor_group_commit_64", "rows_per_s", groupRates)
	return nil
}

// rateOf returns the rate of a sequential sample per second.
func rateOf(s sample) float64 {
	var all time.Duration
	for _, d := range s {
		all += d
	}
	return perSecond(len(s), all)
}

// syncs writes blocks of 4 KiB and syncs each.
func (l *runner) syncs(n int) (sample, error) {
	path := filepath.Join(l.root, "sync")
	file, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("sync: %w", err)
	}
	defer func() { _ = os.Remove(path) }() // the folder is removed at the end anyway
	defer file.Close()
	block := make([]byte, 4096)
	var s sample
	for i := range n {
		block[0] = byte(i)
		began := time.Now()
		if _, err := file.Write(block); err != nil {
			return nil, fmt.Errorf("sync: %w", err)
		}
		if err := syncFile(file); err != nil {
			return nil, fmt.Errorf("sync: %w", err)
		}
		s = append(s, time.Since(began))
	}
	return s, nil
}

// bareCommits writes rows, each in a separate commit.
func bareCommits(f floor, n int) (sample, error) {
	row, apply := bareNote(), f.alone()
	var s sample
	for range n {
		began := time.Now()
		if err := apply(row); err != nil {
			return nil, fmt.Errorf("bare commit: %w", err)
		}
		s = append(s, time.Since(began))
	}
	return s, nil
}

// bareNote writes one row of a few hundred bytes.
func bareNote() write {
	body := bareBody("note", "1")
	return func(l *bareLine) error { return l.exec(floorNote, body) }
}

// groupCommits lets many writers commit rows concurrently, each waiting for its commit, and returns
// rows per second.
func groupCommits(ctx context.Context, f floor, each int) (float64, error) {
	places, err := f.callers(ctx, groupWriters)
	if err != nil {
		return 0, err
	}
	took, err := maxConcurrent(groupWriters, func(worker int) error {
		row := bareNote()
		for range each {
			if err := places[worker](row); err != nil {
				return err
			}
		}
		return nil
	})
	return perSecond(groupWriters*each, took.wall), err
}
