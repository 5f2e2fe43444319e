package shell

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/supervise"
	"github.com/perdure/perdure/tool"
)

// TestLeftNote: the model reads which processes its command left behind, and how to keep one.
func TestLeftNote(t *testing.T) {
	t.Parallel()
	b := newBench(t)

	r := b.Run(t.Context(), command("sleep 1234 > /dev/null 2>&1 & sleep 1235 & echo started"), tool.Env{})

	got, ok := r.Value.(answer)
	if !ok || got.Stdout != "started\n" || got.ExitCode != 0 {
		t.Fatalf("got %+v", r)
	}
	for _, want := range []string{"2 processes running, which were ended: ", "sleep 1234 (pid ", "sleep 1235 (pid ", "spawn_background"} {
		if !strings.Contains(got.Note, want) {
			t.Errorf("got note %q, want %q in it", got.Note, want)
		}
	}

	many := supervise.Exit{LeftCount: 3, Left: []supervise.LeftProcess{{PID: 7, Name: "a b"}}}
	if note := leftNote(many); !strings.Contains(note, "a b (pid 7), 2 more.") {
		t.Errorf("got %q", note)
	}
	if note := leftNote(supervise.Exit{}); note != "" {
		t.Errorf("got %q about nothing", note)
	}
}

// TestTimeoutRunsTraps: the command cleans up at its timeout_seconds.
func TestTimeoutRunsTraps(t *testing.T) {
	t.Parallel()
	for seconds := 1; ; seconds *= 2 { // on a busy machine the first may pass before the trap is set
		b := newBench(t)
		text := `trap 'rm -f my.lock; echo cleaned; exit 3' TERM; touch my.lock; echo ready; sleep 60 & wait`

		r := b.Run(t.Context(), call(`{"command":`+quote(text)+`,"timeout_seconds":`+strconv.Itoa(seconds)+`}`), tool.Env{})

		got, ok := r.Value.(answer)
		if !ok {
			t.Fatalf("got %+v", r)
		}
		if !strings.Contains(got.Stdout, "ready") {
			continue
		}
		if got.Stdout != "ready\ncleaned\n" || got.ExitCode != 3 || !got.TimedOut {
			t.Errorf("got %+v", got)
		}
		if _, err := os.Stat(filepath.Join(b.config.Dir, "my.lock")); err == nil {
			t.Error("the lock is left")
		}
		return
	}
}

// TestRefusalNote: the model reads which refusals are rules of the sandbox, by which flag they
// change, and nothing about those that are none. The lines are what programs print.
func TestRefusalNote(t *testing.T) {
	t.Parallel()
	s := scope{workspace: "/work/site", home: "/data/homes/s", advice: "ADVICE {path}."}
	const outside = "The sandbox (profile workspace) does not allow "
	for _, c := range []struct {
		name   string
		exit   supervise.Exit
		stdout string
		stderr string
		want   []string // parts of the note; none: there is no note
	}{
		{name: "bash", stderr: "/bin/bash: line 1: /etc/shadow: Permission denied\n", exit: supervise.Exit{Code: 1, HasView: true}, want: []string{outside + "/etc/shadow: ", "ADVICE /etc/shadow."}},
		{name: "cat in a view", stderr: "cat: /var/log/syslog: No such file or directory\n", exit: supervise.Exit{Code: 1, HasView: true}, want: []string{outside + "/var/log/syslog: ", "$HOME and /tmp"}},
		{name: "a worktree of git", stderr: "fatal: not a git repository: /src/main/.git/worktrees/c\n", exit: supervise.Exit{Code: 128, HasView: true}, want: []string{outside + "/src/main/.git/worktrees/c: "}},
		{name: "no repository", stderr: "fatal: not a git repository (or any of the parent directories): .git\n", exit: supervise.Exit{Code: 128, HasView: true}},
		{name: "cat without a view", stderr: "cat: /var/log/syslog: No such file or directory\n", exit: supervise.Exit{Code: 1}},
		{name: "Node (oalders/dot-files#917)", stderr: "Error: EACCES: permission denied, mkdir '/home/me/.npm/_cacache'\n", exit: supervise.Exit{Code: 243, HasView: true}, want: []string{outside + "/home/me/.npm/_cacache: "}},
		{name: "Python", stderr: "PermissionError: [Errno 13] Permission denied: '/srv/data.csv'\n", exit: supervise.Exit{Code: 1, HasView: true}, want: []string{outside + "/srv/data.csv: "}},
		{name: "Go", stderr: "open /srv/go.mod: permission denied\n", exit: supervise.Exit{Code: 1}, want: []string{outside + "/srv/go.mod: ", "/tmp itself is not writable"}},
		{name: "pip into the system", stderr: "ERROR: Could not install packages due to an OSError: [Errno 30] Read-only file system: '/usr/lib/python3/dist-packages/x'\n", exit: supervise.Exit{Code: 1, HasView: true}, want: []string{outside + "/usr/lib/python3/dist-packages/x: "}},
		{name: "on stdout of a failure", stdout: "mkdir: cannot create directory '/srv/x': Permission denied\n", exit: supervise.Exit{Code: 1, HasView: true}, want: []string{"/srv/x"}},
		{name: "many", stderr: strings.Repeat("find: '/root': Permission denied\nfind: '/a/1': Permission denied\nfind: '/a/2': Permission denied\nfind: '/a/3': Permission denied\n", 2), exit: supervise.Exit{Code: 1, HasView: true}, want: []string{outside + "/a/1, /a/2, /a/3: "}},
		{name: "ptrace", stderr: "strace: ptrace(PTRACE_TRACEME, ...): Operation not permitted\n", exit: supervise.Exit{Code: 1, HasView: true}, want: []string{"no tracing", "ADVICE it."}},
		{name: "a semaphore without a view (openai/codex#7251)", stderr: "PermissionError: [Errno 13] Permission denied\n", exit: supervise.Exit{Code: 1}, want: []string{"/dev/shm", "perdure doctor"}},
		{name: "no network", stderr: "curl: (6) Could not resolve host: example.com\n", exit: supervise.Exit{Code: 6, Profile: "isolated", HasView: true}, want: []string{"no network"}},
		{name: "a name that does not exist", stderr: "curl: (6) Could not resolve host: example.invalid\n", exit: supervise.Exit{Code: 6, HasView: true}},
		{name: "a mode in the workspace", stderr: "/bin/bash: line 1: ./run: Permission denied\n", exit: supervise.Exit{Code: 126, HasView: true}},
		{name: "a missing file in the workspace", stderr: "cat: /work/site/x: No such file or directory\n", exit: supervise.Exit{Code: 1, HasView: true}},
		{name: "a missing program of the system", stderr: "env: '/usr/bin/ruby': No such file or directory\n", exit: supervise.Exit{Code: 127, HasView: true}},
		{name: "a text about it", stdout: "docs/faq.md: /etc/shadow: Permission denied\n", exit: supervise.Exit{HasView: true}},
		{name: "no sandbox", stderr: "cat: /etc/shadow: Permission denied\n", exit: supervise.Exit{Code: 1, Profile: "-"}},
	} {
		switch c.exit.Profile {
		case "":
			c.exit.Profile = "workspace"
		case "-":
			c.exit.Profile = ""
		}

		note := s.refusalNote(c.exit, answer{Stdout: c.stdout, Stderr: c.stderr})

		if (note != "") != (len(c.want) > 0) {
			t.Errorf("%s: got note %q", c.name, note)
		}
		for _, want := range c.want {
			if !strings.Contains(note, want) {
				t.Errorf("%s: got note %q, want %q in it", c.name, note, want)
			}
		}
	}
}

