// Load puts more on one server than it was made for, and says what the others notice of that: many clients of which some never
// read, more requests than can be done, output without an end, and requests that are no honest ones.
//
//	go run ./bench/load [-only clients,overload,floods,sockets] [-clients N] [-seconds N] [-json FILE] …
//
// It may import anything. The one thing to know: the server is the real program in a process of its own, so that its
// memory is its own; the clients share this process. It ends with 1 when a client that reads missed an event, or got
// one twice or out of order, or when what is to be refused was not. The times are only printed.
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
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/perdure/perdure"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	if len(os.Args) == 2 && os.Args[1] == bareFlag {
		err = serveBare(ctx, os.Stdin, os.Stdout)
	} else {
		err = run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

// sections are the parts of a run, in their order.
var sections = []string{"clients", "overload", "floods", "sockets"}

// options are the flags.
type options struct {
	only       []string
	clients    int
	stalled    int
	slow       int
	reconnects int
	length     time.Duration
	reference  time.Duration
	times      int
	rounds     int
	phase      time.Duration
	flood      int64
	sockets    int
	json       string
	binary     string // of the server
}

func parse(args []string, progress io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("load", flag.ContinueOnError)
	flags.SetOutput(progress)
	only := flags.String("only", strings.Join(sections, ","), "which sections")
	flags.IntVar(&o.clients, "clients", 1000, "clients: how many follow")
	flags.IntVar(&o.stalled, "stalled", -1, "clients: how many of them never read; -1: a tenth")
	flags.IntVar(&o.slow, "slow", -1, "clients: how many of them read a byte a second; -1: a tenth")
	flags.IntVar(&o.reconnects, "reconnects", -1, "clients: how often one that reads hangs up and comes again, all together; -1: ten times as many as clients")
	seconds := flags.Int("seconds", 45, "clients: how long the sessions work without clients, and then with them; one that does not read is cut within 15")
	reference := flags.Int("reference", 15, "clients: for how many seconds the bare server is measured; 0: not at all")
	flags.IntVar(&o.times, "times", 10, "overload: how many times what can be done is asked for")
	flags.IntVar(&o.rounds, "rounds", 3, "overload: how often, each beside what can be done")
	phase := flags.Int("phase", 10, "overload: seconds of each phase")
	gigabytes := flags.Float64("gb", 3, "floods: of how many gigabytes the long output is; lines of a third of it")
	flags.IntVar(&o.sockets, "sockets", 1000, "sockets: how many connections send their header byte by byte")
	flags.StringVar(&o.json, "json", "", "write the figures to this file, too")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.stalled, o.slow, o.reconnects = orElse(o.stalled, o.clients/10), orElse(o.slow, o.clients/10), orElse(o.reconnects, 10*o.clients)
	o.length, o.reference, o.phase = time.Duration(*seconds)*time.Second, time.Duration(*reference)*time.Second, time.Duration(*phase)*time.Second
	o.flood = int64(*gigabytes * 1e9)
	o.only = strings.Split(*only, ",")
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("%q is no flag: everything is given by flags, see -help", flags.Arg(0))
	case slices.ContainsFunc(o.only, func(s string) bool { return !slices.Contains(sections, s) }):
		return o, fmt.Errorf("-only %s: the sections are %s", *only, strings.Join(sections, ", "))
	case o.stalled+o.slow >= o.clients || *seconds < 1 || *phase < 1 || o.times < 1 || o.rounds < 1 || o.flood < 1 || o.sockets < 1:
		return o, errors.New("there must be a client that reads, and a second of work")
	}
	return o, nil
}

func orElse(n, fallback int) int {
	if n < 0 {
		return fallback
	}
	return n
}

// run measures, prints the figures, and judges.
func run(ctx context.Context, args []string, out, progress io.Writer) (err error) {
	o, err := parse(args, progress)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "perdure-load-")
	if err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if o.binary, err = build(ctx, dir, progress); err != nil {
		return err
	}
	all := map[string]any{}
	var faults []error
	for _, name := range sections {
		if !slices.Contains(o.only, name) {
			continue
		}
		f, wrong, err := measuring[name].with(ctx, o, progress)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		f.print(out)
		all[name] = f
		faults = append(faults, wrong...)
	}
	if o.json != "" {
		faults = append(faults, save(o.json, all))
	}
	return errors.Join(faults...)
}

// printed is what a section found.
type printed interface{ print(w io.Writer) }

// section is a part of a run. The errors in the middle of what measure returns are what was found wrong.
type section struct {
	flags   []string      // of its server
	apart   bool          // the server has processor cores of its own
	limit   time.Duration // within which it has to be done
	measure func(context.Context, options, site) (printed, []error, error)
}

// measuring is how each section is measured.
var measuring = map[string]section{
	"clients":  {limit: 4 * time.Minute, measure: measureClients},
	"overload": {limit: 5 * time.Minute, apart: true, measure: measureOverload},
	"floods":   {limit: 2 * time.Minute, flags: []string{"--allow-shell"}, measure: measureFloods},
	"sockets":  {limit: 2 * time.Minute, measure: measureSockets},
}

// save writes the figures. Those of the clients stand at the top, as they did when there were no others.
func save(path string, all map[string]any) error {
	flat := map[string]any{"version": 1}
	for name, f := range all {
		if name != "clients" {
			flat[name] = f
			continue
		}
		text, err := json.Marshal(f)
		if err == nil {
			err = perdure.DecodeJSON(text, &flat)
		}
		if err != nil {
			return fmt.Errorf("encode the figures: %w", err)
		}
	}
	body, err := json.MarshalIndent(flat, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the figures: %w", err)
	}
	if err := os.WriteFile(path, append(body, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the figures: %w", err)
	}
	return nil
}
