//go:build unix

// Reliability runs every attack on Perdure that counts its trials, and writes the results to
// RELIABILITY.md.
//
//	go run ./bench/reliability [-scale quick|full] [-seed N] [-only ROW,ROW] …
//
// With -keep the results are also stored in a file, and the page shows the stored results of rows
// that are not run. So the rows of a page can run one at a time, each with its own date and commit.
//
// It may import the standard library only. The one thing to know: it judges nothing itself. A row
// is a command that fails when a guarantee is violated; the page states its number of trials, and
// what that proves: without a failure in n independent trials, the probability of a failure is at
// most 3/n per trial, with 95 % confidence.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "reliability:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	scale string
	seed  int64
	only  []string
	keep  string
	count map[string]int // trials of a row, instead of those of the scale
	out   string
}

func parse(args []string, progress io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("reliability", flag.ContinueOnError)
	flags.SetOutput(progress)
	flags.StringVar(&o.scale, "scale", "full", "quick: minutes, full: hours")
	flags.Int64Var(&o.seed, "seed", 1, "random seed")
	counts := flags.String("count", "", "trials of rows, as comma-separated ROW=N, instead of those of the scale")
	only := flags.String("only", "", "run only these rows, separated by commas")
	flags.StringVar(&o.keep, "keep", "", "file that stores the results of rows between runs")
	flags.StringVar(&o.out, "o", "RELIABILITY.md", "write the page to this file")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if *counts != "" {
		o.count = map[string]int{}
		for _, pair := range strings.Split(*counts, ",") {
			id, text, _ := strings.Cut(pair, "=")
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 {
				return o, fmt.Errorf("invalid -count %q: want ROW=N,ROW=N", *counts)
			}
			o.count[id] = n
		}
	}
	if *only != "" {
		o.only = strings.Split(*only, ",")
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q: use flags, see -help", flags.Arg(0))
	case o.scale != "quick" && o.scale != "full":
		return o, fmt.Errorf("invalid -scale %q: want quick or full", o.scale)
	}
	return o, nil
}

// run runs the rows sequentially and writes the page, also when some of them failed.
func run(ctx context.Context, args []string, progress io.Writer) error {
	o, err := parse(args, progress)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "reliability")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	page, err := load(o.keep)
	if err != nil {
		return err
	}
	binary := filepath.Join(folder, "perdure")
	if err := build(ctx, binary); err != nil {
		return err
	}
	page.full = rows(options{scale: "full", seed: o.seed}, binary)
	where := machine(ctx)
	for _, row := range rows(o, binary) {
		if !wanted(o.only, row.ID) {
			continue
		}
		fmt.Fprintf(progress, "%-8s %s\n", row.ID, row.What)
		found := row.execute(ctx)
		found.Where, found.Date, found.Seed = where, time.Now().UTC().Format(time.DateOnly), o.seed
		fmt.Fprintf(progress, "         %s after %s\n", found.verdict(), found.Took.Round(time.Second))
		if ctx.Err() != nil {
			return ctx.Err() // the result of an interrupted row is not valid
		}
		page.add(found)
		if err := page.save(o); err != nil {
			return err
		}
	}
	if n := page.failed(); n > 0 {
		return fmt.Errorf("%d rows failed; see %s", n, o.out)
	}
	return nil
}

func wanted(only []string, id string) bool {
	if len(only) == 0 {
		return true
	}
	for _, name := range only {
		if strings.EqualFold(name, id) {
			return true
		}
	}
	return false
}
