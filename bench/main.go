// Bench measures Perdure, and beside it the floor: the same SQLite, then the same Postgres, on the same disk without us.
//
//	go run ./bench [-quick] [-long] [-only NAME,NAME] [-json FILE] [-lines FILE] [-dir DIR] [-profile DIR]
//
// It may import anything. The one thing to know: floor and Perdure are measured in turns, in the same run, because only
// their ratio means something on a machine that does other things too. docs/reference/figures.md describes each figure.
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

// run measures, or is one of the processes that the measurements start, and returns the exit code.
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
	flags.BoolVar(&o.quick, "quick", false, "a few of each, in seconds: shows that it works, not how fast it is")
	flags.BoolVar(&o.long, "long", false, "also end 10,000 waiting calls, which takes a minute")
	flags.StringVar(&o.only, "only", "", "measure only these, separated by commas: "+strings.Join(experimentNames(), ", "))
	flags.StringVar(&o.json, "json", "bench.json", "where the JSON goes")
	flags.StringVar(&o.lines, "lines", "", "append the figures to this file as lines that benchstat reads")
	flags.StringVar(&o.dir, "dir", "", "measure the disk of this folder; empty: the one of temporary files")
	flags.StringVar(&o.profile, "profile", "", "write profiles of each measurement into this folder; the figures then cost more")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("%q is no flag: everything is given by flags, see -help", flags.Arg(0))
	}
	return o, nil
}

// measure runs the experiments that were asked for and writes table and JSON.
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
	return errors.Join(failed, l.tell(table)) // what there is is worth having, also when the run was cut short
}

// runAll runs experiments until one of them fails.
func (l *lab) runAll(ctx context.Context, chosen []experiment) error {
	for _, e := range chosen {
		if err := l.run(ctx, e); err != nil {
			return fmt.Errorf("measure %s: %w", e.name, err)
		}
	}
	return nil
}

// tell writes the table and the files.
func (l *lab) tell(table io.Writer) error {
	errs := []error{l.report.print(table), l.report.save(l.json)}
	if l.lines != "" {
		errs = append(errs, l.report.saveLines(l.lines))
	}
	return errors.Join(errs...)
}
