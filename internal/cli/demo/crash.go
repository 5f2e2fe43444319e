// Package demo implements the demos of the command line: a server that is killed repeatedly, agents
// that share a budget, and approvals.
//
// It may import the root, budget, engine and internal/chaos. The one thing to know: no output is
// canned; every figure comes from the journal or from the external ledger.
package demo

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/chaos"
)

// The limits of a process, from its first sign of life to the kill.
const (
	minLife = 10 * time.Millisecond
	maxLife = 900 * time.Millisecond
	maxTime = 10 * time.Minute
)

// The same limits for a demo that a person follows in a browser.
const (
	minWatchedLife = 1500 * time.Millisecond
	maxWatchedLife = 4 * time.Second
)

// Crash is the demo of crash recovery: the process of a working agent is killed repeatedly, and the
// result is checked.
type Crash struct {
	Options
	Kills int
	Seed  int64
}

// Run runs the demo in a fresh directory and prints its story and its report.
func (d Crash) Run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	if err := d.prepare(); err != nil {
		return err
	}
	story := &crashReporter{demo: d, seen: map[perdure.SessionID]int64{}, known: map[perdure.TaskID]string{},
		ctx: context.WithoutCancel(ctx), live: ctx}
	loop := chaos.Loop{Kills: d.Kills, Seed: d.Seed, MinLife: minLife, MaxLife: maxLife, Command: d.child, Observer: story}
	if d.Pages != nil {
		loop.MinLife, loop.MaxLife = minWatchedLife, maxWatchedLife
	} else {
		story.begin()
	}
	run, err := loop.Run(ctx)
	if err != nil {
		return fmt.Errorf("demo: %w; its data is kept in %s", err, d.Dir)
	}
	story.printRecovered()
	run.Known = story.known
	record, err := d.record(ctx, func(j chaos.Journal) []chaos.Order {
		var all []chaos.Order
		for _, event := range j.Events {
			if f, ok := event.Fact.(perdure.MessageReceived); ok {
				all = append(all, orders(j.Session, f.Message.Text())...)
			}
		}
		return all
	})
	if err != nil {
		return fmt.Errorf("demo: %w; its data is kept in %s", err, d.Dir)
	}
	report := chaos.Evaluate(record, run)
	if err := d.verdict(report, record); err != nil {
		return err
	}
	if !report.OK {
		return fmt.Errorf("%w; repeat it with --kills %d --seed %d; its data is kept in %s", errBroken, d.Kills, d.Seed,
			d.Dir)
	}
	return d.finish(ctx, ScenarioCrash)
}

// child returns the command that starts the process with the engine.
func (d Crash) child(last bool) *exec.Cmd {
	args := []string{"demo", "child", "--data", d.Dir}
	if last {
		args = append(args, "--finish")
	}
	if addr := d.address(); addr != "" {
		args = append(args, "--pages", addr)
	}
	cmd := exec.Command(d.Program, args...)
	cmd.Stderr = d.Stderr
	return cmd
}

// orders returns the effects that one order requests.
func orders(id perdure.SessionID, order string) []chaos.Order {
	return []chaos.Order{
		{Session: id, Tool: "bash", Effect: "build " + order},
		{Session: id, Tool: "label", Effect: "label " + order},
		{Session: id, Tool: "charge", Effect: "charge " + order},
	}
}

// verdict prints the report from the journal and the external ledger.
func (d Crash) verdict(r chaos.Report, record chaos.Record) error {
	if d.JSON {
		return d.encode(r)
	}
	fmt.Fprintln(d.Out)
	d.printUnknown(unknownCalls(record))
	d.violations(r)
	fmt.Fprintf(d.Out, "%d kills · %d sessions · %d background tasks · adopted %d · resumed %d · recovery p50 %d ms, max %d ms\n",
		r.Kills, r.Sessions, r.Tasks, r.Adopted, r.Resumed, r.RecoveryMS.P50, r.RecoveryMS.Max)
	return d.counts(r)
}

// printUnknown lists the calls with an unknown outcome, and how an operator resolves them.
func (d Crash) printUnknown(keys []perdure.CallKey) {
	if len(keys) == 0 {
		return
	}
	fmt.Fprintf(d.Out, "? charges with unknown outcome: %d. Each may or may not have happened; an operator checks, and records the outcome:\n", len(keys))
	fmt.Fprintf(d.Out, "  perdure task resolve --data %s %s --happened | --did-not-happen\n",
		filepath.Join(d.Dir, "data"), keys[0])
	if !d.Keep {
		fmt.Fprintln(d.Out, "  (this demo removes its data now; run it with --keep to try that command)")
	}
}

// unknownCalls lists the foreground calls with an unknown outcome.
func unknownCalls(record chaos.Record) []perdure.CallKey {
	var keys []perdure.CallKey
	for _, journal := range record.Journals {
		for _, event := range journal.Events {
			if f, ok := event.Fact.(perdure.ToolUnknown); ok {
				keys = append(keys, perdure.CallKey{Session: journal.Session, Call: f.CallID})
			}
		}
	}
	return keys
}
