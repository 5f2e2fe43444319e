// Mcpproxy measures what the durability proxy adds to a call: the same pure tool of the same MCP server, asked directly and through
// perdure mcp proxy, each over stdio.
//
//	go run ./bench/mcpproxy [-n N]
//
// It may import anything. The one thing to know: this program is the server, too, when it is started as one; the proxy is built anew
// from this tree, and its calls go through a ledger on this disk.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
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

// words is the arguments of the tool, and what it answers.
type words struct {
	Text string `json:"text"`
}

// serve is the server: one tool that answers at once.
func serve(ctx context.Context) error {
	s := mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "say", Description: "Says it again."}, func(_ context.Context, _ *mcp.CallToolRequest, in words) (*mcp.CallToolResult, words, error) {
		return nil, in, nil
	})
	return s.Run(ctx, &mcp.StdioTransport{})
}

// run measures and prints.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("mcpproxy", flag.ContinueOnError)
	n := flags.Int("n", 2000, "calls of each way, one after another")
	if err := flags.Parse(args); err != nil {
		return err
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
	fmt.Fprintf(out, "%d calls of a pure tool, one after another, over stdio\n%-24s %10s %10s\n", *n, "", "p50", "p99")
	direct, err := measure(ctx, *n, exec.CommandContext(ctx, self, serveWord))
	if err != nil {
		return fmt.Errorf("direct: %w", err)
	}
	fmt.Fprintf(out, "%-24s %7.2f ms %7.2f ms\n", "direct", at(direct, 50), at(direct, 99))
	through, err := measure(ctx, *n, exec.CommandContext(ctx, program, "mcp", "proxy", "--data", filepath.Join(work, "data"), "--class", "say=pure", "--", self, serveWord))
	if err != nil {
		return fmt.Errorf("through the proxy: %w", err)
	}
	fmt.Fprintf(out, "%-24s %7.2f ms %7.2f ms\n", "through the proxy", at(through, 50), at(through, 99))
	fmt.Fprintf(out, "%-24s %7.2f ms %7.2f ms\n", "more", at(through, 50)-at(direct, 50), at(through, 99)-at(direct, 99))
	return nil
}

// measure makes calls over a command's stdio, and returns how long they took, sorted.
func measure(ctx context.Context, n int, command *exec.Cmd) (took []time.Duration, err error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.CommandTransport{Command: command}, nil)
	if err != nil {
		return nil, err
	}
	for i := range n + n/10 {
		start := time.Now()
		result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "say", Arguments: words{fmt.Sprint("call ", i)}})
		if err != nil {
			return nil, err
		}
		if result.IsError {
			return nil, fmt.Errorf("a call failed: %v", result.Content)
		}
		if i >= n/10 { // the first are to warm up
			took = append(took, time.Since(start))
		}
	}
	slices.Sort(took)
	return took, session.Close()
}

// at is a percentile in milliseconds.
func at(took []time.Duration, percent int) float64 {
	return float64(took[min(len(took)*percent/100, len(took)-1)].Microseconds()) / 1000
}
