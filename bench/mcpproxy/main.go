// Mcpproxy measures what the durable proxy adds to a call: the same pure tool of the same MCP
// server, called directly and through perdure mcp proxy, both over stdio.
//
//	go run ./bench/mcpproxy [-n N] [-at 1,8,32]
//
// It may import anything. The one thing to know: this program is also the server, when it is
// started as one. The proxy is built from this tree, and its calls use an effect ledger on this
// disk. Each line of the table starts with an empty ledger, so that its first and last calls show
// how the cost grows with the number of calls.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// serveWord starts this program as the server.
const serveWord = "serve-mcp"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	if len(os.Args) > 1 && os.Args[1] == serveWord {
		err = serve(ctx)
	} else {
		err = run(ctx, os.Args[1:], os.Stdout)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mcpproxy:", err)
		os.Exit(1)
	}
}

// echoInput is the input and output of the tool.
type echoInput struct {
	Text string `json:"text"`
}

// serve is the server: one tool that answers at once.
func serve(ctx context.Context) error {
	s := mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "say", Description: "Echoes its input."},
		func(_ context.Context, _ *mcp.CallToolRequest, in echoInput) (*mcp.CallToolResult, echoInput, error) {
			return nil, in, nil
		})
	return s.Run(ctx, &mcp.StdioTransport{})
}

// run measures and prints.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("mcpproxy", flag.ContinueOnError)
	n := flags.Int("n", 2000, "number of calls per way and level, at least 20")
	at := flags.String("at", "1,8,32", "numbers of concurrent calls, one line of the table each")
	if err := flags.Parse(args); err != nil {
		return err
	}
	levels, err := readLevels(*at)
	if err != nil || *n < 20 {
		return cmp.Or(err, errors.New("-n: at least 20"))
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "perdure-mcpproxy")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	program := filepath.Join(work, "perdure")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/perdure")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build perdure: %w; run this in its source folder", err)
	}
	fmt.Fprintf(out, "%d calls of a pure tool over stdio, with and without the proxy; milliseconds\n", *n)
	fmt.Fprintf(out, "%8s %16s %16s %16s %10s %16s %16s %20s\n",
		"at once", "direct p50 p99", "proxy p50 p99", "more p50 p99", "proxy CPU", "sync p50 p99", "more in syncs",
		"proxy: first, last")
	for _, level := range levels {
		b := bench{n: *n, level: level}
		direct, _, err := b.measure(ctx, exec.CommandContext(ctx, self, serveWord))
		if err != nil {
			return fmt.Errorf("direct: %w", err)
		}
		disk, err := syncs(work)
		if err != nil {
			return err
		}
		data := filepath.Join(work, "data"+strconv.Itoa(level))
		proxy := exec.CommandContext(ctx, program, "mcp", "proxy", "--data", data, "--class", "say=pure", "--", self,
			serveWord)
		through, times, err := b.measure(ctx, proxy)
		if err != nil {
			return fmt.Errorf("through the proxy: %w", err)
		}
		each := float64((proxy.ProcessState.UserTime() +
			proxy.ProcessState.SystemTime()).Microseconds()) / 1000 / float64(b.calls())
		tenth := len(times) / 10
		first, last := slices.Sorted(slices.Values(times[:tenth])),
			slices.Sorted(slices.Values(times[len(times)-tenth:]))
		d50, d99, p50, p99 := percentile(direct, 50), percentile(direct, 99), percentile(through, 50),
			percentile(through, 99)
		s50, s99 := percentile(disk, 50), percentile(disk, 99)
		fmt.Fprintf(out, "%8d %7.2f %8.2f %7.2f %8.2f %7.2f %8.2f %10.2f %7.2f %8.2f %7.1f %8.1f %11.2f %8.2f\n",
			level, d50, d99, p50, p99, p50-d50, p99-d99, each, s50, s99, (p50-d50)/s50, (p99-d99)/s99,
			percentile(first, 50), percentile(last, 50))
	}
	fmt.Fprintln(out, "proxy CPU: CPU time of the proxy process per call, including its start and end")
	fmt.Fprintln(out, "sync: one write of 8 KiB with fsync; more in syncs: p50 and p99 of more, divided by those of sync")
	fmt.Fprintln(out, "first, last: the p50 of the first tenth of the calls, and of the last")
	return nil
}

// readLevels parses comma-separated numbers.
func readLevels(text string) (levels []int, err error) {
	for _, word := range strings.Split(text, ",") {
		level, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || level < 1 {
			return nil, fmt.Errorf("-at %q: want comma-separated numbers, at least 1", text)
		}
		levels = append(levels, level)
	}
	return levels, nil
}

// bench is a number of calls, and how many of them are concurrent.
type bench struct{ n, level int }

// calls returns the number of calls, including warm-up.
func (b bench) calls() int { return b.n + b.n/10 }

// measure makes calls over a command's stdio, and returns their durations, sorted and in order of
// their start.
func (b bench) measure(ctx context.Context, command *exec.Cmd) (sorted, took []time.Duration, err error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.CommandTransport{Command: command}, nil)
	if err != nil {
		return nil, nil, err
	}
	all := make([]time.Duration, b.calls())
	failed := make([]error, b.level)
	var next atomic.Int64
	var group sync.WaitGroup
	for worker := range b.level {
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(all)) && failed[worker] == nil; i = next.Add(1) - 1 {
				all[i], failed[worker] = call(ctx, session, fmt.Sprint("call ", i))
			}
		})
	}
	group.Wait()
	if err := errors.Join(failed...); err != nil {
		return nil, nil, errors.Join(err, session.Close())
	}
	took = all[len(all)-b.n:] // without warm-up
	return slices.Sorted(slices.Values(took)), took, session.Close()
}

// call makes one call.
func call(ctx context.Context, session *mcp.ClientSession, text string) (took time.Duration, err error) {
	start := time.Now()
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "say", Arguments: echoInput{text}})
	if err == nil && result.IsError {
		err = fmt.Errorf("a call failed: %v", result.Content)
	}
	return time.Since(start), err
}

// syncs writes and syncs pieces of a file sequentially, and returns the durations, sorted.
func syncs(dir string) (took []time.Duration, err error) {
	file, err := os.CreateTemp(dir, "sync")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	block := make([]byte, 8<<10)
	for i := range 300 {
		block[0] = byte(i)
		start := time.Now()
		if _, err := file.Write(block); err != nil {
			return nil, err
		}
		if err := file.Sync(); err != nil {
			return nil, err
		}
		took = append(took, time.Since(start))
	}
	return slices.Sorted(slices.Values(took)), nil
}

// percentile returns a percentile in milliseconds.
func percentile(sorted []time.Duration, percent int) float64 {
	return float64(sorted[min(len(sorted)*percent/100, len(sorted)-1)].Microseconds()) / 1000
}
