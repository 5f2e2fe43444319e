package supervise_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/supervise"
)

// longGrace is longer than what these tests wait for: a process that gets SIGKILL fails them.
const longGrace = 15 * time.Second

// timedOut runs a script in a new scene with a timeout that it reaches after it has said ready. On
// a busy machine a short timeout may pass before: then a longer one is tried.
func timedOut(t *testing.T, l *supervise.Local, script string) (*outside, string, supervise.Exit) {
	t.Helper()
	for timeout := 500 * time.Millisecond; ; timeout *= 2 {
		o := newOutside(t)
		if err := l.Prepare(o.soon(), o.dir); err != nil {
			t.Fatal(err)
		}
		run, err := l.Start(o.soon(), o.dir, supervise.Command{
			Argv: []string{"/bin/bash", "-c", script}, Env: o.env(), Dir: o.workspace, Timeout: timeout, Grace: longGrace,
		})
		if err != nil {
			t.Fatal(err)
		}
		out, exit := o.follow(run)
		o.wantNobody(run)
		if strings.Contains(out, "ready\n") {
			return o, out, exit
		}
	}
}

// inEveryProfile runs a law without a sandbox and in the profiles that this machine can keep.
func inEveryProfile(t *testing.T, law func(t *testing.T, l *supervise.Local)) {
	t.Helper()
	t.Parallel()
	for _, profile := range []supervise.Profile{supervise.ProfileNone, supervise.ProfileWorkspace, supervise.ProfileIsolated} {
		t.Run(string(profile), func(t *testing.T) {
			t.Parallel()
			requireProfile(t, profile)
			law(t, confined(t, supervise.Config{Profile: profile}))
		})
	}
}

// TestTimeoutIsGentle: what a command does when it gets SIGTERM happens at its timeout, too. Each
// row is a report of a program that was killed at once.
func TestTimeoutIsGentle(t *testing.T) {
	inEveryProfile(t, func(t *testing.T, l *supervise.Local) {
		for _, c := range []struct {
			name, script string
			gone, left   string // a file in the workspace that must be gone, or be there
			out          string
			code         int
		}{
			// anthropics/claude-plugins-official#6004, jesseduffield/lazygit#2050
			{name: "a lock file is removed", script: `trap 'rm -f index.lock; exit 3' TERM; touch index.lock; echo ready; while :; do sleep 0.02; done`,
				gone: "index.lock", code: 3},
			// reliant-labs/reliant#269: the child of the shell does the work, not the shell
			{name: "a child cleans up", script: `(trap 'echo saved > state; exit' TERM; echo ready; while :; do sleep 0.02; done) & wait`,
				left: "state", code: 143},
			// gptme/gptme#3805: a process in a session of its own
			{name: "a session of its own", script: `setsid bash -c 'trap "echo saved > state; exit" TERM; echo ready; while :; do sleep 0.02; done' & wait`,
				left: "state", code: 143},
			// systemd/systemd: SIGCONT follows SIGTERM, since a stopped process cannot act on it
			{name: "a stopped process", script: `trap 'echo saved > state; exit 4' TERM; echo ready; kill -STOP $$; sleep 60`,
				left: "state", code: 4},
			{name: "a word at the end", script: `trap 'echo bye; exit 5' TERM; echo ready; while :; do sleep 0.02; done`, out: "bye\n", code: 5},
		} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()

				o, out, exit := timedOut(t, l, c.script)

				if !exit.TimedOut || exit.Cancelled || exit.Code != c.code || !strings.Contains(out, c.out) {
					t.Errorf("it ended with %+v and said %q", exit, out)
				}
				if c.gone != "" {
					if _, err := os.Stat(filepath.Join(o.workspace, c.gone)); !errors.Is(err, os.ErrNotExist) {
						t.Errorf("%s: %v, want it gone", c.gone, err)
					}
				}
				if c.left != "" {
					if _, err := os.Stat(filepath.Join(o.workspace, c.left)); err != nil {
						t.Error(err)
					}
				}
				if exit.LeftCount != 0 {
					t.Errorf("the end names what was left: %+v", exit.Left)
				}
			})
		}
	})
}

// TestTimeoutOfGit: a git that holds its index is no reason for the next one to fail
// (xonsh/xonsh#2406).
func TestTimeoutOfGit(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Fatal("the lock of git: git is missing; make test brings it")
	}
	// A clean filter that waits keeps git add in the middle of its work, with the index locked.
	const script = `git init -q . && git config filter.slow.clean 'echo ready >&2; sleep 60' && echo '* filter=slow' > .git/info/attributes &&
		echo x > file && git add file; exit 9`

	o, out, exit := timedOut(t, confined(t, supervise.Config{}), script)

	if _, err := os.Stat(filepath.Join(o.workspace, ".git", "index.lock")); !errors.Is(err, os.ErrNotExist) || !exit.TimedOut {
		t.Errorf("the lock of the index: %v; it ended with %+v and said %q", err, exit, out)
	}
}

// TestLeftBehind: what a command leaves behind has time to end, is asked to end, and is named.
func TestLeftBehind(t *testing.T) {
	inEveryProfile(t, func(t *testing.T, l *supervise.Local) {
		for _, c := range []struct {
			name, script string
			left         []string // the names of what is left
			count        int      // below 0: at least one
			out          string
			drain        time.Duration
		}{
			// coder/coder#23132
			{name: "a server with &", script: `sleep 1234 & echo started`, left: []string{"sleep 1234"}, count: 1, out: "started\n"},
			// kolega-ai/kolega-code#319: it lets go of the output, and has a session of its own
			{name: "nohup and setsid", script: `nohup setsid sleep 1234 > log 2>&1 & echo started`, left: []string{"sleep 1234"}, count: 1, out: "started\n"},
			// turnstonelabs/turnstone#816
			{name: "several", script: `for i in 1 2 3 4 5 6 7 8 9 10 11; do sleep 1234 & done; echo started`, count: 11, out: "started\n"},
			{name: "it cleans up", script: `bash -c 'trap "echo saved; exit" TERM; touch up; while :; do sleep 0.02; done' & ` +
				`until [ -e up ]; do sleep 0.01; done`, count: -1, out: "saved\n"},
			// google-gemini/gemini-cli#17900 the other way round: it has ended by itself in time
			{name: "it ends by itself", script: `(sleep 0.2; echo late) & echo early`, out: "early\nlate\n", drain: longGrace},
			{name: "nothing", script: `echo done`, out: "done\n"},
		} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				o := newOutside(t)
				if err := l.Prepare(o.soon(), o.dir); err != nil {
					t.Fatal(err)
				}
				run, err := l.Start(o.soon(), o.dir, supervise.Command{
					Argv: []string{"/bin/bash", "-c", c.script}, Env: o.env(), Dir: o.workspace, Grace: longGrace, Drain: c.drain,
				})
				if err != nil {
					t.Fatal(err)
				}

				out, exit := o.follow(run)

				o.wantNobody(run)
				isCounted := exit.LeftCount == c.count || c.count < 0 && exit.LeftCount > 0
				if !strings.Contains(out, c.out) || exit.Code != 0 || exit.TimedOut || exit.Cancelled || !isCounted {
					t.Errorf("it ended with %+v and said %q", exit, out)
				}
				var names []string
				for _, p := range exit.Left {
					names = append(names, p.Name)
					if p.PID <= 1 {
						t.Errorf("%+v has no pid", p)
					}
				}
				if c.left != nil && !slices.Equal(names, c.left) {
					t.Errorf("it names %q, want %q", names, c.left)
				}
			})
		}
	})
}
