// Borders measures the cost of the limits of a session: starting a command in each sandbox,
// checking a request before it is sent, and reserving and settling a budget.
//
//	go run ./bench/borders [-n N] [-postgres=false] [-json FILE]
//
// It may import anything. The one thing to know: this program is the supervisor of its own
// commands, and no request is sent. The figures are only printed.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/egress"
	"github.com/perdure/perdure/internal/supervise"
)

func main() {
	supervise.Entry()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "borders:", err)
		os.Exit(1)
	}
}

// figure is one row.
type figure struct {
	Name string  `json:"name"`
	N    int     `json:"n"`
	P50  float64 `json:"p50_us"`
	P99  float64 `json:"p99_us"`
	Rate float64 `json:"per_s,omitempty"`   // of concurrent work
	Why  string  `json:"missing,omitempty"` // why there are no numbers
}

// run measures and prints.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("borders", flag.ContinueOnError)
	n := flags.Int("n", 100, "commands in each sandbox; requests are a hundred times as many, reservations about 25")
	withPostgres := flags.Bool("postgres", true, "also measure budgets on a temporary PostgreSQL server")
	file := flags.String("json", "", "also write the figures to this file")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *n < 1 || flags.NArg() > 0 {
		return errors.New("-n must be at least 1, and there are no arguments")
	}
	starts, err := sandboxes(ctx, *n)
	if err != nil {
		return err
	}
	checks, err := requests(ctx, 100**n)
	if err != nil {
		return err
	}
	spent, err := budgets(ctx, max(*n/10, 1), *withPostgres)
	if err != nil {
		return err
	}
	all := slices.Concat(starts, checks, spent)
	for _, f := range all {
		if f.Why != "" {
			fmt.Fprintf(out, "%-26s missing: %s\n", f.Name, f.Why)
			continue
		}
		fmt.Fprintf(out, "%-26s p50 %9.1f us   p99 %9.1f us   n %d", f.Name, f.P50, f.P99, f.N)
		if f.Rate > 0 {
			fmt.Fprintf(out, "   %.0f a second", f.Rate)
		}
		fmt.Fprintln(out)
	}
	if *file == "" {
		return nil
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err == nil {
		err = os.WriteFile(*file, append(text, '\n'), 0o600)
	}
	return err
}

// summary returns a row of a sample.
func summary(name string, took []time.Duration) figure {
	slices.Sort(took)
	at := func(p float64) float64 {
		return float64(took[max(int(math.Ceil(p*float64(len(took))))-1, 0)].Nanoseconds()) / 1000
	}
	return figure{Name: name, N: len(took), P50: at(0.50), P99: at(0.99)}
}

// sandboxes measures, alternating between the profiles, from the request for a command to its first
// byte of output.
func sandboxes(ctx context.Context, n int) ([]figure, error) {
	dir, err := os.MkdirTemp("", "perdure-borders")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	profiles := []supervise.Profile{supervise.ProfileNone, supervise.ProfileWorkspace, supervise.ProfileIsolated}
	runners, took, missing := map[supervise.Profile]*supervise.Local{}, map[supervise.Profile][]time.Duration{},
		map[supervise.Profile]error{}
	for _, profile := range profiles {
		if runners[profile], err = supervise.New(supervise.Config{Profile: profile}); err != nil {
			missing[profile] = err
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "work"), 0o700); err != nil {
		return nil, err
	}
	for i := range n {
		for _, profile := range profiles {
			if missing[profile] != nil {
				continue
			}
			one, err := start(ctx, runners[profile], filepath.Join(dir, string(profile)+strconv.Itoa(i)),
				filepath.Join(dir, "work"))
			if err != nil {
				return nil, fmt.Errorf("start a command under %s: %w", profile, err)
			}
			took[profile] = append(took[profile], one)
		}
	}
	var rows []figure
	for _, profile := range profiles {
		name := "sandbox_start_" + string(profile)
		if why := missing[profile]; why != nil {
			rows = append(rows, figure{Name: name, Why: why.Error()})
			continue
		}
		rows = append(rows, summary(name, took[profile]))
	}
	return rows, nil
}

// errFirst ends the wait for output.
var errFirst = errors.New("first byte received")

func start(ctx context.Context, l *supervise.Local, dir, work string) (time.Duration, error) {
	began := time.Now()
	if err := l.Prepare(ctx, dir); err != nil {
		return 0, err
	}
	run, err := l.Start(ctx, dir,
		supervise.Command{Argv: []string{"/bin/sh", "-c", "echo"}, Env: []string{"PATH=/usr/bin:/bin"}, Dir: work})
	if err != nil {
		return 0, err
	}
	if _, err := run.Follow(ctx, 0, func(supervise.Chunk) error { return errFirst }); !errors.Is(err, errFirst) {
		return 0, errors.Join(errors.New("the command wrote nothing"), err)
	}
	took := time.Since(began)
	return took, errors.Join(run.Stop(ctx, 0), l.Remove(ctx, dir))
}

// oneName is a resolver that answers at once.
type oneName struct{}

// LookupNetIP implements egress.Resolver.
func (oneName) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.AddrFrom4([4]byte{8, 8, 8, 8}), netip.AddrFrom4([4]byte{8, 8, 4, 4})}, nil
}

// requests measures the full check of a request without lookup and connection: normalization,
// lists, port, addresses.
func requests(ctx context.Context, n int) ([]figure, error) {
	dir, err := os.MkdirTemp("", "perdure-borders")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	rules := filepath.Join(dir, egress.RulesFile)
	if err := (egress.Rules{Blocked: []string{"*.internal.test"}}).Write(rules); err != nil {
		return nil, err
	}
	guard, err := egress.New(egress.Config{Resolver: oneName{}, File: rules})
	if err != nil {
		return nil, err
	}
	defer guard.Close()
	var long perdure.NetworkList
	for i := range 100 {
		long.Allowed = append(long.Allowed, "*.host"+strconv.Itoa(i)+".test")
	}
	var rows []figure
	for _, one := range []struct {
		name, url string
		list      perdure.NetworkList
		denied    bool
	}{
		{"egress_check_no_list", "https://a.test/path?q=1", perdure.NetworkList{}, false},
		{"egress_check_100_patterns", "https://a.host99.test/path?q=1", long, false},
		{"egress_check_denied", "http://169.254.169.254/latest", perdure.NetworkList{}, true},
	} {
		took := make([]time.Duration, 0, n)
		for range n {
			began := time.Now()
			_, err := guard.Resolve(ctx, "", one.url, one.list)
			took = append(took, time.Since(began))
			if (err != nil) != one.denied {
				return nil, fmt.Errorf("%s: %w", one.name, err)
			}
		}
		rows = append(rows, summary(one.name, took))
	}
	return rows, nil
}
