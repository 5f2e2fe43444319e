// Package demo is the demo of the command line: an agent at work whose process is killed again and again.
//
// It may import the root, engine and internal/chaos. The one thing to know: nothing that it prints is canned;
// every figure comes from the journal or from the ledger outside.
package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/chaos"
)

// The bounds of a life in the demo, from the sign of life to the kill.
const (
	minLife = 10 * time.Millisecond
	maxLife = 900 * time.Millisecond
	maxTime = 10 * time.Minute
)

// Crash is the demo: an agent at work whose process is killed again and again, and the verdict.
type Crash struct {
	Dir     string
	Kills   int
	Seed    int64
	JSON    bool
	Keep    bool
	Version string
	Program string // this program, to start as the child
	Out     io.Writer
	Talk    io.Writer
	// Open opens a data directory for reading only.
	Open func(ctx context.Context, dir string) (engine.Engine, io.Closer, error)
}

// errBroken is the verdict that something broke. The data directory is kept.
var errBroken = errors.New("the demo found a broken promise")

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
	record, err := d.record(ctx)
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
	if d.Keep {
		fmt.Fprintf(d.Talk, "the data is kept in %s\n", d.Dir)
		return nil
	}
	return os.RemoveAll(d.Dir)
}

// prepare makes the demo's directory with the files that its agent works on. One that is there already is
// only replaced if a demo made it.
func (d Crash) prepare() error {
	mark := filepath.Join(d.Dir, "made-by-perdure-demo")
	if _, err := os.Stat(d.Dir); err == nil {
		if _, err := os.Stat(mark); err != nil {
			return fmt.Errorf("demo: %s is there and was not made by a demo: choose another with --dir", d.Dir)
		}
		if err := os.RemoveAll(d.Dir); err != nil {
			return fmt.Errorf("demo: clear %s: %w", d.Dir, err)
		}
	}
	for _, folder := range []string{"work/parts", "work/labels"} {
		if err := os.MkdirAll(filepath.Join(d.Dir, folder), 0o700); err != nil {
			return fmt.Errorf("demo: %w", err)
		}
	}
	for part := 1; part <= 6; part++ {
		text := strings.Repeat(fmt.Sprintf("part %d of something worth building\n", part), 10*part)
		if err := os.WriteFile(filepath.Join(d.Dir, "work/parts", fmt.Sprintf("%d.txt", part)), []byte(text), 0o600); err != nil {
			return fmt.Errorf("demo: %w", err)
		}
	}
	return os.WriteFile(mark, nil, 0o600)
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

// record reads what the run left behind.
func (d Crash) record(ctx context.Context) (chaos.Record, error) {
	var record chaos.Record
	eng, closer, err := d.Open(ctx, filepath.Join(d.Dir, "data"))
	if err != nil {
		return record, err
	}
	defer closer.Close()
	sessions, err := eng.Sessions(ctx, 0)
	if err != nil {
		return record, err
	}
	for _, s := range sessions {
		events, err := eng.Events(ctx, s.ID, 0, 0)
		if err != nil {
			return record, err
		}
		record.Journals = append(record.Journals, chaos.Journal{Session: s.ID, Events: events})
		for _, event := range events {
			if f, ok := event.Fact.(perdure.MessageReceived); ok {
				record.Expected = append(record.Expected, orders(s.ID, f.Message.Text())...)
			}
		}
	}
	record.Ledger, err = chaos.ReadLedger(filepath.Join(d.Dir, "ledger.jsonl"))
	if err != nil {
		return record, err
	}
	built, err := chaos.ReadLedger(filepath.Join(d.Dir, "work", "effects.jsonl")) // commands write nowhere but in their workspace
	record.Ledger = append(record.Ledger, built...)
	return record, err
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
		text, err := json.Marshal(r)
		if err != nil {
			return fmt.Errorf("demo: encode the report: %w", err)
		}
		_, err = fmt.Fprintln(d.Out, string(text))
		return err
	}
	fmt.Fprintln(d.Out)
	d.tellUnknown(unknownCalls(record))
	for _, v := range r.Violations {
		fmt.Fprintf(d.Out, "✗ %s %s %s\n", v.Invariant, v.Session, v.Text)
	}
	ends := "ok"
	if !r.OK {
		ends = "BROKEN"
	}
	fmt.Fprintf(d.Out, "%d kills · %d sessions · %d background tasks · adopted %d · resumed %d · recovery p50 %d ms, max %d ms\n",
		r.Kills, r.Sessions, r.Tasks, r.Adopted, r.Resumed, r.RecoveryMS.P50, r.RecoveryMS.Max)
	_, err := fmt.Fprintf(d.Out, "effects %d · repeated %d · lost %d · missing %d · unknown %d · delivered twice %d · undelivered %d · stuck %d\n%s\n",
		r.Effects, r.DuplicateEffects, r.LostSettled, r.EffectsMissing, r.Unknown, r.DeliveredTwice, r.Undelivered, r.Stuck, ends)
	return err
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
