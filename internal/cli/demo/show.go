package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/chaos"
)

// Options is the common configuration of all demos.
type Options struct {
	Dir     string
	JSON    bool
	Keep    bool
	Version string
	Program string // path of this program, to start a child process
	Out     io.Writer
	Stderr  io.Writer
	Pages   *Pages // the web UI; nil: there is none
	// Open opens a data directory read-only.
	Open func(ctx context.Context, dir string) (engine.Engine, io.Closer, error)
	Log  *slog.Logger
	// OpenRuntime opens a working engine that other programs can reach by its data directory. end
	// stops it and waits for that.
	OpenRuntime func(ctx context.Context, set RuntimeOptions) (eng engine.Engine, end func() error, err error)
	// FreeAddr returns an address of this machine that nobody listens on.
	FreeAddr func() (string, error)
}

// RuntimeOptions configures OpenRuntime.
type RuntimeOptions struct {
	Dir      string // of the demo
	Scenario Scenario
	Addr     string // to serve the web UI on; empty: nowhere
	Log      *slog.Logger
}

// Scenario says which agent and which tools a demo uses.
type Scenario string

// The scenarios.
const (
	ScenarioCrash     Scenario = "crash"
	ScenarioAgents    Scenario = "agents"
	ScenarioApprovals Scenario = "approvals"
)

// errBroken reports a violated guarantee. The data directory is kept.
var errBroken = errors.New("the demo found a violated guarantee")

// prepare creates the directory of the demo with the files that its agents work on. An existing
// directory is replaced only if a demo created it.
func (d Options) prepare() error {
	mark := filepath.Join(d.Dir, "made-by-perdure-demo")
	if _, err := os.Stat(d.Dir); err == nil {
		if _, err := os.Stat(mark); err != nil {
			return fmt.Errorf("demo: %s already exists and was not made by a demo: choose another folder with --dir",
				d.Dir)
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
		if err := os.WriteFile(filepath.Join(d.Dir, "work/parts", fmt.Sprintf("%d.txt", part)), []byte(text),
			0o600); err != nil {
			return fmt.Errorf("demo: %w", err)
		}
	}
	return os.WriteFile(mark, nil, 0o600)
}

// finish ends a demo without violations, when its pages are not needed any more.
func (d Options) finish(ctx context.Context, play Scenario) error {
	if err := d.stay(ctx, play); err != nil {
		return err
	}
	if d.Keep {
		fmt.Fprintf(d.Stderr, "the data is kept in %s\n", d.Dir)
		return nil
	}
	return os.RemoveAll(d.Dir)
}

// record reads the results of a demo. The orders of each session are in its journal.
func (d Options) record(ctx context.Context, orders func(chaos.Journal) []chaos.Order) (chaos.Record, error) {
	var record chaos.Record
	eng, closer, err := d.Open(ctx, filepath.Join(d.Dir, "data"))
	if err != nil {
		return record, err
	}
	defer closer.Close()
	sessions, err := eng.Sessions().List(ctx, 0)
	if err != nil {
		return record, err
	}
	for _, s := range sessions {
		events, err := eng.Events(ctx, s.ID, 0, 0)
		if err != nil {
			return record, err
		}
		journal := chaos.Journal{Session: s.ID, Events: events}
		record.Journals = append(record.Journals, journal)
		record.Expected = append(record.Expected, orders(journal)...)
	}
	record.Ledger, err = chaos.ReadLedger(filepath.Join(d.Dir, "ledger.jsonl"))
	if err != nil {
		return record, err
	}
	// commands can write only to their workspace
	built, err := chaos.ReadLedger(filepath.Join(d.Dir, "work", "effects.jsonl"))
	record.Ledger = append(record.Ledger, built...)
	return record, err
}

// line prints one line of the story.
func (d Options) line(format string, args ...any) {
	if !d.JSON {
		fmt.Fprintf(d.Out, format+"\n", args...)
	}
}

// encode prints a report as JSON.
func (d Options) encode(report any) error {
	text, err := json.Marshal(report)
	if err != nil {
		return fmt.Errorf("demo: encode the report: %w", err)
	}
	_, err = fmt.Fprintln(d.Out, string(text))
	return err
}

// violations prints what is wrong.
func (d Options) violations(r chaos.Report) {
	for _, v := range r.Violations {
		fmt.Fprintf(d.Out, "✗ %s %s %s\n", v.Invariant, v.Session, v.Text)
	}
}

// counts prints the figures of the journals and the external ledger, and the verdict.
func (d Options) counts(r chaos.Report) error {
	ends := "ok"
	if !r.OK {
		ends = "BROKEN"
	}
	_, err := fmt.Fprintf(d.Out,
		"effects %d · repeated %d · lost %d · missing %d · unknown %d · delivered twice %d · undelivered %d · stuck %d\n%s\n",
		r.Effects, r.DuplicateEffects, r.LostSettled, r.EffectsMissing, r.Unknown, r.DeliveredTwice, r.Undelivered,
		r.Stuck, ends)
	return err
}
