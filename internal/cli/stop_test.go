package cli

import (
	"context"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// stuck is an engine that ends only with the test.
type stuck struct {
	*scene
	over chan struct{}
}

func (s stuck) Close() error {
	<-s.over
	return nil
}

// stopping runs a command whose server or engine ends with over. begun sends signals once the
// server is up.
func stopping(args string, serve func(ctx context.Context, over <-chan struct{}) error, begun func(chan<- os.Signal)) (code int, talk string) {
	signals, over := make(chan os.Signal, 2), make(chan struct{})
	defer close(over)
	said := &talkHeard{}
	code = Main(context.Background(), Dependencies{
		Args: strings.Fields(args), Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: said, DataDir: "/data", Log: quietLog, Signals: signals,
		Open: func(context.Context, OpenOptions) (Engine, error) { return stuck{&scene{}, over}, nil },
		Serve: func(ctx context.Context, _ ServeOptions) error {
			begun(signals)
			return serve(ctx, over)
		},
	})
	return code, said.String()
}

// never ends only with the test.
func never(_ context.Context, over <-chan struct{}) error {
	<-over
	return nil
}

// terminate sends SIGTERM.
func terminate(signals chan<- os.Signal) { signals <- syscall.SIGTERM }

// TestStopIsBounded: a server that does not end after SIGTERM is abandoned at the end of the stop
// timeout, and not before. Since the stop was requested, this is not an error.
func TestStopIsBounded(t *testing.T) {
	for args, want := range map[string]time.Duration{"serve": 10 * time.Second, "serve --stop-timeout 3s": 3 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			code, talk := stopping(args, never, terminate)
			if took := time.Since(began); code != exitOK || took != want || !strings.Contains(talk, "stopped after "+want.String()) {
				t.Errorf("%s: exit code %d after %s, want %s: %q", args, code, took, want, talk)
			}
		})
	}
}

// TestStopUnhindered: the command waits for a server that ends by itself.
func TestStopUnhindered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		code, talk := stopping("serve", func(ctx context.Context, _ <-chan struct{}) error {
			<-ctx.Done()
			<-time.After(9 * time.Second)
			return nil
		}, func(signals chan<- os.Signal) { signals <- os.Interrupt })
		if took := time.Since(began); code != exitOK || took != 9*time.Second || strings.Contains(talk, "stopped after") {
			t.Errorf("exit code %d after %s: %q", code, took, talk)
		}
	})
}

// TestSecondSignal: a second signal ends a command at once, whichever signal it is.
func TestSecondSignal(t *testing.T) {
	for _, second := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			code, talk := stopping("serve", never, func(signals chan<- os.Signal) {
				terminate(signals)
				signals <- second
			})
			if took := time.Since(began); code != exitInterrupted || took != 0 || !strings.Contains(talk, "exited at once") {
				t.Errorf("exit code %d after %s: %q", code, took, talk)
			}
		})
	}
}

// TestCloseIsBounded: a command that is done ends with its own exit code even if its engine does
// not end.
func TestCloseIsBounded(t *testing.T) {
	for args, want := range map[string]int{"session list": exitOK, "session show nobody": exitNotFound} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			code, talk := stopping(args, never, terminate)
			if took := time.Since(began); code != want || took != 10*time.Second || (code != exitOK) != strings.Contains(talk, "nobody") {
				t.Errorf("%s: exit code %d after %s, want %d: %q", args, code, took, want, talk)
			}
		})
	}
}

// TestCtrlCWhileTheFirstIsTaken: the handler of a Ctrl-C may wait for a server that does not
// respond. The next Ctrl-C still ends the command.
func TestCtrlCWhileTheFirstIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals, over, ended := make(chan os.Signal, 2), make(chan struct{}), make(chan error, 1)
		a := &app{Dependencies: Dependencies{Signals: signals}, abandoned: make(chan exitReason, 1), end: func(err error) { ended <- err }}
		a.flags.StopTimeout = time.Hour
		defer lifetime{a}.onCtrlC(func() bool { <-over; return false })()
		stop := lifetime{a}.listen()

		signals <- os.Interrupt
		signals <- os.Interrupt

		if err := <-ended; err != errInterrupted {
			t.Errorf("the command ended with %v", err)
		}
		close(over)
		stop()
		if len(a.abandoned) != 0 {
			t.Error("it was left behind")
		}
	})
}

// TestStopTimeoutIsChecked: a stop timeout of zero or less is refused.
func TestStopTimeoutIsChecked(t *testing.T) {
	t.Parallel()
	for _, limit := range []string{"0", "-1s", "soon"} {
		if code, _, talk := (command{args: "--stop-timeout=" + limit + " session list", scene: &scene{}}).run(t.Context()); code != exitUsage {
			t.Errorf("%s: exit code %d: %s", limit, code, talk)
		}
	}
}

// TestTerminalIsGivenBack: an abandoned command restores the terminal once.
func TestTerminalIsGivenBack(t *testing.T) {
	t.Parallel()
	given := 0
	a := &app{Dependencies: Dependencies{Stderr: io.Discard}}
	restore, err := a.keys.wrap(func() (func() error, error) { return func() error { given++; return nil }, nil })()
	if err != nil {
		t.Fatal(err)
	}
	lifetime{a}.exit(exitReason{code: exitInterrupted, message: "exited at once"})
	if err := restore(); err != nil || given != 1 {
		t.Errorf("given back %d times, %v", given, err)
	}
}
