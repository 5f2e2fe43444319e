package sqlite_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	driver "modernc.org/sqlite"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/sqlite"
)

// childRole is the environment variable that gives the test program a role other than testing.
const childRole = "PERDURE_SQLITE_CHILD"

// TestMain runs the role that the parent names. The arguments are the role and the data directory.
func TestMain(m *testing.M) {
	if role := os.Getenv(childRole); role != "" {
		if err := play(role, os.Args[1]); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func play(role, dir string) error {
	ctx := context.Background()
	if role == "migrate" {
		return migrateAndDie(dir, os.Args[2])
	}
	if role == "locks" {
		fmt.Println(driver.OFDLockingEnabled()) // before anything uses the driver
		return nil
	}
	s, err := sqlite.Open(ctx, sqlite.Config{Dir: dir, Program: "child", ReadOnly: role == "read"})
	if err != nil {
		return err
	}
	switch role {
	case "hold":
		return hold()
	case "append":
		return appendForEver(ctx, s)
	case "fail":
		return failWrites(ctx, s)
	case "read":
		return s.Close()
	}
	return fmt.Errorf("no such role: %s", role)
}

// hold starts a process that outlives this one, prints its id, and waits to be killed.
func hold() error {
	sleeper := exec.Command("sleep", "600")
	if err := sleeper.Start(); err != nil {
		return err
	}
	fmt.Println(sleeper.Process.Pid)
	<-time.After(10 * time.Minute) // without a timer, a runtime without cgo may take this wait for a deadlock
	return nil
}

// appendForEver appends events and prints the seq of each once it is acknowledged.
func appendForEver(ctx context.Context, s *sqlite.Store) error {
	for {
		e := []perdure.Event{titled(fmt.Sprintf("event_%d_%d", os.Getpid(), time.Now().UnixNano()))}
		err := s.InTx(ctx, func(tx store.Tx) error { return tx.Journal().Append(theSession, e) })
		if err != nil {
			return err
		}
		fmt.Println(e[0].Seq)
	}
}

// failWrites makes the system refuse every further byte, and prints the store's errors.
func failWrites(ctx context.Context, s *sqlite.Store) error {
	signal.Ignore(syscall.SIGXFSZ)
	add := func(id string) error {
		return s.InTx(ctx, func(tx store.Tx) error { return tx.Journal().Append(theSession, []perdure.Event{titled(id)}) })
	}
	fmt.Println("before:", add("event_before"))
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1, Max: 1}); err != nil {
		return err
	}
	fmt.Println("broken:", s.Broken())
	fmt.Println("during:", oneLine(add("event_during")))
	fmt.Println("later:", oneLine(add("event_later")))
	fmt.Println("broken:", oneLine(s.Broken()))
	return nil
}

func oneLine(err error) string { return strings.ReplaceAll(fmt.Sprint(err), "\n", "; ") }

// child is a test program in a role.
type child struct {
	process *os.Process
	lines   *bufio.Scanner
	wait    func() error
}

// startChild starts a program, this one by default, in a role.
func startChild(t *testing.T, role, dir string) *child {
	t.Helper()
	return startCommand(t, exec.Command(os.Args[0], dir), role)
}

func startCommand(t *testing.T, cmd *exec.Cmd, role string) *child {
	t.Helper()
	cmd.Env = append(os.Environ(), childRole+"="+role)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{process: cmd.Process, lines: bufio.NewScanner(out), wait: cmd.Wait}
	t.Cleanup(func() { c.kill() })
	return c
}

// line returns the next line that the child prints.
func (c *child) line(t *testing.T) string {
	t.Helper()
	if !c.lines.Scan() {
		t.Fatalf("the child ended: %v", c.lines.Err())
	}
	return c.lines.Text()
}

// rest returns all further lines, once the child has ended.
func (c *child) rest() []string {
	var lines []string
	for c.lines.Scan() {
		lines = append(lines, c.lines.Text())
	}
	return lines
}

// kill ends the child as the kernel does, waits for it, and returns its unread output.
func (c *child) kill() []string {
	_ = c.process.Kill()
	lines := c.rest()
	_ = c.wait()
	return lines
}
