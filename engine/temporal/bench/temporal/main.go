// Temporal measures what the scheduler on Temporal costs, beside Temporal alone in the same run: a
// workflow that runs one activity in another process.
//
//	go run ./bench/temporal -server PATH [-n N] [-runs N] [-kills N] [-turns N]
//		[-waiting N] [-away D] [-json FILE]
//
// It starts a Temporal server, Postgres, and processes that work, and ends all of them. It may
// import anything. The one thing to know: nothing here fails a run because of a time. The output
// says which goals were met.
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
	defer stop()
	var err error
	if os.Getenv(workerVariable) != "" {
		err = work(ctx)
	} else {
		err = run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "temporal:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	server  string
	n       int // measurements of a latency
	runs    int // of the throughput
	kills   int
	turns   int // of each rate
	waiting int // messages that wait for Temporal
	away    time.Duration
	json    string
}

func parse(args []string, progress io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("temporal", flag.ContinueOnError)
	flags.SetOutput(progress)
	flags.StringVar(&o.server, "server", os.Getenv("PERDURE_TEMPORAL_SERVER"), "path of the server that scripts/temporal.sh server builds")
	flags.IntVar(&o.n, "n", 100, "measurements of each latency")
	flags.IntVar(&o.runs, "runs", 512, "runs that are placed, 64 at once")
	flags.IntVar(&o.kills, "kills", 30, "workers that are killed")
	flags.IntVar(&o.turns, "turns", 512, "turns of each rate, 64 at once")
	flags.IntVar(&o.waiting, "waiting", 1000, "messages that are sent while Temporal is away")
	flags.DurationVar(&o.away, "away", time.Minute, "how long Temporal is away")
	flags.StringVar(&o.json, "json", "", "also write the figures to this file")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q: use flags, see -help", flags.Arg(0))
	case o.server == "":
		return o, errors.New("no Temporal server: build one with bash scripts/temporal.sh server, and name its path with -server")
	case o.n < 2 || o.runs < together || o.kills < 2 || o.turns < together || o.waiting < 1 || o.away <= 0:
		return o, errors.New("at least 2 measurements, 64 runs, 2 kills, 64 turns, 1 message and some time away are needed")
	}
	return o, nil
}

// run measures and prints the figures.
func run(ctx context.Context, args []string, out, progress io.Writer) error {
	o, err := parse(args, progress)
	if err != nil {
		return err
	}
	l, err := openLab(ctx, o, progress)
	if err != nil {
		return err
	}
	f, err := l.measure(ctx)
	err = errors.Join(err, l.close())
	if err != nil {
		return err
	}
	f.print(out)
	if o.json == "" {
		return nil
	}
	body, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the figures: %w", err)
	}
	return os.WriteFile(o.json, append(body, '\n'), 0o644)
}
