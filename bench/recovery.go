package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

// roleRecover is a process with endless background runs.
const roleRecover = "recover"

// Its output, each line once.
const (
	saidMain   = "main"   // it is at the first line of its role
	saidOpened = "opened" // store and engine are open; runs may have started
	saidMoving = "moving" // the first run was entered
	saidParked = "parked" // all runs were entered
)

// recoveryLease is how long a killed worker counts as alive on a shared store: a tenth of the
// engine's default, to shorten the measurement. On SQLite the lock of its folder is free at once.
const recoveryLease = time.Second

// recoveredRuns is the number of runs that are killed with their process.
const recoveredRuns = 8

// measureRecovery kills a process with background runs and starts it again: from exec until a run's
// tool is entered again. The parent's clock measures both times.
func measureRecovery(ctx context.Context, l *runner) error {
	at, err := l.databaseURL(ctx, "recovery")
	if err != nil {
		return err
	}
	if _, err := killedOnce(ctx, at); err != nil { // the first start creates the runs
		return err
	}
	var starts, opens, moves sample
	rounds := l.count(40, 2)
	if l.onPostgres() {
		rounds = l.count(20, 1)
	}
	for round := range rounds {
		said, err := killedOnce(ctx, at)
		if err != nil {
			return fmt.Errorf("round %d: %w", round+1, err)
		}
		starts, opens, moves = append(starts, said[saidMain]), append(opens, said[saidOpened]),
			append(moves, said[saidMoving])
	}
	l.report.latencies("recovery", moves)
	l.report.set("recovery", "exec_to_main_p50_us", micros(starts.at(0.5)))
	l.report.set("recovery", "exec_to_open_p50_us", micros(opens.at(0.5)))
	l.report.atMost("recovery", "p50_us", goal{sqlite: 60_000})
	l.report.atMost("recovery", "p99_us", goal{sqlite: 300_000})
	return nil
}

// killedOnce starts the process, waits until all its runs were entered, and kills it. It returns
// the output, with times since the start.
func killedOnce(ctx context.Context, at engineRigConfig) (map[string]time.Duration, error) {
	began := time.Now()
	c, err := startChild(ctx, roleOptions{role: roleRecover, at: at, runs: recoveredRuns})
	if err != nil {
		return nil, err
	}
	defer c.kill()
	heard := map[string]time.Duration{}
	for heard[saidParked] == 0 || heard[saidOpened] == 0 {
		var word string
		said, err := c.readLines(ctx, "%s", &word)
		if err != nil {
			return nil, err
		}
		heard[word] = said.at.Sub(began)
	}
	return heard, nil
}

// runRecoverRole parks runs if there are none yet; otherwise the start itself recovers them.
func runRecoverRole(ctx context.Context, at engineRigConfig, runs int, out io.Writer) error {
	fmt.Fprintln(out, saidMain)
	var once sync.Once
	entered := make(chan struct{}, runs) // capacity for one element per run
	at.Tools = &tools{entered: func(moment) {
		once.Do(func() { fmt.Fprintln(out, saidMoving) })
		entered <- struct{}{}
	}}
	w, err := openEngineRig(ctx, at)
	if err != nil {
		return err
	}
	defer w.close()
	fmt.Fprintln(out, saidOpened)
	before, err := w.Sessions().List(ctx, 1)
	if err != nil {
		return err
	}
	if len(before) == 0 {
		id, err := w.session(ctx, agent(false))
		if err != nil {
			return err
		}
		if err := w.turn(ctx, id, order{tool: "spawn", all: runs, step: runs}); err != nil {
			return err
		}
	}
	for range runs {
		select {
		case <-entered:
		case err := <-w.ended:
			w.ended <- err
			return fmt.Errorf("the engine stopped early: %w", err)
		case <-ctx.Done():
			return nil
		}
	}
	fmt.Fprintln(out, saidParked)
	<-ctx.Done()
	return nil
}

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
