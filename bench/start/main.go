// Start measures the size and the start of the program: its size, compressed and not, the first
// byte and the CPU time of commands relative to a program that only prints hello, and an idle
// server.
//
//	go run ./bench/start [-runs N] [-binary FILE]
//
// It may import the standard library. The one thing to know: without -binary it builds the program
// like packagers do. The times are only printed: a busy machine makes them all longer, so read the
// ratios.
package main

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "start:", err)
		os.Exit(1)
	}
}

const hello = `package main

import "fmt"

func main() { fmt.Println("hello") }
`

// run measures and prints a row for each figure.
func run(ctx context.Context, args []string, out, progress io.Writer) error {
	flags := flag.NewFlagSet("start", flag.ContinueOnError)
	flags.SetOutput(progress)
	runs := flags.Int("runs", 50, "number of starts per command")
	binary := flags.String("binary", "", "measure this program; empty: build it")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 || *runs < 1 {
		return errors.New("unexpected arguments: use flags, see -help")
	}
	dir, err := os.MkdirTemp("", "perdure-start-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if *binary == "" {
		*binary = filepath.Join(dir, "perdure")
		fmt.Fprintln(progress, "building the program")
		if err := build(ctx, *binary, "./cmd/perdure"); err != nil {
			return err
		}
	}
	source, greeter := filepath.Join(dir, "hello.go"), filepath.Join(dir, "hello")
	if err := os.WriteFile(source, []byte(hello), 0o600); err != nil {
		return err
	}
	if err := build(ctx, greeter, source); err != nil {
		return err
	}
	if err := weigh(out, *binary); err != nil {
		return err
	}
	if err := commands(ctx, out, [2]string{*binary, greeter}, *runs); err != nil {
		return err
	}
	return idle(ctx, out, *binary, filepath.Join(dir, "data"))
}

// build builds like packagers do.
func build(ctx context.Context, to, what string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", to, what)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w: %s", what, err, said)
	}
	return nil
}

// weigh prints the size, uncompressed and compressed.
func weigh(out io.Writer, binary string) error {
	file, err := os.Open(binary)
	if err != nil {
		return err
	}
	defer file.Close()
	packed := &counter{}
	pack, err := gzip.NewWriterLevel(packed, gzip.BestCompression)
	if err != nil {
		return err
	}
	size, err := io.Copy(pack, file)
	if err = errors.Join(err, pack.Close()); err != nil {
		return err
	}
	fmt.Fprintf(out, "size %.1f MB (goal 60), gzip -9 %.1f MB (goal 20)\n", float64(size)/1e6,
		float64(packed.bytes)/1e6)
	return nil
}

// counter counts the bytes that are written to it.
type counter struct{ bytes int64 }

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	c.bytes += int64(len(p))
	return len(p), nil
}

// start is the duration of one start of a command.
type start struct{ cpu, first time.Duration }

// commands starts commands and the greeter alternately, and prints the medians.
func commands(ctx context.Context, out io.Writer, programs [2]string, runs int) error {
	for _, line := range []string{"--help", "session list --help", "version", "tool list"} {
		var ours, theirs []start
		for range runs {
			one, err := once(ctx, programs[0], strings.Fields(line)...)
			if err != nil {
				return err
			}
			other, err := once(ctx, programs[1])
			if err != nil {
				return err
			}
			ours, theirs = append(ours, one), append(theirs, other)
		}
		cpu, first := medians(ours)
		plainCPU, plainFirst := medians(theirs)
		fmt.Fprintf(out, "perdure %-20s first byte %5.1f ms, %4.1f × hello; CPU %5.1f ms, %4.1f × hello\n", line,
			ms(first), ratio(first, plainFirst), ms(cpu), ratio(cpu, plainCPU))
	}
	return nil
}

// once starts a program and reads its output.
func once(ctx context.Context, program string, args ...string) (s start, err error) {
	cmd := exec.CommandContext(ctx, program, args...)
	printed, err := cmd.StdoutPipe()
	if err != nil {
		return s, err
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return s, err
	}
	_, err = printed.Read(make([]byte, 1))
	s.first = time.Since(began)
	_, drained := io.Copy(io.Discard, printed)
	if err = errors.Join(err, drained, cmd.Wait()); err != nil {
		return s, fmt.Errorf("%s %s: %w", program, strings.Join(args, " "), err)
	}
	s.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return s, nil
}

func medians(all []start) (cpu, first time.Duration) {
	var cpus, firsts []time.Duration
	for _, s := range all {
		cpus, firsts = append(cpus, s.cpu), append(firsts, s.first)
	}
	slices.Sort(cpus)
	slices.Sort(firsts)
	return cpus[len(cpus)/2], firsts[len(firsts)/2]
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func ratio(a, b time.Duration) float64 { return float64(a) / float64(max(b, time.Microsecond)) }

// idle starts a server in a new data directory, waits until it prints its address, and prints how
// long that took and how much memory the idle server uses.
func idle(ctx context.Context, out io.Writer, binary, data string) error {
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, binary, "serve", "--data", data, "--addr", "127.0.0.1:0")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	said, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return err
	}
	_, err = bufio.NewReader(said).ReadString('\n')
	took := time.Since(began)
	memory := "not measured here"
	if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid)); err == nil {
		if found := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(text); found != nil {
			kib, _ := strconv.Atoi(string(found[1])) // digits
			memory = fmt.Sprintf("%.1f MiB (goal 40)", float64(kib)/1024)
		}
	}
	stop()
	_ = cmd.Wait() // it was stopped
	if err != nil {
		return fmt.Errorf("the server prints no address: %w", err)
	}
	fmt.Fprintf(out, "perdure serve        listens after %.0f ms (goal 80), resident %s\n", ms(took), memory)
	return nil
}
