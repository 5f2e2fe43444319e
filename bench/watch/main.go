// Watch measures how long it takes until the output of a task is seen: by perdure task watch, and
// by a client that only reads the task's log as a stream of events, both for the same task in the
// same run.
//
//	go run ./bench/watch [-ticks N] [-binary FILE]
//
// It may import the root, engine and internal/egress. The one thing to know: the task writes the
// time into each line, and both durations count from there. So the time of the command, its
// supervisor and the server is in both, and the ratio shows what watch adds.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/egress"
)

// goal is the goal for the 95th percentile of watch.
const goal = 150 * time.Millisecond

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "watch:", err)
		os.Exit(1)
	}
}

// run measures and prints a row for each way to see the task.
func run(ctx context.Context, args []string, out, progress io.Writer) error {
	flags := flag.NewFlagSet("watch", flag.ContinueOnError)
	flags.SetOutput(progress)
	ticks := flags.Int("ticks", 200, "number of lines of the task, about one every 137 ms")
	binary := flags.String("binary", "", "measure this program; empty: build it")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 || *ticks < 1 {
		return errors.New("unexpected arguments: use flags, see -help")
	}
	if runtime.GOOS != "linux" {
		fmt.Fprintln(out, "not measured here: the task needs date with nanoseconds, as on Linux")
		return nil
	}
	dir, err := os.MkdirTemp("", "perdure-watch-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if *binary == "" {
		*binary = filepath.Join(dir, "perdure")
		fmt.Fprintln(progress, "building the program")
		build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", *binary, "./cmd/perdure")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if said, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build ./cmd/perdure: %w: %s", err, said)
		}
	}
	w := watchRig{binary: *binary, dir: dir, ticks: *ticks}
	url, stop, err := w.serve(ctx)
	if err != nil {
		return err
	}
	defer stop()
	task, err := w.begin(ctx)
	if err != nil {
		return err
	}
	return w.measure(ctx, out, url, task)
}

// watchRig is a server and its client programs.
type watchRig struct {
	binary, dir string
	ticks       int
}

// program returns a command on the data directory.
func (w watchRig) program(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, w.binary, args...)
	cmd.Env = append(os.Environ(), "HOME="+w.dir, "PERDURE_DATA="+filepath.Join(w.dir, "data"))
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// says runs a command and returns its output, without the newline.
func (w watchRig) says(ctx context.Context, args ...string) (string, error) {
	out, err := w.program(ctx, args...).Output()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		err = fmt.Errorf("perdure %s: %w: %s", strings.Join(args, " "), err, failed.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}

// serve starts a server and returns its URL. stop stops it.
func (w watchRig) serve(ctx context.Context) (url string, stop func(), err error) {
	ctx, end := context.WithCancel(ctx)
	cmd := w.program(ctx, "serve", "--addr", "127.0.0.1:0")
	said, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		end()
		return "", nil, err
	}
	stop = func() {
		end()
		_ = cmd.Wait() // it was stopped
	}
	if url, err = bufio.NewReader(said).ReadString('\n'); err != nil {
		stop()
		return "", nil, fmt.Errorf("the server prints no address: %w", err)
	}
	return strings.TrimSpace(url), stop, nil
}

