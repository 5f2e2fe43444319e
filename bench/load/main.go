// Load overloads a server and measures the effect on other clients: many clients of which some
// never read, more requests than the server can handle, endless output, and hostile requests.
//
//	go run ./bench/load [-only clients,overload,floods,sockets] [-clients N] [-seconds N] …
//
// It may import anything. The one thing to know: the server is the real program in a separate
// process, so that its memory can be measured; the clients share this process. It exits with 1 when
// a reading client missed an event, or got one twice or out of order, or when a hostile request was
// not refused. The times are only printed.
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
	only := flags.String("only", strings.Join(sections, ","), "sections to run")
	flags.IntVar(&o.clients, "clients", 1000, "clients: number of clients")
	flags.IntVar(&o.stalled, "stalled", -1, "clients: number of those that never read; -1: a tenth")
	flags.IntVar(&o.slow, "slow", -1, "clients: number of those that read a byte per second; -1: a tenth")
	flags.IntVar(&o.reconnects, "reconnects", -1,
		"clients: total number of reconnects of reading clients; -1: ten times the number of clients")
	seconds := flags.Int("seconds", 45,
		"clients: how long the sessions work without clients, and then with them; clients that never read are cut within 15")
	reference := flags.Int("reference", 15, "clients: seconds of the measurement of the bare server; 0: none")
	flags.IntVar(&o.times, "times", 10, "overload: offered load as a multiple of the peak")
	flags.IntVar(&o.rounds, "rounds", 3, "overload: number of rounds, each with a measurement of the peak")
	phase := flags.Int("phase", 10, "overload: seconds of each phase")
	gigabytes := flags.Float64("gb", 3, "floods: gigabytes of the longest output; the others have a third of it")
	flags.IntVar(&o.sockets, "sockets", 1000, "sockets: number of connections that send their header byte by byte")
	flags.StringVar(&o.json, "json", "", "also write the figures to this file")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.stalled, o.slow, o.reconnects = orElse(o.stalled, o.clients/10), orElse(o.slow, o.clients/10),
		orElse(o.reconnects, 10*o.clients)
	o.length, o.reference, o.phase = time.Duration(*seconds)*time.Second, time.Duration(*reference)*time.Second,
		time.Duration(*phase)*time.Second
	o.flood = int64(*gigabytes * 1e9)
	o.only = strings.Split(*only, ",")
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q: use flags, see -help", flags.Arg(0))
	case slices.ContainsFunc(o.only, func(s string) bool { return !slices.Contains(sections, s) }):
		return o, fmt.Errorf("-only %s: the sections are %s", *only, strings.Join(sections, ", "))
	case o.stalled+o.slow >= o.clients || *seconds < 1 || *phase < 1 || o.times < 1 || o.rounds < 1 || o.flood < 1 ||
		o.sockets < 1:
		return o, errors.New("at least one reading client and one second are needed")
	}
	return o, nil
}

func orElse(n, fallback int) int {
	if n < 0 {
		return fallback
	}
	return n
}

// run measures, prints the figures, and checks them.
func run(ctx context.Context, args []string, out, progress io.Writer) (err error) {
	o, err := parse(args, progress)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "perdure-load-")
	if err != nil {
		return fmt.Errorf("create a folder: %w", err)
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
		f, wrong, err := sectionByName[name].with(ctx, o, progress)
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

// result is the result of a section.
type result interface{ print(w io.Writer) }

// section is a part of a run. The errors that measure returns first are violations.
type section struct {
	flags   []string      // of the server
	apart   bool          // the server has its own CPUs
	limit   time.Duration // time limit
	measure func(context.Context, options, environment) (result, []error, error)
}

// sectionByName configures each section.
var sectionByName = map[string]section{
	"clients":  {limit: 4 * time.Minute, measure: measureClients},
	"overload": {limit: 5 * time.Minute, apart: true, measure: measureOverload},
	"floods":   {limit: 2 * time.Minute, flags: []string{"--allow-shell"}, measure: measureFloods},
	"sockets":  {limit: 2 * time.Minute, measure: measureSockets},
}

// save writes the figures. Those of the clients are at the top level, for compatibility.
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
