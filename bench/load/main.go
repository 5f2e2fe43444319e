// Load puts many clients on one server, some of which never read, and says what the others notice of that.
//
//	go run ./bench/load [-clients N] [-stalled N] [-seconds N] [-json FILE]
//
// It may import anything. The one thing to know: the server is the real program in a process of its own, so that its
// memory is its own; the clients share this process. It ends with 1 when a client that reads missed an event, or got
// one twice or out of order. The times are only printed.
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
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	clients int
	stalled int
	length  time.Duration
	json    string
}

func parse(args []string, progress io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("load", flag.ContinueOnError)
	flags.SetOutput(progress)
	flags.IntVar(&o.clients, "clients", 200, "how many follow")
	flags.IntVar(&o.stalled, "stalled", -1, "how many of them never read; -1: a tenth")
	seconds := flags.Int("seconds", 30, "how long the sessions work; a client that does not read is cut after 15")
	flags.StringVar(&o.json, "json", "", "write the figures to this file, too")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.stalled < 0 {
		o.stalled = o.clients / 10
	}
	o.length = time.Duration(*seconds) * time.Second
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("%q is no flag: everything is given by flags, see -help", flags.Arg(0))
	case o.stalled >= o.clients || *seconds < 1:
		return o, errors.New("there must be a client that reads, and a second of work")
	}
	return o, nil
}

// run measures, prints the figures, and judges the clients that read.
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
	if o.json != "" {
		err = f.save(o.json)
	}
	return errors.Join(append(faults, err)...)
}

// figures are what a run found. Lags are those of the clients that read. docs/reference/figures.md describes them.
type figures struct {
	Version      int     `json:"version"` // of this form: 1
	Clients      int     `json:"clients"`
	Stalled      int     `json:"stalled"`
	Seconds      float64 `json:"seconds"`
	Sessions     int     `json:"sessions"`
	Events       int64   `json:"events"`   // that the sessions wrote while they were followed
	Received     int     `json:"received"` // by all clients that read
	LagP50       float64 `json:"lag_p50_us"`
	LagP99       float64 `json:"lag_p99_us"`
	StalledCut   int     `json:"stalled_cut"`
	CutAfterP50  float64 `json:"cut_after_p50_us"` // 0: none was cut
	CutAfterMax  float64 `json:"cut_after_max_us"`
	ServerBefore int64   `json:"server_before_bytes"` // memory in RAM; 0: the system does not say
	ServerDuring int64   `json:"server_during_bytes"` // the most
	ServerAfter  int64   `json:"server_after_bytes"`
}

func (f figures) print(w io.Writer) {
	const mib = 1 << 20
	fmt.Fprintf(w, "clients    %d, of which %d never read\n", f.Clients, f.Stalled)
	fmt.Fprintf(w, "events     %d of %d sessions in %.1f s, %d received\n", f.Events, f.Sessions, f.Seconds, f.Received)
	fmt.Fprintf(w, "lag        p50 %.1f ms, p99 %.1f ms\n", f.LagP50/1000, f.LagP99/1000)
	fmt.Fprintf(w, "cut        %d of %d, after p50 %.1f s, max %.1f s\n", f.StalledCut, f.Stalled, f.CutAfterP50/1e6, f.CutAfterMax/1e6)
	fmt.Fprintf(w, "server     %.1f MiB before, %.1f MiB at most, %.1f MiB after\n",
		float64(f.ServerBefore)/mib, float64(f.ServerDuring)/mib, float64(f.ServerAfter)/mib)
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
