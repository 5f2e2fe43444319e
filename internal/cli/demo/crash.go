// Package demo is what the command line shows to newcomers: a runtime that is killed again and again, agents that spend from one
// budget, and a person who is asked.
//
// It may import the root, budget, engine and internal/chaos. The one thing to know: nothing that it prints is canned;
// every figure comes from the journal or from the ledger outside.
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

// The bounds of a life in the demo, from the sign of life to the kill.
const (
	minLife = 10 * time.Millisecond
	maxLife = 900 * time.Millisecond
	maxTime = 10 * time.Minute
)

// Crash is the demo of the runtime itself: an agent at work whose process is killed again and again, and the verdict.
type Crash struct {
	Show
	Kills int
	Seed  int64
}

// Run runs the demo in a fresh directory and prints its story and its verdict.
func (d Crash) Run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	if err := d.prepare(); err != nil {
		return err
	}
	story := &story{demo: d, seen: map[perdure.SessionID]int64{}, known: map[perdure.TaskID]string{}, ctx: context.WithoutCancel(ctx)}
	story.begin()
	loop := chaos.Loop{Kills: d.Kills, Seed: d.Seed, MinLife: minLife, MaxLife: maxLife, Command: d.child, Tell: story}
	run, err := loop.Run(ctx)
	if err != nil {
		return fmt.Errorf("demo: %w; its data is kept in %s", err, d.Dir)
	}
	story.sinceThen()
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
	report := chaos.Judge(record, run)
	if err := d.verdict(report, record); err != nil {
		return err
	}
	if !report.OK {
		return fmt.Errorf("%w: run it again with --kills %d --seed %d; its data is kept in %s", errBroken, d.Kills, d.Seed, d.Dir)
	}
	return d.leave()
}

// child makes one start of the program that runs the engine.
func (d Crash) child(last bool) *exec.Cmd {
	args := []string{"demo", "child", "--data", d.Dir}
	if last {
		args = append(args, "--finish")
	}
	cmd := exec.Command(d.Program, args...)
	cmd.Stderr = d.Talk
	return cmd
}

// orders are the effects that one order asks for.
func orders(id perdure.SessionID, order string) []chaos.Order {
	return []chaos.Order{
		{Session: id, Tool: "bash", Effect: "build " + order},
		{Session: id, Tool: "label", Effect: "label " + order},
		{Session: id, Tool: "charge", Effect: "charge " + order},
	}
}

// verdict prints what the journal and the outside ledger say.
func (d Crash) verdict(r chaos.Report, record chaos.Record) error {
	if d.JSON {
		return d.encode(r)
	}
	fmt.Fprintln(d.Out)
	d.tellUnknown(unknownCalls(record))
	d.violations(r)
	fmt.Fprintf(d.Out, "%d kills · %d sessions · %d background tasks · adopted %d · resumed %d · recovery p50 %d ms, max %d ms\n",
		r.Kills, r.Sessions, r.Tasks, r.Adopted, r.Resumed, r.RecoveryMS.P50, r.RecoveryMS.Max)
	return d.counts(r)
}

// tellUnknown names the calls that nobody can know the outcome of, and what an operator does.
func (d Crash) tellUnknown(keys []perdure.CallKey) {
	if len(keys) == 0 {
		return
	}
	fmt.Fprintf(d.Out, "? charges of unknown outcome: %d. Each may or may not have happened; an operator looks, and says\n", len(keys))
	fmt.Fprintf(d.Out, "  perdure task resolve --data %s %s --happened | --did-not-happen\n", filepath.Join(d.Dir, "data"), keys[0])
	if !d.Keep {
		fmt.Fprintln(d.Out, "  (the demo removes its data now; with --keep it stays, and that line works)")
	}
}

// unknownCalls lists the foreground calls of unknown outcome.
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
