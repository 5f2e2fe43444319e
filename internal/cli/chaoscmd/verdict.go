package chaoscmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/chaos"
)

// checkInvariants reads the final data, stops the server, and checks every guarantee.
func (p *runDir) checkInvariants(ctx context.Context, far engine.Engine, witness *chaos.ClientRecord) (chaos.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	after, err := chaos.ReadFinalState(ctx, far)
	if err != nil {
		return chaos.Report{}, err
	}
	ledger, err := p.ledger(ctx, after.Calls)
	if err != nil {
		return chaos.Report{}, err
	}
	log := func(id perdure.TaskID, max int) ([]byte, error) { return chaos.ReadLog(ctx, far, id, max) }
	run := chaos.Run{Seed: p.Seed, Kills: p.injector.Done[chaos.Kill]}
	if len(p.servers) == 1 { // otherwise another one continues the work before the process starts again
		run.Recoveries = chaos.Recoveries(after.Journals, p.injector.Starts())
	}
	run.Found = append(witness.Contradictions(after, log), p.survivingProcesses(ctx)...)
	if len(p.Command) == 0 {
		run.Missing = chaos.Missing(ledger, after.Calls,
			func(tool string) bool { return strings.HasPrefix(tool, "chaos_") })
	}
	if err := p.injector.End(ctx); err != nil {
		run.Found = append(run.Found, chaos.Violation{Invariant: "R3", Text: err.Error()})
	}
	p.injector.Done[chaos.Term]++
	report := chaos.Evaluate(chaos.Record{Journals: after.Journals, Rows: after.Rows, Ledger: ledger, Responses: witness.Responses(),
		Zombies: len(p.servers) > 1}, run)
	p.figures(&report, after)
	report.Recoveries, report.Answers = len(run.Recoveries), witness.Answers()
	return report, nil
}

// survivingProcesses returns processes that outlive their work. A process that is about to end gets
// time for it.
func (p *runDir) survivingProcesses(ctx context.Context) (left []chaos.Violation) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var dataDirs []string
	for _, one := range p.servers {
		dataDirs = append(dataDirs, one.data)
	}
	for until := time.Now().Add(exitTimeout); ; {
		left = chaos.SurvivingProcesses(p.path("work"), dataDirs, p.injector.PIDs())
		if len(left) == 0 || time.Now().After(until) {
			return left
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return left
		}
	}
}

// figures adds the counts that only this run knows.
func (p *runDir) figures(r *chaos.Report, after chaos.FinalState) {
	r.Stops, r.Terms, r.DiskFull, r.DatabaseOutages = p.injector.Done[chaos.Stop], p.injector.Done[chaos.Term],
		p.injector.Done[chaos.Disk], p.injector.Done[chaos.Away]
	r.SchedulerCuts, r.SchedulerWipes = p.injector.Done[chaos.Cut], p.injector.Done[chaos.Wipe]
	r.Faults = p.injector.Faults
	r.Kinds = map[string]int{}
	for _, call := range after.Calls {
		r.Kinds[string(call.Class)]++
	}
}

// ledger reads which effects happened.
func (p *runDir) ledger(ctx context.Context, calls []perdure.Call) ([]chaos.Line, error) {
	lines, err := chaos.ReadLedger(p.path("ledger.jsonl"))
	if err != nil || p.EffectsFrom == "" {
		return chaos.Complete(lines, calls), err
	}
	ctx, cancel := context.WithTimeout(ctx, childTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", p.EffectsFrom)
	cmd.Stderr, cmd.Env = p.Stderr, append(p.environ(), "PERDURE_DATA="+p.path("data"))
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the effects with %q: %w", p.EffectsFrom, err)
	}
	listed, err := chaos.ReadEffects(string(text))
	return chaos.Complete(append(lines, listed...), calls), err
}

// print writes the report.
func (p *runDir) print(r chaos.Report) error {
	if p.JSON {
		text, err := json.Marshal(r)
		if err == nil {
			_, err = fmt.Fprintln(p.Out, string(text))
		}
		return err
	}
	var errs []error
	line := func(format string, args ...any) {
		_, err := fmt.Fprintf(p.Out, format+"\n", args...)
		errs = append(errs, err)
	}
	for _, row := range []struct {
		name  string
		value any
	}{
		{"kills", r.Kills}, {"SIGSTOP", r.Stops}, {"SIGTERM", r.Terms}, {"disk full", r.DiskFull},
		{"database down", r.DatabaseOutages}, {"scheduler away", r.SchedulerCuts}, {"scheduler wiped", r.SchedulerWipes}, {"sessions", r.Sessions}, {"tasks", r.Tasks},
		{"settled", r.Settled}, {"unknown", fmt.Sprintf("%d (%d of them foreground calls)", r.Unknown, r.UnknownCalls)},
		{"adopted", r.Adopted}, {"resumed", r.Resumed}, {"effects", r.Effects}, {"answers kept", r.Answers},
		{"lost", r.LostSettled}, {"repeated", r.DuplicateEffects}, {"missing", r.EffectsMissing}, {"stuck", r.Stuck},
		{"event gaps", r.EventGaps}, {"undelivered", r.Undelivered}, {"delivered twice", r.DeliveredTwice},
		{"recovery", fmt.Sprintf("p50 %d ms, p99 %d ms, max %d ms, n = %d", r.RecoveryMS.P50, r.RecoveryMS.P99,
			r.RecoveryMS.Max, r.Recoveries)},
	} {
		line("%-16s %v", row.name, row.value)
	}
	for _, v := range r.Violations {
		line("✗ %s %s %s", v.Invariant, v.Session, v.Text)
	}
	switch {
	case r.OK && r.Kills > 0:
		line("ok: no violations; with 95 %% confidence, fewer than %.3g of all kills cause one", r.UpperBound95)
	case r.OK:
		line("ok: no violations")
	default:
		line("BROKEN")
	}
	return errors.Join(errs...)
}