// FuzzRefusalNote: no output of a command breaks the note about it.
func FuzzRefusalNote(f *testing.F) {
	for _, text := range []string{"", "cat: /x: No such file or directory", "\x00\xff: Permission denied: '/", "//: EACCES /\xc3"} {
		f.Add(text, true, 1)
	}
	f.Fuzz(func(t *testing.T, text string, hasView bool, code int) {
		s := scope{workspace: "/work", advice: "{path}"}
		note := s.refusalNote(supervise.Exit{Profile: "workspace", HasView: hasView, Code: code}, answer{Stderr: text, Stdout: text})
		if len(note) > 4*len(text)+1000 {
			t.Errorf("%d bytes about %d", len(note), len(text))
		}
	})
}

// TestHomeOfTheSession: HOME and /tmp last from one command of a session to the next, and no other
// session sees them.
func TestHomeOfTheSession(t *testing.T) {
	t.Parallel()
	homes := filepath.Join(t.TempDir(), "homes")
	c := Config{RunsDir: t.TempDir(), Dir: t.TempDir(), Profile: supervise.ProfileWorkspace, HomesDir: homes}
	b, err := New(c)
	if err != nil {
		t.Skipf("S11: this machine refuses the profile, as it should: %v", err)
	}
	run := func(session perdure.SessionID, execution int, text string) string {
		one := command(text)
		one.Session, one.Execution = session, execution
		got, ok := b.Run(t.Context(), one, tool.Env{}).Value.(answer)
		if !ok {
			t.Fatalf("no answer to %q", text)
		}
		return got.Stdout
	}

	run("session_1", 1, "git config --global user.name me; echo a > $HOME/x; echo b > $TMPDIR/y")

	if got := run("session_1", 2, "cat $HOME/x $TMPDIR/y"); got != "a\nb\n" {
		t.Errorf("got %q", got)
	}
	if got := run("../session_1", 1, "ls -A $HOME $TMPDIR | grep -x '[xy]'"); got != "" {
		t.Errorf("another session sees %q", got)
	}
	if err := RemoveHome(homes, "session_1"); err != nil {
		t.Error(err)
	}
	if got := run("session_1", 3, "ls -A $HOME"); got != "" {
		t.Errorf("after its removal the home has %q", got)
	}
	entries, err := os.ReadDir(filepath.Dir(homes))
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v, want nothing beside the homes", entries, err)
	}
}
