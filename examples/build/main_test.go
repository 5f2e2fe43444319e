package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/tool/tooltest"
)

// asProgram is the variable that makes the test binary run as the program, so that a test can kill
// it.
const asProgram = "PERDURE_EXAMPLE_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(asProgram); dir != "" {
		os.Args = []string{"build", dir}
		main()
		return
	}
	os.Exit(m.Run())
}

// TestSurvivesKill kills the program while its tool works, and starts it again.
func TestSurvivesKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := program(dir)
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	waitForClaim(t, dir)
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait() // it was killed

	second := program(dir)
	var log bytes.Buffer
	second.Stderr = &log
	said, err := second.Output()
	if err != nil {
		t.Fatalf("second start: %v\n%s", err, log.String())
	}
	if got := string(said); got != "The image is perdure/perdure:1.\n" {
		t.Errorf("got %q", got)
	}
	if n := strings.Count(log.String(), "built under session_"); n != 1 {
		t.Errorf("built %d times after the kill, want once\n%s", n, log.String())
	}
}

func program(dir string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asProgram+"="+dir)
	return cmd
}

// waitForClaim waits until the write-ahead log holds the start of the call.
func waitForClaim(t *testing.T, dir string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(20 * time.Second)
	for {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatal("no call was started")
		}
		wal, err := os.Open(dir + "/perdure.db-wal")
		if err != nil {
			continue
		}
		found := false
		lines := bufio.NewReaderSize(wal, 1<<20)
		text, _ := lines.Peek(1 << 20)
		found = bytes.Contains(text, []byte(`"tool.started"`))
		wal.Close()
		if found {
			return
		}
	}
}

// TestCrash kills a runtime at every step around the tool.
func TestCrash(t *testing.T) {
	t.Parallel()

	tooltest.Crash(t, build(), in{Repo: "perdure/perdure"})
}
