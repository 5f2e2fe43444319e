//go:build unix

// Reliability runs every attack on Perdure that counts its trials, and writes down what came of it: RELIABILITY.md.
//
//	go run ./bench/reliability [-scale quick|full] [-seed N] [-only ROW,ROW] [-count ROW=N] [-keep FILE] [-o FILE]
//
// With -keep the results are kept in a file as well, and rows that are not run stand on the page as they are kept there:
// so the rows of a page may run one at a time, each with its own date and commit.
//
// It may import the standard library only. The one thing to know: it judges nothing by itself. A row is a command that
// fails when a promise was broken; the page says how many trials it had, and what that proves: no failure in n independent
// trials is at most 3/n a trial, with 95 % confidence.
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
	flags.Int64Var(&o.seed, "seed", 1, "of all that is random")
	counts := flags.String("count", "", "trials of some rows, as ROW=N, separated by commas, instead of those of the scale")
	only := flags.String("only", "", "run these rows and no others, separated by commas")
	flags.StringVar(&o.keep, "keep", "", "a file that keeps the results of rows between runs")
	flags.StringVar(&o.out, "o", "RELIABILITY.md", "where the page is written")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if *counts != "" {
		o.count = map[string]int{}
		for _, pair := range strings.Split(*counts, ",") {
			id, text, _ := strings.Cut(pair, "=")
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 {
				return o, fmt.Errorf("-count is ROW=N,ROW=N, not %q", *counts)
			}
			o.count[id] = n
		}
	}
	if *only != "" {
		o.only = strings.Split(*only, ",")
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("%q is no flag: everything is given by flags, see -help", flags.Arg(0))
	case o.scale != "quick" && o.scale != "full":
		return o, fmt.Errorf("-scale is quick or full, not %q", o.scale)
	}
	return o, nil
}

// run carries out the rows one after another and writes the page, also when some of them failed.
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
		found := row.carryOut(ctx)
		found.Where, found.Date, found.Seed = where, time.Now().UTC().Format(time.DateOnly), o.seed
		fmt.Fprintf(progress, "         %s after %s\n", found.verdict(), found.Took.Round(time.Second))
		if ctx.Err() != nil {
			return ctx.Err() // a row that was cut off says nothing
		}
		page.add(found)
		if err := page.save(o); err != nil {
			return err
		}
	}
	if n := page.failed(); n > 0 {
		return fmt.Errorf("%d rows failed; %s says which", n, o.out)
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
