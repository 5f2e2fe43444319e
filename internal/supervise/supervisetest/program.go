package supervisetest

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Process is the environment of a Program.
type Process struct {
	Args   []string // the program's name and its arguments
	Env    []string
	Stdout io.Writer
	Stderr io.Writer
	Term   <-chan struct{} // closed by SIGTERM
	Dead   <-chan struct{} // closed by SIGKILL: return; nil in a real process, which dies without it
}

// Program is a command written in Go. It returns its exit status, soon after Dead at the latest.
type Program func(p Process) int

// Programs returns the commands of the suite by name.
func Programs() map[string]Program {
	return map[string]Program{
		"exit":     exit,
		"both":     both,
		"tick":     tick,
		"hold":     hold,
		"stubborn": stubborn,
		"flood":    flood,
		"env":      env,
	}
}

// marker precedes the name of a program in an argument list.
const marker = "supervisetest"

// Argv returns the command line that runs a program of the suite in binary, which must call Main.
func Argv(binary, program string, args ...string) []string {
	return append([]string{binary, marker, program}, args...)
}

// Main returns immediately, unless this process was started with the command line of Argv; then it
// runs that program and never returns. Call it in TestMain, after supervise.Entry.
func Main() {
	if len(os.Args) < 3 || os.Args[1] != marker {
		return
	}
	term := make(chan struct{})
	signals := make(chan os.Signal, 1) // the first one is enough
	signal.Notify(signals, syscall.SIGTERM)
	go func() {
		<-signals
		close(term)
	}()
	program := Programs()[os.Args[2]]
	if program == nil {
		panic("no program " + os.Args[2])
	}
	// os.Exit would wait for a second under -race.
	syscall.Exit(program(Process{
		Args: os.Args[2:], Env: os.Environ(), Stdout: os.Stdout, Stderr: os.Stderr, Term: term,
	}))
}

// number returns argument i, or panics: only tests call the programs.
func (p Process) number(i int) int {
	n, err := strconv.Atoi(p.Args[i])
	if err != nil {
		panic(err)
	}
	return n
}

// exit N exits with status N.
func exit(p Process) int { return p.number(1) }

// both N writes N lines to each stream, alternating.
func both(p Process) int {
	for i := range p.number(1) {
		fmt.Fprintf(p.Stdout, "out %d\n", i)
		fmt.Fprintf(p.Stderr, "err %d\n", i)
	}
	return 0
}

// tick N writes N lines, one every 10 ms, and exits with status 5; with status 6 on SIGTERM.
func tick(p Process) int {
	for i := range p.number(1) {
		fmt.Fprintf(p.Stdout, "tick %d\n", i)
		select {
		case <-p.Term:
			return 6
		case <-p.Dead:
			return 6
		case <-time.After(10 * time.Millisecond):
		}
	}
	return 5
}

// maxProgramTime is how long a program runs at most after its test has died.
const maxProgramTime = 5 * time.Minute

// hold writes ready, waits for SIGTERM, writes bye and exits with status 7.
func hold(p Process) int {
	fmt.Fprintln(p.Stdout, "ready")
	select {
	case <-p.Term:
	case <-p.Dead:
	case <-time.After(maxProgramTime):
	}
	fmt.Fprintln(p.Stdout, "bye")
	return 7
}

// stubborn writes ready, writes no on SIGTERM, and keeps running.
func stubborn(p Process) int {
	fmt.Fprintln(p.Stdout, "ready")
	select {
	case <-p.Term:
		fmt.Fprintln(p.Stdout, "no")
	case <-p.Dead:
		return 0
	case <-time.After(maxProgramTime):
		return 1
	}
	select {
	case <-p.Dead:
	case <-time.After(maxProgramTime):
	}
	return 0
}

// flood N writes N times the letter x.
func flood(p Process) int {
	_, _ = io.CopyN(p.Stdout, xs{}, int64(p.number(1)))
	return 0
}

type xs struct{}

func (xs) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}

// env writes its environment in sorted order, one variable per line.
func env(p Process) int {
	vars := slices.Sorted(slices.Values(p.Env))
	fmt.Fprint(p.Stdout, strings.Join(vars, "\n"))
	return 0
}
