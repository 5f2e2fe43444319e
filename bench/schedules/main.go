// Schedules measures the cost of many schedules: the scan for due schedules, the start of an
// engine, and the delay of fires.
//
//	go run ./bench/schedules [-schedules N] [-due N] [-seconds N] [-dir DIR] [-json FILE]
//
// It may import anything. The one thing to know: it exits with 1 when a fire is missing or
// duplicate, or when the 99th percentile of the delay exceeds the goal. The other times are only
// printed.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "schedules:", err)
		os.Exit(1)
	}
}

// lagGoal is the maximum delay of a fire at the 99th percentile while the engine runs.
const lagGoal = 250 * time.Millisecond

// options are the flags.
type options struct {
	schedules int
	due       int
	length    time.Duration
	dir       string
	json      string
}

func parse(args []string, progress io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("schedules", flag.ContinueOnError)
	flags.SetOutput(progress)
	flags.IntVar(&o.schedules, "schedules", 100_000, "number of enabled schedules that are not due")
	flags.IntVar(&o.due, "due", 500, "number of fires")
	seconds := flags.Int("seconds", 10, "duration of the fires")
	flags.StringVar(&o.dir, "dir", "", "measure the disk of this folder; empty: the one of temporary files")
	flags.StringVar(&o.json, "json", "", "also write the figures to this file")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.length = time.Duration(*seconds) * time.Second
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q: use flags, see -help", flags.Arg(0))
	case o.schedules < 1 || o.due < 1 || *seconds < 1:
		return o, errors.New("at least one schedule, one fire and one second are needed")
	}
	return o, nil
}

// run measures, prints the figures, and checks the fires.
func run(ctx context.Context, args []string, out, progress io.Writer) error {
	o, err := parse(args, progress)
	if err != nil {
		return err
	}
	f, faults, err := measure(ctx, o, progress)
	if err != nil {
		return err
	}
	f.print(out)
	if goal := micros(lagGoal); f.LagP99 > goal {
		faults = append(faults, fmt.Errorf("the fires are %.0f µs late at p99, want at most %.0f", f.LagP99, goal))
	}
	if o.json != "" {
		err = f.save(o.json)
	}
	return errors.Join(append(faults, err)...)
}

// figures are the results of a run. docs/reference/figures.md describes them.
type figures struct {
	Version    int     `json:"version"` // of this format: 1
	Schedules  int     `json:"schedules"`
	Fires      int     `json:"fires"`
	Seconds    float64 `json:"seconds"`
	FewP50     float64 `json:"scan_few_p50_us"`
	ScanP50    float64 `json:"scan_p50_us"`
	ScanP99    float64 `json:"scan_p99_us"`
	ScanGrowth float64 `json:"scan_growth_ratio"`
	StartUS    float64 `json:"start_us"`
	LagP50     float64 `json:"lag_p50_us"`
	LagP99     float64 `json:"lag_p99_us"`
	RunP50     float64 `json:"run_p50_us"`
	RunP99     float64 `json:"run_p99_us"`
}

func (f figures) print(w io.Writer) {
	fmt.Fprintf(w, "schedules  %d\n", f.Schedules)
	fmt.Fprintf(w, "due scan   p50 %.0f µs, p99 %.0f µs; %.1f times that of a thousand\n", f.ScanP50, f.ScanP99,
		f.ScanGrowth)
	fmt.Fprintf(w, "start      %.2f s until the first scan\n", f.StartUS/1e6)
	fmt.Fprintf(w, "fires      %d in %.0f s\n", f.Fires, f.Seconds)
	fmt.Fprintf(w, "fire lag   p50 %.1f ms, p99 %.1f ms (goal: at most %d ms)\n", f.LagP50/1000, f.LagP99/1000,
		lagGoal.Milliseconds())
	fmt.Fprintf(w, "run lag    p50 %.1f ms, p99 %.1f ms\n", f.RunP50/1000, f.RunP99/1000)
}

func (f figures) save(path string) error {
	body, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the figures: %w", err)
	}
	if err := os.WriteFile(path, append(body, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the figures: %w", err)
	}
	return nil
}
