//go:build unix

package chaos

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// siegeOf injects faults into a shell script that creates a file when it is up.
func siegeOf(t *testing.T, script string, faults ...Fault) *FaultInjector {
	t.Helper()
	up := filepath.Join(t.TempDir(), "up")
	s := &FaultInjector{
		Kills: 3, Seed: 7, Faults: faults, MeanUptime: 5 * time.Millisecond, MaxPause: 5 * time.Millisecond, Observer: t.Logf,
		Fill: func() error { return os.WriteFile(up+".full", nil, 0o600) }, Free: func() error { return os.Remove(up + ".full") },
		Servers: []*Server{serverOf(script, up)},
	}
	t.Cleanup(s.Abandon)
	return s
}

// serverOf is a script that creates the file up when it is up.
func serverOf(script, up string) *Server {
	return &Server{
		Command: func() *exec.Cmd {
			_ = os.Remove(up) // it does not exist at first
			cmd := exec.Command("/bin/sh", "-c", script)
			cmd.Env = []string{"UP=" + up, "PATH=/usr/bin:/bin"}
			return cmd
		},
		Ready: func(context.Context) error {
			_, err := os.Stat(up)
			return err
		},
	}
}

const stays = `trap 'exit 0' TERM; : > $UP; while :; do sleep 0.01; done`

func TestSiege(t *testing.T) {
	t.Parallel()
	s := siegeOf(t, stays, Kill, Stop, Term, Disk)
	s.Kills = 6

	err := s.Run(t.Context())

	if err != nil || s.Done[Kill] != 6 || len(s.Starts()) != s.Done[Kill]+s.Done[Term]+1 || !slices.Equal(s.PIDs(), []int{s.Starts()[len(s.Starts())-1].PID}) {
		t.Fatalf("done %v, %d starts, %v", s.Done, len(s.Starts()), err)
	}
	if err := s.End(t.Context()); err != nil || len(s.PIDs()) != 0 {
		t.Errorf("the end: %v", err)
	}
	again := siegeOf(t, stays, Kill, Stop, Term, Disk)
	again.Kills = 6
	if err := again.Run(t.Context()); err != nil || again.Done[Stop] != s.Done[Stop] || again.Done[Term] != s.Done[Term] || again.Done[Disk] != s.Done[Disk] {
		t.Errorf("the same seed does something else: %v, then %v, %v", s.Done, again.Done, err)
	}
}

// TestSiegeOfSeveral: the faults hit all of several servers, and at the end all of them run.
func TestSiegeOfSeveral(t *testing.T) {
	t.Parallel()
	s := siegeOf(t, stays, Kill, Stop)
	s.Servers = append(s.Servers, serverOf(stays, filepath.Join(t.TempDir(), "second")), serverOf(stays, filepath.Join(t.TempDir(), "third")))
	s.Kills = 12

	err := s.Run(t.Context())

	if err != nil || s.Done[Kill] != 12 || len(s.Starts()) < s.Done[Kill] || len(s.PIDs()) != 3 {
		t.Fatalf("done %v, %d starts, %v running, %v", s.Done, len(s.Starts()), s.PIDs(), err)
	}
	for i, one := range s.Servers {
		if len(one.starts) < 2 {
			t.Errorf("server %d was started %d times: no fault hit it", i, len(one.starts))
		}
	}
}

// TestSiegeOfAScheduler: an outage of the outside scheduler lasts as long as requested.
func TestSiegeOfAScheduler(t *testing.T) {
	t.Parallel()
	s := siegeOf(t, stays, Cut, Wipe)
	s.Kills, s.MinPause, s.MaxPause = 6, 30*time.Millisecond, 30*time.Millisecond
	var cut time.Time
	wiped := 0
	s.CutScheduler = func() error { cut = time.Now(); return nil }
	s.RestoreScheduler = func() error {
		if took := time.Since(cut); took < s.MinPause {
			t.Errorf("the outage lasted %s, want %s", took, s.MinPause)
		}
		return nil
	}
	s.WipeScheduler = func() error { wiped++; return nil }

	err := s.Run(t.Context())

	if err != nil || cut.IsZero() || wiped == 0 || wiped != s.Done[Wipe] || s.Done[Cut]+s.Done[Wipe] != 6 || len(s.Starts()) != 1 {
		t.Errorf("done %v, %d wipes, %d starts, %v", s.Done, wiped, len(s.Starts()), err)
	}
}

func TestSiegeWithoutKills(t *testing.T) {
	t.Parallel()
	s := siegeOf(t, stays, Term)
	if err := s.Run(t.Context()); err != nil || s.Done[Term] != 3 || len(s.Starts()) != 4 {
		t.Errorf("done %v, %d starts, %v", s.Done, len(s.Starts()), err)
	}
}

func TestSiegeNoticesABadEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ script, want string }{
		{"exit 3", "exited by itself: exit status 3"},
		{": > $UP; sleep 0.02; exit 0", "exited by itself: exit status 0"},
		{`trap 'exit 9' TERM; : > $UP; while :; do sleep 0.01; done`, "exit status 9, want exit code 0"},
		{": > $UP; sleep 0.02; exit 74", "exit status 74"},
	} {
		s := siegeOf(t, c.script, Term)
		s.MeanUptime = time.Second
		if strings.Contains(c.script, "trap") {
			s.MeanUptime = time.Millisecond
		}
		if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.script, err, c.want)
		}
	}
}

// TestSiegeLetsAFullDiskEndIt restarts a server that exited with 74 because the disk was filled.
func TestSiegeLetsAFullDiskEndIt(t *testing.T) {
	t.Parallel()
	s := siegeOf(t, `trap 'exit 0' TERM; : > $UP; while :; do if test -e $UP.full; then exit 74; fi; sleep 0.01; done`, Disk)
	s.MaxPause = 400 * time.Millisecond
	if err := s.Run(t.Context()); err != nil || s.Done[Disk] != 3 || len(s.Starts()) < 2 {
		t.Errorf("done %v, %d starts, %v", s.Done, len(s.Starts()), err)
	}
}

func TestSiegeEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	s := siegeOf(t, stays, Kill)
	s.MeanUptime, s.Kills = time.Hour, 1000
	gone := errors.New("gone")
	time.AfterFunc(200*time.Millisecond, func() { cancel(gone) })
	if err := s.Run(ctx); !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
}
