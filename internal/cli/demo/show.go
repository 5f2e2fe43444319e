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

// Show is what every demo has.
type Show struct {
	Dir     string
	JSON    bool
	Keep    bool
	Version string
	Program string // this program, to start as a child, and to be named
	Out     io.Writer
	Talk    io.Writer
	// Open opens a data directory for reading only.
	Open func(ctx context.Context, dir string) (engine.Engine, io.Closer, error)
	Log  *slog.Logger
	// Stage opens an engine that works, and that other programs reach by its data directory, until end is called, which waits for it.
	Stage func(ctx context.Context, set Setting) (eng engine.Engine, end func() error, err error)
}

// Setting is a stage: where it stands, and what is played there.
type Setting struct {
	Dir  string // of the demo
	Play Play
	Log  *slog.Logger
}

// Play says which agent works on a stage, with which tools.
type Play string

// The plays.
const (
	PlayAgents    Play = "agents"
	PlayApprovals Play = "approvals"
)

// errBroken is the verdict that something broke. The data directory is kept.
var errBroken = errors.New("the demo found a broken promise")

// prepare makes the demo's directory with the files that its agents work on. One that is there already is
// only replaced if a demo made it.
func (d Show) prepare() error {
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

// leave ends a demo that found nothing broken.
func (d Show) leave() error {
	if d.Keep {
		fmt.Fprintf(d.Talk, "the data is kept in %s\n", d.Dir)
		return nil
	}
	return os.RemoveAll(d.Dir)
}

// record reads what a demo left behind. What each session ordered is in its journal.
func (d Show) record(ctx context.Context, orders func(chaos.Journal) []chaos.Order) (chaos.Record, error) {
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
		journal := chaos.Journal{Session: s.ID, Events: events}
		record.Journals = append(record.Journals, journal)
		record.Expected = append(record.Expected, orders(journal)...)
	}
	record.Ledger, err = chaos.ReadLedger(filepath.Join(d.Dir, "ledger.jsonl"))
	if err != nil {
		return record, err
	}
	built, err := chaos.ReadLedger(filepath.Join(d.Dir, "work", "effects.jsonl")) // commands write nowhere but in their workspace
	record.Ledger = append(record.Ledger, built...)
	return record, err
}

// line prints one line of a story.
func (d Show) line(format string, args ...any) {
	if !d.JSON {
		fmt.Fprintf(d.Out, format+"\n", args...)
	}
}

// encode prints a verdict for programs.
func (d Show) encode(report any) error {
	text, err := json.Marshal(report)
	if err != nil {
		return fmt.Errorf("demo: encode the report: %w", err)
	}
	_, err = fmt.Fprintln(d.Out, string(text))
	return err
}

// violations says what broke.
func (d Show) violations(r chaos.Report) {
	for _, v := range r.Violations {
		fmt.Fprintf(d.Out, "✗ %s %s %s\n", v.Invariant, v.Session, v.Text)
	}
}

// counts prints what the journals and the ledger outside say, and the verdict.
func (d Show) counts(r chaos.Report) error {
	ends := "ok"
	if !r.OK {
		ends = "BROKEN"
	}
	_, err := fmt.Fprintf(d.Out, "effects %d · repeated %d · lost %d · missing %d · unknown %d · delivered twice %d · undelivered %d · stuck %d\n%s\n",
		r.Effects, r.DuplicateEffects, r.LostSettled, r.EffectsMissing, r.Unknown, r.DeliveredTwice, r.Undelivered, r.Stuck, ends)
	return err
}
