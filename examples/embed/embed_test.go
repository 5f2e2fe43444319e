package main

import (
	"bufio"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store/sqlite"
	"github.com/perdure/perdure/tool"
)

// asProgram is the variable that makes the test binary run as the program, in a folder, so that a
// test can kill it.
const asProgram = "PERDURE_EXAMPLE_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(asProgram); dir != "" {
		if err := os.Chdir(dir); err != nil {
			panic(err)
		}
		main()
		return
	}
	os.Exit(m.Run())
}

// TestSurvivesTenKills kills the program at ten random moments.
func TestSurvivesTenKills(t *testing.T) {
	t.Parallel()
	survives(t, func(dir string) *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), asProgram+"="+dir)
		return cmd
	})
}

// survives kills a program ten times and lets it end its work. It is one session with one subagent,
// and no mail was sent twice, whenever the kills came.
func survives(t *testing.T, program func(dir string) *exec.Cmd) {
	t.Helper()
	dir := t.TempDir()
	var hooks atomic.Int64
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hooks.Add(1) }))
	t.Cleanup(receiver.Close)
	start := func() (*exec.Cmd, *bufio.Scanner, *strings.Builder) {
		cmd, log := program(dir), &strings.Builder{}
		if cmd.Env == nil {
			cmd.Env = os.Environ()
		}
		cmd.Dir, cmd.Stdin, cmd.Stderr = dir, strings.NewReader("y\n"), log
		cmd.Env = append(cmd.Env, "RECEIVER="+receiver.URL+"/")
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		return cmd, bufio.NewScanner(out), log
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 10 {
		cmd, _, log := start()
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case err := <-ended:
			t.Fatalf("it ended by itself: %v\n%s", err, log)
		case <-time.After(time.Duration(random.Int64N(int64(1200 * time.Millisecond)))):
		}
		_ = cmd.Process.Kill() // it is running
		<-ended
	}

	cmd, out, log := start()
	said := ""
	for !strings.Contains(said, "Version 1 is released.") && out.Scan() {
		said += out.Text() + "\n"
	}
	if !strings.Contains(said, "Version 1 is released.") {
		_ = cmd.Process.Kill()
		t.Fatalf("it said %q, ended with %v\n%s", said, cmd.Wait(), log)
	}
	called := time.NewTicker(10 * time.Millisecond)
	defer called.Stop()
	limit := time.After(time.Minute)
	for hooks.Load() == 0 {
		select {
		case <-called.C:
		case <-limit:
			t.Error("the webhook was not called")
			hooks.Store(-1)
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after Ctrl-C: %v\n%s", err, log)
	}
	checkData(t, filepath.Join(dir, "data"))
}

// checkData checks what is left in the data directory.
func checkData(t *testing.T, dir string) {
	t.Helper()
	mails, err := os.ReadFile(filepath.Join(dir, "mails"))
	if err != nil && !os.IsNotExist(err) { // a kill can come before the mail; then its outcome is unknown
		t.Error(err)
	}
	if n := strings.Count(string(mails), "\n"); n > 1 {
		t.Errorf("%d mails were sent:\n%s", n, mails)
	}
	if _, err := os.Stat(filepath.Join(dir, "image")); err != nil {
		t.Error(err)
	}
	st, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	model, err := scripted.Parse("none", []byte("steps: [{text: none}]"))
	if err != nil {
		t.Fatal(err)
	}
	eng, err := local.Open(t.Context(), local.Config{Store: st, Model: model, Tools: tool.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	roots, err := eng.Sessions().ListWhere(t.Context(), engine.SessionFilter{Roots: true})
	if err != nil || len(roots) != 1 {
		t.Errorf("%d sessions, want one; %v", len(roots), err)
	}
	all, err := eng.Sessions().List(t.Context(), 0)
	if err != nil || len(all) != 2 {
		t.Errorf("%d sessions with subagents, want 2; %v", len(all), err)
	}
	schedules, err := eng.Schedules().List(t.Context(), "")
	if err != nil || len(schedules) != 1 {
		t.Errorf("%d schedules, want one; %v", len(schedules), err)
	}
	hooks, err := eng.Webhooks().List(t.Context())
	if err != nil || len(hooks) != 1 {
		t.Errorf("%d webhooks, want one; %v", len(hooks), err)
	}
}

// TestOneHundredAndFiftyLines keeps the program as short as its page says.
func TestOneHundredAndFiftyLines(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("embed.go")
	if n := strings.Count(string(text), "\n"); err != nil || n > 150 {
		t.Errorf("embed.go has %d lines, at most 150 fit; %v", n, err)
	}
}
