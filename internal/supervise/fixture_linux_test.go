package supervise_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/perdure/perdure/internal/supervise"
)

// Arguments that make the test binary a fixture instead.
const (
	runtimeMode = "fixture-runtime" // dir lock script...: a runtime that starts commands and waits for its death
	treeMode    = "fixture-tree"    // depth: a process tree that ignores SIGTERM, each in a session of its own
)

// self is the path of this test binary, which plays all the parts.
func self() string {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return path
}

// runtimeFixture acts as the runtime: it takes a lock, starts each script under a supervisor in
// dir/N, reports that, and waits.
func runtimeFixture() {
	if len(os.Args) < 5 || os.Args[1] != runtimeMode {
		return
	}
	dir, lock, scripts := os.Args[2], os.Args[3], os.Args[4:]
	if _, err := takeLock(lock); err != nil {
		leave(err)
	}
	// A descriptor without close-on-exec, as a careless parent leaves it.
	if _, err := syscall.Open(lock, syscall.O_RDONLY, 0); err != nil {
		leave(err)
	}
	l, err := supervise.New(supervise.Config{})
	if err != nil {
		leave(err)
	}
	for i, script := range scripts {
		ctx, run := context.Background(), fmt.Sprint(dir, "/", i)
		if err := l.Prepare(ctx, run); err != nil {
			leave(err)
		}
		c := supervise.Command{Argv: []string{"sh", "-c", script}, Env: os.Environ(), Dir: dir}
		if _, err := l.Start(ctx, run, c); err != nil {
			leave(err)
		}
	}
	fmt.Println("started")
	forget()
}

// treeFixture makes a chain of daemons: each says ready and starts the next in a new session. When
// the last one is up, every second one leaves and makes an orphan. All ignore SIGTERM.
func treeFixture() {
	if len(os.Args) != 3 || os.Args[1] != treeMode {
		return
	}
	signal.Ignore(syscall.SIGTERM)
	depth, err := strconv.Atoi(os.Args[2])
	if err != nil {
		leave(err)
	}
	fmt.Println("ready")
	const last = "last" // in the working directory: the last one is up
	if depth == 0 {
		if err := os.WriteFile(last, nil, 0o600); err != nil {
			leave(err)
		}
		forget()
	}
	next := exec.Command(self(), treeMode, strconv.Itoa(depth-1))
	next.Stdout = os.Stdout
	next.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := next.Start(); err != nil {
		leave(err)
	}
	if depth%2 != 0 {
		forget()
	}
	tick := time.NewTicker(2 * time.Millisecond)
	for range tick.C {
		if _, err := os.Stat(last); err == nil {
			leave(nil)
		}
	}
}

// forget waits to be killed, but not for ever: the test may have died.
func forget() {
	<-time.After(time.Minute)
	leave(nil)
}

// leave ends the fixture; os.Exit would take a second under -race.
func leave(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		syscall.Exit(1)
	}
	syscall.Exit(0)
}

// takeLock takes the lock on a file, at once or not at all.
func takeLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return f, syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
