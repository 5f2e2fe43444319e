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

// stuck is an engine that does not end, until the test is over.
type stuck struct {
	*scene
	over chan struct{}
}

func (s stuck) Close() error {
	<-s.over
	return nil
}

// stopping runs a command whose server, or whose engine, ends with over. begun sends signals once the server is up.
func stopping(args string, serve func(ctx context.Context, over <-chan struct{}) error, begun func(chan<- os.Signal)) (code int, talk string) {
	signals, over := make(chan os.Signal, 2), make(chan struct{})
	defer close(over)
	said := &talkHeard{}
	code = Main(context.Background(), World{
		Args: strings.Fields(args), Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: said, DataDir: "/data", Log: quietLog, Signals: signals,
		Open: func(context.Context, Opening) (Engine, error) { return stuck{&scene{}, over}, nil },
		Serve: func(ctx context.Context, _ Serving) error {
			begun(signals)
			return serve(ctx, over)
		},
	})
	return code, said.String()
}

// never does not end while the test lasts.
func never(_ context.Context, over <-chan struct{}) error {
	<-over
	return nil
}

// terminate sends SIGTERM.
func terminate(signals chan<- os.Signal) { signals <- syscall.SIGTERM }

// TestStopIsBounded: a server that does not end after SIGTERM is left behind when the time of the stop is over, and
// not before. To end is what it was told, so that is no error.
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

// TestStopUnhindered: a server that ends by itself is waited for.
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

// TestSecondSignal: a second signal ends a command at once, whichever of the two it is.
func TestSecondSignal(t *testing.T) {
	for _, second := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			code, talk := stopping("serve", never, func(signals chan<- os.Signal) {
				terminate(signals)
				signals <- second
			})
			if took := time.Since(began); code != exitInterrupted || took != 0 || !strings.Contains(talk, "ended at once") {
				t.Errorf("exit code %d after %s: %q", code, took, talk)
			}
		})
	}
}

// TestCloseIsBounded: a command that has done its work ends with its own exit code, also when its engine does not end.
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

// TestCtrlCWhileTheFirstIsTaken: whoever takes a Ctrl-C may wait for a server that does not answer. The next one
// ends the command all the same.
func TestCtrlCWhileTheFirstIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals, over, ended := make(chan os.Signal, 2), make(chan struct{}), make(chan error, 1)
		a := &app{World: World{Signals: signals}, left: make(chan leaving, 1), end: func(err error) { ended <- err }}
		a.flags.StopTimeout = time.Hour
		defer a.onCtrlC(func() bool { <-over; return false })()
		stop := a.listen()

		signals <- os.Interrupt
		signals <- os.Interrupt

		if err := <-ended; err != errInterrupted {
			t.Errorf("the command ended with %v", err)
		}
		close(over)
		stop()
		if len(a.left) != 0 {
			t.Error("it was left behind")
		}
	})
}

// TestStopTimeoutIsChecked: a stop that may take no time is refused.
func TestStopTimeoutIsChecked(t *testing.T) {
	t.Parallel()
	for _, limit := range []string{"0", "-1s", "soon"} {
		if code, _, talk := (command{args: "--stop-timeout=" + limit + " session list", scene: &scene{}}).run(t.Context()); code != exitUsage {
			t.Errorf("%s: exit code %d: %s", limit, code, talk)
		}
	}
}

// TestTerminalIsGivenBack: a command that is left behind gives the terminal back as it was, once.
func TestTerminalIsGivenBack(t *testing.T) {
	t.Parallel()
	given := 0
	a := &app{World: World{Stderr: io.Discard}}
	restore, err := a.keys.taking(func() (func() error, error) { return func() error { given++; return nil }, nil })()
	if err != nil {
		t.Fatal(err)
	}
	a.leave(leaving{code: exitInterrupted, says: "ended at once"})
	if err := restore(); err != nil || given != 1 {
		t.Errorf("given back %d times, %v", given, err)
	}
}