// begin starts the task. It waits for a file, so that no client misses its first line.
func (w watchRig) begin(ctx context.Context) (task string, err error) {
	script := fmt.Sprintf("until test -e go; do sleep 0.05; done\ni=0\nwhile test $i -lt %d; do i=$((i+1)); echo \"tick $(date +%%s%%N)\"; sleep 0.137; done\n", w.ticks)
	const model = `
steps:
  - calls: [{name: spawn_background, args: {tool: bash, args: {command: "sh ticks.sh"}}}]
  - {text: "Done.", repeat: true}
`
	work := filepath.Join(w.dir, "work")
	if err := os.Mkdir(work, 0o700); err != nil {
		return "", err
	}
	for name, text := range map[string]string{"work/ticks.sh": script, "model.yaml": model} {
		if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	session, err := w.says(ctx, "session", "new", "--model", "scripted:"+filepath.Join(w.dir, "model.yaml"),
		"--capability", "bashkit_shell", "--workspace", work, "-o", "name")
	if err == nil {
		_, err = w.says(ctx, "session", "send", session, "begin")
	}
	for began := time.Now(); err == nil && task == ""; {
		if task, err = w.says(ctx, "task", "list", "--session", session, "--state", "running", "-o",
			"name"); time.Since(began) > time.Minute {
			return "", errors.New("no task started within a minute")
		}
	}
	return task, err
}

// measure lets both watch the task, and prints how long they took to see its lines.
func (w watchRig) measure(ctx context.Context, out io.Writer, url, task string) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	token, err := os.ReadFile(filepath.Join(w.dir, "data", "token"))
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/v1/tasks/"+task+"/log?follow=true", http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	req.Header.Set("Accept", "text/event-stream")
	web, err := egress.ForURL(url)
	if err != nil {
		return err
	}
	stream, err := web.Do(req)
	if err != nil {
		return err
	}
	defer stream.Body.Close()
	if stream.StatusCode != http.StatusOK {
		return fmt.Errorf("the log: %s", stream.Status)
	}
	cmd := w.program(ctx, "task", "watch", task)
	seen, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	var ours, bare map[int64]lineSeen
	var group sync.WaitGroup
	first := make(chan struct{})
	group.Go(func() { ours = ticksIn(seen, w.ticks, first) })
	group.Go(func() { bare = ticksIn(stream.Body, w.ticks, nil) })
	<-first // the watch has started
	err = os.WriteFile(filepath.Join(w.dir, "work", "go"), nil, 0o600)
	group.Wait()
	stop()
	_ = cmd.Wait() // all counted output was read
	if err != nil {
		return err
	}
	return w.report(out, ours, bare)
}

// report prints the age of the lines, since they were written and since the server had them.
func (w watchRig) report(out io.Writer, ours, bare map[int64]lineSeen) error {
	if len(ours) == 0 || len(bare) == 0 {
		return fmt.Errorf("watch saw %d lines, and the stream %d", len(ours), len(bare))
	}
	fmt.Fprintf(out, "watch saw %d lines, the stream %d of %d\n", len(ours), len(bare), w.ticks)
	for _, row := range []struct {
		what, goal string
		from       func(stamp int64) time.Time
	}{
		{"since the server had it", fmt.Sprintf(" (goal %d)", goal.Milliseconds()),
			func(stamp int64) time.Time { return bare[stamp].had }},
		{"since it was written", "", func(stamp int64) time.Time { return time.Unix(0, stamp) }},
	} {
		var watch, stream []time.Duration
		for stamp, seen := range bare {
			stream = append(stream, seen.seen.Sub(row.from(stamp)))
			if here, is := ours[stamp]; is {
				watch = append(watch, here.seen.Sub(row.from(stamp)))
			}
		}
		slices.Sort(watch)
		slices.Sort(stream)
		fmt.Fprintf(out, "%-23s  watch p50 %3.0f ms, p95 %3.0f ms%s; stream p50 %3.0f ms, p95 %3.0f ms; p95 %.1f ×\n",
			row.what,
			ms(at(watch, 50)), ms(at(watch, 95)), row.goal, ms(at(stream, 50)), ms(at(stream, 95)),
			ms(at(watch, 95))/ms(at(stream, 95)))
	}
	return nil
}

// lineSeen is when a line was first seen, and when the server had it; zero: unknown.
type lineSeen struct{ seen, had time.Time }

var tick = regexp.MustCompile(`tick (\d{19})`)

// ticksIn reads until the last of n lines or the end, and returns the lines by the time at which
// each was written. It closes first with the first output.
func ticksIn(from io.Reader, n int, first chan<- struct{}) map[int64]lineSeen {
	known := map[int64]lineSeen{}
	lines := bufio.NewReader(from)
	for len(known) < n {
		line, err := lines.ReadString('\n')
		now := time.Now()
		if first != nil {
			close(first)
			first = nil
		}
		var chunk engine.Chunk
		if data, is := strings.CutPrefix(line, "data: "); is {
			_ = perdure.DecodeKnownJSON([]byte(data), &chunk) // other data contains no line
			line = string(chunk.Bytes)
		}
		for _, found := range tick.FindAllStringSubmatch(line, -1) {
			stamp, _ := strconv.ParseInt(found[1], 10, 64) // digits
			if _, is := known[stamp]; !is {
				known[stamp] = lineSeen{now, chunk.At}
			}
		}
		if err != nil {
			break
		}
	}
	return known
}

// at returns a percentile of sorted times.
func at(sorted []time.Duration, percent int) time.Duration {
	return sorted[min(len(sorted)-1, len(sorted)*percent/100)]
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
