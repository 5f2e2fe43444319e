package main

import (
	"context"
	"fmt"
	"time"
)

// roleStandby is roleRecover with the engine's own lease.
const roleStandby = "standby"

// standbyPause is how long a process stands by before the leader is killed: it must have seen the
// leader connected.
const standbyPause = 3 * time.Second

// measureStandby kills the leader of two processes over one database: from the kill until the other
// one, which stood by, enters a run of the killed one. No lease expires in this time.
func measureStandby(ctx context.Context, l *runner) error {
	if !l.onPostgres() {
		return nil
	}
	at, err := l.databaseURL(ctx, "standby")
	if err != nil {
		return err
	}
	leads, err := startChild(ctx, roleOptions{role: roleStandby, at: at, runs: recoveredRuns})
	if err != nil {
		return err
	}
	defer func() { leads.kill() }()
	if err := leads.await(ctx, saidParked); err != nil {
		return err
	}
	var moves sample
	for round := range l.count(20, 1) {
		next, err := startChild(ctx, roleOptions{role: roleStandby, at: at, runs: recoveredRuns})
		if err != nil {
			return err
		}
		if err = next.await(ctx, saidOpened); err == nil {
			err = standBy(ctx)
		}
		var moved time.Duration
		if err == nil {
			killed := time.Now()
			leads.kill()
			leads = next
			if err = next.await(ctx, saidMoving); err == nil {
				moved = time.Since(killed)
				err = next.await(ctx, saidParked)
			}
		}
		if err != nil {
			next.kill()
			return fmt.Errorf("round %d: %w", round+1, err)
		}
		moves = append(moves, moved)
	}
	l.report.latencies("standby", moves)
	l.report.atMost("standby", "p50_us", goal{postgres: 1_000_000})
	return nil
}

// standBy waits for standbyPause.
func standBy(ctx context.Context) error {
	select {
	case <-time.After(standbyPause):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// await returns when the child has printed a word.
func (c *child) await(ctx context.Context, word string) error {
	for said := ""; said != word; {
		if _, err := c.readLines(ctx, "%s", &said); err != nil {
			return fmt.Errorf("wait for %q: %w", word, err)
		}
	}
	return nil
}
