package supervise_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/supervise"
)

// Arguments that make the test binary a fixture instead.
const (
	// profile run workspace script: a runtime that starts a confined command and waits for its
	// death
	confinedMode = "fixture-confined"
	nestedMode   = "fixture-nested" // a runtime inside a sandbox, which tries profiles
)

// confinedFixture plays both.
func confinedFixture() {
	switch {
	case len(os.Args) == 6 && os.Args[1] == confinedMode:
		l, err := supervise.New(supervise.Config{Profile: supervise.Profile(os.Args[2])})
		if err != nil {
			leave(err)
		}
		ctx, dir := context.Background(), os.Args[3]
		if err := l.Prepare(ctx, dir); err != nil {
			leave(err)
		}
		c := supervise.Command{Argv: []string{"/bin/sh", "-c", os.Args[5]}, Env: os.Environ(), Dir: os.Args[4]}
		if _, err := l.Start(ctx, dir, c); err != nil {
			leave(err)
		}
		fmt.Println("started")
		forget()
	case len(os.Args) == 2 && os.Args[1] == nestedMode:
		for _, unsafe := range []bool{false, true} {
			_, err := supervise.New(supervise.Config{Profile: supervise.ProfileIsolated, Unsafe: unsafe})
			fmt.Printf("unsafe %v: unenforceable %v: %v\n", unsafe, errors.Is(err, supervise.Unenforceable), err)
		}
		leave(nil)
	}
}

