// Bench measures Perdure, and the floor: the same SQLite and the same Postgres, on the same disk,
// without Perdure.
//
//	go run ./bench [-quick] [-long] [-only NAME,NAME] [-json FILE] [-lines FILE] [-dir DIR] …
//
// It may import anything. The one thing to know: floor and Perdure are measured alternately in the
// same run, because on a busy machine only their ratio is meaningful. docs/reference/figures.md
// describes each figure.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/perdure/perdure/tool/shell"
)

func main() {
	shell.Supervise()
	os.Exit(run())
}

// run measures, or plays the role of a child process, and returns the exit code.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if role := os.Getenv(childRole); role != "" {
		return exitCode(runChild(ctx, role, os.Stdout))
	}
	return exitCode(measure(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func exitCode(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return 0
}

// options are the flags.
type options struct {
	quick   bool
	long    bool
	only    string
	json    string
	lines   string
	dir     string
	profile string
}

func parse(args []string, progress io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(progress)
	flags.BoolVar(&o.quick, "quick", false, "few iterations, in seconds: a functional check, not a measurement")
	flags.BoolVar(&o.long, "long", false, "also end 10,000 waiting calls, which takes a minute")
	flags.StringVar(&o.only, "only", "",
		"measure only these, separated by commas: "+strings.Join(experimentNames(), ", "))
	flags.StringVar(&o.json, "json", "bench.json", "write the JSON to this file")
	flags.StringVar(&o.lines, "lines", "", "append the figures to this file in the format of benchstat")
	flags.StringVar(&o.dir, "dir", "", "measure the disk of this folder; empty: the one of temporary files")
	flags.StringVar(&o.profile, "profile", "", "write profiles of each measurement to this folder, which slows it down")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q: use flags, see -help", flags.Arg(0))
	}
	return o, nil
}

// measure runs the chosen experiments and writes the table and the JSON.
func measure(ctx context.Context, args []string, table, progress io.Writer) error {
	o, err := parse(args, progress)
	if err != nil {
		return err
	}
	chosen, err := choose(o.only)
	if err != nil {
		return err
	}
	l, err := newLab(ctx, o, progress)
	if err != nil {
		return err
	}
	defer l.close()
	failed := l.runAll(ctx, chosen)
	return errors.Join(failed, l.writeResults(table)) // partial results are useful, too
}

// runAll runs experiments until one fails.
func (l *runner) runAll(ctx context.Context, chosen []experiment) error {
	for _, e := range chosen {
		if err := l.run(ctx, e); err != nil {
			return fmt.Errorf("measure %s: %w", e.name, err)
		}
	}
	return nil
}

// writeResults writes the table and the files.
func (l *runner) writeResults(table io.Writer) error {
	errs := []error{l.report.print(table), l.report.save(l.json)}
	if l.lines != "" {
		errs = append(errs, l.report.saveLines(l.lines))
	}
	return errors.Join(errs...)
}
