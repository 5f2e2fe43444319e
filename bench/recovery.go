package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

// roleRecover is a process with background runs that never end by themselves.
const roleRecover = "recover"

// What it says, each once.
const (
	saidMain   = "main"   // it is at the first line of its role
	saidOpened = "opened" // store and engine are open; runs may move already
	saidMoving = "moving" // the first run was entered
	saidParked = "parked" // all of them
)

// recoveryLease is how long a killed worker is taken to be alive on a store that others use too: a tenth of the engine's
// default, so that the measurement ends. On SQLite the lock of its folder is free at once.
const recoveryLease = time.Second

// recoveredRuns is how many runs are killed with their process.
const recoveredRuns = 8

// measureRecovery kills a process with background runs by SIGKILL and starts it again: from exec to the moment at which
// a run's tool is entered again. The parent's clock measures both ends.
func measureRecovery(ctx context.Context, l *lab) error {
	at, err := l.place(ctx, "recovery")
	if err != nil {
		return err
	}
	if _, err := killedOnce(ctx, at); err != nil { // the first start makes the runs
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
		starts, opens, moves = append(starts, said[saidMain]), append(opens, said[saidOpened]), append(moves, said[saidMoving])
	}
	l.report.latencies("recovery", moves)
	l.report.set("recovery", "exec_to_main_p50_us", micros(starts.at(0.5)))
	l.report.set("recovery", "exec_to_open_p50_us", micros(opens.at(0.5)))
	l.report.atMost("recovery", "p50_us", goal{sqlite: 60_000})
	l.report.atMost("recovery", "p99_us", goal{sqlite: 300_000})
	return nil
}

// killedOnce starts the process, waits until all its runs move, and kills it. It returns what was said, and how long after
// the start.
func killedOnce(ctx context.Context, at worldConfig) (map[string]time.Duration, error) {
	began := time.Now()
	c, err := startChild(ctx, play{role: roleRecover, at: at, runs: recoveredRuns})
	if err != nil {
		return nil, err
	}
	defer c.kill()
	heard := map[string]time.Duration{}
	for heard[saidParked] == 0 || heard[saidOpened] == 0 {
		var word string
		said, err := c.hear(ctx, "%s", &word)
		if err != nil {
			return nil, err
		}
		heard[word] = said.at.Sub(began)
	}
	return heard, nil
}

// playRecover parks runs where there are none yet; else the start itself takes them up.
func playRecover(ctx context.Context, at worldConfig, runs int, out io.Writer) error {
	fmt.Fprintln(out, saidMain)
	var once sync.Once
	entered := make(chan struct{}, runs) // one element a run
	at.Tools = &tools{entered: func(moment) {
		once.Do(func() { fmt.Fprintln(out, saidMoving) })
		entered <- struct{}{}
	}}
	if at.URL != "" {
		at.Lease = recoveryLease
	}
	w, err := openWorld(ctx, at)
	if err != nil {
		return err
	}
	defer w.close()
	fmt.Fprintln(out, saidOpened)
	before, err := w.Sessions(ctx, 1)
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
			return fmt.Errorf("the engine ended in the middle: %w", err)
		case <-ctx.Done():
			return nil
		}
	}
	fmt.Fprintln(out, saidParked)
	<-ctx.Done()
	return nil
}