// requireProfile skips a law where this machine cannot keep the profile. TestHolds says which it
// can.
func requireProfile(t *testing.T, profile supervise.Profile) {
	t.Helper()
	if _, err := supervise.New(supervise.Config{Profile: profile}); errors.Is(err, supervise.Unenforceable) {
		t.Skipf("S11, S12: this machine refuses the profile, as it should: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
}

// inProfiles runs a law in both profiles that confine.
func inProfiles(t *testing.T, law func(t *testing.T, profile supervise.Profile)) {
	t.Helper()
	t.Parallel()
	for _, profile := range []supervise.Profile{supervise.ProfileWorkspace, supervise.ProfileIsolated} {
		t.Run(string(profile), func(t *testing.T) {
			t.Parallel()
			requireProfile(t, profile)
			law(t, profile)
		})
	}
}

// TestHolds: Holds says of a profile what New does, and what is missing.
func TestHolds(t *testing.T) {
	t.Parallel()
	holdings := supervise.Enforced(supervise.Config{})
	for _, h := range holdings {
		t.Logf("%-45s %-5v %s", h.Part, h.Enforced, h.Why)
		if h.Part == "" || h.Why == "" {
			t.Errorf("%+v says too little", h)
		}
	}
	for _, profile := range []supervise.Profile{supervise.ProfileWorkspace, supervise.ProfileIsolated} {
		i := slices.IndexFunc(holdings, func(h supervise.Enforcement) bool { return h.Part == "profile "+string(profile) })
		if i < 0 {
			t.Fatalf("nothing is said of %s", profile)
		}
		_, err := supervise.New(supervise.Config{Profile: profile})
		if holdings[i].Enforced != (err == nil) {
			t.Errorf("%+v, and New says %v", holdings[i], err)
		}
	}
}

// TestUnknownProfile: an unknown profile is refused, since it would confine nothing.
func TestUnknownProfile(t *testing.T) {
	t.Parallel()
	if _, err := supervise.New(supervise.Config{Profile: "strict"}); err == nil || !strings.Contains(err.Error(), "workspace") {
		t.Errorf("New says %v", err)
	}
	if _, err := supervise.New(supervise.Config{Profile: supervise.ProfileWorkspace, Reads: []string{"/"}}); err == nil {
		t.Error("commands may read everything")
	}
}

// TestUnenforceable: namespaces cannot be created inside a sandbox. There the profile is refused
// with what is missing, and Unsafe enforces what is left.
func TestUnenforceable(t *testing.T) {
	t.Parallel()
	requireProfile(t, supervise.ProfileWorkspace)
	o := newOutside(t)

	out, _ := o.run(confined(t, supervise.Config{Profile: supervise.ProfileWorkspace}), self()+" "+nestedMode)

	for _, want := range []string{"unsafe false: unenforceable true", "needs user, pid, mount, network", "unsafe true: unenforceable false: <nil>"} {
		if !strings.Contains(out, want) {
			t.Errorf("it said %q, and not %q", out, want)
		}
	}
}

// TestOrdinaryWork: ordinary shell commands work.
func TestOrdinaryWork(t *testing.T) {
	inProfiles(t, func(t *testing.T, profile supervise.Profile) {
		const script = `set -e
			mkdir -p a/b; echo one > a/b/file; mv a/b/file a/other; cp a/other copy; chmod 700 copy; ln copy hard; ln -s copy soft; rm -r a/b
			cat copy hard soft | sort | uniq -c | grep -q '3 one'
			cat <<< here > /dev/null; echo out > /dev/stdout; t=$(mktemp); echo x > $t; rm $t
			(cd "$HOME" && touch config); mkfifo pipe; echo through > pipe & cat pipe; wait
			[ "$(ulimit -c)" = 0 ]; (ulimit -n 32); nice true; ls /proc/self/fd > /dev/null
			perl -e 'socketpair(my $a, my $b, 1, 1, 0) or die; syswrite $a, "pair\n"; sysread $b, my $x, 9; print $x'
			tar cf t.tar copy soft; tar tf t.tar; pwd; echo done`
		o := newOutside(t)

		out, exit := o.run(confined(t, supervise.Config{Profile: profile}), script)

		if exit.Code != 0 || !strings.HasSuffix(out, "out\nthrough\npair\ncopy\nsoft\n"+o.workspace+"\ndone\n") {
			t.Errorf("it ended with %+v and said %q", exit, out)
		}
		if _, err := os.Stat(filepath.Join(o.dir, "scratch")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the scratch folder is left: %v", err)
		}
	})
}

// TestRecordTellsWhatIsEnforced: a run says under what it runs.
func TestRecordTellsWhatIsEnforced(t *testing.T) {
	inProfiles(t, func(t *testing.T, profile supervise.Profile) {
		o := newOutside(t)
		o.run(confined(t, supervise.Config{Profile: profile}), "true")

		rec := o.find(supervise.Ended).Record()

		if rec.Profile != string(profile) || !slices.Contains(rec.Enforced, "seccomp") || !slices.Contains(rec.Enforced, "no_new_privs") {
			t.Errorf("the record says %q, %q", rec.Profile, rec.Enforced)
		}
		t.Logf("%s: %s", profile, strings.Join(rec.Enforced, "; "))
	})
}

// TestAdoptedStaysConfined: the runtime is killed, the next one knows of no profile, and the
// command is as confined as before.
func TestAdoptedStaysConfined(t *testing.T) {
	inProfiles(t, func(t *testing.T, profile supervise.Profile) {
		o := newOutside(t)
		script := o.expand(`exec 2>&1; echo ready; until [ -e go ]; do sleep 0.02; done; cat @OUT/secret; echo x > @OUT/new; kill -TERM @PID; echo done`)
		first := exec.Command(self(), confinedMode, string(profile), o.dir, o.workspace, script)
		first.Env = o.env()
		stdout, err := first.StdoutPipe()
		if err == nil {
			err = first.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		word := make([]byte, len("started"))
		if _, err := stdout.Read(word); err != nil || string(word) != "started" {
			t.Fatalf("the runtime said %q: %v", word, err)
		}
		_ = first.Process.Kill()
		_ = first.Wait()

		run := o.find(supervise.Alive)
		o.awaitOutput(run, "ready", 1)
		o.write(filepath.Join(o.workspace, "go"), "")
		out, exit := o.follow(run)

		if exit.Code != 0 || !strings.Contains(out, "\ndone\n") || strings.Contains(out, o.canary) || o.changed() || o.victimDead() {
			t.Errorf("it ended with %+v and said %q; changed %v, victim dead %v", exit, out, o.changed(), o.victimDead())
		}
	})
}

// TestDaemonDiesWithSupervisor: with a pid namespace even a daemon in a session of its own cannot
// outlive a supervisor that was killed.
func TestDaemonDiesWithSupervisor(t *testing.T) {
	t.Parallel()
	requireProfile(t, supervise.ProfileIsolated)
	o := newOutside(t)
	run := o.begin(confined(t, supervise.Config{Profile: supervise.ProfileIsolated}), `setsid sh -c 'sleep 1000 & echo ready; sleep 1000' & sleep 1000`)
	o.awaitOutput(run, "ready", 1)

	if err := syscall.Kill(run.Record().PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}

	o.eventually("nothing of the command is left", func() bool { return len(o.marked()) == 0 })
}

// TestStopReachesConfined: a stop lets a confined command finish, and its own words come through.
func TestStopReachesConfined(t *testing.T) {
	inProfiles(t, func(t *testing.T, profile supervise.Profile) {
		o := newOutside(t)
		run := o.begin(confined(t, supervise.Config{Profile: profile}), `trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.02; done`)
		o.awaitOutput(run, "ready", 1)

		if err := run.Stop(o.soon(), 20*time.Second); err != nil {
			t.Fatal(err)
		}

		out, exit := o.follow(run)
		if exit.Code != 7 || !exit.Cancelled || !strings.Contains(out, "bye\n") {
			t.Errorf("it ended with %+v and said %q", exit, out)
		}
		o.wantNobody(run)
	})
}

// TestConfinedEnds: exit codes, signals and programs that are missing are the same as without a
// sandbox.
func TestConfinedEnds(t *testing.T) {
	inProfiles(t, func(t *testing.T, profile supervise.Profile) {
		l := confined(t, supervise.Config{Profile: profile})
		for _, c := range []struct {
			argv         []string
			code, signal int
			error        bool
		}{
			{[]string{"/bin/sh", "-c", "exit 3"}, 3, 0, false},
			{[]string{"/bin/sh", "-c", "kill -TERM $$"}, 143, 15, false},
			{[]string{"/bin/sh", "-c", "kill -KILL $$"}, 137, 9, false},
			{[]string{"/there/is/no/such/program"}, 127, 0, true},
			{[]string{"/etc/passwd"}, 126, 0, true},
		} {
			o := newOutside(t)
			if err := l.Prepare(o.soon(), o.dir); err != nil {
				t.Fatal(err)
			}
			run, err := l.Start(o.soon(), o.dir, supervise.Command{Argv: c.argv, Env: o.env(), Dir: o.workspace})
			if err != nil {
				t.Fatal(err)
			}
			_, exit := o.follow(run)
			// A signal that a process sends itself does not reach the first process of a namespace;
			// the shell is not it.
			if exit.Code != c.code || exit.Signal != c.signal || (exit.Error != "") != c.error {
				t.Errorf("%q ended with %+v", c.argv, exit)
			}
		}
	})
}

// TestConfinedPlaces: a sandbox that would hold the files of its own run, or everything, is no
// sandbox.
func TestConfinedPlaces(t *testing.T) {
	inProfiles(t, func(t *testing.T, profile supervise.Profile) {
		o := newOutside(t)
		base := filepath.Dir(o.folder)
		for _, c := range []struct {
			name    string
			config  supervise.Config
			command supervise.Command
		}{
			{"runs in the workspace", supervise.Config{}, supervise.Command{Dir: o.workspace, Workspace: base}},
			{"the root as the workspace", supervise.Config{}, supervise.Command{Dir: "/"}},
			{"a directory outside the workspace", supervise.Config{}, supervise.Command{Dir: o.folder, Workspace: o.workspace}},
			{"runs in what may be read", supervise.Config{Reads: []string{base}}, supervise.Command{Dir: o.workspace}},
		} {
			c.config.Profile = profile
			c.command.Argv = []string{"/bin/sh", "-c", "echo x > ran"}
			l := confined(t, c.config)
			dir := filepath.Join(filepath.Dir(o.dir), strings.ReplaceAll(c.name, " ", "-"))
			if err := l.Prepare(o.soon(), dir); err != nil {
				t.Fatal(err)
			}
			if _, err := l.Start(o.soon(), dir, c.command); !errors.Is(err, supervise.NotStarted) {
				t.Errorf("%s: Start says %v", c.name, err)
			}
		}
	})
}
